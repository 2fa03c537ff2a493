"""`time`: the training costs of appendix A beside measured seconds and multiply-adds, on made-up data."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from labeltree.clustering import build_tree
from labeltree.data import Dataset
from labeltree.datasets.presets import PRESETS
from labeltree.datasets.synthetic import synthesize
from labeltree.errors import InputError, ResourceError
from labeltree.paper import theory
from labeltree.paper.experiments.result import Plot, Result, Table
from labeltree.paper.experiments.session import Session
from labeltree.paper.experiments.time_shown import Row, claims, fitted_figure, growth_figure
from labeltree.plan import TreePlan, make_plan
from labeltree.progress import Progress
from labeltree.settings import SolverSettings
from labeltree.system import threads_to_use
from labeltree.train import train_model

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
    """Train trees of several K and d, and one-vs-rest, on data of growing L; compare with the formulas.

    Parameters
    ----------
    session : Session
        For its threads and its first seed; the data are made up.
    progress : callable, optional
    like : str
        A preset of :func:`labeltree.synthesize`.
    scales : sequence of float, optional
        Sizes of the data, as shares of the preset's.
    clusters, depths : sequence of int
        K and d. Those that leave a node less than two labels (d > D) are left out.
    largest_cost : float
        What costs more, by the formula, is left out.
    quick : bool, default False
        Small sizes only, unless scales are given: for a look, not for conclusions.

    Returns
    -------
    Result
    """
    scales = sorted((QUICK_SCALES if quick else SCALES) if scales is None else scales)
    _check(like, scales, clusters, depths)
    seed, threads = session.seeds[0], threads_to_use(session.threads)
    settings = SolverSettings(bias=0)
    steps = [
        (scale, pair) for scale in scales for pair in _pairs(like, scale, clusters, depths, largest_cost)
    ]
    if not steps:
        raise InputError(
            f"every size costs more than {largest_cost:g} or has too few labels for a tree, expected one at "
            "least; give other scales, fewer clusters, or a greater largest_cost."
        )
    rows: list[Row] = []
    left_out: list[ResourceError] = []
    made: tuple[float, Dataset] | None = None
    costs = [_cost(*_shape(like, scale), *pair) for scale, pair in steps]
    for number, (scale, (K, depth)) in enumerate(steps):
        if made is None or made[0] != scale:
            made = scale, synthesize(like, scale, seed)[0]
        try:
            row = _measure(made[1], K, depth, seed, threads, settings)
        except ResourceError as error:
            left_out.append(error)
        else:
            rows.append({"like": like, "scale": scale, **row})
        if progress is not None:
            progress(sum(costs[: number + 1]) / sum(costs))
    if not rows:
        raise left_out[0]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        _fit([row for row in rows if row["kind"] == kind])
    return Result(
        name="time",
        title="Training time: appendix A against reality",
        source="the training costs of one-vs-rest and of a tree (eq:time-for-OVR, eq:time-complexity)",
        introduction=(
            "A tree trains faster than one-vs-rest, since most of its nodes see few instances. Appendix A "
            "says how much faster: a balanced tree of depth d costs l n log L (K (d - 1) + L / K^(d-1)), "
            "one-vs-rest L l n, for l instances with n feature values each. Constants are left out, so each "
            "formula is multiplied with one factor, the same for all its points: the one for which the "
            "errors cancel on a logarithmic scale. Beside it stand what training really took: "
            "multiply-adds of one pass of the solver over every node, counted exactly, and seconds, with the "
            "passes that each node needs, reading and writing included. Building the tree is timed, but not "
            "counted in. Real trees are not balanced, and here the labels of an instance do not grow with L. "
            f"What costs more than {largest_cost:g} by its formula is left out"
            + (f", and {len(left_out)} for want of room: {left_out[0]}" if left_out else ".")
        ),
        settings={
            "like": like,
            "scales": list(scales),
            "clusters": list(clusters),
            "depths": list(depths),
            "largest_cost": largest_cost,
            "quick": quick,
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
                f"Training on made-up data with the shape of {like}, {threads} thread"
                f"{'s' * (threads != 1)}. The formula, times one factor for all trees and one for "
                "one-vs-rest, stands beside what was measured.",
                {
                    "kind": "model",
                    "labels": "L",
                    "instances": "instances",
                    "clusters": "K",
                    "max_depth": "d",
                    "multiply_adds": "multiply-adds of a pass",
                    "fitted_multiply_adds": "formula",
                    "train_seconds": "seconds",
                    "fitted_seconds": "formula, seconds",
                    "tree_seconds": "seconds for the tree",
                },
                rows,
            )
        ],
        plots=[
            Plot(
                "time",
                "What was measured against the formula, times one factor for trees and one for one-vs-rest. "
                "On the line, both agree.",
                fitted_figure(rows),
            ),
            Plot(
                "time-growth",
                "Multiply-adds of a pass for each feature value of the data, against the number of labels; "
                "for each K at the depth where the formula is least. Dotted: the formula.",
                growth_figure(rows),
            ),
        ],
        claims=claims(rows),
    )


def multiply_adds(part: TreePlan) -> int:
    """Multiply-adds of one pass of the solver over every node of a tree, the bias not counted.

    Each feature value of a node's instances meets the weights of each child twice: in the margin, and in
    the step.
    """
    return 2 * int(part.nonzeros @ part.tree.child_count)


def _check(like: str, scales: Sequence[float], clusters: Sequence[int], depths: Sequence[int]) -> None:
    if like not in PRESETS:
        raise InputError(f"got the unknown data set {like!r}, expected one of {', '.join(PRESETS)}.")
    if not scales or not all(0 < scale < math.inf for scale in scales):
        raise InputError(f"got the scales {list(scales)}, expected one or more numbers above 0.")
    if not clusters or min(clusters) < 2 or not depths or min(depths) < 2:
        raise InputError(
            f"got the clusters {list(clusters)} and the depths {list(depths)}, expected whole numbers of at "
            "least 2; one-vs-rest is always among what is trained."
        )


def _shape(like: str, scale: float) -> tuple[int, int, float]:
    shape = PRESETS[like].scaled(scale)
    return shape.n_labels, shape.n_instances, shape.features_per_instance


def _cost(labels: int, instances: int, nonzeros: float, clusters: int, depth: int) -> float:
    """The paper's cost of a tree, or for depth 1 of one-vs-rest."""
    if depth == 1:
        return float(theory.ovr_cost(labels, instances, nonzeros))
    return float(theory.tree_cost(labels, clusters, depth, instances, nonzeros))


