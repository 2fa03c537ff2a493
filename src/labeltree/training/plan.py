"""The plan: the size of every file of a model, to the byte, before a classifier is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.display import html_table
from labeltree.base.system import INTERPRETER_BYTES, free_disk, human_bytes, threads_to_use, usable_memory
from labeltree.data.dataset import Dataset
from labeltree.data.tfidf import TextFeatures
from labeltree.errors import InputError, ResourceError
from labeltree.model.layout import SPARSE, ArrayFile
from labeltree.model.writer import names_bytes
from labeltree.settings import SMALLER_MODEL, SolverSettings, StorageSettings
from labeltree.training.default_cost import node_costs, positive_costs, with_costs
from labeltree.training.tree_plan import TreePlan
from labeltree.trees.tree import DepthSummary, LabelTree, depth_cells, describe_depths

# Bytes per weight of a sparse tree in the paper: a float64 and an index.
PAPER_WEIGHT_BYTES = 12
# They are tried on some rows, each with lists of its best nodes and labels by every function: first on some
# with many labels, then on more, at most.
TRIAL_ROWS = 1_500, 5_000
TRIAL_ROW_BYTES = 10 << 10, 3 << 10
# Bytes per label of the arrays that describe a tree while it is trained.
LABEL_BYTES = 40


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The layout of a model, known as soon as its trees are; the sum of its parts is the size of the model.

    Create one with ``make_plan``.

    Attributes
    ----------
    trees : tuple of TreePlan
    settings : SolverSettings
        How the classifiers are to be trained.
    storage : StorageSettings
        How their weights are to be stored.
    n_instances, n_features, n_labels : int
        Shape of the training data.
    n_pairs : int
        Labels of all instances.
    data_bytes : int
        Memory that the training data takes.
    threads : int
        Number of threads for training.
    label_names : tuple of str or None
    text : TextFeatures or None
        How the features were computed from text.
    normalized : bool
        Whether the rows of the training data are scaled to length 1.
    """

    trees: tuple[TreePlan, ...]
    settings: SolverSettings
    storage: StorageSettings
    n_instances: int
    n_features: int
    n_labels: int
    n_pairs: int
    data_bytes: int
    threads: int
    label_names: tuple[str, ...] | None = None
    text: TextFeatures | None = None
    normalized: bool = False

    def __repr__(self) -> str:
        shape = f"n_labels={self.n_labels}, n_nodes={self.n_nodes}, depth={self.depth}"
        return f"Plan(trees={len(self.trees)}, {shape}, model_bytes={self.model_bytes})"

    def _repr_html_(self) -> str:
        rows = [depth_cells(row) for row in self.depths()]
        size = f"{human_bytes(self.model_bytes)} on disk ({self.model_bytes:,} bytes)"
        bound = "" if self.is_exact else "at most "
        title = f"Plan: {bound}{size}, {human_bytes(self.training_memory_bytes)} of memory to train"
        return html_table(title, list(rows[0]), (list(row.values()) for row in rows))

    @property
    def n_nodes(self) -> int:
        """Internal nodes of all trees."""
        return sum(part.tree.n_nodes for part in self.trees)

    @property
    def depth(self) -> int:
        """Depth of the deepest tree (d)."""
        return max(part.tree.depth for part in self.trees)

    @property
    def cost(self) -> float:
        """Weight of the losses at the root (C), given or the default for the data."""
        assert self.settings.cost is not None  # since make_plan
        return self.settings.cost

    @property
    def n_weights(self) -> int:
        """Weights of all trees as the paper counts them, without bias (its equation 18)."""
        return sum(part.n_weights for part in self.trees)

    def training(
        self,
        number: int,
        dataset: Dataset,
        costs: NDArray[np.float32] | None = None,
        foreign: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
    ) -> _native.Training:
        """Return how the classifiers of a tree are trained; ``costs`` has the weight of each instance."""
        part, settings = self.trees[number], self.settings
        counts = part.instances if costs is None else part.tree.node_weights(dataset.Y, costs)
        return _native.Training(
            dataset.native,
            part.tree.native,
            costs=costs,
            node_costs=node_costs(settings, counts),
            positive_costs=positive_costs(settings, part.tree.node_depth),
            foreign_ptr=None if foreign is None else foreign[0],
            foreign_rows=None if foreign is None else foreign[1],
            foreign_cost=settings.foreign_cost,
            loss=settings.loss,
            tolerance=settings.tolerance,
            max_iterations=settings.max_iterations,
            bias=settings.bias,
            seed=settings.seed + number,
            precise=settings.precise,
        )

    def clip(self, max_depth: int) -> Plan:
        """Return the plan of the same trees, cut at a depth (d_max), without counting again."""
        return replace(self, trees=tuple(part.clip(max_depth) for part in self.trees))

    def rows_of(self, dataset: Dataset) -> Dataset:
        """Return the training data as it was planned: if the plan is normalized, with scaled rows."""
        if (self.n_instances, self.n_features, self.n_labels) != (*dataset.X.shape, dataset.n_labels):
            raise InputError("the plan was made for data of a different shape", hint="make the plan again")
        rows = dataset.normalize() if self.normalized else dataset
        if rows.normalized != self.normalized:
            what = "the rows of the data are scaled, but the plan was made for rows as they were"
            raise InputError(what, hint="make the plan again, or train on the data as it was")
        return rows

    def files(self) -> dict[str, int]:
        """Return the name and size of every file of the model directory except the manifest."""
        sizes = {"label_counts.npy": ArrayFile("<i8", self.n_labels).bytes}
        if self.label_names is not None:
            sizes["label_names.json"] = len(names_bytes(self.label_names))
        if self.text is not None:
            sizes |= {name: len(content) for name, content in self.text.contents.items()}
        for t, part in enumerate(self.trees):
            sizes |= {f"tree-{t}/{name}": spec.bytes for name, spec in part.layout.files().items()}
        return sizes

    @property
    def is_exact(self) -> bool:
        """Whether ``model_bytes`` is exact; if weights are to be pruned, it is an upper bound."""
        return self.storage.prune is None

    @property
    def model_bytes(self) -> int:
        """Size of the model directory without its manifest; if weights are to be pruned, at most."""
        return sum(self.files().values())

    @property
    def least_bytes(self) -> int:
        """Size of the smallest model of these trees: pruned of all weights, or with all of them as int8."""
        empty = [replace(part, codec=SPARSE, used_features=0 * part.used_features) for part in self.trees]
        dense = [replace(part, codec="int8") for part in self.trees]
        return min(replace(self, trees=tuple(trees)).model_bytes for trees in (empty, dense))

    @property
    def ovr_bytes(self) -> int:
        """Size of a one-vs-rest model of the same data in the same format; as exact as ``model_bytes``."""
        return replace(self, trees=(self.trees[0].clip(1),)).model_bytes

    @property
    def ovr_ratio(self) -> float:
        """Size of the model relative to one-vs-rest, both in labeltree's format."""
        return self.model_bytes / self.ovr_bytes

    @property
    def paper_tree_bytes(self) -> int:
        """Size of the tree model as the paper counts it: 12 bytes per weight."""
        return PAPER_WEIGHT_BYTES * self.n_weights

    @property
    def paper_ovr_bytes(self) -> int:
        """Size of one-vs-rest as the paper counts it: 8 bytes per used feature (n) and label (L)."""
        return 8 * int(self.trees[0].used_features[0]) * self.n_labels

    @property
    def ratio(self) -> float:
        """The paper's ratio of the tree model to one-vs-rest, both as it counts them (its equation 20)."""
        return self.paper_tree_bytes / self.paper_ovr_bytes if self.paper_ovr_bytes else 0.0

    @property
    def training_memory_bytes(self) -> int:
        """Memory needed to build the trees and train them, including the data and the interpreter."""
        hard = self.settings.hard_negatives
        building = max(part.building_bytes(self.threads) for part in self.trees)
        training = max(part.training_bytes(self.threads, self.settings.precise, hard) for part in self.trees)
        labels = LABEL_BYTES * self.n_labels
        ranked = [
            bytes_ * min(self.n_instances, n) for bytes_, n in zip(TRIAL_ROW_BYTES, TRIAL_ROWS, strict=True)
        ]
        trial = max(ranked) if self.depth > 1 else 0
        # The places of the labels of all rows, while they are routed, and the rows of all trees in the end.
        routing = (4 * self.n_pairs if hard else 0) + sum(part.routing_bytes(hard) for part in self.trees)
        most = max(building, max(training, trial) + routing)
        return INTERPRETER_BYTES + self.data_bytes + labels + most

    @property
    def foreign_work(self) -> float:
        """How many times the multiply-adds of a pass hard negatives need at most, besides these."""
        more = sum(part.foreign_multiply_adds(self.settings.hard_negatives) for part in self.trees)
        return more / max(1, sum(part.multiply_adds for part in self.trees))

    def to_dict(self, path: Path | str = ".") -> dict[str, Any]:
        """Return every figure of the plan, with the available memory and the free disk space at ``path``.

        If weights are to be pruned, only a bound of the size is known: figures that need the size are None.
        """
        depths, exact = self.depths(), self.is_exact
        return {
            "instances": self.n_instances,
            "features": self.n_features,
            "labels": self.n_labels,
            "normalized": self.normalized,
            "trees": len(self.trees),
            "nodes": self.n_nodes,
            "depth": self.depth,
            "weights": self.n_weights,
            "model_bytes": self.model_bytes if exact else None,
            "model_bytes_at_most": self.model_bytes,
            "bytes_per_weight": self.model_bytes / self.n_weights if exact and self.n_weights else None,
            "ovr_bytes": self.ovr_bytes if exact else None,
            "ovr_ratio": self.ovr_ratio if exact else None,
            "paper_tree_bytes": self.paper_tree_bytes,
            "paper_ovr_bytes": self.paper_ovr_bytes,
            "ratio": self.ratio,
            "alpha": [row["alpha"] for row in depths[1:]],
            "depths": depths,
            "foreign_work": self.foreign_work,
            "training_memory_bytes": self.training_memory_bytes,
            "available_memory_bytes": usable_memory(),
            "free_disk_bytes": free_disk(path),
        }

    def depths(self) -> list[DepthSummary]:
        """Describe the first tree depth by depth: nodes, children, mean used features, alpha, weights."""
        return describe_depths(self.trees[0].tree, self.trees[0].used_features)

    def check_resources(self, path: Path, memory_limit: int | None = None, allocated_bytes: int = 0) -> None:
        """Raise a ResourceError if the plan does not fit in memory or on disk; it suggests one that does.

        ``memory_limit`` includes the data that is already in memory; by default it is what this process uses
        plus what the machine (or its cgroup) has available. ``allocated_bytes`` is the disk space that an
        unfinished run has already.
        """
        memory = usable_memory() if memory_limit is None else memory_limit
        if self.training_memory_bytes > memory:
            needed = human_bytes(self.training_memory_bytes)
            hint, parameters = self._smaller_in_memory(memory)
            what = f"training needs {needed} of memory, but only {human_bytes(memory)} can be used"
            hint = f"{hint}, or raise {{memory_limit}}"
            raise ResourceError(what, hint=hint, parameters={**parameters, "memory_limit": None})
        # The work directory keeps which rows visit which nodes.
        visits = 8 * sum(sum(part.visits(self.settings.hard_negatives)) for part in self.trees)
        disk = max(0, free_disk(path) + allocated_bytes - visits)
        if self.is_exact and self.model_bytes > disk:
            hint, parameters = self._smaller_on_disk(disk)
            raise ResourceError(
                f"the model takes {human_bytes(self.model_bytes)}, but only {human_bytes(disk)} are free on "
                "this disk",
                file=path,
                hint=hint,
                parameters=parameters,
            )

    def _smaller_in_memory(self, memory: int) -> tuple[str, dict[str, Any]]:
        for fewer in range(self.threads - 1, 0, -1):
            if replace(self, threads=fewer).training_memory_bytes <= memory:
                return "use {threads}, which fits", {"threads": fewer}
        least = INTERPRETER_BYTES + self.data_bytes
        if least > memory:
            return f"use a machine with more memory (Python and the data alone need {human_bytes(least)})", {}
        return SMALLER_MODEL + " and {threads}", {"clusters": None, "max_depth": None, "threads": 1}

    def _smaller_on_disk(self, disk: int) -> tuple[str, dict[str, Any]]:
        """Name smaller weights first, which lose less than a smaller model."""
        hint, parameters = "use {prune}", dict[str, Any](prune=None)
        int8 = replace(self, trees=tuple(replace(part, codec="int8") for part in self.trees))
        if int8.model_bytes <= disk:
            hint, parameters = "use {weights}, which fits, or {prune}", {"weights": "int8", "prune": None}
        for fewer in range(len(self.trees) - 1, 0, -1):
            if replace(self, trees=self.trees[:fewer]).model_bytes <= disk:
                return f"{hint}, or {{trees}}, which fits", {**parameters, "trees": fewer}
        smaller = SMALLER_MODEL.removeprefix("use ")
        return f"{hint}, or {smaller}", {**parameters, "clusters": None, "max_depth": None}


