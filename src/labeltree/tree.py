"""The label tree: built by recursive K-means on label vectors, given, or clipped from a deeper one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data import Dataset, csr_arrays
from labeltree.errors import InputError
from labeltree.system import threads_to_use

# What the prototype taught: as good as K-means run to convergence, several times sooner.
MAX_KMEANS_ITERATIONS = 20
LEAST_MOVED = 0.01

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A tree whose leaves are the labels.

    Nodes are the internal nodes, numbered breadth-first from the root, 0. A child is a node, or a leaf: the
    label itself. Depth counts as in the paper: the root has depth 0, and a tree of depth 1 is one-vs-rest.

    Attributes
    ----------
    child_ptr : ndarray of int64, nodes + 1
        The children of node u are ``children[child_ptr[u]:child_ptr[u + 1]]``.
    children : ndarray of int32, nodes - 1 + labels
        A node's number, or ``~label`` (negative) for a leaf.
    build_bytes : int
        Memory that ``build_tree`` took beside the data; 0 for a tree that was given.

    See Also
    --------
    build_tree : the tree of the paper, by K-means.
    LabelTree.from_nested : a tree given as nested lists of labels.
    """

    child_ptr: NDArray[np.int64]
    children: NDArray[np.int32]
    build_bytes: int = 0

    @classmethod
    def from_nested(cls, nested: Sequence[Any], label_names: Sequence[str] | None = None) -> LabelTree:
        """Make a tree from nested lists: an integer is a label, a list is a node.

        Every label from 0 to the largest must occur exactly once.

        Parameters
        ----------
        nested : sequence
            The root: labels, and sequences for nodes, nested as deep as need be.
        label_names : sequence of str, optional
            Names of the labels 0, 1, ...: then the tree holds names, a number for a name that spells it.

        Returns
        -------
        LabelTree

        Examples
        --------
        >>> tree = LabelTree.from_nested([[0, 1, 2], [3, 4], [[5, 6], 7, 8]])
        >>> tree.nodes, tree.label_count, tree.depth
        (5, 9, 3)
        """
        if not isinstance(nested, Sequence) or isinstance(nested, str):
            raise InputError(f"A tree is nested lists of labels, but got {type(nested).__name__}.")
        numbers = None if label_names is None else {name: label for label, name in enumerate(label_names)}
        counts: list[int] = []
        children: list[int] = []
        queue: list[Sequence[Any]] = [nested]
        for node in queue:  # the queue grows while it is walked: breadth-first
            if not node:
                raise InputError("A node of the given tree has no children; remove its empty list.")
            counts.append(len(node))
            for child in node:
                if isinstance(child, Sequence) and not isinstance(child, str):
                    children.append(len(queue))
                    queue.append(child)
                else:
                    children.append(~_label(child, numbers))
        tree = cls(_pointers(counts), np.array(children, np.int32))
        labels = np.sort(~tree.children[tree.children < 0])
        wrong = np.flatnonzero(labels != np.arange(labels.size))
        if wrong.size:
            raise InputError(
                f"A tree must hold each label from 0 to {labels[-1]} once, but label {wrong[0]} "
                f"{'is missing' if labels[wrong[0]] > wrong[0] else f'or {labels[wrong[0]]} occurs twice'}."
            )
        return tree

    @property
    def nodes(self) -> int:
        """Number of internal nodes."""
        return self.child_ptr.size - 1

    @property
    def label_count(self) -> int:
        """Number of labels (L)."""
        return self.children.size - (self.nodes - 1)

    @property
    def depth(self) -> int:
        """Depth of the deepest label (d)."""
        return int(self.node_depth[-1]) + 1

    @cached_property
    def child_count(self) -> NDArray[np.int64]:
        """Children of each node (r_u)."""
        return np.diff(self.child_ptr)

    @cached_property
    def parent(self) -> NDArray[np.int64]:
        """Parent of each node; -1 for the root."""
        of_child = np.repeat(np.arange(self.nodes), self.child_count)
        parent = np.full(self.nodes, -1, np.int64)
        inner = self.children >= 0
        parent[self.children[inner]] = of_child[inner]
        return parent

    @cached_property
    def node_depth(self) -> NDArray[np.int32]:
        """Depth of each node, never falling, since nodes are numbered breadth-first."""
        depth = np.zeros(self.nodes, np.int32)
        for u in range(1, self.nodes):
            depth[u] = depth[self.parent[u]] + 1
        return depth

    @cached_property
    def _ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        levels = [np.flatnonzero(self.node_depth == d) for d in range(self.depth)]
        size = np.zeros(self.nodes, np.int64)
        child_size = np.ones(self.children.size, np.int64)
        inner = self.children >= 0
        for level in reversed(levels):
            entries = slice(self.child_ptr[level[0]], self.child_ptr[level[-1] + 1])
            within = np.where(inner[entries], size[np.maximum(self.children[entries], 0)], 1)
            child_size[entries] = within
            size[level] = np.add.reduceat(within, self.child_ptr[level] - entries.start)
        first = np.zeros(self.nodes, np.int64)
        labels = np.empty(self.label_count, np.int32)
        before = np.cumsum(child_size) - child_size
        for level in levels:
            entries = slice(self.child_ptr[level[0]], self.child_ptr[level[-1] + 1])
            start = first[level] - before[self.child_ptr[level]]
            place = before[entries] + np.repeat(start, self.child_count[level])
            first[self.children[entries][inner[entries]]] = place[inner[entries]]
            labels[place[~inner[entries]]] = ~self.children[entries][~inner[entries]]
        return first, first + size, labels

    @property
    def first(self) -> NDArray[np.int64]:
        """Where each node's labels begin in ``labels``."""
        return self._ranges[0]

    @property
    def last(self) -> NDArray[np.int64]:
        """Where each node's labels end in ``labels``."""
        return self._ranges[1]

    @property
    def labels(self) -> NDArray[np.int32]:
        """The labels in the order of the leaves: each node's labels are one range."""
        return self._ranges[2]

    @property
    def arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """child_ptr, children, labels, first, last: the tree as the kernels take it."""
        return self.child_ptr, self.children, self.labels, self.first, self.last

    def clip(self, max_depth: int) -> LabelTree:
        """Cut the tree at a depth (d_max): labels that lay deeper become children of the node above the cut.

        The result is the tree that ``build_tree`` would have made with this ``max_depth``.
        """
        if max_depth < 1:
            raise InputError(f"max_depth must be at least 1, but got {max_depth}.")
        if max_depth >= self.depth:
            return self
        kept = int(np.searchsorted(self.node_depth, max_depth))
        lowest = int(np.searchsorted(self.node_depth, max_depth - 1))
        cut = [~np.sort(self.labels[self.first[u] : self.last[u]]) for u in range(lowest, kept)]
        counts = np.concatenate([self.child_count[:lowest], [c.size for c in cut]])
        return LabelTree(
            _pointers(counts),
            np.concatenate([self.children[: self.child_ptr[lowest]], *cut]),
            self.build_bytes,
        )


