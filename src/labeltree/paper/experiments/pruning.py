"""`pruning`: how much precision small weights are worth, and how many bytes they take."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots as figures
from labeltree.base.plots.frontier import frontier_figure
from labeltree.base.progress import Progress, part_of
from labeltree.base.system import free_disk, human_bytes
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.evaluation import metrics
from labeltree.model.frontier import Point, PointReport, measure
from labeltree.model.labeled import Validation
from labeltree.model.model import Model
from labeltree.paper.experiments.result import (
    Plot,
    Result,
    Table,
    count,
    distinct,
    group,
    listed,
    mean,
    where,
)
from labeltree.paper.experiments.session import Session, Split, check_seeds
from labeltree.settings import DEFAULT_RANKS, ScoreSettings, SolverSettings, StorageSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PrecisionName = Literal["P@1", "P@3", "P@5"]
PRECISIONS: tuple[PrecisionName, ...] = ("P@1", "P@3", "P@5")
RANKS = (1, 3, 5)
# Standard errors beyond which a change counts: by chance, one of three changes exceeds them in 5% of cases.
NOISE = 2.4


class ChangeRow(TypedDict):
    """Change of one precision on one dataset when weights below a threshold are set to zero."""

    data: str
    threshold: float
    precision: PrecisionName
    rows: int
    rows_better: int
    rows_worse: int
    change: float
    error: float


def row_precision(hits: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return P@1, P@3 and P@5 of each row in percent, rows x 3, from its hits among the first five."""
    return np.stack([100 * hits[:, :k].sum(axis=1) / k for k in RANKS], axis=1)


def compare(
    data: str,
    threshold: float,
    before: Sequence[NDArray[np.float64]],
    after: Sequence[NDArray[np.float64]],
) -> list[ChangeRow]:
    """Test whether precision changes, paired over the rows.

    Parameters
    ----------
    data : str
        Name of the dataset.
    threshold : float
    before, after : sequence of arrays, one per seed
        ``row_precision`` of the two models. The seeds share the test rows, so they are averaged row by row
        before the standard error is computed over the rows.

    Returns
    -------
    list of ChangeRow
        One per precision. The change is in points, ``error`` is its standard error.
    """
    difference = np.mean(after, axis=0) - np.mean(before, axis=0)
    n_rows = len(difference)
    change = difference.mean(axis=0)
    error = difference.std(axis=0, ddof=1) / np.sqrt(n_rows) if n_rows > 1 else np.full(len(RANKS), np.inf)
    return [
        {
            "data": data,
            "threshold": threshold,
            "precision": name,
            "rows": n_rows,
            "rows_better": int((difference[:, k] > 0).sum()),
            "rows_worse": int((difference[:, k] < 0).sum()),
            "change": float(change[k]),
            "error": float(error[k]),
        }
        for k, name in enumerate(PRECISIONS)
    ]


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
        color = figures.COLORS[number]
        axes.plot(values, color=color, marker=figures.MARKERS[number], alpha=0.85)
        places = np.arange(1, len(values)) + 0.08 * (number - 1)  # side by side
        axes.errorbar(
            places, values[1:], noise[1:], fmt="none", ecolor=color, elinewidth=1, capsize=2, alpha=0.6
        )
        ends.append((len(values) - 1, float(values[-1]), name, color))
        lowest = min(lowest, float((values - noise).min()))
    axes.axhline(0, color=figures.MUTED, linewidth=0.8, zorder=1)
    axes.set_ylabel("change of precision (points)", fontsize=9)
    axes.set_ylim(bottom=min(lowest, -SMALL_LOSS) * 1.08)
    figures.label_ends(axes, ends)


def _draw_sizes(axes: Axes, rows: Sequence[PruningSummary]) -> None:
    ends = []
    for name, color, values in (
        ("on disk", figures.INK, [row["disk_bytes"] for row in rows]),
        ("12 bytes per\nnon-zero", figures.COLORS[3], [row["paper_bytes"] for row in rows]),
    ):
        shares = [100 * value / max(values[0], 1) for value in values]
        axes.plot(shares, color=color, marker=figures.MARKERS[3], markersize=4)
        ends.append((len(shares) - 1, shares[-1], name, color))
    axes.set_ylim(0, 106)
    axes.set_ylabel("size (% of not pruned)", fontsize=9)
    figures.label_ends(axes, ends, gap=0.22)


THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
_COUNTED = 2**22  # weights that are counted at a time
_COLUMNS: dict[str, str] = {
    **{name: name for name in PRECISIONS},
    "pruned_share": "non-zeros pruned",
    "disk_bytes": "on disk",
    "paper_bytes": "12 bytes per non-zero",
}


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    seeds: Sequence[int] | None = None,
    threshold: float = 0.1,
    thresholds: Sequence[float] = THRESHOLDS,
    clusters: int = 100,
    max_depth: int = 6,
    tolerance: float = 0.001,
    beam: int = 10,
    score: str = "hinge2",
) -> Result:
    """Train once per dataset and seed, prune with each threshold, and evaluate on the test data.

    Parameters
    ----------
    session : Session
        Datasets without test data are skipped.
    progress : callable, optional
    seeds : sequence of int, optional
        Default: the first three of the session.
    threshold : float, default 0.1
        The threshold of the table; the default is the paper's.
    thresholds : sequence of float
        The thresholds of the figure.
    clusters, max_depth : int
        K and d_max.
    tolerance : float, default 0.001
        Tolerance of the solver; the default is the smallest for which it works in single precision.
    beam : int
    score : str
        How margins become scores. The default is that of LibMultiLabel 0.6, which the paper used.

    Returns
    -------
    Result
    """
    seeds = tuple(session.seeds[:3] if seeds is None else seeds)
    check_seeds(seeds)
    tried = _check_thresholds([threshold, *thresholds])
    tested = [(split, split.test) for split in session.splits if split.test is not None]
    if not tested:
        raise InputError(
            "no dataset has test data", hint="add a dataset with a test file, or skip the pruning experiment"
        )
    settings = SolverSettings(cost=1, tolerance=tolerance, max_iterations=1000, bias=0)
    rows: list[PruningRow] = []
    by_row: dict[tuple[str, float], list[NDArray[np.float64]]] = {}  # P@k of each test instance, per seed
    frontiers: dict[str, list[list[Point]]] = {}  # one per seed
    runs = [(split, test, seed) for split, test in tested for seed in seeds]
    for number, (split, test, seed) in enumerate(runs):
        part = part_of(progress, number, len(runs))
        plan = session.plan(split.name, clusters, max_depth, seed, part_of(part, 0, 3))
        plan = replace(plan, settings=settings)
        measured, points = _measure(split, test, plan, seed, tried, beam, score, session.threads, part)
        frontiers.setdefault(split.name, []).append(points)
        for row, precision in measured:
            rows.append(row)
            by_row.setdefault((split.name, row["threshold"]), []).append(precision)
    means = _means(rows)
    curve = [row for name, seeds_points in frontiers.items() for row in frontier_rows(name, seeds_points)]
    changed = [
        change
        for (name, tried_threshold), precision in by_row.items()
        if tried_threshold
        for change in compare(name, tried_threshold, by_row[name, 0.0], precision)
    ]
    skipped = [split.name for split in session.splits if split.test is None]
    return Result(
        name="pruning",
        title="Pruning: what small weights are worth",
        source="Table 3 of the paper",
        settings={
            "seeds": list(seeds),
            "threshold": threshold,
            "thresholds": tried,
            "clusters": clusters,
            "max_depth": max_depth,
            "loss": settings.loss,
            "cost": settings.cost,
            "tolerance": settings.tolerance,
            "max_iterations": settings.max_iterations,
            "bias": settings.bias,
            "beam": beam,
            "score": score,
            "left_out": skipped,
        },
        tables=[
            Table(
                "pruning",
                f"Precision in percent without pruning and with |w| < {threshold:g} set to zero. Means over "
                f"{count(len(seeds), 'seed')}.",
                {"data": "dataset", "pruning": "pruning", **_COLUMNS},
                [
                    {"pruning": "yes" if row["threshold"] else "no", **row}
                    for row in means
                    if row["threshold"] in (0, threshold)
                ],
            ),
            Table(
                "pruning-thresholds",
                "The same for more thresholds; a threshold of 0 is the model as trained.",
                {"data": "dataset", "threshold": "threshold", **_COLUMNS},
                means,
            ),
            Table(
                "pruning-changes",
                f"Change of precision, in points, with |w| < {threshold:g} set to zero, paired over the test "
                "instances: how many instances get better and worse, and the standard error.",
                {
                    "data": "dataset",
                    "precision": "precision",
                    "rows": "test instances",
                    "rows_better": "better",
                    "rows_worse": "worse",
                    "change": "change",
                    "error": "standard error",
                },
                where(changed, threshold=threshold),
            ),
            Table(
                "pruning-changes-thresholds",
                "The same for every threshold.",
                {key: key.replace("_", " ") for key in ChangeRow.__annotations__},
                changed,
                shown=False,
            ),
            Table(
                "pruning-frontier",
                "Size and precision with each type of weights and each threshold.",
                {
                    "data": "dataset",
                    "weights": "weights",
                    "threshold": "threshold",
                    "model_bytes": "on disk",
                    **{name: name for name in PRECISIONS},
                },
                curve,
                shown=False,
            ),
            Table(
                "pruning-runs",
                "One row per dataset, seed and threshold.",
                {"data": "dataset", "seed": "seed", "threshold": "threshold", **_COLUMNS},
                rows,
                shown=False,
            ),
        ],
        plots=[
            Plot(
                "pruning-thresholds",
                "Change of precision (left) and size of the model (right) when weights below a threshold are "
                f"set to zero. The bars are {NOISE:g} standard errors: a change whose bar reaches 0 is "
                f"within noise. The dotted line is the threshold of the table, {threshold:g}.",
                thresholds_figure(means, changed, threshold),
            ),
            Plot(
                "pruning-frontier",
                "Precision over the size of the model on disk: with weights as float32, float16 and int8, "
                "and without weights below a threshold (the line). Unlike in the table, the other weights "
                "of a classifier are scaled to keep their norm. The star is the smallest model that "
                f"loses at most {SMALL_LOSS:g} points of each precision on the test data, the circle the "
                f"threshold of the table, {threshold:g}.",
                frontier_figure({name: {"pruned": where(curve, data=name)} for name in frontiers}, threshold),
            ),
        ],
    )


