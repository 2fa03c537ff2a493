"""`tight-bound`: how many of the counted weights are non-zero after training, by loss."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labeltree.base import plots
from labeltree.base.progress import Progress, ignore
from labeltree.errors import InputError
from labeltree.model.model import Model
from labeltree.paper.session import Session, steps
from labeltree.paper.table import Row, Table, distinct, group, listed, means, where
from labeltree.settings import ScoreSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import PAPER_WEIGHT_BYTES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("squared_hinge", "hinge", "logistic")
COLUMNS = {
    "data": "dataset",
    "loss": "loss",
    "weights": "counted weights",
    "nonzeros": "non-zero",
    "nonzero_share": "share",
    "bound_bytes": "size by the bound",
    "nonzero_bytes": "size of the non-zeros",
}
DEPTH_COLUMNS = ("data", "loss", "seed", "depth", "weights", "nonzeros", "nonzero_share")


def tight_bound(
    session: Session,
    progress: Progress = ignore,
    *,
    losses: Sequence[str] = LOSSES,
    clusters: int = 100,
    max_depth: int = 6,
    quick: bool = False,
) -> list[Table]:
    """Train a tree per dataset, loss and seed (the first three), and count its non-zero weights.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    losses : sequence of str
    clusters, max_depth : int
        K and d_max.
    quick : bool, default False
        Use only the first seed.
    """
    if not losses or len(set(losses)) < len(losses):
        raise InputError(f"{listed('losses', losses)}, expected one or more different losses")
    settings = {loss: SolverSettings(cost=1, loss=loss, bias=0) for loss in losses}
    seeds = session.seeds[: 1 if quick else 3]
    runs = [(split, seed, loss) for split in session.splits for seed in seeds for loss in losses]
    rows: list[Row] = []
    for (split, seed, loss), part in steps(runs, progress):
        plan = session.plan(split.name, clusters, max_depth, seed)
        plan = replace(plan, settings=settings[loss])
        with tempfile.TemporaryDirectory(prefix="labeltree-tight-bound-") as directory:
            plan.check_resources(Path(directory))
            place = Path(directory) / "model"
            model = train_model(split.train, plan, place, score=ScoreSettings(), progress=part)
            rows += [{"data": split.name, "loss": loss, "seed": seed, **row} for row in _count(model)]
    summary = _summarize(rows)
    caption = f"Weights counted before training, and non-zero weights, {PAPER_WEIGHT_BYTES} bytes each."
    depth_columns = {key: key for key in DEPTH_COLUMNS}
    return [
        Table("tight-bound", caption, COLUMNS, summary, figure=_draw(summary)),
        Table("tight-bound-depths", "One row per tree and depth.", depth_columns, rows, shown=False),
    ]


def _count(model: Model) -> list[Row]:
    """Count the non-zero weights of the only tree of a model, depth by depth."""
    tree = model.trees[0].tree
    counted, nonzeros = np.zeros((2, tree.depth), np.int64)
    for u in range(tree.n_nodes):
        _, weights = model.block(u)
        counted[tree.node_depth[u]] += weights.size
        nonzeros[tree.node_depth[u]] += np.count_nonzero(weights)
    return [
        {"depth": depth, "weights": n, "nonzeros": stored, "nonzero_share": stored / max(n, 1)}
        for depth, (n, stored) in enumerate(zip(counted.tolist(), nonzeros.tolist(), strict=True))
    ]


def _summarize(rows: list[Row]) -> list[Row]:
    """Return the means over the seeds, after the sums over the depths of each tree."""
    trees: list[Row] = []
    for (data, loss, seed), depths in group(rows, "data", "loss", "seed").items():
        weights, nonzeros = (sum(row[key] for row in depths) for key in ("weights", "nonzeros"))
        trees.append(
            {
                "data": data,
                "loss": loss,
                "seed": seed,
                "weights": weights,
                "nonzeros": nonzeros,
                "nonzero_share": nonzeros / max(weights, 1),
                "bound_bytes": PAPER_WEIGHT_BYTES * weights,
                "nonzero_bytes": PAPER_WEIGHT_BYTES * nonzeros,
            }
        )
    summary = means(trees, "data", "loss")
    for mean, mine in zip(summary, group(trees, "data", "loss").values(), strict=True):
        shares = [row["nonzero_share"] for row in mine]
        mean["share_least"], mean["share_most"] = min(shares), max(shares)
    return summary


@plots.style()
def _draw(summary: list[Row]) -> Figure:
    """Draw bars per dataset, one for each loss."""
    names, losses = distinct(summary, "data"), distinct(summary, "loss")
    figure, (axes,) = plots.new_figure(1, 1, panel=(max(5.2, 1.5 + 1.3 * len(names)), 3.0))
    width = 0.8 / len(losses)
    for number, loss in enumerate(losses):
        shares = [100 * row["nonzero_share"] for row in where(summary, loss=loss)]
        places = np.arange(len(names)) + width * (number - (len(losses) - 1) / 2)
        bars = axes.bar(
            places, shares, 0.92 * width, color=plots.COLORS[number], label=loss.replace("_", " ")
        )
        axes.bar_label(bars, [f"{share:.0f}" for share in shares], fontsize=8, padding=1)
    axes.set_xticks(range(len(names)), names, parse_math=False)
    axes.set(ylim=(0, 108), ylabel="non-zero weights (%)")
    axes.grid(axis="x", visible=False)
    figure.legend(loc=plots.LEGEND, ncols=len(losses))
    return figure