def make_plan(
    dataset: Dataset,
    trees: LabelTree | Sequence[LabelTree],
    settings: SolverSettings | None = None,
    storage: StorageSettings | None = None,
    *,
    threads: int | None = None,
) -> Plan:
    """Count the features that every node of the trees uses, and lay out the model's files.

    Parameters
    ----------
    dataset : Dataset
        The training data, with rows as they are; ``dataset.normalize()`` scales them to length 1.
    trees : LabelTree or sequence of LabelTree
        The trees of the model.
    settings : SolverSettings, optional
        How the classifiers will be trained.
    storage : StorageSettings, optional
        How their weights will be stored.
    threads : int, optional
        Number of threads for counting, and later for training. Default: all CPUs.

    Returns
    -------
    Plan
        Its ``model_bytes`` is the size of the model directory, exact to the byte; with ``storage.prune``, an
        upper bound of it.
    """
    settings = with_costs(settings or SolverSettings(), dataset.X)
    storage = storage or StorageSettings()
    threads = threads_to_use(threads)
    trees = (trees,) if isinstance(trees, LabelTree) else tuple(trees)
    if not trees:
        raise InputError("no tree is given, expected at least one")
    parts = []
    for tree in trees:
        if tree.n_labels != dataset.n_labels:
            raise InputError(f"the tree has {tree.n_labels:,} labels, but the data has {dataset.n_labels:,}")
        if tree.depth > limits.TREE_DEPTH.most:
            what = f"the tree has depth {tree.depth:,}, expected at most {limits.TREE_DEPTH.most:,}"
            raise InputError(what, hint="use a smaller {max_depth}")
        usage = _native.used_features(dataset.native, tree.native, threads)
        parts.append(TreePlan(tree, *usage, settings.bias != 0, storage.codec, dataset.n_features))
    return Plan(
        trees=tuple(parts),
        settings=settings,
        storage=storage,
        n_instances=dataset.n_instances,
        n_features=dataset.n_features,
        n_labels=dataset.n_labels,
        n_pairs=dataset.Y.nnz,
        data_bytes=dataset.bytes,
        threads=threads,
        label_names=dataset.label_names,
        text=dataset.text,
        normalized=dataset.normalized,
    )
