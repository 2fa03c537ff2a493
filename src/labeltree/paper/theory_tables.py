"""`theory`: the paper's tables and figures about balanced trees, for any number of labels, without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scipy.optimize import brentq

from labeltree.base import plots
from labeltree.base.display import Progress, ignore
from labeltree.errors import InputError
from labeltree.paper import theory
from labeltree.paper.session import Session
from labeltree.paper.tables import Row, Table, distinct, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The example of section 5.1, and the bounds on alpha that the paper prints for it, by depth.
LABELS, CLUSTERS = 200_000_000, 100
PRINTED_BOUNDS = {2: 0.999, 3: 0.999, 4: 0.996, 5: 0.819}


def theory_tables(
    session: Session,
    progress: Progress = ignore,
    *,
    labels: int = LABELS,
    clusters: int = CLUSTERS,
    features: int = 1_000_000,
    alphas: Sequence[float] = (0.3, 0.4, 0.5, 0.6),
    instances: int = 1_000_000,
    nonzeros: float = 100.0,
) -> list[Table]:
    """Compute sizes and training costs of balanced trees relative to one-vs-rest; no data is needed.

    The labels and clusters (L and K) and the alphas default to the paper's example. The ratios do not depend
    on the features that occur (n); the instances and the non-zeros of an average one (l, n-bar) are for the
    costs.
    """
    if not alphas or not all(0 < alpha < 1 for alpha in alphas):
        raise InputError(f"alphas is {list(alphas)}, expected values between 0 and 1")
    deepest = int(theory.largest_depth(labels, clusters))
    if deepest < 2:
        raise InputError(
            f"too few labels for a tree: labels is {labels}, expected at least {2 * clusters} for "
            f"{clusters} clusters"
        )
    shape = labels, clusters, features
    ratios = [
        {
            "alpha": float(alpha),
            "depth": depth,
            "ratio": float(theory.weight_ratio(labels, clusters, depth, alpha)),
            "weights": float(theory.tree_weights(labels, clusters, depth, alpha, features)),
        }
        for alpha in alphas
        for depth in range(2, deepest + 1)
    ]
    caption = f"Weights of a balanced tree relative to one-vs-rest, L = {labels:,} and K = {clusters:,}."
    progress(1.0)
    return [
        Table("theory-ratio", caption, ("alpha", "depth", "ratio", "weights"), ratios, figure=_draw(ratios)),
        _bounds(labels, clusters, deepest),
        _comparison(*shape, instances, nonzeros, deepest),
        _depths(*shape, alphas, deepest),
    ]


def _bounds(labels: int, clusters: int, deepest: int) -> Table:
    """Return the bound of Theorem 1 per depth that it covers, and the alpha at which the ratio is 1."""
    printed = PRINTED_BOUNDS if (labels, clusters) == (LABELS, CLUSTERS) else {}

    def above_1(alpha: float, depth: int) -> float:
        return float(theory.weight_ratio(labels, clusters, depth, alpha)) - 1

    rows = [
        {
            "depth": depth,
            "bound": float(theory.alpha_bound(labels, clusters, depth)),
            "printed": printed.get(depth),
            "exact": float(brentq(above_1, 1e-12, 1.0, args=(depth,))),
        }
        for depth in range(2, (deepest if clusters >= 4 else 2) + 1)
    ]
    caption = (
        "The alpha below which a tree has fewer weights: the bound of Theorem 1, as printed in the paper for "
        "its example, and the exact value."
    )
    return Table("theory-alpha-bounds", caption, ("depth", "bound", "printed", "exact"), rows)


def _comparison(
    labels: int, clusters: int, features: int, instances: int, nonzeros: float, deepest: int
) -> Table:
    """Return Table 2 of the paper with numbers: one-vs-rest (depth 1), and the tree of each depth."""
    rows: list[Row] = []
    for depth in range(1, deepest + 1):
        vectors = labels + int(theory.meta_labels(labels, clusters, depth))
        # Of one value of an instance.
        cost = labels if depth == 1 else float(theory.tree_cost(labels, clusters, depth, 1, 1))
        rows.append(
            {
                "model": "one-vs-rest" if depth == 1 else "balanced tree",
                "depth": depth,
                "vectors": vectors,
                "dense_weights": float(theory.dense_tree_weights(labels, clusters, depth, features)),
                "dense_ratio": vectors / labels,
                "cost": float(instances * nonzeros * cost),
                "cost_ratio": cost / labels,
            }
        )
    caption = (
        f"Size with dense weights, and training cost, for {features:,} features and {instances:,} "
        f"instances with {nonzeros:g} non-zeros each; ratios are relative to one-vs-rest."
    )
    return Table("theory-comparison", caption, list(rows[0]), rows)


def _depths(labels: int, clusters: int, features: int, alphas: Sequence[float], deepest: int) -> Table:
    """Return Table 4 of the paper with numbers, for the deepest tree."""
    rows: list[Row] = []
    for depth in range(deepest):
        nodes = clusters**depth
        children = clusters if depth < deepest - 1 else labels / clusters ** (deepest - 1)
        row: Row = {"depth": depth, "nodes": nodes, "children": children}
        row |= {f"features_{alpha:g}": alpha**depth * features for alpha in alphas}
        row |= {f"weights_{alpha:g}": nodes * children * alpha**depth * features for alpha in alphas}
        rows.append(row)
    caption = f"A tree of depth {deepest}: features of a node and weights of all nodes of a depth, by alpha."
    return Table("theory-depths", caption, list(rows[0]), rows)


@plots.drawing
def _draw(ratios: list[Row]) -> Figure:
    """Draw the ratio over the depth, one line per alpha; the step to the deepest tree is dashed."""
    figure, (axes,) = plots.new_figure(1, 1, panel=(5.0, 3.4))
    depths = distinct(ratios, "depth")
    for number, alpha in enumerate(distinct(ratios, "alpha")):
        look: dict[str, Any] = {"color": plots.COLORS[number % 6], "marker": plots.MARKERS[number % 6]}
        line = [row["ratio"] for row in where(ratios, alpha=alpha)]
        axes.plot(depths[:-1], line[:-1], label=f"alpha = {alpha:g}", **look)
        axes.plot(depths[-2:], line[-2:], linestyle="--", **look)
    axes.set_xticks(depths)
    axes.set(xlabel="depth d", ylabel="weights, tree / one-vs-rest", ylim=(0, None))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    axes.legend()
    return figure
