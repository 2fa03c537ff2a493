"""The figures and sentences of the experiment `pruning`, from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.paper.experiments import figures
from labeltree.paper.experiments.result import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KS = (1, 3, 5)
BEARABLE = 0.1  # points of P@k, for the sentence on the choice of a threshold
LEAST_TEST = 1000  # instances of a test set on which a change of so few points says something

Row = dict[str, Any]


def threshold_figure(means: list[Row], threshold: float) -> Figure:
    """Change of P@k against the threshold, a panel for each data set."""
    names = _names(means)
    figure, panels = figures.small_multiples(len(names))
    with figures.style():
        for name, axes in zip(names, panels, strict=True):
            for number, k in enumerate(KS):
                line = _changes(means, name, k)
                axes.plot(
                    [row["threshold"] for row in line],
                    [row["change"] for row in line],
                    color=figures.COLOURS[number],
                    marker=figures.MARKERS[number],
                    label=f"P@{k}",
                )
            axes.axvline(threshold, color=figures.MUTED, linestyle=":", linewidth=1.2)
            figures.title(axes, name)
            axes.set(xlabel="threshold", ylabel="change, points")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(KS))
    return figure


def bytes_figure(means: list[Row]) -> Figure:
    """Change of P@k against the size, a panel for each data set."""
    from matplotlib.lines import Line2D

    names = _names(means)
    figure, panels = figures.small_multiples(len(names))
    with figures.style():
        for name, axes in zip(names, panels, strict=True):
            for number, k in enumerate(KS):
                line = _changes(means, name, k)
                for key, dashes in (("disk_bytes", "-"), ("paper_bytes", "--")):
                    axes.plot(
                        [row[key] / 1e6 for row in line],
                        [row["change"] for row in line],
                        color=figures.COLOURS[number],
                        marker=figures.MARKERS[number],
                        linestyle=dashes,
                    )
            axes.set_xscale("log")
            figures.title(axes, name)
            axes.set(xlabel="MB", ylabel="change, points")
        figure.legend(
            handles=[
                *(
                    Line2D([], [], color=figures.COLOURS[n], marker=figures.MARKERS[n], label=f"P@{k}")
                    for n, k in enumerate(KS)
                ),
                Line2D([], [], color=figures.INK, label="on disk"),
                Line2D([], [], color=figures.INK, linestyle="--", label="12 bytes a non-zero"),
            ],
            loc="outside lower center",
            ncols=5 if len(names) > 1 else 2,
        )
    return figure


def precision_claim(rows: list[Row], threshold: float) -> Claim:
    """Whether precision falls, as the paper says it does on all data sets.

    It does where P@1, P@3 and P@5 all fall, in the mean over the seeds. A small test set cannot tell.
    """
    found: dict[str, tuple[bool | None, str]] = {}
    for name in _names(rows):
        by_seed = {(row["seed"], row["threshold"]): row for row in rows if row["data"] == name}
        seeds = list(dict.fromkeys(seed for seed, _ in by_seed))
        pairs = [(by_seed[seed, 0], by_seed[seed, threshold]) for seed in seeds]
        changes = {k: [after[f"P@{k}"] - before[f"P@{k}"] for before, after in pairs] for k in KS}
        lower = [float(np.mean(change)) < 0 for change in changes.values()]
        said = ", ".join(
            f"P@{k} {np.mean(change):+.2f} points, lower with {sum(c < 0 for c in change)} of {len(seeds)} "
            "seeds"
            for k, change in changes.items()
        )
        share = np.mean([after["pruned_share"] for _, after in pairs])
        tested = pairs[0][0]["test_instances"]
        verdict = None if tested < LEAST_TEST else all(lower)
        found[name] = (
            verdict,
            f"{said}; {100 * share:.1f} % of the non-zero weights pruned; {tested:,} test instances",
        )
    return Claim.of_data(
        f"Setting weights below {threshold:g} to zero lowers P@1, P@3 and P@5 (here: told from "
        f"{LEAST_TEST:,} test instances on).",
        found,
    )


def threshold_claim(means: list[Row]) -> Claim:
    """Whether one threshold would suit all data sets; small test sets cannot tell."""
    told = [row for row in means if row["test_instances"] >= LEAST_TEST]
    suits = {name: _bearable(told, name) for name in _names(told)}
    said = ", ".join(f"{threshold:g} on {name}" for name, threshold in suits.items())
    largest = "The largest threshold tried up to which no precision falls by more than"
    return Claim(
        "A suitable threshold is hard to choose, as it differs from data to data. "
        + (
            f"{largest} {BEARABLE:g} points is {said}."
            if said
            else f"The test sets here have fewer than {LEAST_TEST:,} instances."
        ),
        len(set(suits.values())) > 1 if len(suits) > 1 else None,
    )


def _bearable(means: list[Row], name: str) -> float:
    """The largest threshold that, like all below it, costs little; 0 if every one costs more."""
    best = 0.0
    changes = zip(*(_changes(means, name, k) for k in KS), strict=True)
    for at_threshold in changes:
        if min(row["change"] for row in at_threshold) < -BEARABLE:
            break
        best = at_threshold[0]["threshold"]
    return best


def _changes(means: list[Row], name: str, k: int) -> list[Row]:
    """The means of a data set by rising threshold, with the change of P@k from the first, not pruned."""
    of_set = [row for row in means if row["data"] == name]
    return [{**row, "change": row[f"P@{k}"] - of_set[0][f"P@{k}"]} for row in of_set]


def _names(means: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["data"] for row in means))
