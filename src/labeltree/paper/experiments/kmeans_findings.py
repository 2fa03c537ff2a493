"""Figure, takeaways and claims of the experiment `kmeans`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.paper.experiments.rows import distinct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTHING = "No dataset has more labels than K, so nothing is clustered."


class KMeansRow(TypedDict):
    """K-means of all nodes of one depth of one tree."""

    data: str
    clusters: int
    seed: int
    depth: int
    nodes: int
    labels: int
    nonzeros: int
    iterations: int
    multiply_adds: int
    seconds: float


class FittedRow(KMeansRow):
    """The same, with the seconds that the formula predicts."""

    fitted_seconds: float


class TreeCost(TypedDict):
    """All depths of one tree, next to the formula for a balanced tree."""

    data: str
    clusters: int
    seed: int
    depth: int
    iterations: int
    vector_nonzeros: int
    cost: float
    multiply_adds: int
    cost_share: float
    seconds: float


def table_takeaway(rows: Sequence[FittedRow]) -> str:
    """Write the range of the times."""
    if not rows:
        return NOTHING
    seconds = [row["seconds"] for row in rows]
    return f"Clustering the nodes of one depth takes {min(seconds):.2g} to {max(seconds):.2g} CPU seconds."


def figure(rows: Sequence[FittedRow]) -> Figure:
    """Draw seconds over multiply-adds, with a color per dataset and a marker per K."""
    line = optional("matplotlib.lines").Line2D
    names, clusters = distinct(rows, "data"), sorted(distinct(rows, "clusters"))
    colour = {name: figures.COLOURS[i % len(figures.COLOURS)] for i, name in enumerate(names)}
    marker = {K: figures.MARKERS[i % len(figures.MARKERS)] for i, K in enumerate(clusters)}
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.0, 3.6))
    with figures.style():
        for row in rows:
            axes.plot(
                row["multiply_adds"],
                row["seconds"],
                color=colour[row["data"]],
                marker=marker[row["clusters"]],
                linestyle="",
            )
        ends = sorted((row["multiply_adds"], row["fitted_seconds"]) for row in rows)
        axes.plot(*zip(ends[0], ends[-1], strict=True), color=figures.MUTED, linewidth=1, zorder=1)
        figures.log_axes(axes)
        axes.yaxis.set_major_formatter(optional("matplotlib.ticker").EngFormatter("s"))
        axes.set(xlabel="multiply-adds", ylabel="CPU seconds")
        handles = [
            *(line([], [], color=colour[name], marker="o", linestyle="", label=name) for name in names),
            *(
                line([], [], color=figures.MUTED, marker=marker[K], linestyle="", label=f"K = {K}")
                for K in clusters
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure
