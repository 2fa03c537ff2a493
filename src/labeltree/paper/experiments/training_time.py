"""`time`: the training costs of appendix A, compared with measured work and seconds on synthetic data."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.base.progress import Progress
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.data.published import PRESETS
from labeltree.data.synthetic import synthesize
from labeltree.errors import InputError, ResourceError
from labeltree.paper import theory
from labeltree.paper.experiments.result import Plot, Result, Table, count, distinct, listed, where
from labeltree.paper.experiments.session import Session
from labeltree.settings import ScoreSettings, SolverSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import TreePlan
from labeltree.training.train import build_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measured = Literal["multiply_adds", "train_seconds"]
Fitted = Literal["fitted_multiply_adds", "fitted_seconds"]
MEASURES: tuple[tuple[Measured, Fitted, str], ...] = (
    ("multiply_adds", "fitted_multiply_adds", "multiply-adds per pass"),
    ("train_seconds", "fitted_seconds", "seconds"),
)


class MeasuredRow(TypedDict):
    """One trained model: its shape, its cost by the formula, and what was measured."""

    like: str
    scale: float
    kind: str
    labels: int
    instances: int
    features: int
    nonzeros: float
    labels_each: float
    clusters: int | None
    max_depth: int
    depth: int
    nodes: int
    weights: int
    model_bytes: int
    cost: float
    multiply_adds: int
    train_seconds: float
    tree_seconds: float | None


class TimeRow(MeasuredRow):
    """A trained model, and what the formula predicts for it."""

    fitted_multiply_adds: float
    fitted_seconds: float


def fitted_figure(rows: Sequence[TimeRow]) -> Figure:
    """Draw measured over fitted on logarithmic axes, with a color per K and a marker per d."""
    line = optional("matplotlib.lines").Line2D
    colors = _colours(rows)
    depths = sorted(distinct(rows, "max_depth"))
    marker = {d: figures.MARKERS[number % len(figures.MARKERS)] for number, d in enumerate(depths)}
    figure, panels = figures.new_figure(1, 2, panel=(4.2, 3.4))
    with figures.style():
        for axes, (key, fitted, name) in zip(panels, MEASURES, strict=True):
            for row in rows:
                axes.plot(row[fitted], row[key], color=colors[_name(row)], marker=marker[row["max_depth"]])
            values = [value for row in rows for value in (row[key], row[fitted])]
            ends = min(values), max(values)
            axes.plot(ends, ends, color=figures.MUTED, linewidth=1, zorder=1)
            figures.log_axes(axes, "s" if key == "train_seconds" else "")
            axes.set(title=name, xlabel="formula", ylabel="measured")
        handles = [
            *(line([], [], color=color, label=name) for name, color in colors.items()),
            *(
                line([], [], color=figures.MUTED, marker=marker[d], linestyle="", label=f"d = {d}")
                for d in depths
                if d > 1
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def growth_figure(rows: Sequence[TimeRow]) -> Figure:
    """Draw the work per feature value over L: one-vs-rest, and each K at its cheapest depth."""
    colors = _colours(rows)
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.0, 3.4))
    with figures.style():
        ends = []
        for number, (name, line) in enumerate(_lines(rows).items()):
            labels, work = [row["labels"] for row in line], [_work(row) for row in line]
            formula = [
                w * row["fitted_multiply_adds"] / row["multiply_adds"]
                for w, row in zip(work, line, strict=True)
            ]
            marker = figures.MARKERS[number % len(figures.MARKERS)]
            axes.plot(labels, work, color=colors[name], marker=marker)
            axes.plot(labels, formula, color=colors[name], linestyle=":")
            ends.append((labels[-1], work[-1], name, colors[name]))
        figures.log_axes(axes)
        n_labels = distinct(rows, "labels")
        axes.set_xticks(n_labels, [f"{n:,}" for n in n_labels])
        axes.set(xlabel="labels (L)", ylabel="multiply-adds per feature value")
        figures.label_ends(axes, ends, gap=0.06)
    return figure


def _work(row: TimeRow) -> float:
    """Return the multiply-adds of a pass per feature value of the data."""
    return float(row["multiply_adds"] / (row["instances"] * row["nonzeros"]))


def _lines(rows: Sequence[TimeRow]) -> dict[str, list[TimeRow]]:
    """Return, by increasing L, one-vs-rest, and of each K the depth that costs least by the formula."""
    best: dict[tuple[int, int], TimeRow] = {}
    for row in sorted(rows, key=lambda row: row["cost"], reverse=True):
        best[row["clusters"] or 0, row["labels"]] = row
    lines: dict[str, list[TimeRow]] = {}
    for _, row in sorted(best.items(), key=lambda item: item[0]):
        lines.setdefault(_name(row), []).append(row)
    return lines


def _name(row: TimeRow) -> str:
    return f"K = {row['clusters']}" if row["clusters"] else "one-vs-rest"


def _colours(rows: Sequence[TimeRow]) -> dict[str, str]:
    names = list(_lines(rows))
    trees = [name for name in names if name != "one-vs-rest"]
    cycle = zip(trees, figures.COLORS * len(trees), strict=False)
    return ({"one-vs-rest": figures.INK} if len(trees) < len(names) else {}) | dict(cycle)


SCALES = (1 / 1000, 1 / 300, 1 / 100, 1 / 30, 1 / 10)
QUICK_SCALES = (1 / 2000, 1 / 1000, 1 / 500)


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    like: str = "amazon-670k",
    scales: Sequence[float] | None = None,
    clusters: Sequence[int] = (10, 30, 100),
    depths: Sequence[int] = (2, 3, 4, 5),
    largest_cost: float = 1e10,
    quick: bool = False,
) -> Result:
    """Train one-vs-rest and trees of several K and d on data of increasing L; compare with the formulas.

    Parameters
    ----------
    session : Session
        Only its number of threads and its first seed are used; the data is synthetic.
    progress : callable, optional
    like : str
        A preset of :func:`labeltree.synthesize`.
    scales : sequence of float, optional
        Sizes of the data, as fractions of the preset's.
    clusters, depths : sequence of int
        K and d. Pairs that leave a node fewer than two labels (d > D) are skipped.
    largest_cost : float
        Models that cost more by the formula are skipped.
    quick : bool, default False
        Use small sizes, unless ``scales`` is given: for a first look, not for conclusions.

    Returns
    -------
    Result
    """
    scales = sorted((QUICK_SCALES if quick else SCALES) if scales is None else scales)
    _check(like, scales, clusters, depths)
    seed, threads = session.seeds[0], threads_to_use(session.threads)
    settings = SolverSettings(cost=1, bias=0)
    steps = [
        (scale, pair) for scale in scales for pair in _pairs(like, scale, clusters, depths, largest_cost)
    ]
    if not steps:
        raise InputError(
            f"every size costs more than {largest_cost:g} or has too few labels for a tree",
            hint="use other scales, fewer clusters, or a larger largest_cost",
        )
    measured: list[MeasuredRow] = []
    skipped: list[ResourceError] = []
    data: tuple[float, Dataset] | None = None
    costs = [_cost(*_shape(like, scale), *pair) for scale, pair in steps]
    for number, (scale, (K, depth)) in enumerate(steps):
        if data is None or data[0] != scale:
            data = scale, synthesize(like, scale, seed)[0]
        try:
            measured.append(_measure(data[1], like, scale, K, depth, seed, threads, settings))
        except ResourceError as error:
            skipped.append(error)
        if progress is not None:
            progress(sum(costs[: number + 1]) / sum(costs))
    if not measured:
        raise skipped[0]
    rows = _fit(measured)
    return Result(
        name="time",
        title="Training time: the formulas compared with measurements",
        source="equations 4 and 5 and appendix A of the paper",
        settings={
            "like": like,
            "scales": list(scales),
            "clusters": list(clusters),
            "depths": list(depths),
            "largest_cost": largest_cost,
            "quick": quick,
            "skipped": len(skipped),
            "seed": seed,
            "threads": threads,
            "loss": settings.loss,
            "cost": settings.cost,
            "tolerance": settings.tolerance,
            "bias": settings.bias,
        },
        tables=[
            Table(
                "time",
                f"Training on synthetic data modeled on {like}, {count(threads, 'thread')}. The "
                "columns of the formula are multiplied by one factor for all trees and one for one-vs-rest.",
                {
                    "kind": "model",
                    "labels": "L",
                    "instances": "instances",
                    "clusters": "K",
                    "max_depth": "d",
                    "multiply_adds": "multiply-adds per pass",
                    "fitted_multiply_adds": "by the formula",
                    "train_seconds": "seconds",
                    "fitted_seconds": "by the formula",
                    "tree_seconds": "seconds to build the tree",
                },
                rows,
            )
        ],
        plots=[
            Plot(
                "time",
                "Measured work and time over the formula, multiplied by one factor for trees and one for "
                "one-vs-rest. On the line, both agree.",
                fitted_figure(rows),
            ),
            Plot(
                "time-growth",
                "Multiply-adds per pass and feature value of the data, by the number of labels; each K at "
                "the depth that is cheapest by the formula. The dotted lines are the formula.",
                growth_figure(rows),
            ),
        ],
    )


def multiply_adds(part: TreePlan) -> int:
    """Return the multiply-adds of one pass of the solver over every node of a tree, without the bias.

    Each feature value of a node's instances meets the weights of each child twice: in the margin, and in
    the update.
    """
    return 2 * int(part.nonzeros @ part.tree.child_count)


def _check(like: str, scales: Sequence[float], clusters: Sequence[int], depths: Sequence[int]) -> None:
    if like not in PRESETS:
        raise InputError(f"unknown dataset {like!r}, expected one of {', '.join(PRESETS)}")
    if not scales or not all(0 < scale < math.inf for scale in scales):
        raise InputError(f"{listed('scales', scales)}, expected one or more positive numbers")
    for name, values in (("cluster counts", clusters), ("depths", depths)):
        if not values or min(values) < 2:
            raise InputError(f"{listed(name, values)}, expected one or more integers of at least 2")


def _shape(like: str, scale: float) -> tuple[int, int, float]:
    shape = PRESETS[like].scaled(scale)
    return shape.n_labels, shape.n_instances, shape.features_per_instance


def _cost(labels: int, instances: int, nonzeros: float, clusters: int, depth: int) -> float:
    """Return the paper's cost of a tree, or for depth 1 of one-vs-rest."""
    if depth == 1:
        return float(theory.ovr_cost(labels, instances, nonzeros))
    return float(theory.tree_cost(labels, clusters, depth, instances, nonzeros))


