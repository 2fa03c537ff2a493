"""Figure, takeaways and claims of the experiment `theory`, from its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.paper import theory
from labeltree.paper.experiments.result import Claim
from labeltree.paper.experiments.rows import distinct, group, join_words, percent, where

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
            colour = figures.COLOURS[number % len(figures.COLOURS)]
            marker = figures.MARKERS[number % len(figures.MARKERS)]
            line = [row["ratio"] for row in where(ratios, alpha=alpha)]
            axes.plot(depths[:-1], line[:-1], color=colour, marker=marker)
            axes.plot(depths[-2:], line[-2:], color=colour, marker=marker, linestyle="--")
            ends.append((depths[-1], line[-1], f"alpha = {alpha:g}", colour))
        axes.set_xticks(depths)
        axes.set(xlabel="depth d", ylabel="weights, tree / one-vs-rest")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        figures.label_ends(axes, ends, gap=0.06)
    return figure


def best_depth_takeaway(ratios: Sequence[RatioRow]) -> str:
    """Write the depth of the smallest tree for each alpha."""
    best = {
        alpha: min(rows, key=lambda row: row["ratio"])["depth"]
        for (alpha,), rows in group(ratios, "alpha").items()
    }
    found = [
        f"depth {depth} for alpha = {join_words([f'{a:g}' for a, d in best.items() if d == depth])}"
        for depth in sorted(set(best.values()))
    ]
    return f"The smallest tree has {join_words(found)}."


def smallest_takeaway(ratios: Sequence[RatioRow]) -> str:
    """Write the smallest ratio of all."""
    best = min(ratios, key=lambda row: row["ratio"])
    return (
        f"With alpha = {best['alpha']:g} and d = {best['depth']}, a tree has {percent(best['ratio'])} of the "
        "weights of one-vs-rest."
    )


def bounds_takeaway(bounds: Sequence[BoundRow]) -> str:
    """Write the smallest bound."""
    lowest = min(bounds, key=lambda row: row["bound"])
    depths = f"depths 2 to {bounds[-1]['depth']}" if len(bounds) > 1 else "depth 2"
    return f"Trees of {depths} have fewer weights than one-vs-rest if alpha is below {lowest['bound']:.3f}."


def depths_takeaway(depth: int, alphas: Sequence[float]) -> str:
    """Write the share of the features that the deepest nodes use."""
    found = [f"{percent(alpha**depth)} (alpha = {alpha:g})" for alpha in sorted({min(alphas), max(alphas)})]
    return f"A node at depth {depth} uses {' to '.join(found)} of the features."


def claims(
    labels: int,
    clusters: int,
    alphas: Sequence[float],
    deepest: int,
    ratios: Sequence[RatioRow],
    bounds: Sequence[BoundRow],
) -> list[Claim]:
    """Check the theorems and the numbers that the paper prints."""
    return [
        *_theorem_1(labels, clusters, bounds),
        *_theorem_2(labels, clusters, alphas, deepest),
        *_appendix_c(labels, clusters, alphas, deepest, ratios),
        _dense(labels, clusters, deepest),
    ]


def _theorem_1(labels: int, clusters: int, bounds: Sequence[BoundRow]) -> list[Claim]:
    depth, bound = np.array([row["depth"] for row in bounds]), np.array([row["bound"] for row in bounds])
    # The ratio grows with alpha, so its value just below a bound is the largest below it.
    below = np.asarray(theory.weight_ratio(labels, clusters, depth, bound * (1 - 1e-9)))
    found = ", ".join(
        f"{row['shown_bound']} at depth {row['depth']} (ratio there "
        f"{'just below 1' if round(ratio, 4) == 1 else f'{ratio:.4f}'})"
        for row, ratio in zip(bounds, below, strict=True)
    )
    checked = [
        Claim(
            f"Theorem 1: a tree has fewer weights than one-vs-rest if alpha is below {found}.",
            bool((below < 1).all()),
        )
    ]
    printed = [(row["depth"], row["bound"], row["printed"]) for row in bounds if row["printed"] is not None]
    if printed:
        agree = all(math.floor(1000 * computed) / 1000 == number for _, computed, number in printed)
        checked.append(
            Claim(
                "For this example the paper requires alpha below "
                + ", ".join(f"{number:g} (d = {d})" for d, _, number in printed)
                + ". Truncated to three decimals, the computed bounds are "
                + ("the same." if agree else "different."),
                agree,
            )
        )
    return checked


def _theorem_2(labels: int, clusters: int, alphas: Sequence[float], deepest: int) -> list[Claim]:
    """Check what Theorem 2 promises, and what its second sentence states."""
    promised = [
        (alpha, depth)
        for alpha in alphas
        for depth in range(2, deepest)
        if theory.shrinks_with_depth(labels, clusters, depth, alpha)
    ]
    if not promised:
        statement = "Theorem 2 does not apply: it needs D of at least 4, and an alpha below its limit."
        return [Claim(statement, None)]
    # The sign of the difference: two ratios may agree in all digits of a float.
    falls = [bool(theory.weights_saved(labels, clusters, depth, alpha) > 0) for alpha, depth in promised]
    return [
        Claim(
            f"Theorem 2: for alpha below {1 - 0.5 / clusters:g}, the ratio falls with every depth from 2 to "
            f"{deepest - 1}. It does in {sum(falls)} of {len(falls)} cases.",
            all(falls),
        ),
        Claim(
            "The second sentence of Theorem 2 states that the ratio at depth d is smaller than at d + 1. It "
            f"is in {len(falls) - sum(falls)} of {len(falls)} cases. The sentence is a slip: the first "
            "sentence and the proof state the opposite.",
            not any(falls),
        ),
    ]


def _appendix_c(
    labels: int, clusters: int, alphas: Sequence[float], deepest: int, ratios: Sequence[RatioRow]
) -> list[Claim]:
    if deepest <= 2:
        return []
    ratio = {(row["alpha"], row["depth"]): row["ratio"] for row in ratios}
    rising = [
        f"{alpha:g} (from {ratio[alpha, deepest - 1]:.4f} to {ratio[alpha, deepest]:.4f})"
        for alpha in alphas
        if theory.weights_saved(labels, clusters, deepest - 1, alpha) < 0
    ]
    found = f"It does for alpha = {', '.join(rising)}." if rising else "It does for none of these alphas."
    return [
        Claim(f"Appendix C: the last step, to d = D, may make a tree larger. {found}", bool(rising) or None)
    ]


def _dense(labels: int, clusters: int, deepest: int) -> Claim:
    more = float(theory.dense_tree_weights(labels, clusters, deepest, 1)) / labels
    return Claim(
        "Table 2: with dense weight vectors, a tree is larger than one-vs-rest. At "
        f"d = {deepest} it has {more:.4f} times as many weights.",
        more > 1,
    )
