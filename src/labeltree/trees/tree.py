"""The label tree: its shape as a few arrays, and the geometry that follows from it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native
from labeltree.base import limits
from labeltree.base.display import html_table
from labeltree.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class LabelTree:
    """A tree whose leaves are the labels.

    Nodes are the internal nodes, numbered breadth-first from the root, 0. A child is a node or a leaf, which
    is a label. Depth is counted as in the paper: the root has depth 0, and a tree of depth 1 is one-vs-rest.

    Attributes
    ----------
    child_ptr : ndarray of int64, n_nodes + 1
        The children of node u are ``children[child_ptr[u]:child_ptr[u + 1]]``.
    children : ndarray of int32, n_nodes - 1 + n_labels
        The number of a node, or ``~label`` (negative) for a leaf.
    build_bytes : int
        Memory that ``build_tree`` used in addition to the data, at most; 0 for a given tree.
    centroid_bytes : int
        Of this, the centroids of one feature in one node.

    See Also
    --------
    labeltree.build_tree : the tree of the paper, by K-means.
    LabelTree.from_nested : a tree given as nested lists of labels.
    labeltree.trees.from_parents : a hierarchy, given as the parent of each label.
    labeltree.trees.from_clusters : clusters of labels, given as lists.
    """

    child_ptr: NDArray[np.int64]
    children: NDArray[np.int32]
    build_bytes: int = 0
    centroid_bytes: int = 0

    @classmethod
    def from_nested(cls, nested: Sequence[Any], label_names: Sequence[str] | None = None) -> LabelTree:
        """Create a tree from nested lists: an integer is a label, a list is a node.

        Every label from 0 to the largest must occur exactly once.

        Parameters
        ----------
        nested : sequence
            The root: labels, and sequences for nodes, nested to any depth.
        label_names : sequence of str, optional
            Names of the labels 0, 1, ...; if given, the lists contain names.

        Returns
        -------
        LabelTree

        Examples
        --------
        >>> LabelTree.from_nested([[0, 1, 2], [3, 4], [[5, 6], 7, 8]])
        LabelTree(n_nodes=5, n_labels=9, depth=3)
        """
        if not isinstance(nested, Sequence) or isinstance(nested, str):
            raise InputError(f"the tree is of type {type(nested).__name__}, expected nested lists of labels")
        numbers = None if label_names is None else {name: label for label, name in enumerate(label_names)}
        counts: list[int] = []
        children: list[int] = []
        queue: list[Sequence[Any]] = [nested]
        for node in queue:  # grows during the loop: breadth-first
            if not node:
                raise InputError("a node of the tree has no children", hint="remove its empty list")
            counts.append(len(node))
            for child in node:
                if isinstance(child, Sequence) and not isinstance(child, str):
                    children.append(len(queue))
                    queue.append(child)
                else:
                    children.append(~label_number(child, numbers))
        tree = cls(pointers(counts), np.array(children, np.int32))
        labels = np.sort(~tree.children[tree.children < 0])
        wrong = np.flatnonzero(labels != np.arange(labels.size))
        if wrong.size:
            label = wrong[0]
            found = "is missing" if labels[label] > label else f"or {labels[label]} occurs twice"
            what = f"label {label} {found} in the tree, expected each label from 0 to {labels[-1]} once"
            raise InputError(what)
        return tree

    def __repr__(self) -> str:
        return f"LabelTree(n_nodes={self.n_nodes}, n_labels={self.n_labels}, depth={self.depth})"

    def _repr_html_(self) -> str:
        depth_of_child = np.repeat(self.node_depth, self.child_count)
        rows = (
            [f"{d}", f"{(self.node_depth == d).sum():,}", f"{inner.size:,}", f"{(inner < 0).sum():,}"]
            for d in range(self.depth)
            for inner in [self.children[depth_of_child == d]]
        )
        title = f"Label tree: {self.n_labels:,} labels, {self.n_nodes:,} nodes, depth {self.depth}"
        return html_table(title, ["depth", "nodes", "children", "of these, labels"], rows)

    @property
    def n_nodes(self) -> int:
        """Number of internal nodes."""
        return self.child_ptr.size - 1

    @property
    def n_labels(self) -> int:
        """Number of labels (L)."""
        return self.children.size - (self.n_nodes - 1)

    @property
    def depth(self) -> int:
        """Depth of the deepest label (d)."""
        return self.level_ptr.size - 1

    @cached_property
    def child_count(self) -> NDArray[np.int64]:
        """Children of each node (r_u)."""
        return np.diff(self.child_ptr)

    @cached_property
    def parent(self) -> NDArray[np.int64]:
        """Parent of each node; -1 for the root."""
        of_child = np.repeat(np.arange(self.n_nodes), self.child_count)
        parent = np.full(self.n_nodes, -1, np.int64)
        inner = self.children >= 0
        parent[self.children[inner]] = of_child[inner]
        return parent

    @cached_property
    def child_place(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each node, and where each label, is in ``children``; the root's place is not used."""
        inner = self.children >= 0
        of_node, of_label = np.zeros(self.n_nodes, np.int64), np.zeros(self.n_labels, np.int64)
        of_node[self.children[inner]] = np.flatnonzero(inner)
        of_label[~self.children[~inner]] = np.flatnonzero(~inner)
        return of_node, of_label

    @cached_property
    def node_depth(self) -> NDArray[np.int32]:
        """Depth of each node; non-decreasing, since nodes are numbered breadth-first."""
        return np.repeat(np.arange(self.depth, dtype=np.int32), np.diff(self.level_ptr))

    @cached_property
    def level_ptr(self) -> NDArray[np.int64]:
        """The first node of each depth, and the end of the last."""
        n_inner = np.concatenate([[0], np.cumsum(self.children >= 0)])[self.child_ptr]
        ends = [0, 1]
        while ends[-1] < self.n_nodes:
            ends.append(1 + int(n_inner[ends[-1]]))
            if ends[-1] <= ends[-2]:
                raise InputError("the nodes of the tree are not numbered breadth-first")
        return np.array(ends, np.int64)

    @cached_property
    def _ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        levels = [slice(*ends) for ends in itertools.pairwise(self.level_ptr.tolist())]
        size = np.zeros(self.n_nodes, np.int64)
        child_size = np.ones(self.children.size, np.int64)
        inner = self.children >= 0
        for level in reversed(levels):
            entries = slice(self.child_ptr[level.start], self.child_ptr[level.stop])
            within = np.where(inner[entries], size[np.maximum(self.children[entries], 0)], 1)
            child_size[entries] = within
            size[level] = np.add.reduceat(within, self.child_ptr[level] - entries.start)
        first = np.zeros(self.n_nodes, np.int64)
        labels = np.zeros(self.n_labels, np.int32)
        before = np.cumsum(child_size) - child_size
        for level in levels:
            entries = slice(self.child_ptr[level.start], self.child_ptr[level.stop])
            start = first[level] - before[self.child_ptr[level]]
            place = before[entries] + np.repeat(start, self.child_count[level])
            first[self.children[entries][inner[entries]]] = place[inner[entries]]
            labels[place[~inner[entries]]] = ~self.children[entries][~inner[entries]]
        return first, first + size, labels

    @property
    def first(self) -> NDArray[np.int64]:
        """Start of each node's labels in ``labels``."""
        return self._ranges[0]

    @property
    def last(self) -> NDArray[np.int64]:
        """End of each node's labels in ``labels``."""
        return self._ranges[1]

    @property
    def labels(self) -> NDArray[np.int32]:
        """The labels in the order of the leaves: the labels of a node are one range."""
        return self._ranges[2]

    @cached_property
    def native(self) -> _native.Tree:
        """The arrays as the kernels take them, checked once. They must not be changed afterwards."""
        return _native.Tree(self.child_ptr, self.children, self.labels, self.first, self.last)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "native"}

    def node_weights(self, Y: sparse.csr_matrix, weights: NDArray[Any]) -> NDArray[np.float64]:
        """Return for each node the sum of the weights of its instances: those with one of its labels."""
        ranges = zip(self.first.tolist(), self.last.tolist(), strict=True)
        of_nodes = np.concatenate([self.labels[first:last] for first, last in ranges])
        shape = self.n_labels, self.n_nodes
        members = sparse.csc_matrix(
            (np.ones(of_nodes.size, bool), of_nodes, pointers(self.last - self.first)), shape=shape
        )
        sums: NDArray[np.float64] = (Y.astype(bool) @ members).T @ np.asarray(weights, np.float64)
        sums[0] = weights.sum(dtype=np.float64)
        return sums

    def clip(self, max_depth: int) -> LabelTree:
        """Cut the tree at a depth (d_max): deeper labels become children of the node above the cut.

        The result is the tree that ``build_tree`` builds with this ``max_depth``.
        """
        limits.checked("max_depth", max_depth, limits.MAX_DEPTH)
        if max_depth >= self.depth:
            return self
        kept = int(np.searchsorted(self.node_depth, max_depth))
        lowest = int(np.searchsorted(self.node_depth, max_depth - 1))
        cut = [~np.sort(self.labels[self.first[u] : self.last[u]]) for u in range(lowest, kept)]
        counts = np.concatenate([self.child_count[:lowest], [c.size for c in cut]])
        return LabelTree(
            pointers(counts),
            np.concatenate([self.children[: self.child_ptr[lowest]], *cut]),
            self.build_bytes,
            self.centroid_bytes,
        )


