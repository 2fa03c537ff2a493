"""Figure, takeaways and claims of the experiment `pruning`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.model.frontier import Point, PointReport
from labeltree.paper.experiments import paired
from labeltree.paper.experiments.paired import NOISE, PRECISIONS, ChangeRow, PrecisionName
from labeltree.paper.experiments.result import Claim, Findings
from labeltree.paper.experiments.rows import by_dataset, distinct, mean, percent, where

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


def frontier_takeaway(rows: Sequence[FrontierRow], threshold: float) -> str:
    """Compare the chosen size with that of the threshold of the table."""
    full = {row["data"]: row["model_bytes"] for row in rows if row["weights"] == "float32"}

    def shares(points: Sequence[FrontierRow]) -> dict[str, float]:
        return {row["data"]: row["model_bytes"] / full[row["data"]] for row in points}

    chosen = by_dataset(shares(where(rows, chosen=True)), unit="of the size of the float32 model")
    return (
        f"The smallest model that loses at most {SMALL_LOSS:g} points takes {chosen}; "
        f"a threshold of {threshold:g} gives {by_dataset(shares(where(rows, threshold=threshold)))}."
    )


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


def thresholds_takeaway(changed: Sequence[ChangeRow], threshold: float) -> str:
    """Write the change of P@1 at the threshold of the table, and where it is within noise."""
    rows = where(changed, threshold=threshold, precision="P@1")
    found = by_dataset({row["data"]: row["change"] for row in rows}, lambda c: f"{c:+.2f}", "points")
    noisy = [row["data"] for row in rows if row["verdict"] == "within noise"]
    where_noisy = "" if len(rows) == 1 else f" on {len(noisy)} of {len(rows)} datasets"
    note = f", which is within noise{where_noisy}" if noisy else ", which is beyond noise"
    return f"A threshold of {threshold:g} changes P@1 by {found}{note}."


def changes_takeaway(changed: Sequence[ChangeRow], threshold: float) -> str:
    """Count the changes at the threshold of the table by verdict."""
    rows = where(changed, threshold=threshold)
    counts = {verdict: len(where(rows, verdict=verdict)) for verdict in ("lower", "higher", "within noise")}
    return (
        f"Of {len(rows)} changes, {counts['lower']} are losses and {counts['higher']} are gains beyond "
        f"noise; {counts['within noise']} are within noise."
    )


def sizes_takeaway(means: Sequence[PruningSummary], threshold: float) -> str:
    """Write the share of the weights that the threshold of the table removes."""
    found = {row["data"]: row["pruned_share"] for row in where(means, threshold=threshold)}
    return f"A threshold of {threshold:g} removes {by_dataset(found, unit='of the non-zero weights')}."


def suitable_takeaway(means: Sequence[PruningSummary]) -> str:
    """Write the largest threshold that costs little precision."""
    found = {name: suitable_threshold(means, name) for name in distinct(means, "data")}
    return (
        f"The largest threshold that costs at most {SMALL_LOSS:g} points of any precision is "
        f"{by_dataset(found, lambda t: f'{t:g}')}."
    )


def precision_claim(changed: Sequence[ChangeRow], rows: Sequence[PruningRow], threshold: float) -> Claim:
    """Check that pruning lowers precision, as the paper finds on all its datasets.

    It does where a precision falls beyond noise and none rises beyond it.
    """
    findings: Findings = {}
    for name in distinct(changed, "data"):
        mine = where(changed, data=name, threshold=threshold)
        pruned = where(rows, data=name, threshold=threshold)
        share = sum(row["pruned_share"] for row in pruned) / len(pruned)
        found = f"{paired.written(mine)}; {percent(share)} of the non-zero weights pruned"
        findings[name] = paired.overall(mine), found
    return Claim.from_findings(
        f"Setting weights below {threshold:g} to zero lowers precision (tested: P@1, P@3 or P@5 falls by "
        f"more than {NOISE:g} standard errors, paired over the test instances, and none rises as much; "
        "otherwise it is within noise).",
        findings,
    )


def threshold_claim(means: Sequence[PruningSummary], changed: Sequence[ChangeRow]) -> Claim:
    """Check that no threshold suits all datasets.

    This takes two datasets and a threshold that costs at most `SMALL_LOSS` on one of them, and more than
    that on the other, by a difference beyond noise.
    """
    suitable = {name: suitable_threshold(means, name) for name in distinct(means, "data")}
    found = (
        f"The largest threshold that costs at most {SMALL_LOSS:g} points of any precision is "
        f"{', '.join(f'{threshold:g} on {name}' for name, threshold in suitable.items())}."
    )
    apart = _told_apart(changed)
    if len(suitable) > 1:
        different = len(set(suitable.values())) > 1
        holds = True if apart else None if different else False
        found += f" {apart}" if apart else " The difference is within noise." if different else ""
    else:
        holds = None
    return Claim(
        f"A suitable threshold is hard to choose, because it differs between datasets. {found}", holds
    )


def _told_apart(changed: Sequence[ChangeRow]) -> str:
    """Name a threshold that suits one dataset and clearly not another; nothing if there is none."""
    for threshold in distinct(changed, "threshold"):
        worst = {
            name: min(where(changed, data=name, threshold=threshold), key=lambda row: row["change"])
            for name in distinct(changed, "data")
        }
        for good, bad in permutations(worst.values(), 2):
            if good["change"] >= -SMALL_LOSS > bad["change"] and paired.clearly_apart(bad, good):
                return (
                    f"At {threshold:g}, {bad['data']} loses {-bad['change']:.2f} ± {bad['error']:.2f} points "
                    f"of {bad['precision']}; the worst change on {good['data']} is {good['change']:+.2f} ± "
                    f"{good['error']:.2f}."
                )
    return ""


def suitable_threshold(means: Sequence[PruningSummary], data: str) -> float:
    """Return the largest threshold up to which all thresholds cost little; 0 if every one costs more."""
    best = 0.0
    worst = zip(*changes(means, data).values(), strict=True)
    for row, change in zip(where(means, data=data), worst, strict=True):
        if min(change) < -SMALL_LOSS:
            break
        best = row["threshold"]
    return best
