"""The plan: what every node will take, to the byte, before a single classifier is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.store import ArrayFile, names_bytes
from labeltree.system import INTERPRETER_BYTES, free_disk, human_bytes, threads_to_use, usable_memory
from labeltree.tree import LabelTree

if TYPE_CHECKING:
    from labeltree.text.tfidf import TextFeatures

# The weights of a node are held in memory up to this many bytes a thread; wider nodes are trained in strips.
PANEL_BYTES = 128 << 20
# The solver's two arrays hold one cache line a feature and one an instance (native/solver.h).
LINE_BYTES = 64
# Arrays that a tree is described by while it is trained, for each label.
LABEL_BYTES = 40


@dataclass(frozen=True, eq=False)
class TreePlan:
    """What the nodes of one tree use, and so where their blocks lie in the files.

    Attributes
    ----------
    tree : LabelTree
    instances : ndarray of int64
        Instances that each node trains on: those with one of its labels; all of them at the root.
    nonzeros : ndarray of int64
        Non-zero feature values of those instances.
    used_features : ndarray of int64
        Features that occur in those instances (F_u), the bias not counted.
    bias : bool
        Whether each block has one more row, for the bias.
    """

    tree: LabelTree
    instances: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    used_features: NDArray[np.int64]
    bias: bool

    @property
    def n_weights(self) -> int:
        """Weights as the paper counts them, without bias (eq:tree-nnz)."""
        return int(self.used_features @ self.tree.child_count)

    @cached_property
    def feature_ptr(self) -> NDArray[np.int64]:
        """Where each node's features begin in ``features.npy``, and after the last where they end."""
        return np.concatenate([[0], np.cumsum(self.used_features + self.bias)]).astype(np.int64)

    @cached_property
    def weight_ptr(self) -> NDArray[np.int64]:
        """Where each node's block begins in ``weights.npy``, and after the last where it ends."""
        return weight_pointers(self.tree, self.feature_ptr)

    def files(self) -> dict[str, ArrayFile]:
        """The arrays that this tree will be stored as."""
        return {
            "child_ptr.npy": ArrayFile("<i8", self.tree.n_nodes + 1),
            "children.npy": ArrayFile("<i4", self.tree.children.size),
            "feature_ptr.npy": ArrayFile("<i8", self.tree.n_nodes + 1),
            "features.npy": ArrayFile("<i4", int(self.feature_ptr[-1])),
            "weights.npy": ArrayFile("<f4", int(self.weight_ptr[-1])),
            "checksums.npy": ArrayFile("<u4", self.tree.n_nodes),
        }

    def clip(self, max_depth: int) -> TreePlan:
        """Plan of the tree cut at a depth (d_max): the nodes that are left see the same instances."""
        tree = self.tree.clip(max_depth)
        left = slice(tree.n_nodes)
        return TreePlan(tree, self.instances[left], self.nonzeros[left], self.used_features[left], self.bias)

    def training_bytes(self, threads: int, precise: bool) -> int:
        """Memory that the solver needs beside the data, at most."""
        features, instances = self.used_features + 1, self.instances
        copied = self.nonzeros * 8
        copied[0] = 0  # the root trains on the data as it is
        whole = features * self.tree.child_count * 4
        strip = np.minimum(whole, np.maximum(PANEL_BYTES, features * LINE_BYTES))
        held = copied + strip + instances * 22 + features * 4
        held = np.repeat(held, np.minimum(-(-whole // strip), threads))  # strips of one node side by side
        solver = (features + instances) * LINE_BYTES * (1 + precise) + instances * 4
        return int(np.sort(held)[-threads:].sum() + threads * solver.max())


def weight_pointers(tree: LabelTree, feature_ptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each node's block begins: blocks of features x children follow one another."""
    return np.concatenate([[0], np.cumsum(np.diff(feature_ptr) * tree.child_count)]).astype(np.int64)


def describe_depths(tree: LabelTree, used_features: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Describe a tree depth by depth.

    Parameters
    ----------
    tree : LabelTree
    used_features : ndarray of int64
        Features that each node uses (F_u), the bias not counted.

    Returns
    -------
    list of dict
        Of the nodes of each depth: ``depth``, ``nodes``, ``children``, ``mean_used_features``, ``alpha``,
        ``weights``. alpha_u is the used features of node u over those of its parent; the average is
        weighted by the number of children, since each child has a weight vector of that length
        (eq:weighted-average-alpha). The root has none.
    """
    ratio = used_features / np.maximum(used_features[tree.parent], 1)
    rows: list[dict[str, Any]] = []
    for d in range(tree.depth):
        at = tree.node_depth == d
        children, used = tree.child_count[at], used_features[at]
        rows.append(
            {
                "depth": d,
                "nodes": int(at.sum()),
                "children": int(children.sum()),
                "mean_used_features": float(used.mean()),
                "alpha": float(np.average(ratio[at], weights=children)) if d else None,
                "weights": int(used @ children),
            }
        )
    return rows


@dataclass(frozen=True, eq=False)
class Plan:
    """The layout of a model, known as soon as its trees are: the sum of its parts is the model's size."""

    trees: tuple[TreePlan, ...]
    n_instances: int
    n_features: int
    n_labels: int
    data_bytes: int
    threads: int
    label_names: tuple[str, ...] | None = None
    precise: bool = False
    text: TextFeatures | None = None

    @property
    def bias(self) -> bool:
        """Whether the blocks have a row for the bias."""
        return self.trees[0].bias

    @property
    def n_nodes(self) -> int:
        """Internal nodes of all trees."""
        return sum(part.tree.n_nodes for part in self.trees)

    @property
    def depth(self) -> int:
        """Depth of the deepest tree (d)."""
        return max(part.tree.depth for part in self.trees)

    @property
    def n_weights(self) -> int:
        """Weights of all trees as the paper counts them, without bias (eq:tree-nnz)."""
        return sum(part.n_weights for part in self.trees)

    def clip(self, max_depth: int) -> Plan:
        """Plan of the same trees, cut at a depth (d_max): nothing has to be counted anew."""
        return replace(self, trees=tuple(part.clip(max_depth) for part in self.trees))

    def files(self) -> dict[str, int]:
        """Name and size of every file of the model directory but the manifest."""
        sizes = {"label_counts.npy": ArrayFile("<i8", self.n_labels).bytes}
        if self.label_names is not None:
            sizes["label_names.json"] = len(names_bytes(self.label_names))
        if self.text is not None:
            sizes |= {name: len(content) for name, content in self.text.contents.items()}
        for t, part in enumerate(self.trees):
            sizes |= {f"tree-{t}/{name}": spec.bytes for name, spec in part.files().items()}
        return sizes

    @property
    def model_bytes(self) -> int:
        """Size of the model directory without its manifest, exact."""
        return sum(self.files().values())

    @property
    def paper_tree_bytes(self) -> int:
        """The paper's size of a tree model: 12 bytes a weight."""
        return 12 * self.n_weights

    @property
    def paper_ovr_bytes(self) -> int:
        """The paper's size of one-vs-rest: 8 bytes for each used feature (n) and label (L)."""
        return 8 * int(self.trees[0].used_features[0]) * self.n_labels

    @property
    def ratio(self) -> float:
        """The paper's ratio of the tree model to one-vs-rest (eq:model-size-ratio)."""
        return self.paper_tree_bytes / self.paper_ovr_bytes if self.paper_ovr_bytes else 0.0

    @property
    def training_memory_bytes(self) -> int:
        """Memory that building the trees and training them needs, data and interpreter included."""
        building = max(part.tree.build_bytes for part in self.trees)
        training = max(part.training_bytes(self.threads, self.precise) for part in self.trees)
        return INTERPRETER_BYTES + self.data_bytes + LABEL_BYTES * self.n_labels + max(building, training)

    def report(self, path: Path | str = ".") -> dict[str, Any]:
        """Every figure of the plan, beside the memory and the disk (at ``path``) that there are."""
        depths = self.depths()
        return {
            "instances": self.n_instances,
            "features": self.n_features,
            "labels": self.n_labels,
            "trees": len(self.trees),
            "nodes": self.n_nodes,
            "depth": self.depth,
            "weights": self.n_weights,
            "model_bytes": self.model_bytes,
            "bytes_per_weight": self.model_bytes / self.n_weights if self.n_weights else None,
            "paper_tree_bytes": self.paper_tree_bytes,
            "paper_ovr_bytes": self.paper_ovr_bytes,
            "ratio": self.ratio,
            "alpha": [row["alpha"] for row in depths[1:]],
            "depths": depths,
            "training_memory_bytes": self.training_memory_bytes,
            "available_memory_bytes": usable_memory(),
            "free_disk_bytes": free_disk(path),
        }

    def depths(self) -> list[dict[str, Any]]:
        """Describe the first tree depth by depth: nodes, children, mean used features, alpha, weights."""
        return describe_depths(self.trees[0].tree, self.trees[0].used_features)

    def check_room(self, path: Path, memory_limit: int | None = None) -> None:
        """Refuse what memory or disk cannot hold, and say what would fit.

        Parameters
        ----------
        path : Path
            Where the model is to be written.
        memory_limit : int, optional
            Bytes that training may take, the data that is in memory already included; by default what this
            process has and what the machine (or its cgroup) has left.
        """
        memory = usable_memory() if memory_limit is None else memory_limit
        if self.training_memory_bytes > memory:
            raise ResourceError(
                f"Training needs {human_bytes(self.training_memory_bytes)} of memory, but there are "
                f"{human_bytes(memory)}; {self._what_needs_less(memory)}, or raise --memory-limit."
            )
        disk = free_disk(path)
        if self.model_bytes > disk:
            raise ResourceError(
                f"The model takes {human_bytes(self.model_bytes)}, but {path} has {human_bytes(disk)} "
                f"of free disk; {self._what_would_fit(disk)}."
            )

    def _what_needs_less(self, memory: int) -> str:
        for fewer in range(self.threads - 1, 0, -1):
            if replace(self, threads=fewer).training_memory_bytes <= memory:
                return f"--threads {fewer} would fit"
        least = INTERPRETER_BYTES + self.data_bytes
        if least > memory:
            return f"no other tree would fit, since the data in memory takes {human_bytes(least)}"
        return "a deeper tree (--max-depth) or more --clusters may take less, with --threads 1"

    def _what_would_fit(self, disk: int) -> str:
        for fewer in range(len(self.trees) - 1, 0, -1):
            if replace(self, trees=self.trees[:fewer]).model_bytes <= disk:
                return f"--trees {fewer} would fit"
        return (
            "a deeper tree (--max-depth) or more --clusters takes less (`labeltree estimate` tells how much)"
        )


def make_plan(
    dataset: Dataset,
    trees: LabelTree | Sequence[LabelTree],
    *,
    bias: bool = True,
    threads: int | None = None,
    precise: bool = False,
) -> Plan:
    """Count what every node of the trees uses of the data, and lay out the model's files.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    trees : LabelTree or sequence of LabelTree
        The trees of the model.
    bias : bool, default True
        Whether a bias is trained: one more row in each block.
    threads : int, optional
        Threads to count with, and to be trained with; all usable processors unless given.
    precise : bool, default False
        Whether it will be trained in double precision (``SolverSettings.precise``), which takes more memory.

    Returns
    -------
    Plan
        Its ``model_bytes`` is the size of the model directory, exact to the byte.
    """
    threads = threads_to_use(threads)
    trees = (trees,) if isinstance(trees, LabelTree) else tuple(trees)
    if not trees:
        raise InputError("A model needs at least one tree, but got none.")
    parts = []
    for tree in trees:
        if tree.n_labels != dataset.n_labels:
            raise InputError(f"The tree has {tree.n_labels:,} labels, but the data has {dataset.n_labels:,}.")
        usage = _native.used_features(dataset.native, tree.native, threads)
        parts.append(TreePlan(tree, *usage, bias))
    return Plan(
        tuple(parts),
        *dataset.X.shape,
        dataset.n_labels,
        dataset.bytes,
        threads,
        dataset.label_names,
        precise,
        dataset.text,
    )
