"""Decisions in the output of commands: F1 over thresholds as a table and as a figure, and reliability."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.cli import printing
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.evaluation.accepted import Candidates, Decision
    from labeltree.evaluation.calibration import ReliabilityBin

_F1 = {"micro_f1": "micro F1", "macro_f1": "macro F1", "row_f1": "row F1"}
_PERCENT = {"precision": "P", "recall": "R", **_F1, "coverage": "coverage", "rows_without": "no label"}


def check_plot(plot: Path | None, overwrite: bool) -> None:
    """Refuse a figure that cannot be written, before any work is done."""
    from labeltree.base import plots as figures
    from labeltree.base.files import check_output

    if plot is None:
        return
    if plot.suffix not in (".png", ".svg"):
        raise InputError("a figure ends in .png or .svg", file=plot, hint="choose another name")
    figures.require()
    for file in (plot, plot.with_suffix(".csv")):
        check_output(file, overwrite)


def accepted_line(figures: dict[str, Any]) -> str:
    """Return a line with the F1 of the accepted labels, and the share of rows that get any, in percent."""
    return (
        f"accepted labels: micro F1 {figures['micro_F1']:.2f}%, macro F1 {figures['macro_F1']:.2f}%; "
        f"{figures['rows_with_accepted_label']:.2f}% of the labeled rows have at least one"
    )


def threshold_rows(candidates: Candidates, stored: Decision | None) -> list[dict[str, Any]]:
    """Return the figures over a grid of thresholds, with the best one of each F1 and the model's."""
    import numpy as np

    best = {name: candidates.below(_best(candidates, name)) for name in _F1}
    grid = [0.01, 0.02, *(np.arange(1, 20) / 20)]
    common = [] if stored is None or stored.thresholds is not None else [stored.threshold]
    thresholds = np.unique(np.array([*grid, *best.values(), *common]))
    figures = candidates.at(thresholds)
    rows = [
        {
            "threshold": float(threshold),
            **{name: float(values[number]) for name, values in figures.items()},
            "best": [name for name in _F1 if best[name] == threshold],
            "stored": threshold in common,
        }
        for number, threshold in enumerate(thresholds)
    ]
    if stored is not None and stored.thresholds is not None:
        rows.append({"threshold": None, **candidates.measure(stored), "best": [], "stored": True})
    return rows


def _best(candidates: Candidates, name: str) -> int:
    """Return how many candidates are accepted where an F1 is largest."""
    if candidates.ends.size == 0:
        return 0
    return int(candidates.ends[candidates.figures(candidates.ends)[name].argmax()])


def threshold_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of `threshold_rows`, in percent, and an explanation of its marks."""
    head = ["threshold", *_PERCENT.values(), "labels", ""]
    cells = (
        [
            "per label" if row["threshold"] is None else f"{row['threshold']:.4g}",
            *(f"{100 * row[name]:.2f}" + "*" * (name in row["best"]) for name in _PERCENT),
            f"{row['labels_per_row']:.2f}",
            "stored" if row["stored"] else "",
        ]
        for row in rows
    )
    more = " stored: in the model." if any(row["stored"] for row in rows) else ""
    return [
        *printing.table(head, cells),
        "",
        "In percent; *: the best F1. coverage: labels that are found at least once; no label: rows for which",
        f"no label is accepted; labels: accepted per row.{more}",
    ]


def write_plot(candidates: Candidates, plot: Path) -> None:
    """Draw precision, recall and F1 over the threshold, and write the data next to the figure."""
    import numpy as np

    from labeltree.base import plots as figures
    from labeltree.base.files import write_whole

    grid = np.arange(1, 200) / 200
    values = {name: 100 * series for name, series in candidates.at(grid).items()}
    values["labels_per_row"] /= 100
    names = {"precision": "precision", "recall": "recall", **_F1}
    figure, (axes,) = figures.new_figure(1, 1, panel=(6.4, 4.2))
    with figures.style():
        for name, color in zip(names, figures.COLORS, strict=False):
            axes.plot(grid, values[name], color=color, label=names[name])
        for name, color in list(zip(names, figures.COLORS, strict=False))[2:]:
            at = int(values[name].argmax())
            axes.plot(grid[at], values[name][at], "o", color=color)
        axes.set_xlabel("threshold")
        axes.set_ylabel("%")
        figure.legend(loc="outside lower center", ncols=len(names))
    table = [
        {"threshold": float(threshold), **{name: float(series[i]) for name, series in values.items()}}
        for i, threshold in enumerate(grid)
    ]
    draw = figures.png if plot.suffix == ".png" else figures.svg
    contents = {plot: draw(figure), plot.with_suffix(".csv"): figures.table(table)}
    for file, content in contents.items():
        with write_whole(file) as stream:
            stream.write(content)


def reliability_table(bins: list[ReliabilityBin], error: float) -> list[str]:
    """Return how often labels with a score are correct, and the expected calibration error."""
    cells = (
        [
            f"{row['low']:.1f}-{row['high']:.1f}",
            f"{row['labels']:,}",
            f"{row['mean_score']:.3f}",
            f"{row['observed']:.3f}",
        ]
        for row in bins
    )
    return [
        *printing.table(["score", "labels", "mean score", "correct"], cells),
        "",
        f"Expected calibration error {error:.4f}: how far scores are from the share of correct labels.",
    ]
