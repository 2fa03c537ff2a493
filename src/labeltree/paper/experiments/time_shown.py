"""The figures and sentences of the experiment `time`, from its rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.paper.experiments import figures
from labeltree.paper.experiments.result import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR_1 = (0.8, 1.25)  # slopes that count as proportional
TYPICALLY = 2.0  # factor that the formula may be off, in the median
MEASURES = (
    ("multiply_adds", "fitted_multiply_adds", "multiply-adds of a pass"),
    ("train_seconds", "fitted_seconds", "seconds"),
)

Row = dict[str, Any]


def fitted_figure(rows: list[Row]) -> Figure:
    """Measured against fitted, on logarithmic axes: colours for K, markers for d."""
    from matplotlib.lines import Line2D

    colours = _colours(rows)
    depths = sorted({row["max_depth"] for row in rows})
    marker = {d: figures.MARKERS[number % len(figures.MARKERS)] for number, d in enumerate(depths)}
    figure, panels = figures.new_figure(1, 2, panel=(4.2, 3.4))
    with figures.style():
        for axes, (key, fitted, name) in zip(panels, MEASURES, strict=True):
            for row in rows:
                axes.plot(row[fitted], row[key], color=colours[_name(row)], marker=marker[row["max_depth"]])
            ends = [pick(row[of] for row in rows for of in (key, fitted)) for pick in (min, max)]
            axes.plot(ends, ends, color=figures.MUTED, linewidth=1, zorder=1)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set(title=name, xlabel="formula", ylabel="measured")
        handles = [
            *(Line2D([], [], color=colour, label=name) for name, colour in colours.items()),
            *(
                Line2D([], [], color=figures.MUTED, marker=marker[d], linestyle="", label=f"d = {d}")
                for d in depths
                if d > 1
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def growth_figure(rows: list[Row]) -> Figure:
    """Work for each feature value of the data against L: one-vs-rest, and each K at its cheapest depth."""
    colours = _colours(rows)
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.6, 3.8))
    with figures.style():
        for number, (name, line) in enumerate(_lines(rows).items()):
            marker = figures.MARKERS[number % len(figures.MARKERS)]
            labels = [row["labels"] for row in line]
            formula = [_work({**row, "multiply_adds": row["fitted_multiply_adds"]}) for row in line]
            axes.plot(labels, [_work(row) for row in line], color=colours[name], marker=marker, label=name)
            axes.plot(labels, formula, color=colours[name], linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlabel="labels (L)", ylabel="multiply-adds for each feature value")
        axes.legend()
    return figure


def claims(rows: list[Row]) -> list[Claim]:
    """Whether the formulas are proportional to what was measured, and whether trees grow as log^2 L."""
    kinds = (("tree", "a tree, eq:time-complexity"), ("one-vs-rest", "one-vs-rest, eq:time-for-OVR"))
    by_kind = [([row for row in rows if row["kind"] == kind], what) for kind, what in kinds]
    return [
        *(_proportional(of_kind, what) for of_kind, what in by_kind if of_kind),
        *_growth({name: line for name, line in _lines(rows).items() if line[0]["clusters"]}),
        *_faster(rows),
    ]


def _proportional(rows: list[Row], what: str) -> Claim:
    """Whether a cost grows as what was measured does, and is typically less than a factor of 2 off."""
    said, right = [], []
    for key, fitted, name in MEASURES:
        off = np.exp(np.abs(np.log([row[key] / row[fitted] for row in rows])))
        slope = _slope([row["cost"] for row in rows], [row[key] for row in rows])
        if slope is not None:
            right.append(NEAR_1[0] <= slope <= NEAR_1[1] and np.median(off) < TYPICALLY)
            said.append(
                f"the {name} grow as its power {slope:.2f}, typically a factor of {np.median(off):.2f} off, "
                f"at most {off.max():.2f}"
            )
    return Claim(
        f"What training takes is proportional to the cost of {what}. "
        + (f"With {len(rows)} models, {'; '.join(said)}." if said else "The sizes here do not differ."),
        all(right) if right else None,
        any(right) and not all(right),
    )


def _growth(lines: dict[str, list[Row]]) -> list[Claim]:
    """Per feature value, a tree of the cheapest depth should grow as log^2 L, one-vs-rest as L."""
    said, nearer = [], []
    for name, line in lines.items():
        labels = [float(row["labels"]) for row in line]
        power = _slope(labels, [_work(row) for row in line])
        squared = _slope(labels, [math.log(count) ** 2 for count in labels])
        if power is not None and squared is not None:
            nearer.append(abs(power - squared) < abs(power - 1))
            said.append(
                f"as L^{power:.2f} for {name} ({labels[0]:,.0f} to {labels[-1]:,.0f} labels, where log^2 L "
                f"grows as L^{squared:.2f})"
            )
    if not said:
        return []
    return [
        Claim(
            "The cost of a tree of the best depth grows as log^2 L, or nearer to that than to L. The "
            f"multiply-adds for each feature value of the data grow {', '.join(said)}.",
            all(nearer),
            any(nearer) and not all(nearer),
        )
    ]


def _faster(rows: list[Row]) -> list[Claim]:
    """One-vs-rest beside the quickest tree, at the largest size that both were trained at."""
    ovr = [row for row in rows if row["kind"] == "one-vs-rest"]
    most = max((row["labels"] for row in ovr), default=0)
    trees = [row for row in rows if row["kind"] == "tree" and row["labels"] == most]
    if not trees:
        return []
    slow, quick = ovr[-1], min(trees, key=lambda row: row["train_seconds"])
    times = slow["train_seconds"] / quick["train_seconds"]
    return [
        Claim(
            f"A tree trains faster than one-vs-rest. With {most:,} labels, one-vs-rest takes "
            f"{slow['train_seconds']:.2f} s, {times:.1f} times as long as the quickest tree, K = "
            f"{quick['clusters']}, d = {quick['max_depth']}; it does "
            f"{slow['multiply_adds'] / quick['multiply_adds']:.1f} times as many multiply-adds in a pass.",
            times > 1,
        )
    ]


def _work(row: Row) -> float:
    """Multiply-adds of a pass for each feature value of the data."""
    return float(row["multiply_adds"] / (row["instances"] * row["nonzeros"]))


def _lines(rows: list[Row]) -> dict[str, list[Row]]:
    """By growing L: one-vs-rest, and of each K the depth that costs least by the formula."""
    best: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: row["cost"], reverse=True):
        best[row["clusters"] or 0, row["labels"]] = row
    lines: dict[str, list[Row]] = {}
    for _, row in sorted(best.items(), key=lambda item: item[0]):
        lines.setdefault(_name(row), []).append(row)
    return lines


def _name(row: Row) -> str:
    return f"K = {row['clusters']}" if row["clusters"] else "one-vs-rest"


def _colours(rows: list[Row]) -> dict[str, str]:
    names = [name for name in _lines(rows) if name != "one-vs-rest"]
    cycle = zip(names, figures.COLOURS * len(names), strict=False)
    return ({"one-vs-rest": figures.INK} if len(names) < len(_lines(rows)) else {}) | dict(cycle)


def _slope(x: list[float], y: list[float]) -> float | None:
    """Of the line through logarithms; None where x does not differ."""
    if max(x) < 1.5 * min(x):
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
