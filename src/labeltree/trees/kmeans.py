"""The label tree of the paper: recursive K-means on label vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.display import Progress
from labeltree.base.system import INTERPRETER_BYTES, human_bytes, threads_to_use, usable_memory
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.settings import SMALLER_MODEL, TreeSettings
from labeltree.trees.tree import LabelTree, pointers

# As good as K-means run to convergence, in a fraction of the time: with 10 or 20 iterations, P@k and sizes
# differ by less than between seeds. So they do if all iterations but the last one use the largest entries of
# each label vector only, with 95% of its squared length: 9% to 43% of the entries on the large datasets.
MAX_KMEANS_ITERATIONS = 10
MAIN_SHARE = 0.95
LEAST_MOVED = 0.005

# The labels of a node: a range of an array of labels.
Range: TypeAlias = tuple[int, int]


def build_tree(
    dataset: Dataset,
    *,
    clusters: int = TreeSettings.clusters,
    max_depth: int = TreeSettings.max_depth,
    seed: int = TreeSettings.seed,
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: Progress | None = None,
    vectors: LabelVectors | None = None,
) -> LabelTree:
    """Build the label tree by recursive K-means on the label vectors.

    A node is split until it has at most ``clusters`` labels or is at depth ``max_depth - 1``; then its labels
    become its children. Labels without instances have no vector to cluster by: they become a separate child
    of the root. Labels with equal vectors cannot be distinguished, and are not split further.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    clusters : int, default 100
        Number of clusters that a node is split into (K).
    max_depth : int, default 6
        Maximum depth of a label (d_max, counted as in the paper). 1 is one-vs-rest.
    seed : int, default 0
        The same seed gives the same tree with any number of threads.
    threads : int, optional
        Default: all CPUs.
    memory_limit : int, optional
        Bytes that this process may use, including the data. Default: what it uses plus what is available.
        If building the tree would need more, it is refused before it starts.
    progress : callable, optional
        Called periodically with the fraction of the work that is done.
    vectors : LabelVectors, optional
        The label vectors of this dataset, to share them between several trees. Default: computed, and freed
        afterwards.

    Returns
    -------
    LabelTree
    """
    limits.checked("clusters", clusters, limits.CLUSTERS)
    limits.checked("max_depth", max_depth, limits.MAX_DEPTH)
    limits.checked("seed", seed, limits.SEED)
    threads = threads_to_use(threads)
    vectors = vectors or LabelVectors(dataset)
    if vectors.dataset is not dataset:
        raise InputError("the label vectors belong to a different dataset")
    made: tuple[_native.SparseRows, int] | None = None
    spaces = _native.ClusteringSpaces()
    instances = np.diff(dataset.by_label[0])
    order = np.argsort(instances == 0, kind="stable").astype(np.int32)
    known = int(np.count_nonzero(instances))  # labels without instances come after these

    counts: list[int] = []  # children of each node
    children: list[NDArray[np.int32]] = []
    is_whole: list[bool] = []  # of each node: its labels are its children
    level: list[Range] = [(0, order.size)]
    for depth in range(max_depth):
        ends = [min(b, known) for _, b in level]
        chosen = [k for k, (a, _) in enumerate(level) if depth < max_depth - 1 and ends[k] - a > clusters]
        split: dict[int, list[Range]] = {}
        if chosen:
            made = made or vectors.make(clusters, threads, memory_limit)
            cluster = _native.cluster_level(
                made[0],
                labels=order,
                first=np.array([level[k][0] for k in chosen], np.int64),
                last=np.array([ends[k] for k in chosen], np.int64),
                streams=np.array(chosen, np.int64) + len(counts),
                clusters=clusters,
                max_iterations=MAX_KMEANS_ITERATIONS,
                least_moved=LEAST_MOVED,
                seed=seed,
                threads=threads,
                progress=_of_level(progress, depth),
                main_share=MAIN_SHARE,
                spaces=spaces,
            )
            split = {k: _gather(order, cluster, level[k][0], ends[k]) for k in chosen}
        if depth == 0 and max_depth > 1 and 0 < known < dataset.n_labels:
            # Labels without instances: a separate child.
            split[0] = [*split.get(0, [(p, p + 1) for p in range(known)]), (known, dataset.n_labels)]
        below: list[Range] = []
        first_below = len(counts) + len(level)
        for k, (a, b) in enumerate(level):
            parts = split.get(k, [])
            is_whole.append(len(parts) < 2)
            if is_whole[-1]:
                counts.append(b - a)
                children.append(order[a:b])
                continue
            counts.append(len(parts))
            inner = [part for part in parts if part[1] - part[0] > 1]
            row = ~order[[part[0] for part in parts]]
            row[np.diff(parts)[:, 0] > 1] = np.arange(len(inner)) + first_below + len(below)
            below += inner
            children.append(row)
        level = below
        if not level:
            break
    flat = np.concatenate(children)
    # The labels of these nodes, in ascending order: all nodes are sorted at once, which most are already.
    whole = np.repeat(is_whole, counts)
    keys = np.repeat(np.arange(len(counts)) * order.size, counts)[whole] + flat[whole]
    keys.sort(kind="stable")
    flat[whole] = ~(keys % order.size)
    tree = LabelTree(pointers(counts), flat)
    return replace(tree, build_bytes=made[1], centroid_bytes=centroid_bytes(clusters)) if made else tree


@dataclass(eq=False)
class LabelVectors:
    """The label vectors of a dataset (v_j), computed when a tree first needs them."""

    dataset: Dataset
    _ptr: NDArray[np.int64] | None = field(default=None, init=False, repr=False)
    _rows: _native.SparseRows | None = field(default=None, init=False, repr=False)

    def make(self, clusters: int, threads: int, memory_limit: int | None) -> tuple[_native.SparseRows, int]:
        """Return the vectors, one row per label, and the bytes that clustering takes with them.

        They are computed unless that was done before.
        """
        data = self.dataset
        if self._ptr is None:
            self._ptr = _native.count_label_vectors(data.native, threads)
        ptr = self._ptr
        scratch = clustering_bytes(data, int(ptr[-1]), clusters, threads)
        needed = INTERPRETER_BYTES + data.bytes + scratch
        memory = usable_memory() if memory_limit is None else memory_limit
        if needed > memory:
            raise ResourceError(
                f"building the tree needs {human_bytes(needed)} of memory, but only {human_bytes(memory)} "
                "can be used",
                hint=f"{SMALLER_MODEL} or fewer {{threads}}, pass a {{tree}}, or raise {{memory_limit}}",
            )
        if self._rows is None:
            index, value = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
            _native.label_vectors(data.native, ptr, index, value, threads)
            self._rows = _native.SparseRows(ptr, index, value, data.n_features)
        return self._rows, scratch


def centroid_bytes(clusters: int) -> int:
    """Return the bytes of one feature of a node that is clustered."""
    # A row of centroids, padded to whole vectors; and the feature's number in its node.
    return _native.CENTROID_BYTES * (clusters + 16) + 4


def clustering_bytes(data: Dataset, nonzeros: int, clusters: int, threads: int) -> int:
    """Return the memory that clustering takes at most, including label vectors with this many non-zeros."""
    centroids = min(threads, _native.MOST_MATRICES) * data.n_features * centroid_bytes(clusters)
    # Distances between the labels of a node; the nodes of a depth have no labels in common.
    seeded = min(data.n_labels, _native.SEEDED_PER_CLUSTER * clusters, _native.MAX_SEEDED)
    distances = 4 * seeded * min(threads * seeded, data.n_labels)
    copied = min(8 * nonzeros, threads * _native.MAX_COPIED_BYTES)  # renumbered entries of the vectors
    # Where vectors begin, how much of each is used and copied, clusters before and after, and distances.
    label_bytes = 48 * (data.n_labels + 1)
    summing = 16 * threads * data.n_features  # a vector, and the place of each feature in it
    return 8 * nonzeros + label_bytes + max(centroids + distances + copied, summing)


def _of_level(progress: Progress | None, depth: int) -> Progress | None:
    """Count each level as half of the remaining work, since the depth of the tree is not known yet."""
    return progress and (lambda done: progress(1 - 0.5 ** (depth + done)))


def _gather(order: NDArray[np.int32], cluster: NDArray[np.int32], a: int, b: int) -> list[Range]:
    """Sort order[a:b] by cluster, and return the ranges of the clusters that are not empty."""
    mine = cluster[a:b]
    if mine.max() < 2**15:
        mine = mine.astype(np.int16)  # which NumPy sorts much faster
    by_cluster = np.argsort(mine, kind="stable")
    order[a:b] = order[a:b][by_cluster]
    edges = a + np.flatnonzero(np.diff(mine[by_cluster])) + 1
    bounds = [a, *edges.tolist(), b]
    return list(pairwise(bounds))