def _pairs(
    like: str, scale: float, clusters: Sequence[int], depths: Sequence[int], largest_cost: float
) -> Iterator[tuple[int, int]]:
    """K and d of what is trained on data of a size, one-vs-rest first."""
    shape = _shape(like, scale)
    possible = [(0, 1)] + [
        (K, depth)
        for K in sorted(set(clusters))
        for depth in sorted(set(depths))
        if depth <= theory.largest_depth(shape[0], K)
    ]
    return (pair for pair in possible if _cost(*shape, *pair) <= largest_cost)


def _measure(
    data: Dataset, clusters: int, depth: int, seed: int, threads: int, settings: SolverSettings
) -> Row:
    """Build and train one tree, in a folder that is gone afterwards."""
    start = time.perf_counter()
    tree = build_tree(data, clusters=clusters or 2, max_depth=depth, seed=seed, threads=threads)
    tree_seconds = time.perf_counter() - start
    plan = make_plan(data, tree, settings, threads=threads)
    with tempfile.TemporaryDirectory(prefix="labeltree-time-") as folder:
        plan.check_resources(Path(folder))
        start = time.perf_counter()
        train_model(data, plan, Path(folder) / "model")
        train_seconds = time.perf_counter() - start
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
        "depth": tree.depth,
        "nodes": tree.n_nodes,
        "weights": plan.n_weights,
        "model_bytes": plan.model_bytes,
        "cost": _cost(data.n_labels, data.n_instances, nonzeros, clusters, depth),
        "multiply_adds": multiply_adds(plan.trees[0]),
        "train_seconds": train_seconds,
        "tree_seconds": tree_seconds if depth > 1 else None,
    }


def _fit(rows: list[Row]) -> None:
    """Scale the costs of one kind to what was measured: the factor whose errors cancel in the logarithm."""
    cost = np.array([row["cost"] for row in rows])
    for key, fitted in (("multiply_adds", "fitted_multiply_adds"), ("train_seconds", "fitted_seconds")):
        measured = np.array([row[key] for row in rows])
        factor = float(np.exp(np.log(measured / cost).mean()))
        for row in rows:
            row[fitted] = factor * row["cost"]