def _pairs(
    like: str, scale: float, clusters: Sequence[int], depths: Sequence[int], largest_cost: float
) -> Iterator[tuple[int, int]]:
    """Yield K and d of the models to train on data of one size, one-vs-rest first."""
    shape = _shape(like, scale)
    possible = [(0, 1)] + [
        (K, depth)
        for K in sorted(set(clusters))
        for depth in sorted(set(depths))
        if depth <= theory.largest_depth(shape[0], K)
    ]
    return (pair for pair in possible if _cost(*shape, *pair) <= largest_cost)


def _measure(
    data: Dataset,
    like: str,
    scale: float,
    clusters: int,
    depth: int,
    seed: int,
    threads: int,
    settings: SolverSettings,
) -> MeasuredRow:
    """Build and train one tree in a temporary directory."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str, _: str) -> Iterator[Progress]:
        start = time.perf_counter()
        yield lambda done: None
        seconds[stage] = time.perf_counter() - start

    tree_settings = TreeSettings(clusters or 2, depth, seed=seed)
    plan = build_plan(data, tree_settings, settings, normalize=False, threads=threads, stage=timed)
    with tempfile.TemporaryDirectory(prefix="labeltree-time-") as directory:
        plan.check_resources(Path(directory))
        with timed("training", ""):
            train_model(data, plan, Path(directory) / "model", score=ScoreSettings())
    nonzeros = data.X.nnz / data.n_instances
    return {
        "like": like,
        "scale": scale,
        "kind": "one-vs-rest" if depth == 1 else "tree",
        "labels": data.n_labels,
        "instances": data.n_instances,
        "features": int(plan.trees[0].used_features[0]),
        "nonzeros": nonzeros,
        "labels_each": data.Y.nnz / data.n_instances,
        "clusters": clusters or None,
        "max_depth": depth,
        "depth": plan.depth,
        "nodes": plan.n_nodes,
        "weights": plan.n_weights,
        "model_bytes": plan.model_bytes,
        "cost": _cost(data.n_labels, data.n_instances, nonzeros, clusters, depth),
        "multiply_adds": multiply_adds(plan.trees[0]),
        "train_seconds": seconds["training"],
        "tree_seconds": seconds["tree"] if depth > 1 else None,
    }


def _fit(rows: Sequence[MeasuredRow]) -> list[TimeRow]:
    """Scale the costs to the measurements, with one factor each for trees and for one-vs-rest.

    The factor is the geometric mean, with which the errors cancel on a logarithmic scale.
    """
    factors = {
        (kind, measure): float(
            np.exp(np.mean([np.log(row[measure] / row["cost"]) for row in where(rows, kind=kind)]))
        )
        for kind in distinct(rows, "kind")
        for measure, _, _ in MEASURES
    }
    return [
        {
            **row,
            "fitted_multiply_adds": factors[row["kind"], "multiply_adds"] * row["cost"],
            "fitted_seconds": factors[row["kind"], "train_seconds"] * row["cost"],
        }
        for row in rows
    ]
