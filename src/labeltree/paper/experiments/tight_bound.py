"""`tight-bound`: how many of the counted weights are non-zero after training, by loss."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.base.progress import Progress, part_of
from labeltree.errors import InputError
from labeltree.model.model import Model
from labeltree.paper.experiments.result import (
    Plot,
    Result,
    Table,
    count,
    distinct,
    group,
    listed,
    where,
)
from labeltree.paper.experiments.session import Session, check_seeds
from labeltree.settings import ScoreSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import PAPER_WEIGHT_BYTES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("squared_hinge", "hinge", "logistic")
TIGHT = 0.9  # share of non-zero weights from which the bound counts as tight
_COLUMNS = {
    "data": "dataset",
    "loss": "loss",
    "weights": "counted weights",
    "nonzeros": "non-zero",
    "nonzero_share": "share",
    "bound_bytes": "size by the bound",
    "nonzero_bytes": "size of the non-zeros",
}


class DepthNonzeros(TypedDict):
    """The weights of one depth of one trained tree."""

    data: str
    loss: str
    seed: int
    depth: int
    weights: int
    nonzeros: int
    nonzero_share: float


class LossNonzeros(TypedDict):
    """Means over the seeds, for one dataset and loss."""

    data: str
    loss: str
    seeds: int
    weights: int
    nonzeros: int
    nonzero_share: float
    share_least: float
    share_most: float
    bound_bytes: int
    nonzero_bytes: int


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    seeds: Sequence[int] | None = None,
    losses: Sequence[str] = LOSSES,
    clusters: int = 100,
    max_depth: int = 6,
    quick: bool = False,
) -> Result:
    """Train a tree per dataset, seed and loss, and count its non-zero weights.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    seeds : sequence of int, optional
        Default: the first three of the session.
    losses : sequence of str
    clusters, max_depth : int
        K and d_max.
    quick : bool, default False
        Use only the first seed.

    Returns
    -------
    Result
    """
    seeds = tuple(session.seeds[:3] if seeds is None else seeds)[: 1 if quick else None]
    check_seeds(seeds)
    if not losses or len(set(losses)) < len(losses):
        raise InputError(f"{listed('losses', losses)}, expected one or more different losses")
    settings = {loss: SolverSettings(cost=1, loss=loss, bias=0) for loss in losses}
    rows: list[DepthNonzeros] = []
    runs = [(split, seed, loss) for split in session.splits for seed in seeds for loss in losses]
    for number, (split, seed, loss) in enumerate(runs):
        part = part_of(progress, number, len(runs))
        plan = session.plan(split.name, clusters, max_depth, seed, part_of(part, 0, 2))
        plan = replace(plan, settings=settings[loss])
        with tempfile.TemporaryDirectory(prefix="labeltree-tight-bound-") as directory:
            plan.check_resources(Path(directory))
            model = train_model(
                split.train,
                plan,
                Path(directory) / "model",
                score=ScoreSettings(),
                progress=part_of(part, 1, 2),
            )
            rows += _count(split.name, seed, loss, model)
        if part is not None:
            part(1.0)
    summary = _summarize(rows)
    return Result(
        name="tight-bound",
        title="Is the estimated size a tight bound?",
        source="equations 7, 8 and 18 of the paper",
        settings={
            "seeds": list(seeds),
            "losses": list(losses),
            "clusters": clusters,
            "max_depth": max_depth,
            "tolerance": settings[losses[0]].tolerance,
            "bias": 0,
            "quick": quick,
        },
        tables=[
            Table(
                "tight-bound",
                f"Counted weights (equation 18) and non-zero weights after training, in bytes with "
                f"{PAPER_WEIGHT_BYTES} per weight. Means over {count(len(seeds), 'seed')}.",
                _COLUMNS,
                summary,
            ),
            Table(
                "tight-bound-depths",
                "One row per dataset, loss, seed and depth.",
                {key: key.replace("_", " ") for key in DepthNonzeros.__annotations__},
                rows,
                shown=False,
            ),
        ],
        plots=[
            Plot(
                "tight-bound",
                f"Share of the counted weights that are non-zero after training, by loss. Means over "
                f"{count(len(seeds), 'seed')}; the dotted line is {TIGHT:.0%}.",
                _figure(summary),
            )
        ],
    )


def _count(name: str, seed: int, loss: str, model: Model) -> list[DepthNonzeros]:
    """Count the non-zero weights of the only tree of a model, depth by depth."""
    tree = model.trees[0].tree
    n_weights, n_nonzeros = np.zeros(tree.depth, np.int64), np.zeros(tree.depth, np.int64)
    for u in range(tree.n_nodes):
        _, weights = model.block(u)
        n_weights[tree.node_depth[u]] += weights.size
        n_nonzeros[tree.node_depth[u]] += np.count_nonzero(weights)
    return [
        {
            "data": name,
            "loss": loss,
            "seed": seed,
            "depth": depth,
            "weights": counted,
            "nonzeros": nonzeros,
            "nonzero_share": nonzeros / max(counted, 1),
        }
        for depth, (counted, nonzeros) in enumerate(zip(n_weights.tolist(), n_nonzeros.tolist(), strict=True))
    ]


def _summarize(rows: Sequence[DepthNonzeros]) -> list[LossNonzeros]:
    summary: list[LossNonzeros] = []
    for (data, loss), mine in group(rows, "data", "loss").items():
        trees = group(mine, "seed").values()
        weights = np.array([sum(row["weights"] for row in tree) for tree in trees])
        nonzeros = np.array([sum(row["nonzeros"] for row in tree) for tree in trees])
        shares = nonzeros / np.maximum(weights, 1)
        summary.append(
            {
                "data": data,
                "loss": loss,
                "seeds": len(trees),
                "weights": round(float(weights.mean())),
                "nonzeros": round(float(nonzeros.mean())),
                "nonzero_share": float(shares.mean()),
                "share_least": float(shares.min()),
                "share_most": float(shares.max()),
                "bound_bytes": round(PAPER_WEIGHT_BYTES * float(weights.mean())),
                "nonzero_bytes": round(PAPER_WEIGHT_BYTES * float(nonzeros.mean())),
            }
        )
    return summary


def _figure(summary: Sequence[LossNonzeros]) -> Figure:
    """Draw bars per dataset, one for each loss."""
    names, losses = distinct(summary, "data"), distinct(summary, "loss")
    figure, (axes,) = figures.new_figure(1, 1, panel=(max(5.2, 1.5 + 1.3 * len(names)), 3.0))
    width = 0.8 / len(losses)
    with figures.style():
        for number, loss in enumerate(losses):
            shares = [100 * row["nonzero_share"] for row in where(summary, loss=loss)]
            places = np.arange(len(names)) + width * (number - (len(losses) - 1) / 2)
            color = figures.COLORS[number % len(figures.COLORS)]
            bars = axes.bar(places, shares, 0.92 * width, color=color, label=loss.replace("_", " "))
            axes.bar_label(bars, [f"{share:.0f}" for share in shares], fontsize=8, padding=1)
        axes.axhline(100 * TIGHT, color=figures.MUTED, linestyle=":", linewidth=1.2)
        axes.set_xticks(range(len(names)), names, parse_math=False)
        axes.set_ylim(0, 108)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("non-zero weights (%)")
        figure.legend(loc="outside lower center", ncols=len(losses))
    return figure
