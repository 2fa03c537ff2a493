"""Rough clusters: splits the nodes of a tree nearly as K-means would, in a fraction of its time.

Labels have short vectors (`native/rough_vectors.cpp`). In a large node, the iterations of K-means use random
batches of the labels, and all labels are assigned once (`native/batch_clustering.h`).
"""

from __future__ import annotations

from dataclasses import dataclass

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
INSTANCES_PER_LABEL = 16
# A node with more labels per cluster is split with random batches of them: their number, the least number of
# labels per cluster, and the share of all labels that is in a batch, and in the last one. Features that the
# last batch does not have do not matter, so it is larger.
BATCHES = 5
BATCH_PER_CLUSTER = 10
BATCH_SHARE, LAST_SHARE = 0.05, 0.2
# Iterations of K-means in other nodes.
ITERATIONS = 3


@dataclass(frozen=True, eq=False)
class RoughClusters:
    """Splits nodes by rough vectors of their labels."""

    vectors: _native.SparseRows
    settings: TreeSettings
    threads: int

    @classmethod
    def of(cls, data: Dataset, settings: TreeSettings, threads: int) -> RoughClusters:
        """Compute the vectors of all labels."""
        sizes = INSTANCES_PER_LABEL, ENTRIES_PER_INSTANCE, ENTRIES_PER_LABEL
        rows = _native.rough_vectors(data.native, *sizes, settings.seed, threads)
        return cls(_native.SparseRows(*rows, data.n_features + 1), settings, threads)

    def split(self, order: NDArray[np.int32], nodes: list[Range], streams: list[int]) -> list[list[Range]]:
        """Sort the labels of nodes, ranges of ``order``, by cluster; return the ranges of the clusters."""
        first, last = np.array(nodes, np.int64).T.copy()
        cluster = _native.cluster_level(
            self.vectors,
            order,
            first,
            last,
            np.array(streams, np.int64),
            self.settings.clusters,
            ITERATIONS,
            LEAST_MOVED,
            self.settings.seed,
            self.threads,
            None,
            (BATCHES, BATCH_PER_CLUSTER, BATCH_SHARE, LAST_SHARE),
        )
        return [gather(order, cluster, *node) for node in nodes]
