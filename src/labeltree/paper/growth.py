"""`growth`: the size of trees whose alpha depends on depth and K, and how well one tree predicts others.

The formulas of `theory` use one alpha for all nodes. In a real tree, nodes with many children also use many
features, so that a product of averages is too small. `DepthAverages` adds the covariance, which makes the sum
exact for the tree that was measured. `FeatureGrowth` is for trees that were not built: the features that a
node uses are a function of its labels, F(m) = min(n, c m^b), which depends little on K and depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from labeltree.base import limits
from labeltree.base.progress import Progress, ignore
from labeltree.errors import InputError
from labeltree.paper.session import Session, steps
from labeltree.paper.table import Row, Table, group, listed, means, where
from labeltree.training.plan import TreePlan

# Sizes of the children of a node: this many quantiles of a log-normal distribution.
QUANTILES = 16
# Node sizes are collected in bins; two neighbours differ by this factor.
BIN = 1.05


@dataclass(frozen=True, eq=False)
class DepthAverages:
    """Averages over the nodes of each depth of a tree; entry i is depth i.

    Attributes
    ----------
    nodes : ndarray
        Number of nodes.
    children : ndarray
        Mean number of children.
    alpha : ndarray
        Mean used features, divided by those of the depth above; 1 for the root.
    covariance : ndarray
        Covariance of children and used features, divided by the product of their means.
    features : int
        Features that the root uses (n).
    """

    nodes: NDArray[np.float64]
    children: NDArray[np.float64]
    alpha: NDArray[np.float64]
    covariance: NDArray[np.float64]
    features: int

    @classmethod
    def of(cls, plan: TreePlan) -> DepthAverages:
        """Measure the averages of a tree. Nodes that use no features are left out."""
        rows = []
        for start, end in pairwise(plan.tree.level_ptr.tolist()):
            used, children = plan.used_features[start:end], plan.tree.child_count[start:end]
            used, children = used[used > 0], children[used > 0]
            if used.size:
                mean = children.mean() * used.mean()
                rows.append((used.size, children.mean(), used.mean(), (children * used).mean() / mean - 1))
        if not rows:
            raise InputError("no node of the tree uses a feature")
        nodes, children_mean, used_mean, covariance = np.array(rows, np.float64).T
        alpha = used_mean / np.append(used_mean[0], used_mean[:-1])
        return cls(nodes, children_mean, alpha, covariance, int(used_mean[0]))

    def weights(self, *, covariance: bool = True) -> float:
        """Return the weights of the tree: the sum over depths of N r n alpha_1 ... alpha_i (1 + covariance).

        Parameters
        ----------
        covariance : bool, default True
            Without it, this is the product of the averages, which is too small.
        """
        product = self.nodes * self.children * self.features * np.cumprod(self.alpha)
        return float((product * (1 + self.covariance * covariance)).sum())


@dataclass(frozen=True)
class FeatureGrowth:
    """The features that a node uses as a function of its labels: F(m) = min(n, c m^b).

    Attributes
    ----------
    features : int
        Features that the root uses (n).
    factor, exponent : float
        c and b.
    spread : float
        Standard deviation of the logarithm of the sizes of siblings.
    scale : float
        Weights below the root of the fitted tree, relative to what the function and the spread give for it.
    """

    features: int
    factor: float
    exponent: float
    spread: float
    scale: float = 1.0

    @classmethod
    def fit(cls, plan: TreePlan, clusters: int) -> FeatureGrowth:
        """Fit the function to the nodes of a tree that was built with this K; wide nodes count more."""
        tree = plan.tree
        size = (tree.last - tree.first).astype(np.float64)
        below = (np.arange(tree.n_nodes) > 0) & (plan.used_features > 0)
        if np.unique(size[below]).size < 2:
            raise InputError(
                "the nodes of the tree have the same size, expected several sizes to fit used features to"
            )
        x, y = np.log(size[below]), np.log(plan.used_features[below])
        weight = tree.child_count[below] * plan.used_features[below]
        exponent, offset = np.polyfit(x, y, 1, w=np.sqrt(weight))
        first = below & (tree.node_depth[: tree.n_nodes] == 1)
        leaves = int(tree.child_count[0]) - np.count_nonzero(tree.node_depth[: tree.n_nodes] == 1)
        spread = float(np.std(np.append(np.log(size[first]), np.zeros(leaves))))
        rough = cls(int(plan.used_features[0]), float(np.exp(offset)), float(exponent), spread)
        root = int(plan.used_features[0]) * min(clusters, tree.n_labels)
        counted = plan.n_weights - int(plan.used_features[0]) * int(tree.child_count[0])
        return replace(
            rough, scale=counted / (rough.tree_weights(tree.n_labels, clusters, tree.depth) - root)
        )

    def used_features(self, labels: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return the features that nodes with this many labels use."""
        return np.minimum(self.features, self.factor * np.asarray(labels, np.float64) ** self.exponent)

    def tree_weights(self, labels: int, clusters: int, max_depth: int) -> float:
        """Return the weights of a tree of these labels that was not built.

        A node is split into clusters whose sizes have a log-normal distribution, until it has at most as many
        labels as clusters or is at depth ``max_depth - 1``.
        """
        limits.checked("clusters", clusters, limits.CLUSTERS)
        limits.checked("max_depth", max_depth, limits.MAX_DEPTH)
        steps = special.ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES)
        relative = np.exp(self.spread * steps)
        relative /= relative.mean()
        sizes, counts = np.array([float(labels)]), np.array([1.0])
        total = 0.0
        for depth in range(max_depth):
            used = np.full(1, self.features) if depth == 0 else self.used_features(sizes)
            split = (sizes > clusters) & (depth < max_depth - 1)
            weights = float((counts * np.where(split, clusters, sizes) * used).sum())
            total += weights if depth == 0 else self.scale * weights
            if not split.any():
                break
            below = (sizes[split, None] / clusters * relative).ravel()
            number = np.repeat(counts[split] * clusters / QUANTILES, QUANTILES)
            keys = np.round(np.log(np.maximum(below, 1)) / np.log(BIN)).astype(np.int64)
            many = keys > 0  # a child with one label is a leaf
            counts = np.bincount(keys[many], number[many])
            labels_of = np.bincount(keys[many], number[many] * below[many])
            sizes, counts = (labels_of / np.maximum(counts, 1e-300))[counts > 0], counts[counts > 0]
            if not sizes.size:
                break
        return total


