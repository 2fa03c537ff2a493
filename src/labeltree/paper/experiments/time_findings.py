"""Figures, takeaways and claims of the experiment `time`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.paper.experiments.rows import count, distinct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A power of L is fitted to at least this many sizes, the largest of which is this many times the smallest.
LEAST_SIZES, LEAST_RANGE = 4, 10.0
Measured = Literal["multiply_adds", "train_seconds"]
Fitted = Literal["fitted_multiply_adds", "fitted_seconds"]
MEASURES: tuple[tuple[Measured, Fitted, str], ...] = (
    ("multiply_adds", "fitted_multiply_adds", "multiply-adds per pass"),
    ("train_seconds", "fitted_seconds", "seconds"),
)


class MeasuredRow(TypedDict):
    """One trained model: its shape, its cost by the formula, and what was measured."""

    like: str
    scale: float
    kind: str
    labels: int
    instances: int
    features: int
    nonzeros: float
    labels_each: float
    clusters: int | None
    max_depth: int
    depth: int
    nodes: int
    weights: int
    model_bytes: int
    cost: float
    multiply_adds: int
    train_seconds: float
    tree_seconds: float | None


class TimeRow(MeasuredRow):
    """A trained model, and what the formula predicts for it."""

    fitted_multiply_adds: float
    fitted_seconds: float


def fitted_figure(rows: Sequence[TimeRow]) -> Figure:
    """Draw measured over fitted on logarithmic axes, with a color per K and a marker per d."""
    line = optional("matplotlib.lines").Line2D
    colours = _colours(rows)
    depths = sorted(distinct(rows, "max_depth"))
    marker = {d: figures.MARKERS[number % len(figures.MARKERS)] for number, d in enumerate(depths)}
    figure, panels = figures.new_figure(1, 2, panel=(4.2, 3.4))
    with figures.style():
        for axes, (key, fitted, name) in zip(panels, MEASURES, strict=True):
            for row in rows:
                axes.plot(row[fitted], row[key], color=colours[_name(row)], marker=marker[row["max_depth"]])
            values = [value for row in rows for value in (row[key], row[fitted])]
            ends = min(values), max(values)
            axes.plot(ends, ends, color=figures.MUTED, linewidth=1, zorder=1)
            figures.log_axes(axes, "s" if key == "train_seconds" else "")
            axes.set(title=name, xlabel="formula", ylabel="measured")
        handles = [
            *(line([], [], color=colour, label=name) for name, colour in colours.items()),
            *(
                line([], [], color=figures.MUTED, marker=marker[d], linestyle="", label=f"d = {d}")
                for d in depths
                if d > 1
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def growth_figure(rows: Sequence[TimeRow]) -> Figure:
    """Draw the work per feature value over L: one-vs-rest, and each K at its cheapest depth."""
    colours = _colours(rows)
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.0, 3.4))
    with figures.style():
        ends = []
        for number, (name, line) in enumerate(_lines(rows).items()):
            labels, work = [row["labels"] for row in line], [_work(row) for row in line]
            formula = [
                w * row["fitted_multiply_adds"] / row["multiply_adds"]
                for w, row in zip(work, line, strict=True)
            ]
            marker = figures.MARKERS[number % len(figures.MARKERS)]
            axes.plot(labels, work, color=colours[name], marker=marker)
            axes.plot(labels, formula, color=colours[name], linestyle=":")
            ends.append((labels[-1], work[-1], name, colours[name]))
        figures.log_axes(axes)
        n_labels = distinct(rows, "labels")
        axes.set_xticks(n_labels, [f"{n:,}" for n in n_labels])
        axes.set(xlabel="labels (L)", ylabel="multiply-adds per feature value")
        figures.label_ends(axes, ends, gap=0.06)
    return figure


def table_takeaway(rows: Sequence[TimeRow]) -> str:
    """Write the range of the training times."""
    seconds = [row["train_seconds"] for row in rows]
    n_labels = distinct(rows, "labels")
    return (
        f"Training {count(len(rows), 'model')} of {min(n_labels):,} to {max(n_labels):,} labels took "
        f"{min(seconds):.2g} to {max(seconds):.2g} s each."
    )


def _work(row: TimeRow) -> float:
    """Return the multiply-adds of a pass per feature value of the data."""
    return float(row["multiply_adds"] / (row["instances"] * row["nonzeros"]))


def _lines(rows: Sequence[TimeRow]) -> dict[str, list[TimeRow]]:
    """Return, by increasing L, one-vs-rest, and of each K the depth that costs least by the formula."""
    best: dict[tuple[int, int], TimeRow] = {}
    for row in sorted(rows, key=lambda row: row["cost"], reverse=True):
        best[row["clusters"] or 0, row["labels"]] = row
    lines: dict[str, list[TimeRow]] = {}
    for _, row in sorted(best.items(), key=lambda item: item[0]):
        lines.setdefault(_name(row), []).append(row)
    return lines


def _name(row: TimeRow) -> str:
    return f"K = {row['clusters']}" if row["clusters"] else "one-vs-rest"


def _colours(rows: Sequence[TimeRow]) -> dict[str, str]:
    names = list(_lines(rows))
    trees = [name for name in names if name != "one-vs-rest"]
    cycle = zip(trees, figures.COLOURS * len(trees), strict=False)
    return ({"one-vs-rest": figures.INK} if len(trees) < len(names) else {}) | dict(cycle)
