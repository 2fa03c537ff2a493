"""`tight-bound` and `pruning`: weights that are zero after training, and what small ones are worth."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots
from labeltree.base.display import Progress, ignore
from labeltree.evaluation import metrics
from labeltree.model.model import Model
from labeltree.paper.session import Session, steps, trained
from labeltree.paper.sizes import CLUSTERS
from labeltree.paper.tables import Row, Table, distinct, means, where
from labeltree.settings import DEFAULT_RANKS, SolverSettings
from labeltree.training.plan import PAPER_WEIGHT_BYTES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("squared_hinge", "hinge", "logistic")
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
# Standard errors beyond which a change counts: by chance, one of three changes exceeds them in 5% of cases.
NOISE = 2.4
PRUNED = 2**22  # weights that are pruned at a time
BOUND_COLUMNS = ("data", "loss", "weights", "nonzeros", "nonzero_share", "bound_bytes", "nonzero_bytes")
PRUNING_COLUMNS = (
    *("data", "threshold", *(f"P@{k}" for k in DEFAULT_RANKS)),
    *("weights", "nonzeros", "pruned_share", "nonzero_bytes"),
)
CHANGES = tuple(f"{part}_P@{k}" for k in DEFAULT_RANKS for part in ("change", "error"))


def tight_bound(
    session: Session,
    progress: Progress = ignore,
    *,
    losses: Sequence[str] = LOSSES,
    clusters: int = CLUSTERS,
    max_depth: int = 6,
) -> list[Table]:
    """Train a tree per dataset, loss and seed (the first three), and count its non-zero weights."""
    rows: list[Row] = []
    runs = product(session.splits, session.seeds[:3], losses)
    for (split, seed, loss), part in steps(runs, progress):
        settings = SolverSettings(cost=1, loss=loss, bias=0)
        plan = replace(session.plan(split, clusters, max_depth, seed), settings=settings)
        with trained(split.train, plan, part) as model:
            nonzeros = int(np.count_nonzero(model.trees[0].weights))
        rows.append(
            {
                "data": split.name,
                "loss": loss,
                "seed": seed,
                "weights": plan.n_weights,
                "nonzeros": nonzeros,
                "nonzero_share": nonzeros / max(plan.n_weights, 1),
                "bound_bytes": PAPER_WEIGHT_BYTES * plan.n_weights,
                "nonzero_bytes": PAPER_WEIGHT_BYTES * nonzeros,
            }
        )
    summary = means(rows, "data", "loss", spread="nonzero_share")
    caption = f"Weights counted before training, and non-zero weights, {PAPER_WEIGHT_BYTES} bytes each."
    return [
        Table("tight-bound", caption, BOUND_COLUMNS, summary, figure=_draw_bound(summary)),
        Table("tight-bound-seeds", "One row per tree.", BOUND_COLUMNS, rows, shown=False),
    ]


@plots.drawing
def _draw_bound(summary: list[Row]) -> Figure:
    """Draw bars per dataset, one for each loss."""
    names, losses = distinct(summary, "data"), distinct(summary, "loss")
    figure, (axes,) = plots.new_figure(1, 1, panel=(max(5.2, 1.5 + 1.3 * len(names)), 3.0))
    width = 0.8 / len(losses)
    for number, loss in enumerate(losses):
        shares = [100 * row["nonzero_share"] for row in where(summary, loss=loss)]
        places = np.arange(len(names)) + width * (number - (len(losses) - 1) / 2)
        label = loss.replace("_", " ")
        bars = axes.bar(places, shares, 0.92 * width, color=plots.COLORS[number], label=label)
        axes.bar_label(bars, [f"{share:.0f}" for share in shares], fontsize=8, padding=1)
    axes.set_xticks(range(len(names)), names, parse_math=False)
    axes.set(ylim=(0, 108), ylabel="non-zero weights (%)")
    axes.grid(axis="x", visible=False)
    figure.legend(loc=plots.LEGEND, ncols=len(losses))
    return figure


def pruning(
    session: Session,
    progress: Progress = ignore,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    clusters: int = CLUSTERS,
    max_depth: int = 6,
    tolerance: float = 0.001,
    beam: int = 10,
    score: str = "hinge2",
) -> list[Table]:
    """Train per dataset and seed (the first three), prune with each threshold, and evaluate on test data.

    Datasets without test data are skipped. The default tolerance is the smallest for which the solver works
    in single precision, and the default score is that of LibMultiLabel 0.6, which the paper used.
    """
    tried = sorted({0.0, *map(float, thresholds)})
    settings = SolverSettings(cost=1, tolerance=tolerance, max_iterations=1000, bias=0)
    top = max(DEFAULT_RANKS)
    search: dict[str, Any] = {"top": top, "beam": beam, "score": score, "threads": session.threads}
    rows: list[Row] = []
    precisions: dict[tuple[str, float], list[NDArray[np.float64]]] = {}  # per seed, of each instance
    splits = [(split, split.test) for split in session.splits if split.test is not None]
    for ((split, test), seed), part in steps(product(splits, session.seeds[:3]), progress):
        plan = replace(session.plan(split, clusters, max_depth, seed), settings=settings)
        with trained(split.train, plan, part) as model:
            unpruned = int(np.count_nonzero(model.trees[0].weights))
            truth = test.align(model.label_names, model.n_labels).Y
            for value, pruned in _pruned(model, tried):
                labels, _ = pruned.predict(test.X, **search)
                hits = metrics.hits(truth, metrics.pad_labels(labels, top), top)
                hits = hits[np.diff(truth.indptr) > 0]
                found = np.array([metrics.row_precision(hits, k) for k in DEFAULT_RANKS])
                precisions.setdefault((split.name, value), []).append(found)
                means_of = zip(DEFAULT_RANKS, found.mean(axis=1).tolist(), strict=True)
                nonzeros = int(np.count_nonzero(pruned.trees[0].weights))
                rows.append(
                    {
                        "data": split.name,
                        "threshold": value,
                        "seed": seed,
                        "test_instances": test.n_instances,
                        **{f"P@{k}": 100 * mean for k, mean in means_of},
                        "weights": plan.n_weights,
                        "nonzeros": nonzeros,
                        "pruned_share": 1 - nonzeros / max(unpruned, 1),
                        "nonzero_bytes": PAPER_WEIGHT_BYTES * nonzeros,
                    }
                )
    summary = means(rows, "data", "threshold")
    for row in summary:
        row |= _change(precisions[row["data"], 0.0], precisions[row["data"], row["threshold"]])
    caption = (
        "Without weights below a threshold: precision, its change in points and the standard error of the "
        "change, paired over the test instances. The paper's threshold is 0.1."
    )
    return [
        Table("pruning", caption, (*PRUNING_COLUMNS, *CHANGES), summary, figure=_draw_pruning(summary)),
        Table("pruning-seeds", "One row per model and threshold.", PRUNING_COLUMNS, rows, shown=False),
    ]


def _pruned(model: Model, thresholds: Sequence[float]) -> Iterator[tuple[float, Model]]:
    """Yield a model without the weights below each of some increasing thresholds."""
    (part,) = model.trees
    with tempfile.TemporaryFile() as file:
        part.weights.tofile(file)
        weights = np.memmap(file, part.weights.dtype, "r+")
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


@plots.drawing
def _draw_pruning(summary: list[Row]) -> Figure:
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
        right.plot(
            [100 * row["nonzeros"] / max(rows[0]["nonzeros"], 1) for row in rows],
            color=plots.COLORS[0],
            marker="o",
        )
        left.set(ylabel="change of precision (points)")
        left.legend(fontsize=8.5)
        right.set(ylabel="non-zeros (% of not pruned)", ylim=(0, 106))
        plots.title(left, name)
        for axes in (left, right):
            # Thresholds are evenly spaced: most of them are close to 0.
            axes.set_xticks(range(len(rows)), ["none", *(f"{row['threshold']:g}" for row in rows[1:])])
            axes.set_xlabel("threshold")
    return figure
