"""`growth`: the size with alpha depending on depth and K, and how well one tree predicts others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from labeltree.base.progress import Progress, part_of
from labeltree.errors import InputError
from labeltree.paper.experiments.result import Result, Table, listed
from labeltree.paper.experiments.session import Session
from labeltree.paper.growth import DepthAverages, FeatureGrowth
from labeltree.training.plan import TreePlan

CLUSTERS, DEPTHS = (10, 30, 100, 300), (2, 3, 6)


class AverageRow(TypedDict):
    """Averages of one tree, and what they say about its weights."""

    data: str
    seed: int
    clusters: int
    depth: int
    weights: int
    product_share: float
    covariance_share: float
    exponent: float | None
    spread: float | None


class PredictionRow(TypedDict):
    """The weights of a tree, predicted from another."""

    data: str
    seed: int
    fitted_clusters: int
    clusters: int
    max_depth: int
    is_fitted: bool
    weights: int
    predicted: float
    ratio: float


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: Sequence[int] = CLUSTERS,
    depths: Sequence[int] = DEPTHS,
) -> Result:
    """Measure averages with covariance, fit F(m) to one tree, and predict trees with other K and depths.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters : sequence of int
        The values of K.
    depths : sequence of int
        The values of d_max; functions are fitted to trees with the largest.

    Returns
    -------
    Result
    """
    if not clusters or min(clusters) < 2:
        raise InputError(f"{listed('cluster counts', clusters)}, expected one or more integers of at least 2")
    if not depths or min(depths) < 2:
        raise InputError(f"{listed('depths', depths)}, expected one or more integers of at least 2")
    averages: list[AverageRow] = []
    predictions: list[PredictionRow] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for number, (split, seed) in enumerate(pairs):
        part = part_of(progress, number, len(pairs))
        plans = {
            K: session.tree_plan(split.name, K, max(depths), seed, part_of(part, k, len(clusters)))
            for k, K in enumerate(clusters)
        }
        for K, plan in plans.items():
            growth = _fit(plan, K)
            averages.append(_averages(split.name, seed, K, plan, growth))
            if growth is not None:
                predictions += _predictions(split.name, seed, K, growth, plans, depths)
    return Result(
        name="growth",
        title="Trees with another K or depth, predicted from one tree",
        source="beyond section 3 of the paper, which assumes a constant alpha",
        settings={
            "clusters (K)": list(clusters),
            "depths (d_max)": list(depths),
            "seeds": list(session.seeds),
        },
        tables=[
            _ratios(predictions, clusters, depths),
            Table(
                "growth-averages",
                "Weights of a tree relative to the counted ones: by the product of the averages of each "
                "depth, and with the covariance; and the fitted exponent and spread.",
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
                "growth-predictions",
                "Weights of trees with each K and d_max, predicted by the function fitted to the deepest "
                "tree with each K.",
                {
                    "data": "dataset",
                    "seed": "seed",
                    "fitted_clusters": "K of the fitted tree",
                    "clusters": "K",
                    "max_depth": "d_max",
                    "weights": "weights",
                    "predicted": "predicted",
                    "ratio": "ratio",
                },
                predictions,
                shown=False,
            ),
        ],
    )


def _fit(plan: TreePlan, clusters: int) -> FeatureGrowth | None:
    try:
        return FeatureGrowth.fit(plan, clusters)
    except InputError:  # too few nodes
        return None


def _averages(
    name: str, seed: int, clusters: int, plan: TreePlan, growth: FeatureGrowth | None
) -> AverageRow:
    measured = DepthAverages.of(plan)
    return {
        "data": name,
        "seed": seed,
        "clusters": clusters,
        "depth": plan.tree.depth,
        "weights": plan.n_weights,
        "product_share": measured.weights(covariance=False) / plan.n_weights,
        "covariance_share": measured.weights() / plan.n_weights,
        "exponent": None if growth is None else growth.exponent,
        "spread": None if growth is None else growth.spread,
    }


def _predictions(
    name: str,
    seed: int,
    fitted: int,
    growth: FeatureGrowth,
    plans: dict[int, TreePlan],
    depths: Sequence[int],
) -> list[PredictionRow]:
    rows: list[PredictionRow] = []
    for K, plan in plans.items():
        for depth in depths:
            counted = plan.clip(depth).n_weights
            predicted = growth.tree_weights(plan.tree.n_labels, K, depth)
            rows.append(
                {
                    "data": name,
                    "seed": seed,
                    "fitted_clusters": fitted,
                    "clusters": K,
                    "max_depth": depth,
                    "is_fitted": fitted == K and depth >= plan.tree.depth,
                    "weights": counted,
                    "predicted": predicted,
                    "ratio": predicted / counted,
                }
            )
    return rows


def _ratios(rows: Sequence[PredictionRow], clusters: Sequence[int], depths: Sequence[int]) -> Table:
    """Return the predicted weights relative to the counted ones, as means over seeds.

    Columns are the other values of K with the largest d_max, and the smaller d_max with the same K.
    """
    groups: dict[tuple[str, int], list[PredictionRow]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["fitted_clusters"]), []).append(row)
    deepest = max(depths)

    def mean(group: Sequence[PredictionRow], K: int, depth: int) -> float | None:
        found = [
            row["ratio"]
            for row in group
            if (row["clusters"], row["max_depth"]) == (K, depth) and not row["is_fitted"]
        ]
        return sum(found) / len(found) if found else None

    shallow = [depth for depth in depths if depth < deepest]
    return Table(
        "growth-ratios",
        "Predicted weights relative to the counted ones, for trees that the function was not fitted to: with "
        f"another K and d_max = {deepest}, and with the same K and a smaller d_max; means over seeds.",
        {
            "data": "dataset",
            "fitted_clusters": "K of the fitted tree",
            **{f"clusters_{K}": f"K = {K}" for K in clusters},
            **{f"depth_{depth}": f"d_max = {depth}" for depth in shallow},
        },
        [
            {
                "data": data,
                "fitted_clusters": fitted,
                **{f"clusters_{K}": mean(group, K, deepest) for K in clusters},
                **{f"depth_{depth}": mean(group, fitted, depth) for depth in shallow},
            }
            for (data, fitted), group in groups.items()
        ],
    )
