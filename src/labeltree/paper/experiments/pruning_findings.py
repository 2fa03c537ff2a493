"""Figure, takeaways and claims of the experiment `pruning`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from labeltree.paper.experiments import figures
from labeltree.paper.experiments.result import Claim, Findings
from labeltree.paper.experiments.rows import by_dataset, distinct, mean, percent, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PrecisionName = Literal["P@1", "P@3", "P@5"]
PRECISIONS: tuple[PrecisionName, ...] = ("P@1", "P@3", "P@5")
SMALL_LOSS = 0.1  # points of P@k that a suitable threshold may cost
MIN_TEST_INSTANCES = 1000  # test instances from which a change of a few points means something

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


def changes(means: Sequence[PruningSummary], data: str) -> dict[PrecisionName, list[float]]:
    """Return the change of each precision at each threshold, in points; the first row is not pruned."""
    rows = where(means, data=data)
    return {name: [row[name] - rows[0][name] for row in rows] for name in PRECISIONS}


def thresholds_figure(means: Sequence[PruningSummary], threshold: float) -> Figure:
    """Draw precision and size over the threshold: one row of two panels per dataset."""
    names = distinct(means, "data")
    figure, panels = figures.new_figure(len(names), 2, panel=(4.6, 2.4))
    with figures.style():
        for number, name in enumerate(names):
            precision, size = panels[2 * number : 2 * number + 2]
            rows = where(means, data=name)
            of_table = [row["threshold"] for row in rows].index(threshold)
            _draw_precision(precision, changes(means, name))
            _draw_sizes(size, rows)
            figures.title(precision, name)
            for axes in (precision, size):
                # Thresholds are evenly spaced: most of them are close to 0.
                axes.set_xticks(range(len(rows)), ["none", *(f"{row['threshold']:g}" for row in rows[1:])])
                axes.axvline(of_table, color=figures.MUTED, linestyle=":", linewidth=1.2, zorder=1)
                if number == len(names) - 1:
                    axes.set_xlabel("threshold")
    return figure


def _draw_precision(axes: Axes, change: dict[PrecisionName, list[float]]) -> None:
    for number, values in enumerate(change.values()):
        axes.plot(values, color=figures.COLOURS[number], marker=figures.MARKERS[number], alpha=0.85)
    axes.axhline(0, color=figures.MUTED, linewidth=0.8, zorder=1)
    axes.set_ylabel("change of precision (points)", fontsize=9)
    lowest = min(min(values) for values in change.values())
    axes.set_ylim(bottom=min(lowest, -SMALL_LOSS) * 1.08)
    ends = [
        (len(values) - 1, values[-1], name, figures.COLOURS[number])
        for number, (name, values) in enumerate(change.items())
    ]
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


def thresholds_takeaway(means: Sequence[PruningSummary], threshold: float) -> str:
    """Write the change of P@1 at the threshold of the table."""
    found = {
        row["data"]: change
        for name in distinct(means, "data")
        for row, change in zip(where(means, data=name), changes(means, name)["P@1"], strict=True)
        if row["threshold"] == threshold
    }
    return (
        f"A threshold of {threshold:g} changes P@1 by {by_dataset(found, lambda c: f'{c:+.2f}', 'points')}."
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


def precision_claim(rows: Sequence[PruningRow], threshold: float) -> Claim:
    """Check that pruning lowers precision, as the paper finds on all its datasets.

    It does where the means of P@1, P@3 and P@5 over the seeds all fall. A small test set is inconclusive.
    """
    findings: Findings = {}
    for name in distinct(rows, "data"):
        before, after = (where(rows, data=name, threshold=t) for t in (0, threshold))
        change = {key: mean(after, key) - mean(before, key) for key in PRECISIONS}
        found = ", ".join(f"{key} {value:+.2f}" for key, value in change.items())
        found += f" points; {percent(mean(after, 'pruned_share'))} of the non-zero weights pruned"
        if before[0]["test_instances"] < MIN_TEST_INSTANCES:
            findings[name] = None, f"{found}; only {before[0]['test_instances']:,} test instances"
        else:
            findings[name] = all(value < 0 for value in change.values()), found
    return Claim.from_findings(
        f"Setting weights below {threshold:g} to zero lowers P@1, P@3 and P@5 (tested: with at least "
        f"{MIN_TEST_INSTANCES:,} test instances).",
        findings,
    )


def threshold_claim(means: Sequence[PruningSummary]) -> Claim:
    """Check that no threshold suits all datasets; those with a small test set do not count."""
    large = [row for row in means if row["test_instances"] >= MIN_TEST_INSTANCES]
    suitable = {name: suitable_threshold(large, name) for name in distinct(large, "data")}
    found = (
        f"The largest threshold that costs at most {SMALL_LOSS:g} points of any precision is "
        f"{', '.join(f'{threshold:g} on {name}' for name, threshold in suitable.items())}."
        if suitable
        else f"The test sets have fewer than {MIN_TEST_INSTANCES:,} instances."
    )
    return Claim(
        f"A suitable threshold is hard to choose, because it differs between datasets. {found}",
        len(set(suitable.values())) > 1 if len(suitable) > 1 else None,
    )


def suitable_threshold(means: Sequence[PruningSummary], data: str) -> float:
    """Return the largest threshold up to which all thresholds cost little; 0 if every one costs more."""
    best = 0.0
    worst = zip(*changes(means, data).values(), strict=True)
    for row, change in zip(where(means, data=data), worst, strict=True):
        if min(change) < -SMALL_LOSS:
            break
        best = row["threshold"]
    return best
