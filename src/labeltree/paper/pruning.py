"""`pruning`: how much precision small weights are worth."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots
from labeltree.base.progress import Progress, ignore
from labeltree.evaluation import metrics
from labeltree.model.model import Model
from labeltree.paper.results import Row, Table, distinct, means, where
from labeltree.paper.session import Session, steps
from labeltree.settings import DEFAULT_RANKS, ScoreSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import PAPER_WEIGHT_BYTES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
# Standard errors beyond which a change counts: by chance, one of three changes exceeds them in 5% of cases.
NOISE = 2.4
PRUNED = 2**22  # weights that are pruned at a time
COLUMNS = (
    *("data", "threshold", *(f"P@{k}" for k in DEFAULT_RANKS)),
    *("weights", "nonzeros", "pruned_share", "paper_bytes"),
)
CHANGES = tuple(f"{part}_P@{k}" for k in DEFAULT_RANKS for part in ("change", "error"))


def pruning(
    session: Session,
    progress: Progress = ignore,
    *,
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
    thresholds : sequence of float
        The paper's is 0.1.
    clusters, max_depth : int
        K and d_max.
    tolerance : float, default 0.001
        Tolerance of the solver; the default is the smallest for which it works in single precision.
    beam : int
    score : str
        How margins become scores. The default is that of LibMultiLabel 0.6, which the paper used.
    """
    tried = sorted({0.0, *map(float, thresholds)})
    settings = SolverSettings(cost=1, tolerance=tolerance, max_iterations=1000, bias=0)
    search: dict[str, Any] = {
        "top": max(DEFAULT_RANKS),
        "beam": beam,
        "score": score,
        "threads": session.threads,
    }
    rows: list[Row] = []
    correct: dict[tuple[str, float], list[NDArray[np.float64]]] = {}  # of each instance, per seed
    runs = product([split for split in session.splits if split.test], session.seeds[:3])
    for (split, seed), part in steps(runs, progress):
        plan = replace(session.plan(split, clusters, max_depth, seed), settings=settings)
        with tempfile.TemporaryDirectory(prefix="labeltree-pruning-") as directory:
            plan.check_resources(Path(directory))
            place = Path(directory) / "model"
            model = train_model(split.train, plan, place, score=ScoreSettings(), progress=part)
            assert split.test is not None
            unpruned = int(np.count_nonzero(model.trees[0].weights))
            test = split.test.align(model.label_names, model.n_labels)
            for value, pruned in _pruned(model, tried, Path(directory) / "weights"):
                labels, _ = pruned.predict(test.X, **search)
                hits = metrics.hits(
                    test.Y, metrics.pad_labels(labels, max(DEFAULT_RANKS)), max(DEFAULT_RANKS)
                )
                counts = np.array([metrics.row_precision(hits, k) for k in DEFAULT_RANKS])
                correct.setdefault((split.name, value), []).append(counts)
                nonzeros = int(np.count_nonzero(pruned.trees[0].weights))
                rows.append(
                    {
                        "data": split.name,
                        "threshold": value,
                        "seed": seed,
                        "test_instances": test.n_instances,
                        **{f"P@{k}": 100 * metrics.row_precision(hits, k).mean() for k in DEFAULT_RANKS},
                        "weights": plan.n_weights,
                        "nonzeros": nonzeros,
                        "pruned_share": 1 - nonzeros / max(unpruned, 1),
                        "paper_bytes": PAPER_WEIGHT_BYTES * nonzeros,
                    }
                )
    summary = means(rows, "data", "threshold")
    for row in summary:
        row |= _change(correct[row["data"], 0.0], correct[row["data"], row["threshold"]])
    caption = (
        "Without weights below a threshold: precision, its change in points and the standard error of the "
        "change, paired over the test instances. The paper's threshold is 0.1."
    )
    return [
        Table("pruning", caption, (*COLUMNS, *CHANGES), summary, figure=_draw(summary)),
        Table("pruning-seeds", "One row per model and threshold.", COLUMNS, rows, shown=False),
    ]


def _pruned(model: Model, thresholds: Sequence[float], place: Path) -> Iterator[tuple[float, Model]]:
    """Yield a model without the weights below each of some increasing thresholds; ``place`` is for a copy."""
    (part,) = model.trees
    part.weights.tofile(place)
    weights = np.memmap(place, part.weights.dtype, "r+")
    trees = (replace(part, weights=weights),)
    for threshold in thresholds:
        for start in range(0, weights.size, PRUNED):
            piece = weights[start : start + PRUNED]
            piece[np.abs(piece) < threshold] = 0
        yield threshold, Model(None, model.manifest, trees, model.label_counts, model.label_names)


def _change(before: Sequence[NDArray[np.float64]], after: Sequence[NDArray[np.float64]]) -> Row:
    """Return the change of each precision with its standard error, paired over the test instances.

    The seeds share the instances, so they are averaged instance by instance first.
    """
    changes, errors = metrics.paired_gain(100 * (np.mean(after, axis=0) - np.mean(before, axis=0)))
    row: Row = {}
    for k, change, error in zip(DEFAULT_RANKS, changes.tolist(), errors.tolist(), strict=True):
        row |= {f"change_P@{k}": change, f"error_P@{k}": error}
    return row


@plots.style()
def _draw(summary: list[Row]) -> Figure:
    """Draw precision and size over the threshold: two panels per dataset; bars are the noise of a change."""
    names = distinct(summary, "data")
    figure, panels = plots.new_figure(len(names), 2, panel=(4.6, 2.4))
    for left, right, name in zip(panels[::2], panels[1::2], names, strict=True):
        rows = where(summary, data=name)
        for number, k in enumerate(DEFAULT_RANKS):
            look: dict[str, Any] = {"color": plots.COLORS[number], "marker": plots.MARKERS[number]}
            noise = [NOISE * row[f"error_P@{k}"] for row in rows]
            changes = [row[f"change_P@{k}"] for row in rows]
            left.errorbar(range(len(rows)), changes, noise, elinewidth=1, capsize=2, label=f"P@{k}", **look)
        left.axhline(0, color=plots.MUTED, linewidth=0.8, zorder=1)
        right.plot([100 * row["nonzeros"] / max(rows[0]["nonzeros"], 1) for row in rows], marker="o")
        left.set(ylabel="change of precision (points)")
        left.legend(fontsize=8.5)
        right.set(ylabel="non-zeros (% of not pruned)", ylim=(0, 106))
        plots.title(left, name)
        for axes in (left, right):
            # Thresholds are evenly spaced: most of them are close to 0.
            axes.set_xticks(range(len(rows)), ["none", *(f"{row['threshold']:g}" for row in rows[1:])])
            axes.set_xlabel("threshold")
    return figure
