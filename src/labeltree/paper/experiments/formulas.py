"""`theory`: the paper's figures and tables that need no data, for balanced trees of any numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import InputError
from labeltree.paper import theory
from labeltree.paper.experiments import figures
from labeltree.paper.experiments.result import Claim, Plot, Result, Table
from labeltree.paper.experiments.session import Session
from labeltree.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The example of sec. 5.1, and the bounds on alpha that the paper prints for it, by depth.
LABELS, CLUSTERS = 200_000_000, 100
ALPHAS = (0.3, 0.4, 0.5, 0.6)
PRINTED_BOUNDS = {2: 0.999, 3: 0.999, 4: 0.996, 5: 0.819}


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
    """Work out the ratio of a balanced tree's weights to those of one-vs-rest, and what it follows from.

    Parameters
    ----------
    session : Session
        Not used: no data are needed.
    progress : callable, optional
    labels, clusters : int
        L and K; the paper's example unless given.
    features : int
        Features used in the data (n). The ratios do not depend on it.
    alphas : sequence of float
        Shares of a parent's features that a node uses; the paper's unless given.
    instances, nonzeros : int, float
        Instances, and feature values of a mean one (l, n-bar), for the training costs. The paper gives none.

    Returns
    -------
    Result
    """
    alphas = tuple(float(alpha) for alpha in alphas)
    deepest = check(labels, clusters, alphas)
    ratios = _ratios(labels, clusters, features, alphas, deepest)
    bounds = _bounds(labels, clusters, deepest)
    plots = [
        Plot(name, f"Weights of a balanced tree over those of one-vs-rest ({source}).", figure)
        for name, source, last in (
            ("theory-ratio", "fig:fixed-K-with-different-alpha", deepest - 1),
            ("theory-ratio-to-D", "appendix C: to d = D", deepest),
        )
        if last > 2 or last == deepest
        for figure in [_figure([row for row in ratios if row["depth"] <= last], labels, clusters)]
    ]
    if progress is not None:
        progress(1.0)
    return Result(
        name="theory",
        title="Balanced trees: what the formulas say",
        source="fig:fixed-K-with-different-alpha, its version to d = D (appendix C), tbl:comparsion, "
        "tbl:information-of-K-ary-tree, Theorems 1 and 2",
        introduction=(
            "How large does a label tree get before there are any data? The paper answers for a balanced "
            f"tree: every node above the last depth has K = {clusters:,} children, and uses the share alpha "
            f"of its parent's features. Here are its formulas for L = {labels:,} labels, where the deepest "
            f"tree, with two labels or more to each node above them, has depth D = {deepest}. They count "
            "weights; in bytes, with an index beside each weight of the tree, a ratio is 1.5 times as large."
        ),
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
                "Theorem 1: with an alpha below the bound, a tree has fewer weights than one-vs-rest. Beside "
                "it the alpha at which both have the same number.",
                {
                    "depth": "d",
                    "shown_bound": "bound of Theorem 1",
                    "printed": "printed in the paper",
                    "shown_exact": "exact",
                },
                bounds,
            ),
            Table(
                "theory-ratio",
                "Weights of a balanced tree over those of one-vs-rest (eq:balanced-nnz-ratio).",
                {"alpha": "alpha", "depth": "d", "ratio": "ratio", "weights": "weights"},
                ratios,
            ),
        ],
        plots=plots,
        claims=_claims(labels, clusters, alphas, deepest, ratios, bounds),
    )


def check(labels: int = LABELS, clusters: int = CLUSTERS, alphas: Sequence[float] = ALPHAS) -> int:
    """Refuse numbers that there is no tree of; return the depth of the deepest (D)."""
    if not alphas:
        raise InputError("got no alphas, expected at least one above 0 and below 1, such as 0.3.")
    if not all(0 < alpha < 1 for alpha in alphas):
        raise InputError(
            f"got the alphas {', '.join(map(str, alphas))}, expected numbers above 0 and below 1."
        )
    deepest = int(theory.largest_depth(labels, clusters))
    if deepest < 2:
        raise InputError(
            f"got {labels} labels and {clusters} clusters, too few labels for a tree; expected at least "
            f"{2 * clusters}, two for each of its {clusters} nodes above them."
        )
    return deepest


def _ratios(
    labels: int, clusters: int, features: int, alphas: Sequence[float], deepest: int
) -> list[dict[str, Any]]:
    """A row for each alpha and depth."""
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


def _bounds(labels: int, clusters: int, deepest: int) -> list[dict[str, Any]]:
    """The bound of Theorem 1 for each depth that it speaks of, and the alpha where the ratio is 1."""
    from scipy.optimize import brentq

    printed = PRINTED_BOUNDS if (labels, clusters) == (LABELS, CLUSTERS) else {}
    rows = []
    for depth in range(2, (deepest if clusters >= 4 else 2) + 1):
        exact = brentq(_above_1, 1e-12, 1.0, args=(labels, clusters, depth))
        bound = float(theory.alpha_bound(labels, clusters, depth))
        rows.append(
            {
                "labels": labels,
                "clusters": clusters,
                "depth": depth,
                "bound": bound,
                "printed": printed.get(depth),
                "exact": float(exact),
                "shown_bound": f"{bound:.7f}",  # near 1, where four digits say nothing
                "shown_exact": f"{exact:.7f}",
            }
        )
    return rows


def _above_1(alpha: float, labels: int, clusters: int, depth: int) -> float:
    return float(theory.weight_ratio(labels, clusters, depth, alpha)) - 1


def _comparison(
    labels: int, clusters: int, features: int, instances: int, nonzeros: float, deepest: int
) -> Table:
    """tbl:comparsion with numbers in it: one-vs-rest, and the tree of each depth."""
    ovr = float(theory.ovr_weights(labels, features))
    ovr_cost = float(theory.ovr_cost(labels, instances, nonzeros))
    rows: list[dict[str, Any]] = [
        {"model": "one-vs-rest", "depth": 1, "vectors": labels, "dense_weights": ovr, "cost": ovr_cost}
    ] + [
        {
            "model": "balanced tree",
            "depth": depth,
            "vectors": labels + int(theory.meta_labels(labels, clusters, depth)),
            "dense_weights": float(theory.dense_tree_weights(labels, clusters, depth, features)),
            "cost": float(theory.tree_cost(labels, clusters, depth, instances, nonzeros)),
        }
        for depth in range(2, deepest + 1)
    ]
    for row in rows:
        row |= {"dense_ratio": row["dense_weights"] / ovr, "cost_ratio": row["cost"] / ovr_cost}
    return Table(
        "theory-comparison",
        f"Training cost and size with dense weight vectors (tbl:comparsion), for n = {features:,} features, "
        f"{instances:,} instances and {nonzeros:g} feature values in each. A cost is what stands within "
        "O(...): to be compared, no seconds.",
        {
            "model": "model",
            "depth": "d",
            "vectors": "weight vectors",
            "dense_weights": "weights, all dense",
            "dense_ratio": "over one-vs-rest",
            "cost": "training cost",
            "cost_ratio": "cost over one-vs-rest",
        },
        rows,
    )


def _depths(labels: int, clusters: int, features: int, alphas: Sequence[float], deepest: int) -> Table:
    """tbl:information-of-K-ary-tree with numbers in it, for the deepest tree."""
    rows = []
    for depth in range(deepest):
        children = clusters if depth < deepest - 1 else labels / clusters ** (deepest - 1)
        row: dict[str, Any] = {"depth": depth, "nodes": clusters**depth, "children": children}
        row |= {f"features_{alpha:g}": alpha**depth * features for alpha in alphas}
        row |= {
            f"weights_{alpha:g}": clusters**depth * children * alpha**depth * features for alpha in alphas
        }
        rows.append(row)
    shown = {f"features_{alpha:g}": f"features, alpha {alpha:g}" for alpha in alphas}
    return Table(
        "theory-depths",
        f"A tree of depth d = {deepest}, depth by depth (tbl:information-of-K-ary-tree), for n = "
        f"{features:,} features.",
        {"depth": "depth", "nodes": "nodes", "children": "children of a node", **shown},
        rows,
    )


def _figure(rows: list[dict[str, Any]], labels: int, clusters: int) -> Figure:
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.2, 3.6))
    with figures.style():
        for number, alpha in enumerate(dict.fromkeys(row["alpha"] for row in rows)):
            line = [row for row in rows if row["alpha"] == alpha]
            axes.plot(
                [row["depth"] for row in line],
                [row["ratio"] for row in line],
                color=figures.COLOURS[number % len(figures.COLOURS)],
                marker=figures.MARKERS[number % len(figures.MARKERS)],
                label=f"alpha = {alpha:g}",
            )
        axes.set_xticks(sorted({row["depth"] for row in rows}))
        axes.set(
            xlabel="depth d", ylabel="weights, tree / one-vs-rest", title=f"L = {labels:,}, K = {clusters:,}"
        )
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure


def _claims(
    labels: int,
    clusters: int,
    alphas: Sequence[float],
    deepest: int,
    ratios: list[dict[str, Any]],
    bounds: list[dict[str, Any]],
) -> list[Claim]:
    ratio = {(row["alpha"], row["depth"]): row["ratio"] for row in ratios}
    return [
        *_theorem_1(labels, clusters, bounds),
        *_theorem_2(labels, clusters, alphas, deepest, ratio),
        _dense(labels, clusters, deepest),
    ]


def _theorem_1(labels: int, clusters: int, bounds: list[dict[str, Any]]) -> list[Claim]:
    depth, bound = (np.array([row[key] for row in bounds]) for key in ("depth", "bound"))
    # The ratio grows with alpha, so just below a bound it speaks for all below it.
    below = np.asarray(theory.weight_ratio(labels, clusters, depth, bound * (1 - 1e-9)))
    said = ", ".join(
        f"{row['bound']:.7f} at depth {row['depth']} (where the ratio is "
        f"{'1, to four digits' if round(ratio, 4) == 1 else f'{ratio:.4f}'})"
        for row, ratio in zip(bounds, below, strict=True)
    )
    claims = [
        Claim(
            f"Theorem 1: a tree has fewer weights than one-vs-rest if alpha is below {said}.",
            bool((below < 1).all()),
        )
    ]
    printed = [row for row in bounds if row["printed"] is not None]
    if printed:
        agree = all(math.floor(1000 * row["bound"]) / 1000 == row["printed"] for row in printed)
        claims.append(
            Claim(
                "For this example the paper asks for alpha below "
                + ", ".join(f"{row['printed']:g} (d = {row['depth']})" for row in printed)
                + f"; cut after three digits, the computed bounds are {'the same' if agree else 'others'}.",
                agree,
            )
        )
    return claims


def _theorem_2(
    labels: int, clusters: int, alphas: Sequence[float], deepest: int, ratio: dict[tuple[float, int], float]
) -> list[Claim]:
    """What Theorem 2 promises, what its second sentence says, and what appendix C saw at d = D."""
    promised = [
        (alpha, depth)
        for alpha in alphas
        for depth in range(2, deepest)
        if theory.shrinks_with_depth(labels, clusters, depth, alpha)
    ]
    # By their difference: two ratios can be the same in all digits that there are.
    falls = [bool(theory.weights_saved(labels, clusters, d, alpha) > 0) for alpha, d in promised]
    if promised:
        kept = f"it does in {sum(falls)} of {len(falls)} cases here"
        limit = 1 - 0.5 / clusters
        claims = [
            Claim(
                f"Theorem 2: for alpha below {limit:g}, the ratio falls with every depth from 2 to "
                f"{deepest - 1}; {kept}.",
                all(falls),
            ),
            Claim(
                "The second sentence of Theorem 2 says that the ratio at depth d is smaller than at d + 1. "
                f"It is in {len(falls) - sum(falls)} of {len(falls)} cases: a slip of the pen, as its first "
                "sentence and its proof say the opposite.",
                not any(falls),
            ),
        ]
    else:
        claims = [Claim("Theorem 2 is silent: it needs D of at least 4, and an alpha below its limit.", None)]
    if deepest > 2:
        rising = [
            f"{alpha:g} (from {ratio[alpha, deepest - 1]:.4f} to {ratio[alpha, deepest]:.4f})"
            for alpha in alphas
            if theory.weights_saved(labels, clusters, deepest - 1, alpha) < 0
        ]
        claims.append(
            Claim(
                "Appendix C: the last step, to d = D, may make a tree larger. "
                + (f"It does for alpha = {', '.join(rising)}." if rising else "It does for no alpha here."),
                bool(rising) or None,
            )
        )
    return claims


def _dense(labels: int, clusters: int, deepest: int) -> Claim:
    more = float(theory.dense_tree_weights(labels, clusters, deepest, 1)) / labels
    return Claim(
        "tbl:comparsion: with dense weight vectors a tree is larger than one-vs-rest; at "
        f"d = {deepest} it has {more:.4f} times as many weights.",
        more > 1,
    )
