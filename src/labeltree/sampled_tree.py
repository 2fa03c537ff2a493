"""A sampled tree: a random sample of the nodes of each depth is split, and stands for the others.

The features that nodes use are counted exactly. A node with F features and m labels has a block in proportion
to F, and blocks below it nearly in proportion to F (m - K), since each of its K clusters has one label at
least; or to F K sqrt(m), if they are split again. The nodes that are split show both factors, and how much
they vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from labeltree import _native
from labeltree.clustering import Range, gather, grow_tree
from labeltree.codec import Layout
from labeltree.data import Dataset
from labeltree.rough_clusters import (
    SAMPLED_PER_CLUSTER,
    cluster_large_node,
    cluster_nodes,
    proportional,
    systematic,
)
from labeltree.settings import TreeSettings
from labeltree.tree import LabelTree, pointers

# Wide nodes of each depth that are split: their share of the non-zeros of all labels, and the least number.
SPLIT_SHARE = 0.08
FEWEST_SPLIT = 8
# The standard deviation of the size below the root between trees of the same data: trees of different seeds
# differ by 2%, and trees of rough clusters from those of K-means by somewhat more.
TREE_DEVIATION = 0.05
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class _Stage:
    """The wide nodes of one depth, with the probability of each to be among those that are split."""

    nodes: NDArray[np.int64]
    chance: NDArray[np.float64]
    split: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SampledTree:
    """A tree in which a random sample of the wide nodes is split, and what its nodes use.

    Attributes
    ----------
    tree : LabelTree
    instances, nonzeros, used_features : ndarray of int64
        As in `labeltree.plan.TreePlan`.
    stages : list
        The wide nodes of each depth from 1 on.
    """

    tree: LabelTree
    instances: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    used_features: NDArray[np.int64]
    stages: list[_Stage]

    @classmethod
    def grow(
        cls, data: Dataset, settings: TreeSettings, summed: NDArray[np.int64], threads: int
    ) -> SampledTree:
        """Split the root, and a sample of the nodes below; ``summed`` is the work for each label."""
        random = np.random.default_rng(settings.seed)
        count = np.diff(data.by_label[0])
        order = np.argsort(count == 0, kind="stable").astype(np.int32)
        known = int(np.count_nonzero(count))  # labels without instances come after these
        stages: list[_Stage] = []

        def split(depth: int, level: list[Range], n_before: int) -> dict[int, list[Range]]:
            if depth == 0:
                parts = _split_nodes(data, settings, order, [(0, known)], [0], random, threads)[0]
                return {0: [*parts, (known, order.size)] if known < order.size else parts}
            wide = [k for k, (a, b) in enumerate(level) if b - a > settings.clusters and a < known]
            if depth >= settings.max_depth - 1 or not wide:
                return {}
            starts, ends = np.array([level[k] for k in wide]).T
            entries = pointers(summed[order])
            n_entries = (entries[ends] - entries[starts]).astype(np.float64)
            chance = _chances((ends - starts).astype(np.float64), n_entries / entries[-1])
            chosen = systematic(chance, random)
            stages.append(_Stage(np.array(wide) + n_before, chance, chosen))
            nodes = [k for k, c in zip(wide, chosen, strict=True) if c]
            ranges = [level[k] for k in nodes]
            streams = [n_before + k for k in nodes]
            return dict(
                zip(nodes, _split_nodes(data, settings, order, ranges, streams, random, threads), strict=True)
            )

        tree = grow_tree(order, settings.max_depth, split)
        return cls(tree, *_native.used_features(data.native, tree.native, threads), stages)

    @property
    def unsplit(self) -> NDArray[np.int64]:
        """Wide nodes that are not split: their labels stand for a subtree."""
        return np.concatenate([np.zeros(0, np.int64), *[s.nodes[~s.split] for s in self.stages]])

    def tree_bytes(
        self, clusters: int, codec: str, bias: bool, n_features: int
    ) -> tuple[float, float, float]:
        """Return the size of the files of one tree, and bounds of it."""
        tree = self.tree
        layout = Layout.of(tree, codec, self.used_features, bias, n_features)
        own = layout.node_bytes().astype(np.float64)
        fixed = sum(spec.bytes for spec in layout.files().values()) - own.sum() + own[0]
        features = self.used_features + 1.0
        n_labels = tree.last - tree.first
        n_left = np.minimum(n_labels - clusters, clusters * np.sqrt(n_labels))
        measures = np.stack([features, features * np.maximum(n_left, 0)])
        weight = self._weights()
        below = np.zeros(tree.n_nodes)
        variance = 0.0
        for depth in range(tree.depth - 1, 0, -1):
            for stage in self.stages[depth - 1 : depth]:
                others = stage.nodes[~stage.split]
                if others.size:
                    factors, added = _estimate(stage, weight, measures, np.stack([own, below]))
                    own[others], below[others] = factors[:, None] * measures[:, others]
                    variance += added
            level = slice(tree.level_ptr[depth], tree.level_ptr[depth + 1])
            np.add.at(below, tree.parent[level], own[level] + below[level])
        deviation = special.ndtri((1 + CONFIDENCE) / 2) * TREE_DEVIATION * below[0]
        margin = np.hypot(np.sqrt(variance), deviation)
        size = fixed + below[0]
        return size, max(size - margin, fixed), size + margin

    def _weights(self) -> NDArray[np.float64]:
        """Return how many nodes each node stands for: one over the probability that its parent was split."""
        tree, weight = self.tree, np.ones(self.tree.n_nodes)
        for depth in range(1, tree.depth):
            level = slice(tree.level_ptr[depth], tree.level_ptr[depth + 1])
            inverse = np.ones(tree.n_nodes)
            for stage in self.stages[depth - 2 : depth - 1] if depth > 1 else []:
                inverse[stage.nodes] = 1 / stage.chance
            parent = tree.parent[level]
            weight[level] = weight[parent] * inverse[parent]
        return weight


def _estimate(
    stage: _Stage, weight: NDArray[np.float64], measures: NDArray[np.float64], sizes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the factors between measures and sizes, and the variance of the total, times t squared."""
    free = stage.split & (stage.chance < 1)
    sample = free if free.any() else stage.split
    nodes, chance = stage.nodes[sample], stage.chance[sample]
    stands_for = weight[nodes] / chance
    factors = (sizes[:, nodes] @ stands_for) / (measures[:, nodes] @ stands_for)
    error = (sizes[:, nodes] - factors[:, None] * measures[:, nodes]).sum(axis=0)
    freedom = max(nodes.size - 1, 1)
    squares = float((weight[nodes] * np.square(error / chance) * (1 - chance)).sum())
    quantile = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))
    return factors, quantile**2 * squares * nodes.size / freedom


