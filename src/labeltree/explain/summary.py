"""What a model contains: its data, trees, size and settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labeltree.explain.shape import one_vs_rest_bytes, tree_shape
from labeltree.model.compress import dense_bytes

if TYPE_CHECKING:
    from labeltree.model.model import Model


def describe_model(model: Model) -> dict[str, Any]:
    """Describe a model: its data, trees, size and settings.

    Parameters
    ----------
    model : Model

    Returns
    -------
    dict
        What ``labeltree info --json`` prints.
    """
    manifest = model.manifest
    ovr_bytes = one_vs_rest_bytes(model)
    return {
        "model": str(model.path),
        "format_version": manifest["format_version"],
        "labeltree_version": manifest["labeltree_version"],
        "instances": model.n_instances,
        "features": model.n_features,
        "labels": model.n_labels,
        "named_labels": model.label_names is not None,
        "one_based": model.one_based,
        "normalized": model.normalized,
        "text": None if model.text is None else asdict(model.text.settings),
        "trees": len(model.trees),
        "nodes": sum(part.tree.n_nodes for part in model.trees),
        "depth": max(part.tree.depth for part in model.trees),
        "weights": manifest["weights"],
        "codec": model.codec,
        "model_bytes": model.bytes,
        "float32_bytes": _float32_bytes(model),
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


def _float32_bytes(model: Model) -> int | None:
    """Return the size of the model with all its float32 weights; None if it is not known."""
    if model.codec == "sparse":
        return None
    return model.bytes + dense_bytes(model.trees, "float32") - dense_bytes(model.trees, model.codec)
