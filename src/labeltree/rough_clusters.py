"""Rough clusters: splits the nodes of a tree nearly as K-means would, in a fraction of its time.

K-means of many labels takes long because every iteration compares every label with every centroid. Here,
K-means of a random sample of the labels gives the first centroids; then more labels are assigned to them, and
finally all (`native/rough_clusters.cpp`). Few instances of each label are used, and instances with many
entries are thinned at random such that sums over them stay unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native
from labeltree.clustering import LEAST_MOVED, MAX_KMEANS_ITERATIONS
from labeltree.data import Dataset, csr_arrays, wrap_csr
from labeltree.tree import pointers

# A label is described by at most so many of its instances, which have so many entries on average.
INSTANCES_PER_LABEL = 30
ENTRIES_PER_INSTANCE = 64
# A node with more labels per cluster is split with a sample of them, which is this share of all if that is
# more. It is clustered first; then a larger share takes part in computing the centroids.
SAMPLED_PER_CLUSTER = 20
SAMPLED_SHARE, SECOND_SHARE = 0.1, 0.35
SAMPLED_ITERATIONS = 10
# Smaller entries of label vectors are left out in K-means.
LEAST_ENTRY = 0.005
# Entries that are thinned at a time, so that they stay in the cache.
CHUNK = 1 << 18


def proportional(sizes: NDArray[np.floating], number: float) -> NDArray[np.float64]:
    """Return probabilities in proportion to sizes, at most 1, whose sum is ``number`` if possible."""
    if number >= sizes.size:
        return np.ones(sizes.size)
    certain = np.zeros(sizes.size, bool)
    while True:
        rest = np.where(certain, 0.0, sizes)
        chance = np.where(certain, 1.0, (number - certain.sum()) * rest / rest.sum())
        if not (chance > 1).any():
            return chance
        certain |= chance >= 1


def systematic(chance: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.bool_]:
    """Choose each element with its probability; the number of chosen ones varies by less than 1."""
    shuffled = random.permutation(chance.size)
    ends = np.cumsum(chance[shuffled]) + random.random()
    chosen = np.zeros(chance.size, bool)
    chosen[shuffled] = np.diff(np.floor(ends + 1e-9), prepend=np.floor(ends[:1] - chance[shuffled][:1])) > 0
    return chosen


def thinned(X: sparse.csr_matrix, entries: float, random: np.random.Generator) -> sparse.csr_matrix:
    """Return a matrix with so many entries per row on average, whose expectation is X.

    An entry x becomes c with the probability x / c, otherwise 0; entries larger than c stay.
    """
    if X.nnz <= entries * X.shape[0]:
        return X
    some = np.abs(random.choice(X.data, min(X.nnz, 10_000)))
    chance = proportional(some, entries * X.shape[0] / X.nnz * some.size)
    small = chance.argmin()
    limit = np.float32(some[small] / chance[small])
    kept: list[NDArray[np.int64]] = []
    for first in range(0, X.nnz, CHUNK):
        values = np.abs(X.data[first : first + CHUNK])
        kept.append(first + np.flatnonzero(values >= limit * random.random(values.size, np.float32)))
    places = np.concatenate(kept)
    data = X.data[places]
    data = np.where(np.abs(data) < limit, np.copysign(limit, data), data)
    return wrap_csr(data, X.indices[places], np.searchsorted(places, X.indptr), X.shape)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Some instances of labels: those of the k-th are the rows ``members[ptr[k]:ptr[k + 1]]`` of X."""

    X: sparse.csr_matrix
    ptr: NDArray[np.int64]
    members: NDArray[np.int32]

    @classmethod
    def of(cls, data: Dataset, labels: NDArray[np.int32], random: np.random.Generator) -> _Chosen:
        """Choose instances of labels: evenly spaced ones, from a random start."""
        ptr, instances = data.by_label
        count = (ptr[1:] - ptr[:-1])[labels]
        taken = np.minimum(count, INSTANCES_PER_LABEL)
        start = pointers(taken)
        number = np.arange(start[-1]) - np.repeat(start[:-1], taken)
        step = count / np.maximum(taken, 1)
        place = (number + np.repeat(random.random(count.size), taken)) * np.repeat(step, taken)
        return cls(data.X, start, instances[np.repeat(ptr[labels], taken) + place.astype(np.int64)])

    def of_labels(self, labels: NDArray[np.int32]) -> _Chosen:
        """Return those of some of the labels."""
        count = np.diff(self.ptr)[labels]
        start = pointers(count)
        place = np.arange(start[-1]) + np.repeat(self.ptr[labels] - start[:-1], count)
        return _Chosen(self.X, start, self.members[place])

    def compact(self, random: np.random.Generator) -> _Chosen:
        """Return the same with thinned rows, without the rows and columns that no label needs."""
        needed = np.zeros(self.X.shape[0], bool)
        needed[self.members] = True
        rows = np.cumsum(needed, dtype=np.int32) - 1
        X = thinned(self.X[np.flatnonzero(needed)], ENTRIES_PER_INSTANCE, random)
        occurs = np.zeros(X.shape[1], bool)
        occurs[X.indices] = True
        columns = np.cumsum(occurs, dtype=np.int32) - 1
        shape = X.shape[0], max(1, int(np.count_nonzero(occurs)))
        return _Chosen(wrap_csr(X.data, columns[X.indices], X.indptr, shape), self.ptr, rows[self.members])

    @property
    def native(self) -> _native.TrainingData:
        """The arrays as the kernels take them."""
        return _native.TrainingData(*csr_arrays(self.X), self.X.shape[1], self.ptr, self.members)

    def vectors(self, least: float, threads: int) -> sparse.csr_matrix:
        """Return the label vectors without entries that are smaller."""
        native = self.native
        ends = _native.count_label_vectors(native, threads)
        index, value = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
        _native.label_vectors(native, ends, index, value, threads)
        if least > 0:
            kept = np.flatnonzero(np.abs(value) >= least)
            index, value, ends = index[kept], value[kept], np.searchsorted(kept, ends)
        return wrap_csr(value, index, ends, (self.ptr.size - 1, self.X.shape[1]))


