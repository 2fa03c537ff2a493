"""`pruning`: how much precision small weights are worth, and how many bytes they take."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots
from labeltree.base.progress import Progress, ignore, part_of
from labeltree.base.system import free_disk, human_bytes
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.evaluation import metrics
from labeltree.model.labeled import Validation
from labeltree.model.model import Model
from labeltree.paper.session import Session, Split, steps
from labeltree.paper.table import Row, Table, distinct, listed, means, where
from labeltree.settings import DEFAULT_RANKS, ScoreSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import PAPER_WEIGHT_BYTES, Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRECISIONS = tuple(f"P@{k}" for k in DEFAULT_RANKS)
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
# Standard errors beyond which a change counts: by chance, one of three changes exceeds them in 5% of cases.
NOISE = 2.4
COUNTED = 2**22  # weights that are counted at a time
COLUMNS = {
    **{name: name for name in PRECISIONS},
    "pruned_share": "non-zeros pruned",
    "disk_bytes": "on disk",
    "paper_bytes": "12 bytes per non-zero",
}
CHANGE_COLUMNS = {
    "data": "dataset",
    "threshold": "threshold",
    "precision": "precision",
    "rows": "test instances",
    "rows_better": "better",
    "rows_worse": "worse",
    "change": "change",
    "error": "standard error",
}


def pruning(
    session: Session,
    progress: Progress = ignore,
    *,
    threshold: float = 0.1,
    thresholds: Sequence[float] = THRESHOLDS,
    clusters: int = 100,
    max_depth: int = 6,
    tolerance: float = 0.001,
    beam: int = 10,
    score: str = "hinge2",
) -> list[Table]:
    """Train per dataset and seed (the first three), prune with each threshold, and evaluate on test data.

    Parameters
    ----------
    session : Session
        Datasets without test data are skipped.
    progress : callable, optional
    threshold : float, default 0.1
        The threshold of the first table; the default is the paper's.
    thresholds : sequence of float
        The thresholds of the figure.
    clusters, max_depth : int
        K and d_max.
    tolerance : float, default 0.001
        Tolerance of the solver; the default is the smallest for which it works in single precision.
    beam : int
    score : str
        How margins become scores. The default is that of LibMultiLabel 0.6, which the paper used.
    """
    given = [float(value) for value in (threshold, *thresholds)]
    if not all(math.isfinite(value) and value >= 0 for value in given) or threshold == 0:
        raise InputError(
            f"{listed('thresholds', given)}, expected finite numbers of at least 0, the first of them above 0"
        )
    tried = sorted({0.0, *given})
    settings = SolverSettings(cost=1, tolerance=tolerance, max_iterations=1000, bias=0)
    search = {"top": max(DEFAULT_RANKS), "beam": beam, "score": score, "threads": session.threads}
    rows: list[Row] = []
    hits: dict[tuple[str, float], list[NDArray[np.bool_]]] = {}  # of the first predictions, per seed
    runs = [(split, seed) for split in session.splits if split.test for seed in session.seeds[:3]]
    for (split, seed), part in steps(runs, progress):
        plan = replace(session.plan(split.name, clusters, max_depth, seed), settings=settings)
        for row, found in _measure(split, plan, tried, search, part):
            rows.append({"data": split.name, "seed": seed, **row})
            hits.setdefault((split.name, row["threshold"]), []).append(found)
    summary = means(rows, "data", "threshold")
    changes = [
        {"data": name, "threshold": value, **change}
        for (name, value), found in hits.items()
        if value
        for change in _compare(hits[name, 0.0], found)
    ]
    shown = [row for row in summary if row["threshold"] in (0, threshold)]
    columns = {"data": "dataset", "threshold": "threshold", **COLUMNS}
    figure = _draw(summary, changes)
    return [
        Table("pruning", f"Without pruning, and without weights below {threshold:g}.", columns, shown),
        Table("pruning-thresholds", "The same for more thresholds.", columns, summary, figure=figure),
        Table(
            "pruning-changes",
            f"Change of precision in points without weights below {threshold:g}, paired over test instances.",
            CHANGE_COLUMNS,
            where(changes, threshold=threshold),
        ),
        Table("pruning-changes-thresholds", "The same for every threshold.", CHANGE_COLUMNS, changes, False),
        Table("pruning-seeds", "One row per model and threshold.", {**columns, "seed": "seed"}, rows, False),
    ]


def _measure(
    split: Split, plan: Plan, thresholds: Sequence[float], search: Row, progress: Progress
) -> list[tuple[Row, NDArray[np.bool_]]]:
    """Train one model in a temporary directory; evaluate it as trained (threshold 0) and pruned."""
    test = split.test
    assert isinstance(test, Dataset)
    found = []
    with tempfile.TemporaryDirectory(prefix="labeltree-pruning-") as directory:
        place = Path(directory)
        _check_space(plan, place)
        score = ScoreSettings()
        training = part_of(progress, 0, 2)
        model = train_model(split.train, plan, place / "model", score=score, progress=training)
        truth = Validation(test.X, test.align(model.label_names, model.n_labels).Y).truth
        nonzeros = _nonzeros(model, thresholds)
        for (threshold, stored), _ in steps(
            list(zip(thresholds, nonzeros, strict=True)), part_of(progress, 1, 2) or ignore
        ):
            pruned, size = model, model.bytes
            if threshold:
                copy = model.compress(
                    place / "copy", prune=threshold, threads=search["threads"], overwrite=True
                )
                pruned, size = _not_scaled(copy, model), copy.bytes
            labels, _ = pruned.predict(test.X, **search)
            ranked = metrics.pad_labels(labels, max(DEFAULT_RANKS))
            hits = metrics.hits(truth, ranked, max(DEFAULT_RANKS))
            row: Row = {
                "threshold": threshold,
                "test_instances": test.n_instances,
                **{f"P@{k}": 100 * metrics.precision_of(hits, k) for k in DEFAULT_RANKS},
                "weights": plan.n_weights,
                "nonzeros": stored,
                "pruned_share": 1 - stored / max(nonzeros[0], 1),
                "pruned_of_all_share": (nonzeros[0] - stored) / max(plan.n_weights, 1),
                "disk_bytes": size,
                "paper_bytes": PAPER_WEIGHT_BYTES * stored,
            }
            found.append((row, hits))
    return found


def _compare(before: Sequence[NDArray[np.bool_]], after: Sequence[NDArray[np.bool_]]) -> list[Row]:
    """Return the change of each precision with its standard error, paired over the test instances.

    The seeds share the instances, so they are averaged instance by instance first.
    """
    rows = []
    for k, name in zip(DEFAULT_RANKS, PRECISIONS, strict=True):
        old, new = (
            np.mean([metrics.row_precision(hits, k) for hits in seeds], 0) for seeds in (before, after)
        )
        difference = 100 * (new - old) / k
        n = len(difference)
        error = difference.std(ddof=1) / math.sqrt(n) if n > 1 else math.inf
        rows.append(
            {
                "precision": name,
                "rows": n,
                "rows_better": int((difference > 0).sum()),
                "rows_worse": int((difference < 0).sum()),
                "change": float(difference.mean()),
                "error": float(error),
            }
        )
    return rows


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
        for start in range(0, part.weights.size, COUNTED):
            sizes = np.abs(part.weights[start : start + COUNTED].astype(np.float64))
            counts += [np.count_nonzero(sizes >= t) if t else np.count_nonzero(sizes) for t in thresholds]
    return counts.tolist()


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


@plots.style()
def _draw(summary: list[Row], changes: list[Row]) -> Figure:
    """Draw precision and size over the threshold: two panels per dataset; bars are the noise of a change."""
    names = distinct(summary, "data")
    figure, panels = plots.new_figure(len(names), 2, panel=(4.6, 2.4))
    for left, right, name in zip(panels[::2], panels[1::2], names, strict=True):
        rows = where(summary, data=name)
        for number, precision in enumerate(PRECISIONS):
            mine = where(changes, data=name, precision=precision)
            values = [0.0, *(row["change"] for row in mine)]
            noise = [0.0, *(NOISE * row["error"] for row in mine)]
            left.errorbar(
                range(len(values)),
                values,
                noise,
                elinewidth=1,
                capsize=2,
                color=plots.COLORS[number],
                marker=plots.MARKERS[number],
                label=precision,
            )
        left.axhline(0, color=plots.MUTED, linewidth=0.8, zorder=1)
        for number, (key, label) in enumerate((("disk_bytes", "on disk"), ("paper_bytes", "non-zeros"))):
            shares = [100 * row[key] / max(rows[0][key], 1) for row in rows]
            right.plot(shares, color=plots.COLORS[3 + number], marker=plots.MARKERS[3], label=label)
        left.set(ylabel="change of precision (points)")
        right.set(ylabel="size (% of not pruned)", ylim=(0, 106))
        plots.title(left, name)
        for axes in (left, right):
            # Thresholds are evenly spaced: most of them are close to 0.
            axes.set_xticks(range(len(rows)), ["none", *(f"{row['threshold']:g}" for row in rows[1:])])
            axes.set_xlabel("threshold")
            axes.legend(fontsize=8.5)
    return figure
