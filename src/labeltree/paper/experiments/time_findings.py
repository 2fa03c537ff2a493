"""Figures, takeaways and claims of the experiment `time`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.paper.experiments.fits import CONFIDENCE, fit_powers
from labeltree.paper.experiments.result import Claim, Findings
from labeltree.paper.experiments.rows import count, distinct, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR_1 = (0.8, 1.25)  # slopes that count as proportional
# A power of L is fitted to at least this many sizes, the largest of which is this many times the smallest.
LEAST_SIZES, LEAST_RANGE = 4, 10.0
TOO_FAST = 2.0  # power of log^2 L that must be excluded
TYPICAL_ERROR = 2.0  # factor that the formula may be off by, in the median
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


def fitted_takeaway(rows: Sequence[TimeRow]) -> str:
    """Write how far the formulas are off."""
    adds, seconds = (float(np.median(_errors(rows, measured, fitted))) for measured, fitted, _ in MEASURES)
    return (
        f"Typically, the formulas are off by a factor of {adds:.2f} in multiply-adds and of {seconds:.2f} in "
        "seconds."
    )


def growth_takeaway(rows: Sequence[TimeRow]) -> str:
    """Compare the work of one-vs-rest and of trees, at the largest size at which both were trained."""
    work = {row["labels"]: _work(row) for row in where(rows, kind="one-vs-rest")}
    trees = [
        row for line in _lines(rows).values() for row in line if row["clusters"] and row["labels"] in work
    ]
    if not trees:
        return "No size was trained both as one-vs-rest and as a tree."
    most = max(row["labels"] for row in trees)
    factors = sorted(work[most] / _work(row) for row in where(trees, labels=most))
    low, high = f"{factors[0]:.1f}", f"{factors[-1]:.1f}"
    times = low if low == high else f"{low} to {high}"
    return f"With {most:,} labels, one-vs-rest needs {times} times as many multiply-adds as a tree."


def table_takeaway(rows: Sequence[TimeRow]) -> str:
    """Write the range of the training times."""
    seconds = [row["train_seconds"] for row in rows]
    n_labels = distinct(rows, "labels")
    return (
        f"Training {count(len(rows), 'model')} of {min(n_labels):,} to {max(n_labels):,} labels took "
        f"{min(seconds):.2g} to {max(seconds):.2g} s each."
    )


def claims(rows: Sequence[TimeRow]) -> list[Claim]:
    """Check that training time is proportional to the formulas, and that trees grow as log^2 L."""
    kinds = (("tree", "of a tree (equation 5)"), ("one-vs-rest", "of one-vs-rest (equation 4)"))
    by_kind = [(where(rows, kind=kind), what) for kind, what in kinds]
    return [
        *(_proportional(models, what) for models, what in by_kind if models),
        *_growth({name: line for name, line in _lines(rows).items() if line[0]["clusters"]}),
        *_faster(rows),
    ]


def _errors(rows: Sequence[TimeRow], measured: Measured, fitted: Fitted) -> np.ndarray:
    """Return the factor, at least 1, by which the formula is off for each model."""
    return np.exp(np.abs(np.log([row[measured] / row[fitted] for row in rows])))


def _proportional(rows: Sequence[TimeRow], what: str) -> Claim:
    """Check that measurements grow as the cost does, and are typically less than a factor of 2 off."""
    found, right = [], []
    for key, fitted, name in MEASURES:
        off = _errors(rows, key, fitted)
        slope = _slope([row["cost"] for row in rows], [row[key] for row in rows])
        if slope is not None:
            right.append(bool(NEAR_1[0] <= slope <= NEAR_1[1] and np.median(off) < TYPICAL_ERROR))
            found.append(
                f"the {name} grow as the cost to the power {slope:.2f} and are off by a factor of "
                f"{np.median(off):.2f} typically, {off.max():.2f} at most"
            )
    numbers = (
        f"For {count(len(rows), 'model')}, {'; '.join(found)}." if found else "All models cost the same."
    )
    return Claim(
        f"Training time is proportional to the cost {what}. {numbers}",
        all(right) if right else None,
        any(right) and not all(right),
    )


def _growth(lines: dict[str, list[TimeRow]]) -> list[Claim]:
    """Check that the work per feature value grows as log^2 L for trees of the cheapest depth.

    Two fits decide. The interval of the power of L must exclude 1 (linear growth). That of the power of
    log^2 L must contain 1 or be below it, and end below `TOO_FAST`: a wider one decides nothing.
    """
    findings: Findings = {}
    for name, line in lines.items():
        labels = np.array([float(row["labels"]) for row in line])
        work = [_work(row) for row in line]
        sizes = f"{count(len(line), 'size')} from {labels[0]:,.0f} to {labels[-1]:,.0f} labels"
        if len(line) < LEAST_SIZES or labels[-1] < LEAST_RANGE * labels[0]:
            findings[name] = None, f"{sizes}: too few to decide"
            continue
        (power,), (of_squared,) = fit_powers([labels], work), fit_powers([np.square(np.log(labels))], work)
        found = f"as L^{power}, and as log^2 L to the power {of_squared}; {sizes}"
        if of_squared.low > 1:
            findings[name] = False, found
        else:
            findings[name] = True if power.high < 1 and of_squared.high < TOO_FAST else None, found
    if not findings:
        return []
    return [
        Claim.from_findings(
            "The cost of a tree of the best depth grows as log^2 L (tested on the multiply-adds per feature "
            f"value, with intervals of {CONFIDENCE:.0%}: that of the power of log^2 L is not above 1 and "
            f"ends below {TOO_FAST:g}, and that of the power of L ends below 1; wider ones decide nothing).",
            findings,
        )
    ]


def _faster(rows: Sequence[TimeRow]) -> list[Claim]:
    """Compare one-vs-rest with the fastest tree, at the largest size at which both were trained."""
    ovr = where(rows, kind="one-vs-rest")
    most = max((row["labels"] for row in ovr), default=0)
    trees = where(rows, kind="tree", labels=most)
    if not trees:
        return []
    slow, fast = ovr[-1], min(trees, key=lambda row: row["train_seconds"])
    times = slow["train_seconds"] / fast["train_seconds"]
    return [
        Claim(
            f"A tree trains faster than one-vs-rest. With {most:,} labels, one-vs-rest takes "
            f"{slow['train_seconds']:.2f} s, {times:.1f} times as long as the fastest tree (K = "
            f"{fast['clusters']}, d = {fast['max_depth']}), and needs "
            f"{slow['multiply_adds'] / fast['multiply_adds']:.1f} times as many multiply-adds per pass.",
            times > 1,
        )
    ]


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


def _slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the slope of the line through the logarithms; None if the values of x are too close."""
    if max(x) < 1.5 * min(x):
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
