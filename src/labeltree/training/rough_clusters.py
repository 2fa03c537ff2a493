"""Rough clusters: splits the nodes of a tree nearly as K-means would, in a fraction of its time.

Labels have short vectors (`native/rough_vectors.h`). In a large node, the iterations of K-means use random
batches of the labels, and all labels are assigned once (`native/rough_clusters.cpp`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data.dataset import Dataset
from labeltree.settings import TreeSettings
from labeltree.trees.kmeans import LEAST_MOVED, Range, gather

# Small entries of instances and of label vectors are not used: those with a square of less than a quarter of
# what it would be if this many were equal.
ENTRIES_PER_INSTANCE = 40
ENTRIES_PER_LABEL = 108
# A label is described by at most so many instances.
INSTANCES_PER_LABEL = 16
# A node with more labels per cluster is split with random batches of them.
MOST_PER_CLUSTER = 5
BATCHES = 4
# The labels of a batch: the least number per cluster, the least share of all labels, and how many times as
# large the last batch is. Features that the last batch does not have do not matter.
BATCH_PER_CLUSTER = 10
BATCH_SHARE = 0.04
LAST_BATCH = 4
# Iterations of K-means in other nodes.
ITERATIONS = 3


@dataclass(frozen=True, eq=False)
class RoughClusters:
    """Splits nodes by rough vectors of their labels."""

    native: _native.RoughClusters
    settings: TreeSettings

    @classmethod
    def of(cls, data: Dataset, settings: TreeSettings, threads: int) -> RoughClusters:
        """Prepare the vectors of all labels."""
        sizes = INSTANCES_PER_LABEL, ENTRIES_PER_INSTANCE, ENTRIES_PER_LABEL
        scale = 1.0 if data.normalized else _power_of_two(data)
        return cls(_native.RoughClusters(data.native, *sizes, settings.seed, threads, scale), settings)

    def split(self, order: NDArray[np.int32], nodes: list[Range], streams: list[int]) -> list[list[Range]]:
        """Sort the labels of nodes, ranges of ``order``, by cluster; return the ranges of the clusters."""
        first, last = np.array(nodes, np.int64).T.copy()
        cluster = self.native.split(
            order,
            first,
            last,
            np.array(streams, np.int64),
            self.settings.clusters,
            ITERATIONS,
            LEAST_MOVED,
            self.settings.seed,
            (BATCHES, MOST_PER_CLUSTER, BATCH_PER_CLUSTER, BATCH_SHARE, LAST_BATCH),
        )
        return [gather(order, cluster, *node) for node in nodes]


def _power_of_two(data: Dataset) -> float:
    """Return a factor that makes the largest value nearly 1."""
    largest = max(float(data.X.data.max(initial=0)), -float(data.X.data.min(initial=0)))
    return 2.0 ** float(np.clip(-np.frexp(largest)[1], -126, 126)) if largest else 1.0