class DepthSummary(TypedDict):
    """The nodes of one depth of a tree."""

    depth: int
    nodes: int
    children: int
    mean_used_features: float
    alpha: float | None
    weights: int


def depth_cells(row: DepthSummary) -> dict[str, str]:
    """Return the cells of a table that describes a tree depth by depth, by the name of their column."""
    return {
        "depth": f"{row['depth']}",
        "nodes": f"{row['nodes']:,}",
        "children": f"{row['children']:,}",
        "used features": f"{row['mean_used_features']:,.0f}",
        "alpha": "" if row["alpha"] is None else f"{row['alpha']:.3f}",
        "weights": f"{row['weights']:,}",
    }


def node_alpha(tree: LabelTree, used_features: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return alpha of each node: the features that it uses (F_u), divided by those of its parent.

    It is NaN for the root, and for a node that uses no features: such a node, usually that of the labels
    without instances, has no weights, and its 0 would lower every average.
    """
    alpha = used_features / np.maximum(used_features[tree.parent], 1)
    alpha[used_features == 0] = np.nan
    alpha[0] = np.nan
    return alpha


def mean_alpha(alpha: NDArray[np.float64], n_children: NDArray[np.int64]) -> float | None:
    """Return the average of alpha over nodes, weighted by their children (equation 45 of the paper).

    Each child has a weight vector as long as its parent's list of features. Nodes without alpha are left
    out; None if no node is left.
    """
    known = ~np.isnan(alpha)
    return float(np.average(alpha[known], weights=n_children[known])) if known.any() else None


def describe_depths(tree: LabelTree, used_features: NDArray[np.int64]) -> list[DepthSummary]:
    """Describe a tree depth by depth, from the features that each node uses (F_u), without the bias.

    See `node_alpha` and `mean_alpha` for alpha; the root has none.
    """
    alpha = node_alpha(tree, used_features)
    rows: list[DepthSummary] = []
    for d, ends in enumerate(itertools.pairwise(tree.level_ptr.tolist())):
        at = slice(*ends)
        children, used = tree.child_count[at], used_features[at]
        rows.append(
            {
                "depth": d,
                "nodes": used.size,
                "children": int(children.sum()),
                "mean_used_features": float(used.mean()),
                "alpha": mean_alpha(alpha[at], children),
                "weights": int(used @ children),
            }
        )
    return rows


def label_number(child: Any, numbers: Mapping[str, int] | None) -> int:
    """Return the number of a label in nested lists, which hold names if labels have names."""
    whole = isinstance(child, (int, np.integer)) and not isinstance(child, bool)
    if numbers is None:
        if whole and 0 <= child < limits.LARGEST_INT32:
            return int(child)
        raise InputError(f"the tree contains {child!r}, expected lists and label numbers from 0")
    if (whole or isinstance(child, str)) and str(child) in numbers:
        return numbers[str(child)]
    raise InputError(f"the tree contains {child!r}, which is not a label of the data")


def pointers(counts: Any) -> NDArray[np.int64]:
    """Return the start of each of several consecutive runs of these lengths, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64, copy=False)