def build_tree(
    dataset: Dataset,
    *,
    clusters: int = 100,
    max_depth: int = 6,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> LabelTree:
    """Build the label tree by recursive K-means on the label vectors, by cosine.

    A node is split until it has at most ``clusters`` labels or lies at depth ``max_depth - 1``; then its
    labels become its children. Labels without instances have no vector to cluster by: they form a child of
    the root of their own. Labels whose vectors are equal cannot be told apart, and are not split further.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    clusters : int, default 100
        Clusters that a node is split into (K).
    max_depth : int, default 6
        Largest depth of a label (d_max, the paper's counting). 1 is one-vs-rest.
    seed : int, default 0
        The same seed gives the same tree on any number of threads.
    threads : int, optional
        All usable processors unless given.
    progress : callable, optional
        Called now and then with the fraction that is done.

    Returns
    -------
    LabelTree
    """
    if clusters < 2:
        raise InputError(f"clusters must be at least 2, but got {clusters}.")
    if max_depth < 1:
        raise InputError(f"max_depth must be at least 1, but got {max_depth}; 1 is one-vs-rest.")
    if seed < 0:
        raise InputError(f"seed must be 0 or greater, but got {seed}.")
    threads = threads_to_use(threads)
    instances = np.diff(dataset.by_label[0])
    order = np.argsort(instances == 0, kind="stable").astype(np.int32)
    known = int(np.count_nonzero(instances))  # labels without instances stand behind these
    vectors: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]] | None = None

    counts: list[int] = []
    children: list[NDArray[np.int32]] = []
    level = [(0, dataset.labels)]  # the nodes of a depth, as ranges of order
    for depth in range(max_depth):
        ends = [min(b, known) for _, b in level]
        chosen = [k for k, (a, _) in enumerate(level) if depth < max_depth - 1 and ends[k] - a > clusters]
        split: dict[int, list[tuple[int, int]]] = {}
        if chosen:
            if vectors is None:
                vectors = _native.label_vectors(
                    *csr_arrays(dataset.X), dataset.features, *dataset.by_label, threads
                )
            cluster = _native.cluster_level(
                *vectors,
                dataset.features,
                order,
                np.array([level[k][0] for k in chosen], np.int64),
                np.array([ends[k] for k in chosen], np.int64),
                np.array([len(counts) + k for k in chosen], np.int64),
                clusters,
                MAX_KMEANS_ITERATIONS,
                LEAST_MOVED,
                seed,
                threads,
                _of_level(progress, depth),
            )
            for k in chosen:
                split[k] = _gather(order, cluster, level[k][0], ends[k])
        below: list[tuple[int, int]] = []
        first_below = len(counts) + len(level)
        for k, (a, b) in enumerate(level):
            parts = split.get(k, [])
            if depth == 0 and max_depth > 1 and 0 < known < b:
                # Labels without instances: a child of their own.
                parts = [*(parts or [(p, p + 1) for p in range(known)]), (known, b)]
            if len(parts) < 2:
                counts.append(b - a)
                children.append(~np.sort(order[a:b]))
                continue
            counts.append(len(parts))
            row = np.empty(len(parts), np.int32)
            for c, (start, end) in enumerate(parts):
                if end - start == 1:
                    row[c] = ~order[start]
                else:
                    row[c] = first_below + len(below)
                    below.append((start, end))
            children.append(row)
        level = below
        if not level:
            break
    centroids = 4 * (clusters + 8) * dataset.features if vectors else 0
    scratch = sum(array.nbytes for array in vectors or ()) + centroids
    return LabelTree(_pointers(counts), np.concatenate(children), scratch)