def cluster_nodes(
    data: Dataset,
    labels: NDArray[np.int32],
    ends: NDArray[np.int64],
    streams: NDArray[np.int64],
    clusters: int,
    seed: int,
    random: np.random.Generator,
    threads: int,
) -> NDArray[np.int32]:
    """Return the cluster of each label of some nodes; node u has ``labels[ends[u]:ends[u + 1]]``."""
    vectors = _Chosen.of(data, labels, random).vectors(LEAST_ENTRY, threads)
    return _kmeans(vectors, ends, streams, clusters, MAX_KMEANS_ITERATIONS, seed, threads)


def cluster_large_node(
    data: Dataset,
    labels: NDArray[np.int32],
    stream: int,
    clusters: int,
    seed: int,
    random: np.random.Generator,
    threads: int,
) -> NDArray[np.int32]:
    """Return the cluster of each label of a node with many labels."""
    chosen = _Chosen.of(data, labels, random).compact(random)
    n_labels = labels.size
    n_sampled = min(n_labels, max(SAMPLED_PER_CLUSTER * clusters, int(SAMPLED_SHARE * n_labels)))
    order = random.permutation(n_labels).astype(np.int32)
    vectors = chosen.of_labels(order[:n_sampled]).vectors(LEAST_ENTRY, threads)
    whole, streams = np.array([0, n_sampled]), np.array([stream])
    first = _kmeans(vectors, whole, streams, clusters, SAMPLED_ITERATIONS, seed, threads)
    ends = np.array([max(n_sampled, int(SECOND_SHARE * n_labels)), n_labels])
    return _native.rough_clusters(chosen.native, order, first, ends, clusters, threads)


def _kmeans(
    vectors: sparse.csr_matrix,
    ends: NDArray[np.int64],
    streams: NDArray[np.int64],
    clusters: int,
    iterations: int,
    seed: int,
    threads: int,
) -> NDArray[np.int32]:
    rows = _native.SparseRows(
        vectors.indptr.astype(np.int64), vectors.indices, vectors.data, vectors.shape[1]
    )
    labels = np.arange(vectors.shape[0], dtype=np.int32)
    return _native.cluster_level(
        rows,
        labels,
        ends[:-1].copy(),
        ends[1:].copy(),
        streams,
        clusters,
        iterations,
        LEAST_MOVED,
        seed,
        threads,
        None,
    )
