"""A sampled tree: a random sample of the nodes of each depth is examined, and stands for the others.

The features of wide nodes, which have more labels than clusters, are counted, and some are split. A
node with F features and m labels has a block in proportion to F, and blocks below it nearly in proportion to
F (m - K), since each of its K clusters has one label at least; or to F K sqrt(m), if they are split again.
Of the other nodes, the features of some are counted; they are nearly in proportion to the square root of the
non-zeros of their labels. The examined nodes show these factors, and how much they vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from labeltree import _native
from labeltree.data.dataset import Dataset
from labeltree.model.layout import Layout
from labeltree.settings import TreeSettings
from labeltree.training.rough_clusters import RoughClusters
from labeltree.training.sampling import proportional, systematic
from labeltree.trees.kmeans import Range, grow_tree
from labeltree.trees.tree import LabelTree, pointers

# Nodes of each depth that are examined: their share of the non-zeros of all labels, and the least number; for
# nodes that are split, and for the others. The least number is for 100 clusters, at depth 1; trees with fewer
# clusters have more nodes, and half as many are examined at the depths below.
SHARE = 0.03, 0.06
FEWEST = 12, 24
# Trees of rough clusters differ in size from those of K-means: on eight datasets by -7% to 10%, and by 0% on
# average. The standard deviation is 5.2% between datasets, and up to 5% between estimates for one dataset;
# both have a margin here, because eight datasets are few.
TREE_DEVIATION = 0.09
CONFIDENCE = 0.95


# Features of more than twice as many instances are estimated from half of them, and of more than eight times
# as many from a quarter. On five datasets, the error by halves was at most 1% on average, with a standard
# deviation of 1 to 6% between nodes.
MOST_COUNTED = 2000


def used_features(
    data: Dataset,
    labels: NDArray[np.int32],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    threads: int,
) -> NDArray[np.int64]:
    """Return the instances, non-zeros and features, nearly, of ``labels[first[u]:last[u]]`` for every u."""
    return np.stack(_native.used_features_of(data.native, labels, first, last, MOST_COUNTED, threads))


@dataclass(frozen=True, eq=False)
class _Stage:
    """Nodes of one depth, with the probability of each to be among those that are examined.

    Attributes
    ----------
    depth : int
    is_wide : bool
        Whether they are split.
    nodes : ndarray of int64
    weight : ndarray of float64
        How many nodes each stands for: one over the probability that all of its ancestors are examined.
    chance : ndarray of float64
    chosen : ndarray of bool
    features : ndarray of float64
        The features that each uses, if they are split; otherwise in proportion to these, nearly.
    measures : ndarray of float64, 2 x nodes
        In proportion to the size of a node, and of all below it.
    """

    depth: int
    is_wide: bool
    nodes: NDArray[np.int64]
    weight: NDArray[np.float64]
    chance: NDArray[np.float64]
    chosen: NDArray[np.bool_]
    features: NDArray[np.float64]
    measures: NDArray[np.float64]

    def factors(self, sizes: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the factors between measures and sizes, and the variance of the total, times t squared."""
        free = self.chosen & (self.chance < 1)
        sample = free if free.any() else self.chosen
        chance, weight, measures = self.chance[sample], self.weight[sample], self.measures[:, sample]
        sizes = sizes[:, self.nodes[sample]]
        stands_for = weight / chance
        factors = (sizes @ stands_for) / np.maximum(measures @ stands_for, 1e-300)
        error = (sizes - factors[:, None] * measures).sum(axis=0)
        freedom = max(chance.size - 1, 1)
        squares = float((np.square(weight * error / chance) * (1 - chance)).sum())
        quantile = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))
        return factors, quantile**2 * squares * chance.size / freedom


