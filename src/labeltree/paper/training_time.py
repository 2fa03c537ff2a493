"""`time`: the training costs of appendix A, compared with measured work and seconds on synthetic data."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labeltree.base import plots
from labeltree.base.progress import Progress, ignore
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.data.published import PRESETS
from labeltree.data.synthetic import synthesize
from labeltree.errors import InputError, ResourceError
from labeltree.paper import theory
from labeltree.paper.session import Session, steps
from labeltree.paper.table import Row, Table, distinct, group, listed, where
from labeltree.settings import ScoreSettings, SolverSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import TreePlan
from labeltree.training.train import build_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES = (1 / 1000, 1 / 300, 1 / 100, 1 / 30, 1 / 10)
QUICK_SCALES = (1 / 2000, 1 / 1000, 1 / 500)
# A measured column, the column of the formula for it, and its name.
MEASURES = (
    ("multiply_adds", "fitted_multiply_adds", "multiply-adds per pass"),
    ("train_seconds", "fitted_seconds", "seconds"),
)
COLUMNS = {
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
}


def training_time(
    session: Session,
    progress: Progress = ignore,
    *,
    like: str = "amazon-670k",
    scales: Sequence[float] | None = None,
    cluster_counts: Sequence[int] = (10, 30, 100),
    depths: Sequence[int] = (2, 3, 4, 5),
    largest_cost: float = 1e10,
    quick: bool = False,
) -> list[Table]:
    """Train one-vs-rest and trees of several K and d on data of increasing L; compare with the formulas.

    Parameters
    ----------
    session : Session
        Only its number of threads and its first seed are used; the data is synthetic.
    progress : callable, optional
    like : str
        A preset of :func:`labeltree.synthesize`.
    scales : sequence of float, optional
        Sizes of the data, as fractions of the preset's. Default: five sizes, or three small ones if quick.
    cluster_counts, depths : sequence of int
        K and d. Pairs that leave a node fewer than two labels (d > D) are skipped.
    largest_cost : float
        Models that cost more by the formula are skipped.
    quick : bool, default False
    """
    scales = sorted((QUICK_SCALES if quick else SCALES) if scales is None else scales)
    if like not in PRESETS:
        raise InputError(f"unknown dataset {like!r}, expected one of {', '.join(PRESETS)}")
    if not scales or not all(0 < scale < math.inf for scale in scales):
        raise InputError(f"{listed('scales', scales)}, expected one or more positive numbers")
    for name, values in (("cluster counts", cluster_counts), ("depths", depths)):
        if not values or min(values) < 2:
            raise InputError(f"{listed(name, values)}, expected one or more integers of at least 2")
    models = [(0, 1)] + [(K, d) for K in sorted(set(cluster_counts)) for d in sorted(set(depths))]
    runs = [
        (scale, model)
        for scale in scales
        for model in models
        if _planned_cost(like, scale, *model) <= largest_cost
    ]
    if not runs:
        raise InputError(
            f"every size costs more than {largest_cost:g} or has too few labels for a tree",
            hint="use other scales, fewer clusters, or a larger largest_cost",
        )
    seed, rows, errors = session.seeds[0], list[Row](), list[ResourceError]()
    made, data = None, None
    for (scale, model), _ in steps(runs, progress):
        if data is None or made != scale:
            made, data = scale, synthesize(like, scale, seed)[0]
        try:
            found = _measure(data, *model, seed, threads_to_use(session.threads))
            rows.append({"like": like, "scale": scale, **found})
        except ResourceError as error:  # other models may need less
            errors.append(error)
    if not rows:
        raise errors[0]
    for mine in group(rows, "kind").values():
        for key, fitted, _ in MEASURES:  # one factor each: the geometric mean
            factor = float(np.exp(np.mean([np.log(row[key] / row["cost"]) for row in mine])))
            for row in mine:
                row[fitted] = factor * row["cost"]
    caption = (
        f"Training on synthetic data modeled on {like}, with {len(errors)} models that do not fit left out."
    )
    return [Table("time", caption, COLUMNS, rows, figure=_draw(rows))]


def multiply_adds(part: TreePlan) -> int:
    """Return the multiply-adds of one pass of the solver over every node of a tree, without the bias.

    Each feature value of a node's instances meets the weights of each child twice: in the margin, and in
    the update.
    """
    return 2 * int(part.nonzeros @ part.tree.child_count)


def _planned_cost(like: str, scale: float, clusters: int, depth: int) -> float:
    """Return the cost of a model on data of a size; infinite if there is no such tree."""
    shape = PRESETS[like].scaled(scale)
    if depth > 1 and depth > theory.largest_depth(shape.n_labels, clusters):
        return math.inf
    return _cost(shape.n_labels, shape.n_instances, shape.features_per_instance, clusters, depth)


def _cost(labels: int, instances: int, nonzeros: float, clusters: int, depth: int) -> float:
    """Return the paper's cost of a tree, or for depth 1 of one-vs-rest."""
    if depth == 1:
        return float(theory.ovr_cost(labels, instances, nonzeros))
    return float(theory.tree_cost(labels, clusters, depth, instances, nonzeros))


def _measure(data: Dataset, clusters: int, depth: int, seed: int, threads: int) -> Row:
    """Build and train one tree in a temporary directory."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str, _: str) -> Iterator[Progress]:
        start = time.perf_counter()
        yield ignore
        seconds[stage] = time.perf_counter() - start

    tree, solver = TreeSettings(clusters or 2, depth, seed=seed), SolverSettings(cost=1, bias=0)
    plan = build_plan(data, tree, solver, normalize=False, threads=threads, stage=timed)
    with tempfile.TemporaryDirectory(prefix="labeltree-time-") as directory:
        plan.check_resources(Path(directory))
        with timed("training", ""):
            train_model(data, plan, Path(directory) / "model", score=ScoreSettings())
    nonzeros = data.X.nnz / data.n_instances
    return {
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


@plots.style()
def _draw(rows: list[Row]) -> Figure:
    """Draw measured over fitted on logarithmic axes, with a color per K; on the line, both agree."""
    figure, panels = plots.small_multiples([name for *_, name in MEASURES], panel=(4.2, 3.4))
    for axes, (key, fitted, _) in zip(panels, MEASURES, strict=True):
        for number, clusters in enumerate(distinct(rows, "clusters")):
            mine = where(rows, clusters=clusters)
            axes.plot(
                [row[fitted] for row in mine],
                [row[key] for row in mine],
                color=plots.COLORS[number % 6],
                marker=plots.MARKERS[number % 6],
                linestyle="",
                label="one-vs-rest" if clusters is None else f"K = {clusters}",
            )
        values = [row[column] for row in rows for column in (key, fitted)]
        ends = min(values), max(values)
        axes.plot(ends, ends, color=plots.MUTED, linewidth=1, zorder=1)
        unit = "s" if key == "train_seconds" else ""
        plots.log_axes(axes, unit, unit)
        axes.set(xlabel="formula", ylabel="measured")
    figure.legend(*panels[0].get_legend_handles_labels(), loc=plots.LEGEND, ncols=4)
    return figure
