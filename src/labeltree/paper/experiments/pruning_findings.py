"""Figure, takeaways and claims of the experiment `pruning`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.model.frontier import Point, PointReport
from labeltree.paper.experiments.paired import NOISE, PRECISIONS, ChangeRow, PrecisionName
from labeltree.paper.experiments.rows import distinct, mean, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALL_LOSS = 0.1  # points of P@k that a suitable threshold may cost

Precision = TypedDict("Precision", {"P@1": float, "P@3": float, "P@5": float})


class PruningSizes(TypedDict):
    """What a threshold leaves of a model."""

    weights: int
    nonzeros: int
    pruned_share: float
    pruned_of_all_share: float
    disk_bytes: int
    paper_bytes: int


class PruningRow(Precision, PruningSizes):
    """One dataset, seed and threshold; a threshold of 0 is the model as trained."""

    data: str
    test_instances: int
    seed: int
    threshold: float


class PruningSummary(Precision, PruningSizes):
    """Means over the seeds, for one dataset and threshold."""

    data: str
    threshold: float
    test_instances: int
    seeds: int


class FrontierRow(PointReport):
    """A point of the frontier of a dataset: means over the seeds."""

    data: str


def frontier_rows(data: str, seeds: Sequence[Sequence[Point]]) -> list[FrontierRow]:
    """Return the means over the seeds, which all have the same forms, with the chosen form marked."""
    rows: list[Any] = []
    for points in zip(*seeds, strict=True):
        reports = [point.report(False) for point in points]
        stored = None if reports[0]["nonzeros"] is None else round(mean(reports, "nonzeros"))
        rows.append(
            {
                "data": data,
                **reports[0],
                "model_bytes": round(mean(reports, "model_bytes")),
                "nonzeros": stored,
                **{name: mean(reports, name) for name in PRECISIONS},
            }
        )
    worst = [max(rows[0][name] - row[name] for name in PRECISIONS) for row in rows]
    allowed = [row for row, loss in zip(rows, worst, strict=True) if loss <= SMALL_LOSS]
    min(allowed, key=lambda row: row["model_bytes"])["chosen"] = True
    return rows


def changes(means: Sequence[PruningSummary], data: str) -> dict[PrecisionName, list[float]]:
    """Return the change of each precision at each threshold, in points; the first row is not pruned."""
    rows = where(means, data=data)
    return {name: [row[name] - rows[0][name] for row in rows] for name in PRECISIONS}


def thresholds_figure(
    means: Sequence[PruningSummary], changed: Sequence[ChangeRow], threshold: float
) -> Figure:
    """Draw precision and size over the threshold: one row of two panels per dataset."""
    names = distinct(means, "data")
    figure, panels = figures.new_figure(len(names), 2, panel=(4.6, 2.4))
    with figures.style():
        for number, name in enumerate(names):
            precision, size = panels[2 * number : 2 * number + 2]
            rows = where(means, data=name)
            of_table = [row["threshold"] for row in rows].index(threshold)
            _draw_precision(precision, where(changed, data=name))
            _draw_sizes(size, rows)
            figures.title(precision, name)
            for axes in (precision, size):
                # Thresholds are evenly spaced: most of them are close to 0.
                axes.set_xticks(range(len(rows)), ["none", *(f"{row['threshold']:g}" for row in rows[1:])])
                axes.axvline(of_table, color=figures.MUTED, linestyle=":", linewidth=1.2, zorder=1)
                if number == len(names) - 1:
                    axes.set_xlabel("threshold")
    return figure


def _draw_precision(axes: Axes, changed: Sequence[ChangeRow]) -> None:
    """Draw the change of each precision, with its noise as error bars."""
    lowest, ends = 0.0, []
    for number, name in enumerate(PRECISIONS):
        rows = where(changed, precision=name)
        values = np.array([0.0, *(row["change"] for row in rows)])
        noise = NOISE * np.array([0.0, *(row["error"] for row in rows)])
        colour = figures.COLOURS[number]
        axes.plot(values, color=colour, marker=figures.MARKERS[number], alpha=0.85)
        places = np.arange(1, len(values)) + 0.08 * (number - 1)  # side by side
        axes.errorbar(
            places, values[1:], noise[1:], fmt="none", ecolor=colour, elinewidth=1, capsize=2, alpha=0.6
        )
        ends.append((len(values) - 1, float(values[-1]), name, colour))
        lowest = min(lowest, float((values - noise).min()))
    axes.axhline(0, color=figures.MUTED, linewidth=0.8, zorder=1)
    axes.set_ylabel("change of precision (points)", fontsize=9)
    axes.set_ylim(bottom=min(lowest, -SMALL_LOSS) * 1.08)
    figures.label_ends(axes, ends)


def _draw_sizes(axes: Axes, rows: Sequence[PruningSummary]) -> None:
    ends = []
    for name, colour, values in (
        ("on disk", figures.INK, [row["disk_bytes"] for row in rows]),
        ("12 bytes per\nnon-zero", figures.COLOURS[3], [row["paper_bytes"] for row in rows]),
    ):
        shares = [100 * value / max(values[0], 1) for value in values]
        axes.plot(shares, color=colour, marker=figures.MARKERS[3], markersize=4)
        ends.append((len(shares) - 1, shares[-1], name, colour))
    axes.set_ylim(0, 106)
    axes.set_ylabel("size (% of not pruned)", fontsize=9)
    figures.label_ends(axes, ends, gap=0.22)
