"""`tight-bound`: how many of the counted weights are non-zero after training, by loss."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labeltree.base import plots
from labeltree.base.progress import Progress, ignore
from labeltree.paper.results import Row, Table, distinct, means, where
from labeltree.paper.session import Session, steps
from labeltree.settings import ScoreSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import PAPER_WEIGHT_BYTES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("squared_hinge", "hinge", "logistic")
COLUMNS = ("data", "loss", "weights", "nonzeros", "nonzero_share", "bound_bytes", "nonzero_bytes")


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
    rows: list[Row] = []
    runs = product(session.splits, session.seeds[: 1 if quick else 3], losses)
    for (split, seed, loss), part in steps(runs, progress):
        settings = SolverSettings(cost=1, loss=loss, bias=0)
        plan = replace(session.plan(split, clusters, max_depth, seed), settings=settings)
        with tempfile.TemporaryDirectory(prefix="labeltree-tight-bound-") as directory:
            plan.check_resources(Path(directory))
            place = Path(directory) / "model"
            model = train_model(split.train, plan, place, score=ScoreSettings(), progress=part)
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
        Table("tight-bound", caption, COLUMNS, summary, figure=_draw(summary)),
        Table("tight-bound-seeds", "One row per tree.", COLUMNS, rows, shown=False),
    ]


@plots.style()
def _draw(summary: list[Row]) -> Figure:
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
