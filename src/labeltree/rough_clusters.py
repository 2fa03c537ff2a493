"""Rough clusters: splits the nodes of a tree nearly as K-means would, in a fraction of its time.

Labels have short vectors (`native/rough_vectors.cpp`). In a large node, K-means of a random sample of the
labels gives the first centroids; then more labels are assigned to them, and finally all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.clustering import LEAST_MOVED, Range, gather
from labeltree.data import Dataset
from labeltree.settings import TreeSettings

# Only so many of the largest entries of instances and of label vectors are used.
ENTRIES_PER_INSTANCE = 40
ENTRIES_PER_LABEL = 72
# A label is described by at most so many instances.
INSTANCES_PER_LABEL = 24
# A node with more labels per cluster is split with a sample of them, which is this share of all if that is
# more. It is clustered first; then a larger share takes part in computing the centroids.
SAMPLED_PER_CLUSTER = 20
SAMPLED_SHARE, SECOND_SHARE = 0.05, 0.2
ITERATIONS = 5


@dataclass(frozen=True, eq=False)
class RoughClusters:
    """Splits nodes by rough vectors of their labels."""

    vectors: _native.SparseRows
    settings: TreeSettings
    threads: int

    @classmethod
    def of(cls, data: Dataset, settings: TreeSettings, threads: int) -> RoughClusters:
        """Compute the vectors of all labels."""
        # The size of a tree of depth 2 depends most on the largest clusters, which short vectors change.
        is_deep = settings.max_depth > 2
        entries = (ENTRIES_PER_INSTANCE, ENTRIES_PER_LABEL) if is_deep else (data.n_features,) * 2
        rows = _native.rough_vectors(data.native, INSTANCES_PER_LABEL, *entries, settings.seed, threads)
        return cls(_native.SparseRows(*rows, data.n_features), settings, threads)

    def split(
        self, order: NDArray[np.int32], nodes: list[Range], streams: list[int], random: np.random.Generator
    ) -> list[list[Range]]:
        """Sort the labels of nodes, ranges of ``order``, by cluster; return the ranges of the clusters."""
        cluster = np.zeros(order.size, np.int32)
        most = SAMPLED_PER_CLUSTER * self.settings.clusters
        small = [k for k, (a, b) in enumerate(nodes) if b - a <= most]
        for k, (a, b) in enumerate(nodes):
            if b - a > most:
                random.shuffle(order[a:b])
                cluster[a:b] = self._cluster_large(order[a:b], streams[k])
        if small:
            found = self._kmeans(order, [nodes[k] for k in small], [streams[k] for k in small], ITERATIONS)
            cluster = np.where(found < 0, cluster, found)
        return [gather(order, cluster, *node) for node in nodes]

    def _cluster_large(self, labels: NDArray[np.int32], stream: int) -> NDArray[np.int32]:
        """Return the cluster of each label of a node, in random order."""
        n = labels.size
        first = min(n, max(SAMPLED_PER_CLUSTER * self.settings.clusters, int(SAMPLED_SHARE * n)))
        sizes = sorted({first, max(first, int(SECOND_SHARE * n)), n})
        cluster = self._kmeans(labels[:first], [(0, first)], [stream], ITERATIONS)
        for before, size in pairwise(sizes):
            given = np.append(cluster, np.full(size - before, -1, np.int32))
            cluster = self._kmeans(labels[:size], [(0, size)], [stream], 1, given)
        return cluster

    def _kmeans(
        self,
        labels: NDArray[np.int32],
        nodes: list[Range],
        streams: list[int],
        iterations: int,
        given: NDArray[np.int32] | None = None,
    ) -> NDArray[np.int32]:
        first, last = np.array(nodes, np.int64).T.copy()
        return _native.cluster_level(
            self.vectors,
            labels,
            first,
            last,
            np.array(streams, np.int64),
            self.settings.clusters,
            iterations,
            LEAST_MOVED,
            self.settings.seed,
            self.threads,
            None,
            given,
        )