def growth(
    session: Session,
    progress: Progress = ignore,
    *,
    cluster_counts: Sequence[int] = (10, 30, 100, 300),
    depths: Sequence[int] = (2, 3, 6),
) -> list[Table]:
    """Measure averages with covariance, fit F(m) to one tree, and predict trees with other K and depths.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    cluster_counts : sequence of int
        The values of K.
    depths : sequence of int
        The values of d_max; functions are fitted to trees with the largest.
    """
    for name, values in (("cluster counts", cluster_counts), ("depths", depths)):
        if not values or min(values) < 2:
            raise InputError(f"{listed(name, values)}, expected one or more integers of at least 2")
    averages: list[Row] = []
    predictions: list[Row] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for (split, seed), part in steps(pairs, progress):
        plans = {
            K: session.tree_plan(split.name, K, max(depths), seed, of_tree)
            for K, of_tree in steps(cluster_counts, part)
        }
        for K, plan in plans.items():
            mean, common = DepthAverages.of(plan), {"data": split.name, "seed": seed}
            try:
                fitted = FeatureGrowth.fit(plan, K)
            except InputError:  # too few nodes
                fitted = None
            averages.append(
                {
                    **common,
                    "clusters": K,
                    "depth": plan.tree.depth,
                    "weights": plan.n_weights,
                    "product_share": mean.weights(covariance=False) / plan.n_weights,
                    "covariance_share": mean.weights() / plan.n_weights,
                    "exponent": fitted and fitted.exponent,
                    "spread": fitted and fitted.spread,
                }
            )
            if fitted is not None:
                predictions += [
                    {**common, "fitted_clusters": K, **row} for row in _predict(fitted, K, plans, depths)
                ]
    return [
        _ratios(predictions, cluster_counts, depths),
        Table(
            "growth-averages",
            "Weights by the averages of each depth, relative to the counted ones, and the fitted function.",
            {
                "data": "dataset",
                "seed": "seed",
                "clusters": "K",
                "depth": "depth",
                "weights": "weights",
                "product_share": "product of averages",
                "covariance_share": "with covariance",
                "exponent": "exponent b",
                "spread": "spread",
            },
            averages,
        ),
        Table(
            "growth-predictions", "One row per predicted tree.", {"data": "dataset"}, predictions, shown=False
        ),
    ]


def _predict(
    fitted: FeatureGrowth, clusters: int, plans: dict[int, TreePlan], depths: Sequence[int]
) -> list[Row]:
    """Predict the weights of every tree from the one with this K."""
    rows: list[Row] = []
    for K, plan in plans.items():
        for depth in depths:
            counted = plan.clip(depth).n_weights
            predicted = fitted.tree_weights(plan.tree.n_labels, K, depth)
            rows.append(
                {
                    "clusters": K,
                    "max_depth": depth,
                    "is_fitted": clusters == K and depth >= plan.tree.depth,
                    "weights": counted,
                    "predicted": predicted,
                    "ratio": predicted / counted,
                }
            )
    return rows


def _ratios(predictions: list[Row], cluster_counts: Sequence[int], depths: Sequence[int]) -> Table:
    """Return means over the seeds for trees that were not fitted: another K, or a smaller d_max."""
    deepest = max(depths)
    others = {f"clusters_{K}": f"K = {K}" for K in cluster_counts}
    shallow = {f"depth_{depth}": f"d_max = {depth}" for depth in depths if depth < deepest}
    rows: list[Row] = []
    for (data, fitted), mine in group(predictions, "data", "fitted_clusters").items():
        found: Row = {"data": data, "fitted_clusters": fitted, **dict.fromkeys((*others, *shallow))}
        for mean in means(where(mine, is_fitted=False), "data", "clusters", "max_depth"):
            if mean["max_depth"] == deepest:
                found[f"clusters_{mean['clusters']}"] = mean["ratio"]
            elif mean["clusters"] == fitted:
                found[f"depth_{mean['max_depth']}"] = mean["ratio"]
        rows.append(found)
    columns = {"data": "dataset", "fitted_clusters": "K of the fitted tree", **others, **shallow}
    return Table("growth-ratios", "Predicted weights relative to the counted ones.", columns, rows)
