"""What a model contains: its data, size and settings, and the shape of its trees."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.model.layout import Layout
from labeltree.model.pack import dense_bytes
from labeltree.trees.tree import DepthSummary

if TYPE_CHECKING:
    from labeltree.model.model import Model


def describe_model(model: Model) -> dict[str, Any]:
    """Return what ``labeltree info --json`` prints: the data, trees, size and settings of a model."""
    manifest = model.manifest
    ovr_bytes = one_vs_rest_bytes(model)
    float32_bytes = None  # not known of pruned weights
    if model.codec != "sparse":
        larger = dense_bytes(model.trees, "float32") - dense_bytes(model.trees, model.codec)
        float32_bytes = model.bytes + larger
    return {
        "model": str(model.path),
        "format_version": manifest["format_version"],
        "labeltree_version": manifest["labeltree_version"],
        "instances": model.n_instances,
        "features": model.n_features,
        "labels": model.n_labels,
        "named_labels": model.label_names is not None,
        "one_based": model.one_based,
        "normalized": model.normalized or model.text is not None,  # TF-IDF is
        "text": None if model.text is None else model.text.settings.stored(),
        "trees": len(model.trees),
        "nodes": sum(part.tree.n_nodes for part in model.trees),
        "depth": max(part.tree.depth for part in model.trees),
        "weights": manifest["weights"],
        "codec": model.codec,
        "model_bytes": model.bytes,
        "float32_bytes": float32_bytes,
        "ovr_bytes": ovr_bytes,
        "ovr_ratio": None if ovr_bytes is None else model.bytes / ovr_bytes,
        "settings": manifest["settings"],
        "score": asdict(model.score),
        "decision": None if model.decision is None else model.decision.entry(),
        "accepts": None if model.decision is None else str(model.decision),
        "calibrated": model.calibration is not None,
        "not_converged": manifest["not_converged"],
        "notes": manifest["notes"],
        "pruned": manifest.get("pruned"),
        "depths": model.depths(),
        "shapes": [tree_shape(model, t) for t in range(len(model.trees))],
    }


class DepthShape(DepthSummary):
    """One depth of a tree: what :meth:`labeltree.Model.depths` reports of its nodes, and three more figures.

    `labels` counts their leaf children, `label_instances` the training instances of these labels, an instance
    once per label; `bytes` is the size on disk of their blocks and their part of the tree.
    """

    labels: int
    label_instances: int
    bytes: int


def tree_shape(model: Model, tree: int = 0) -> list[DepthShape]:
    """Describe a tree, a row per depth.

    The bytes that are not of any depth are file headers, label counts and names, and the text features.
    """
    part = model.trees[tree]
    depth_of_child = np.repeat(part.tree.node_depth, part.tree.child_count)
    leaf = part.tree.children < 0
    n_depths = part.tree.depth
    n_labels = np.bincount(depth_of_child[leaf], minlength=n_depths)
    n_instances = np.zeros(n_depths, np.int64)
    np.add.at(n_instances, depth_of_child[leaf], model.label_counts[~part.tree.children[leaf]])
    n_bytes = np.zeros(n_depths, np.int64)
    np.add.at(n_bytes, part.tree.node_depth, part.node_bytes)
    return [
        {**row, "labels": int(labels), "label_instances": int(instances), "bytes": int(size)}
        for row, labels, instances, size in zip(
            model.depths(tree), n_labels, n_instances, n_bytes, strict=True
        )
    ]


def one_vs_rest_bytes(model: Model) -> int | None:
    """Return the exact size of a one-vs-rest model of the same data in the same format, not pruned.

    It has the root's features for every label. None if the model is pruned: its root has lost features.
    """
    if "pruned" in model.manifest:
        return None
    part = model.trees[0]
    of_trees: int = sum(
        entry["bytes"] for name, entry in model.manifest["files"].items() if name.startswith("tree-")
    )
    one_vs_rest = Layout.of(
        part.tree.clip(1), part.codec, part.used_features[:1], model.bias != 0, model.n_features
    )
    return model.bytes - of_trees + sum(file.bytes for file in one_vs_rest.files().values())