def _of_level(progress: Progress | None, depth: int) -> Progress | None:
    """How deep the tree will go is not known: each level is taken for half of what is left."""
    return progress and (lambda done: progress(1 - 0.5 ** (depth + done)))


def _gather(order: NDArray[np.int32], cluster: NDArray[np.int32], a: int, b: int) -> list[tuple[int, int]]:
    """Bring the labels of each cluster of order[a:b] together; return the ranges, without empty clusters."""
    by_cluster = np.argsort(cluster[a:b], kind="stable")
    order[a:b] = order[a:b][by_cluster]
    edges = a + np.flatnonzero(np.diff(cluster[a:b][by_cluster])) + 1
    bounds = [a, *edges.tolist(), b]
    return list(pairwise(bounds))


def _label(child: Any, numbers: dict[str, int] | None) -> int:
    """Number of a label in a nested tree, which is written as its name where labels have names."""
    whole = isinstance(child, (int, np.integer)) and not isinstance(child, bool)
    if numbers is None:
        if whole and 0 <= child < 2**31 - 1:
            return int(child)
        raise InputError(f"A tree holds lists and label numbers from 0, but got {child!r}.")
    if (whole or isinstance(child, str)) and str(child) in numbers:
        return numbers[str(child)]
    raise InputError(f"The given tree holds {child!r}, but the data has no label of that name.")


def _pointers(counts: Any) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