def _measure(
    split: Split,
    test: Dataset,
    plan: Plan,
    seed: int,
    thresholds: Sequence[float],
    beam: int,
    score: str,
    threads: int | None,
    progress: Progress | None,
) -> tuple[list[tuple[PruningRow, NDArray[np.float64]]], list[Point]]:
    """Train one model in a temporary directory, and evaluate it and its compact copies.

    Returns the rows of the result, the model as trained first, each with P@k of every test instance; and
    the points of the frontier.
    """
    with tempfile.TemporaryDirectory(prefix="labeltree-pruning-") as directory:
        place = Path(directory)
        _check_space(plan, place)
        model = train_model(
            split.train, plan, place / "model", score=ScoreSettings(), progress=part_of(progress, 1, 3)
        )
        dense = [StorageSettings(codec) for codec in ("float32", "float16", "int8")]
        validation = Validation(test.X, test.align(model.label_names, model.n_labels).Y)
        points = measure(
            model,
            validation,
            place,
            dense + [StorageSettings(prune=threshold) for threshold in thresholds],
            threads=threads,
            progress=part_of(progress, 2, 3),
            beam=beam,
            score=score,
        )
        sizes = _nonzeros(model, [0.0, *thresholds])
        hits = [points[0].hits]
        for threshold in thresholds:
            copy = model.compress(place / "copy", prune=threshold, threads=threads, overwrite=True)
            labels, _ = _not_scaled(copy, model).predict(
                test.X, top=max(DEFAULT_RANKS), beam=beam, score=score, threads=threads
            )
            ranked = metrics.pad_labels(labels, max(DEFAULT_RANKS))
            hits.append(metrics.hits(validation.truth, ranked, max(DEFAULT_RANKS)))
    measured: list[tuple[PruningRow, NDArray[np.float64]]] = []
    for point, nonzeros, found in zip([points[0], *points[len(dense) :]], sizes, hits, strict=True):
        precision = row_precision(found)
        row: PruningRow = {
            "data": split.name,
            "test_instances": test.n_instances,
            "seed": seed,
            "threshold": point.form.storage.prune or 0.0,
            **_means_of_rows(precision),
            "weights": plan.n_weights,
            "nonzeros": nonzeros,
            "pruned_share": 1 - nonzeros / max(sizes[0], 1),
            "pruned_of_all_share": (sizes[0] - nonzeros) / max(plan.n_weights, 1),
            "disk_bytes": point.form.model_bytes,
            "paper_bytes": 12 * nonzeros,
        }
        measured.append((row, precision))
    return measured, points