def _split_nodes(
    data: Dataset,
    settings: TreeSettings,
    order: NDArray[np.int32],
    ranges: list[Range],
    streams: list[int],
    random: np.random.Generator,
    threads: int,
) -> list[list[Range]]:
    """Sort the labels of nodes by cluster; return the ranges of the clusters of each node."""
    found: dict[Range, list[Range]] = {}
    shared = settings.clusters, settings.seed, random, threads
    most = SAMPLED_PER_CLUSTER * settings.clusters
    small = [k for k, (a, b) in enumerate(ranges) if b - a <= most]
    for k, (a, b) in enumerate(ranges):
        if b - a > most:
            cluster = cluster_large_node(data, order[a:b], streams[k], *shared)
            found[a, b] = _sorted(order, cluster, a)
    if small:
        labels = np.concatenate([order[slice(*ranges[k])] for k in small])
        ends = pointers([ranges[k][1] - ranges[k][0] for k in small])
        cluster = cluster_nodes(data, labels, ends, np.array([streams[k] for k in small]), *shared)
        for k, (start, end) in zip(small, pairwise(ends.tolist()), strict=True):
            found[ranges[k]] = _sorted(order, cluster[start:end], ranges[k][0])
    return [found[r] for r in ranges]


def _sorted(order: NDArray[np.int32], cluster: NDArray[np.int32], start: int) -> list[Range]:
    """Sort the labels from ``start`` on by cluster, and return the ranges of the clusters."""
    parts = gather(order[start : start + cluster.size], cluster, 0, cluster.size)
    return [(start + a, start + b) for a, b in parts]


def _chances(sizes: NDArray[np.float64], work: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities in proportion to sizes, at most 1, such that the expected work is limited."""
    number = FEWEST_SPLIT
    chance = proportional(sizes, number)
    while number < sizes.size:
        more = proportional(sizes, number + 1)
        if more @ work > SPLIT_SHARE:
            break
        number, chance = number + 1, more
    return chance
