"""Builds the label tree of the paper: recursive K-means on label vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.progress import Progress
from labeltree.system import INTERPRETER_BYTES, human_bytes, threads_to_use, usable_memory
from labeltree.tree import LabelTree, pointers

# What the prototype taught: as good as K-means run to convergence, several times sooner.
MAX_KMEANS_ITERATIONS = 20
LEAST_MOVED = 0.005
# Centroids of so many roots are held at a time, at most (native/kmeans.cpp).
MOST_MATRICES = 4


def build_tree(
    dataset: Dataset,
    *,
    clusters: int = 100,
    max_depth: int = 6,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: Progress | None = None,
    vectors: LabelVectors | None = None,
) -> LabelTree:
    """Build the label tree by recursive K-means on the label vectors.

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
    memory_limit : int, optional
        Bytes that this process may take, the data included; by default what it has and what is left. More is
        refused before it is taken.
    progress : callable, optional
        Called now and then with the fraction that is done.
    vectors : LabelVectors, optional
        Of this data set, to be shared between several trees; made and dropped unless given.

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
    vectors = vectors or LabelVectors(dataset)
    if vectors.dataset is not dataset:
        raise InputError("got label vectors of other data, expected those of the data set; pass its own")
    made: tuple[_native.SparseRows, int] | None = None
    instances = np.diff(dataset.by_label[0])
    order = np.argsort(instances == 0, kind="stable").astype(np.int32)
    known = int(np.count_nonzero(instances))  # labels without instances stand behind these

    counts: list[int] = []
    children: list[NDArray[np.int32]] = []
    level = [(0, dataset.n_labels)]  # the nodes of a depth, as ranges of order
    for depth in range(max_depth):
        ends = [min(b, known) for _, b in level]
        chosen = [k for k, (a, _) in enumerate(level) if depth < max_depth - 1 and ends[k] - a > clusters]
        split: dict[int, list[tuple[int, int]]] = {}
        if chosen:
            if made is None:
                made = vectors.make(clusters, threads, memory_limit)
            cluster = _native.cluster_level(
                made[0],
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
    return LabelTree(pointers(counts), np.concatenate(children), made[1] if made else 0)


@dataclass(eq=False)
class LabelVectors:
    """The label vectors of a data set (v_j), made when a tree first needs them.

    Parameters
    ----------
    dataset : Dataset
    """

    dataset: Dataset
    _ptr: NDArray[np.int64] | None = field(default=None, init=False, repr=False)
    _rows: _native.SparseRows | None = field(default=None, init=False, repr=False)

    def make(self, clusters: int, threads: int, memory_limit: int | None) -> tuple[_native.SparseRows, int]:
        """Make them unless they are there.

        Returns
        -------
        vectors : SparseRows
            One row per label, as the kernels take it.
        scratch : int
            Memory that clustering takes, they themselves included.
        """
        data = self.dataset
        if self._ptr is None:
            self._ptr = _native.count_label_vectors(data.native, threads)
        ptr = self._ptr
        centroids = min(threads, MOST_MATRICES) * data.n_features * (6 * (clusters + 16) + 4)
        scratch = 8 * int(ptr[-1]) + ptr.nbytes + max(centroids, 8 * threads * data.n_features)
        needed = INTERPRETER_BYTES + data.bytes + scratch
        memory = usable_memory() if memory_limit is None else memory_limit
        if needed > memory:
            raise ResourceError(
                f"Building the tree needs {human_bytes(needed)} of memory, but there are "
                f"{human_bytes(memory)}; "
                "use fewer --clusters or --threads, give a --tree, or raise --memory-limit."
            )
        if self._rows is None:
            index, value = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
            _native.label_vectors(data.native, ptr, index, value, threads)
            self._rows = _native.SparseRows(ptr, index, value, data.n_features)
        return self._rows, scratch


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