def _not_scaled(copy: Model, model: Model) -> Model:
    """Return a pruned copy of a model without a bias that does not scale up what is left, as in the paper."""
    trees = []
    for pruned, part in zip(copy.trees, model.trees, strict=True):
        largest = [np.abs(part.block(u)[1]).max(axis=0, initial=0) for u in range(part.tree.n_nodes)]
        scales = np.where(pruned.scales > 0, np.concatenate(largest) / np.float32(127), np.float32(0))
        trees.append(replace(pruned, scales=scales))
    return Model(copy.path, copy.manifest, tuple(trees), copy.label_counts, copy.label_names)


def _nonzeros(model: Model, thresholds: Sequence[float]) -> list[int]:
    """Count the non-zero weights of a model without a bias that are at least as large as each threshold."""
    counts = np.zeros(len(thresholds), np.int64)
    for part in model.trees:
        for start in range(0, part.weights.size, _COUNTED):
            sizes = np.abs(part.weights[start : start + _COUNTED].astype(np.float64))
            counts += [np.count_nonzero(sizes >= t) if t else np.count_nonzero(sizes) for t in thresholds]
    return counts.tolist()


def _means_of_rows(precision: NDArray[np.float64]) -> Precision:
    """Return P@1, P@3 and P@5 over all test instances."""
    p1, p3, p5 = precision.mean(axis=0).tolist()
    return {"P@1": p1, "P@3": p3, "P@5": p5}


def _check_space(plan: Plan, place: Path) -> None:
    """Check memory and disk space; one compact copy exists at a time."""
    plan.check_resources(place)
    needed, free = 2 * plan.model_bytes, free_disk(place)
    if needed > free:
        raise ResourceError(
            f"not enough disk space: a model and a compact copy need {human_bytes(needed)}, "
            f"{human_bytes(free)} are free",
            file=place.parent,
            hint="set TMPDIR to a directory with more space",
        )


def _means(rows: Sequence[PruningRow]) -> list[PruningSummary]:
    """Return the means over the seeds, per dataset and threshold."""
    return [
        {
            "data": name,
            "threshold": threshold,
            "test_instances": seeds[0]["test_instances"],
            "seeds": len(seeds),
            "P@1": mean(seeds, "P@1"),
            "P@3": mean(seeds, "P@3"),
            "P@5": mean(seeds, "P@5"),
            "pruned_share": mean(seeds, "pruned_share"),
            "pruned_of_all_share": mean(seeds, "pruned_of_all_share"),
            "weights": round(mean(seeds, "weights")),
            "nonzeros": round(mean(seeds, "nonzeros")),
            "disk_bytes": round(mean(seeds, "disk_bytes")),
            "paper_bytes": round(mean(seeds, "paper_bytes")),
        }
        for (name, threshold), seeds in group(rows, "data", "threshold").items()
    ]


def _check_thresholds(thresholds: Iterable[float]) -> list[float]:
    """Return the thresholds above 0 in increasing order, without repeats; 0 is always evaluated."""
    given = [float(threshold) for threshold in thresholds]
    if not all(math.isfinite(threshold) and threshold >= 0 for threshold in given) or given[0] == 0:
        raise InputError(
            f"{listed('thresholds', given)}, expected finite numbers of at least 0, the first of them above 0"
        )
    return sorted({threshold for threshold in given if threshold > 0})
