"""Figure, takeaways and claims of the experiment `theory`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from labeltree.base import plots as figures
from labeltree.paper.experiments.rows import distinct, where

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