@dataclass(frozen=True, eq=False)
class SampledTree:
    """A tree of which a random sample of the nodes is examined, and what these use.

    Attributes
    ----------
    tree : LabelTree
        Wide nodes that are not examined have their labels as children.
    children : ndarray of int64
        Children of each node, also of those.
    usage : ndarray of int64, 3 x nodes
        Instances, non-zeros and used features of each node, as in `labeltree.plan.TreePlan`; estimated for
        nodes whose features are not counted.
    stages : list
    """

    tree: LabelTree
    children: NDArray[np.int64]
    usage: NDArray[np.int64]
    stages: list[_Stage]

    @classmethod
    def grow(
        cls, data: Dataset, settings: TreeSettings, summed: NDArray[np.int64], threads: int
    ) -> SampledTree:
        """Split the root, and a sample of the nodes below; ``summed`` is the work for each label."""
        random = np.random.default_rng(settings.seed)
        clusters = RoughClusters.of(data, settings, threads)
        count = np.diff(data.by_label[0])
        order = np.argsort(count == 0, kind="stable").astype(np.int32)
        known = int(np.count_nonzero(count))  # labels without instances come after these
        stages: list[_Stage] = []
        counted: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # nodes, and what they use
        # The split nodes of the depth above: where their labels begin, how many nodes a child stands for.
        above = np.zeros(1, np.int64), np.ones(1)

        def split(depth: int, level: list[Range], n_before: int) -> dict[int, list[Range]]:
            nonlocal above
            if depth == 0:
                parts = clusters.split(order[:known], [(0, known)], [0])[0]
                return {0: [*parts, (known, order.size)] if known < order.size else parts}
            starts, ends = np.array(level).T
            weight = above[1][np.searchsorted(above[0], starts, side="right") - 1]
            entries = pointers(summed[order])
            n_entries = (entries[ends] - entries[starts]).astype(np.float64)
            wide = ends - starts > settings.clusters
            split_nodes: list[int] = []
            for is_wide, share, fewest in zip((True, False), SHARE, FEWEST, strict=True):
                nodes = np.flatnonzero((wide == is_wide) & (starts < known))
                if not nodes.size:
                    continue
                n_labels = (ends - starts)[nodes].astype(np.float64)
                if is_wide:
                    counts = used_features(data, order, starts[nodes], ends[nodes], threads)
                    counted.append((nodes + n_before, counts))
                    if depth == settings.max_depth - 1:
                        continue
                    features = counts[2].astype(np.float64) + 1
                    below = np.minimum(n_labels - settings.clusters, settings.clusters * np.sqrt(n_labels))
                    measures = features * np.stack([np.full(nodes.size, settings.clusters), below])
                else:
                    features = np.sqrt(n_entries[nodes] + 1.0)
                    measures = features * np.stack([n_labels, 0 * n_labels])
                # For the least variance in a given time, a node is chosen in proportion to its size over the
                # square root of its work.
                sizes = weight[nodes] * measures.sum(axis=0) / np.sqrt(n_entries[nodes] + 1)
                number = int(fewest * max(1.0, 100 / settings.clusters)) // min(depth, 2)
                chance = _chances(sizes, n_entries[nodes] / entries[-1], share, number)
                chosen = systematic(chance, random, n_labels)
                stages.append(
                    _Stage(
                        depth, is_wide, nodes + n_before, weight[nodes], chance, chosen, features, measures
                    )
                )
                if is_wide:
                    split_nodes = nodes[chosen].tolist()
                    above = starts[nodes[chosen]], weight[nodes[chosen]] / chance[chosen]
            if not split_nodes:
                return {}
            parts_of = clusters.split(
                order, [level[k] for k in split_nodes], [n_before + k for k in split_nodes]
            )
            return dict(zip(split_nodes, parts_of, strict=True))

        tree = grow_tree(order, settings.max_depth, split)
        children = tree.child_count.copy()
        usage = np.zeros((3, tree.n_nodes), np.int64)
        usage[:, 0] = data.n_instances, data.X.nnz, _native.count_features(data.native, threads)
        for stage in stages:
            others = stage.nodes[~stage.chosen]
            if stage.is_wide:
                children[others] = settings.clusters
                continue
            nodes = stage.nodes[stage.chosen]
            ranges = tree.first[nodes], tree.last[nodes]
            usage[:, nodes] = used_features(data, tree.labels, *ranges, threads)
            measures = np.square(stage.features) ** np.array([[1.0], [1.0], [0.5]])
            factors = usage[:, nodes].sum(axis=1) / measures[:, stage.chosen].sum(axis=1)
            usage[:, others] = factors[:, None] * measures[:, ~stage.chosen]
        for nodes, counts in counted:
            usage[:, nodes] = counts
        return cls(tree, children, usage, stages)

    def tree_bytes(self, codec: str, bias: bool, n_features: int) -> tuple[float, float, float]:
        """Return the size of the files of one tree, and bounds of it."""
        tree = self.tree
        layout = Layout.of(tree, codec, self.usage[2], bias, n_features)
        own = layout.node_bytes().astype(np.float64)
        fixed = sum(spec.bytes for spec in layout.files().values()) - own.sum() + own[0]
        sizes = np.stack([own, np.zeros(tree.n_nodes)])
        variance = 0.0
        for depth in range(tree.depth - 1, 0, -1):
            for stage in self.stages:
                others = stage.nodes[~stage.chosen]
                if stage.depth == depth and others.size:
                    factors, added = stage.factors(sizes)
                    sizes[:, others] = factors[:, None] * stage.measures[:, ~stage.chosen]
                    variance += added
            level = slice(tree.level_ptr[depth], tree.level_ptr[depth + 1])
            np.add.at(sizes[1], tree.parent[level], sizes[:, level].sum(axis=0))
        below = sizes[1, 0]
        deviation = special.ndtri((1 + CONFIDENCE) / 2) * TREE_DEVIATION * below
        margin = np.hypot(np.sqrt(variance), deviation)
        size = fixed + below
        return size, max(size - margin, fixed), size + margin


def _chances(
    sizes: NDArray[np.float64], work: NDArray[np.float64], share: float, fewest: int
) -> NDArray[np.float64]:
    """Return probabilities in proportion to sizes, at most 1, such that the expected work is limited."""
    low, high = min(fewest, sizes.size), sizes.size
    while low < high:
        number = (low + high + 1) // 2
        if proportional(sizes, number) @ work > share:
            high = number - 1
        else:
            low = number
    return proportional(sizes, low)
