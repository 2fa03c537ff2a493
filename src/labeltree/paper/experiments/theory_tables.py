"""`theory`: the paper's tables and figures about balanced trees, for any number of labels, without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from labeltree.base import plots as figures
from labeltree.base.progress import Progress
from labeltree.errors import InputError
from labeltree.paper import theory
from labeltree.paper.experiments.result import Plot, Result, Table, distinct, listed, where
from labeltree.paper.experiments.session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RatioRow(TypedDict):
    """Weights of a balanced tree, and relative to one-vs-rest."""

    labels: int
    clusters: int
    alpha: float
    depth: int
    ratio: float
    weights: float


class BoundRow(TypedDict):
    """Bound on alpha of Theorem 1 for one depth."""

    labels: int
    clusters: int
    depth: int
    bound: float
    printed: float | None
    exact: float
    shown_bound: str
    shown_exact: str


def ratio_figure(ratios: Sequence[RatioRow]) -> Figure:
    """Draw the ratio over the depth, one line per alpha."""
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.0, 3.4))
    depths = distinct(ratios, "depth")
    with figures.style():
        ends = []
        for number, alpha in enumerate(distinct(ratios, "alpha")):
            color = figures.COLORS[number % len(figures.COLORS)]
            marker = figures.MARKERS[number % len(figures.MARKERS)]
            line = [row["ratio"] for row in where(ratios, alpha=alpha)]
            axes.plot(depths[:-1], line[:-1], color=color, marker=marker)
            axes.plot(depths[-2:], line[-2:], color=color, marker=marker, linestyle="--")
            ends.append((depths[-1], line[-1], f"alpha = {alpha:g}", color))
        axes.set_xticks(depths)
        axes.set(xlabel="depth d", ylabel="weights, tree / one-vs-rest")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        figures.label_ends(axes, ends, gap=0.06)
    return figure


# The example of section 5.1, and the bounds on alpha that the paper prints for it, by depth.
LABELS, CLUSTERS = 200_000_000, 100
ALPHAS = (0.3, 0.4, 0.5, 0.6)
PRINTED_BOUNDS = {2: 0.999, 3: 0.999, 4: 0.996, 5: 0.819}


class ComparisonRow(TypedDict):
    """Size and training cost of one-vs-rest, or of a balanced tree with dense weight vectors."""

    model: str
    depth: int
    vectors: int
    dense_weights: float
    cost: float
    dense_ratio: float
    cost_ratio: float


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    labels: int = LABELS,
    clusters: int = CLUSTERS,
    features: int = 1_000_000,
    alphas: Sequence[float] = ALPHAS,
    instances: int = 1_000_000,
    nonzeros: float = 100.0,
) -> Result:
    """Compute the size of balanced trees relative to one-vs-rest, and check the theorems about it.

    Parameters
    ----------
    session : Session
        Not used: no data is needed.
    progress : callable, optional
    labels, clusters : int
        L and K. Default: the paper's example.
    features : int
        Features that occur in the data (n). The ratios do not depend on it.
    alphas : sequence of float
        Shares of its parent's features that a node uses. Default: the paper's.
    instances, nonzeros : int, float
        Instances, and non-zero features of an average instance (l, n-bar), for the training costs. The paper
        gives no example.

    Returns
    -------
    Result
    """
    alphas = tuple(float(alpha) for alpha in alphas)
    deepest = check(labels, clusters, alphas)
    ratios = _ratios(labels, clusters, features, alphas, deepest)
    bounds = _bounds(labels, clusters, deepest)
    if progress is not None:
        progress(1.0)
    return Result(
        name="theory",
        title="Balanced trees: what the formulas predict",
        source="Figures 3 and 6, Tables 2 and 4, Theorems 1 and 2 of the paper",
        settings={
            "labels": labels,
            "clusters": clusters,
            "features": features,
            "alphas": list(alphas),
            "instances": instances,
            "nonzeros": nonzeros,
            "deepest": deepest,
        },
        tables=[
            _comparison(labels, clusters, features, instances, nonzeros, deepest),
            _depths(labels, clusters, features, alphas, deepest),
            Table(
                "theory-alpha-bounds",
                "Theorem 1: if alpha is below the bound, a tree has fewer weights than one-vs-rest. The "
                "exact value is the alpha at which both have the same number of weights.",
                {
                    "depth": "d",
                    "shown_bound": "bound of Theorem 1",
                    "printed": "printed in the paper",
                    "shown_exact": "exact value",
                },
                bounds,
            ),
            Table(
                "theory-ratio",
                "Weights of a balanced tree relative to one-vs-rest (equation 15 of the paper).",
                {"alpha": "alpha", "depth": "d", "ratio": "ratio", "weights": "weights"},
                ratios,
            ),
        ],
        plots=[
            Plot(
                "theory-ratio",
                f"Weights of a balanced tree relative to one-vs-rest, for L = {labels:,} and "
                f"K = {clusters:,}, by depth. The dashed step leads to the deepest tree, d = D.",
                ratio_figure(ratios),
            )
        ],
    )


def check(labels: int = LABELS, clusters: int = CLUSTERS, alphas: Sequence[float] = ALPHAS) -> int:
    """Check that there is such a tree, and return the depth of the deepest one (D)."""
    if not alphas:
        raise InputError("no value of alpha is given", hint="pass one or more values between 0 and 1")
    if not all(0 < alpha < 1 for alpha in alphas):
        raise InputError(f"{listed('alphas', alphas)}, expected values between 0 and 1")
    deepest = int(theory.largest_depth(labels, clusters))
    if deepest < 2:
        raise InputError(
            f"too few labels for a tree: labels is {labels}, expected at least {2 * clusters} for "
            f"{clusters} clusters"
        )
    return deepest


def _ratios(
    labels: int, clusters: int, features: int, alphas: Sequence[float], deepest: int
) -> list[RatioRow]:
    """Return a row per alpha and depth."""
    return [
        {
            "labels": labels,
            "clusters": clusters,
            "alpha": alpha,
            "depth": depth,
            "ratio": float(theory.weight_ratio(labels, clusters, depth, alpha)),
            "weights": float(theory.tree_weights(labels, clusters, depth, alpha, features)),
        }
        for alpha in alphas
        for depth in range(2, deepest + 1)
    ]


def _bounds(labels: int, clusters: int, deepest: int) -> list[BoundRow]:
    """Return the bound of Theorem 1 per depth that it covers, and the alpha at which the ratio is 1."""
    from scipy.optimize import brentq

    printed = PRINTED_BOUNDS if (labels, clusters) == (LABELS, CLUSTERS) else {}
    rows: list[BoundRow] = []
    for depth in range(2, (deepest if clusters >= 4 else 2) + 1):
        exact = float(brentq(_above_1, 1e-12, 1.0, args=(labels, clusters, depth)))
        bound = float(theory.alpha_bound(labels, clusters, depth))
        rows.append(
            {
                "labels": labels,
                "clusters": clusters,
                "depth": depth,
                "bound": bound,
                "printed": printed.get(depth),
                "exact": exact,
                "shown_bound": f"{bound:.7f}",  # so close to 1 that four digits do not show it
                "shown_exact": f"{exact:.7f}",
            }
        )
    return rows


def _above_1(alpha: float, labels: int, clusters: int, depth: int) -> float:
    return float(theory.weight_ratio(labels, clusters, depth, alpha)) - 1


def _comparison(
    labels: int, clusters: int, features: int, instances: int, nonzeros: float, deepest: int
) -> Table:
    """Return Table 2 of the paper with numbers: one-vs-rest, and the tree of each depth."""
    rows: list[ComparisonRow] = [
        {
            "model": "one-vs-rest",
            "depth": 1,
            "vectors": labels,
            "dense_weights": float(theory.ovr_weights(labels, features)),
            "cost": float(theory.ovr_cost(labels, instances, nonzeros)),
            "dense_ratio": 1.0,
            "cost_ratio": 1.0,
        }
    ]
    for depth in range(2, deepest + 1):
        vectors = labels + int(theory.meta_labels(labels, clusters, depth))
        rows.append(
            {
                "model": "balanced tree",
                "depth": depth,
                "vectors": vectors,
                "dense_weights": float(theory.dense_tree_weights(labels, clusters, depth, features)),
                "cost": float(theory.tree_cost(labels, clusters, depth, instances, nonzeros)),
                "dense_ratio": vectors / labels,
                "cost_ratio": float(theory.tree_cost(labels, clusters, depth, 1, 1)) / labels,
            }
        )
    return Table(
        "theory-comparison",
        f"Training cost and size with dense weight vectors (Table 2 of the paper), for {features:,} "
        f"features, {instances:,} instances and {nonzeros:g} non-zero features per instance. A cost is the "
        "expression inside O(...): it can be compared with other costs, but is not in seconds.",
        {
            "model": "model",
            "depth": "d",
            "vectors": "weight vectors",
            "dense_weights": "weights, all dense",
            "dense_ratio": "relative to one-vs-rest",
            "cost": "training cost",
            "cost_ratio": "relative to one-vs-rest",
        },
        rows,
    )


def _depths(labels: int, clusters: int, features: int, alphas: Sequence[float], deepest: int) -> Table:
    """Return Table 4 of the paper with numbers, for the deepest tree."""
    rows: list[dict[str, float]] = []
    for depth in range(deepest):
        children = clusters if depth < deepest - 1 else labels / clusters ** (deepest - 1)
        used = {alpha: alpha**depth * features for alpha in alphas}
        rows.append(
            {
                "depth": depth,
                "nodes": clusters**depth,
                "children": children,
                **{f"features_{alpha:g}": n for alpha, n in used.items()},
                **{f"weights_{alpha:g}": clusters**depth * children * n for alpha, n in used.items()},
            }
        )
    return Table(
        "theory-depths",
        f"A tree of depth {deepest}, depth by depth (Table 4 of the paper), for {features:,} features.",
        {
            "depth": "depth",
            "nodes": "nodes",
            "children": "children per node",
            **{f"features_{alpha:g}": f"features (alpha = {alpha:g})" for alpha in alphas},
        },
        rows,
    )
