"""`kmeans` and `time`: the costs of appendix A by its formulas, and measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import plots
from labeltree.base.display import Progress, ignore
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.data.synthetic import synthesize
from labeltree.paper import theory
from labeltree.paper.results import Row, Table, distinct, group, where
from labeltree.paper.session import Session, steps, trained
from labeltree.settings import SolverSettings, TreeSettings
from labeltree.training.train import build_plan
from labeltree.training.tree_plan import TreePlan
from labeltree.trees.kmeans import MAX_KMEANS_ITERATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES = (1 / 1000, 1 / 300, 1 / 100, 1 / 30, 1 / 10)
QUICK_SCALES = (1 / 2000, 1 / 1000, 1 / 500)
LARGEST_COST = 1e10  # models that cost more by the formula are skipped
KMEANS_COLUMNS = (
    *("data", "clusters", "iterations", "depth", "nodes", "labels", "nonzeros", "multiply_adds", "seconds"),
    "fitted_seconds",
)
TREE_KEYS = ("data", "vector_nonzeros", "clusters", "iterations", "tree_depth")
TREE_COLUMNS = (*TREE_KEYS, "cost", "multiply_adds", "cost_share", "seconds")
TIME_COLUMNS = (
    *("model", "labels", "instances", "clusters", "max_depth", "multiply_adds", "fitted_multiply_adds"),
    *("train_seconds", "fitted_train_seconds", "tree_seconds"),
)


def kmeans_cost(
    session: Session,
    progress: Progress = ignore,
    *,
    cluster_counts: Sequence[int] = (10, 30, 100),
    max_depth: int = 6,
    iterations: Sequence[int] = (5, MAX_KMEANS_ITERATIONS),
    quick: bool = False,
) -> list[Table]:
    """Time K-means depth by depth with a fixed number of iterations; compare with the formula.

    Parameters
    ----------
    session : Session
        Only its first seed is used.
    progress : callable, optional
    cluster_counts : sequence of int
        The values of K.
    max_depth : int, default 6
        d_max.
    iterations : sequence of int
        ``build_tree`` runs at most 10 iterations, and fewer if few labels move.
    quick : bool, default False
        Run one and two iterations.
    """
    rows: list[Row] = []
    seed, threads = session.seeds[0], threads_to_use(session.threads)
    for (split, K), part in steps(product(session.splits, cluster_counts), progress):
        (plan,) = session.plan(split, K, max_depth, seed, part).trees
        vectors, _ = session.label_vectors(split).make(K, threads, None)
        nonzeros = np.diff(_native.count_label_vectors(split.train.native, threads))
        known = np.diff(split.train.by_label[0]) > 0
        levels = [_split_nodes(plan, K, level, known) for level in range(plan.tree.depth - 1)]
        for passes, (depth, nodes) in product((1, 2) if quick else iterations, enumerate(levels)):
            if not nodes:
                continue
            labels = np.concatenate(list(nodes.values())).astype(np.int32)
            rows.append(
                {
                    "data": split.name,
                    "clusters": K,
                    "iterations": passes,
                    "tree_depth": plan.tree.depth,
                    "vector_nonzeros": int(nonzeros.sum()),
                    "depth": depth,
                    "nodes": len(nodes),
                    "labels": int(labels.size),
                    "nonzeros": int(nonzeros[labels].sum()),
                    "multiply_adds": int(nonzeros[labels].sum()) * K * passes,
                    "seconds": _time(vectors, labels, nodes, K, passes, seed),
                }
            )
    trees: list[Row] = []
    for values, mine in group(rows, *TREE_KEYS).items():
        tree = dict(zip(TREE_KEYS, values, strict=True))
        cost = theory.kmeans_cost(*(tree[key] for key in TREE_KEYS[1:]))
        done, seconds = (sum(row[key] for row in mine) for key in ("multiply_adds", "seconds"))
        trees.append(
            {
                **tree,
                "cost": float(cost),
                "multiply_adds": done,
                "cost_share": float(done / cost),
                "seconds": seconds,
            }
        )
    _fit(rows, "seconds", "multiply_adds")
    figure = _draw(rows, ["seconds"], "data") if rows else None
    return [
        Table(
            "kmeans",
            "K-means of the nodes of one depth, in CPU seconds.",
            KMEANS_COLUMNS,
            rows,
            figure=figure,
        ),
        Table("kmeans-trees", "Whole trees; the cost is nnz(V) K iterations d.", TREE_COLUMNS, trees),
    ]


def _time(
    vectors: _native.SparseRows,
    labels: NDArray[np.int32],
    split: dict[int, NDArray[np.int32]],
    clusters: int,
    iterations: int,
    seed: int,
) -> float:
    """Cluster the nodes of one depth as ``build_tree`` does; return the CPU seconds."""
    sizes = np.array([own.size for own in split.values()])
    last = np.cumsum(sizes)
    nodes = np.array(list(split), np.int64)
    start = time.process_time()
    # Nothing is below a share of 0 that moves, so every iteration is run.
    _native.cluster_level(
        vectors,
        labels=labels,
        first=last - sizes,
        last=last,
        streams=nodes,
        clusters=clusters,
        max_iterations=iterations,
        least_moved=0.0,
        seed=seed,
        threads=1,
        progress=None,
    )
    return time.process_time() - start


def _split_nodes(
    part: TreePlan, clusters: int, depth: int, known: NDArray[np.bool_]
) -> dict[int, NDArray[np.int32]]:
    """Return the nodes of a depth that were split by K-means, and their labels that have instances."""
    tree = part.tree
    parents = np.unique(tree.parent[1:])  # of nodes; below all others are only labels
    found = {}
    for u in parents[tree.node_depth[parents] == depth].tolist():
        labels = np.sort(tree.labels[tree.first[u] : tree.last[u]])
        if known[labels].sum() > clusters:
            found[u] = labels[known[labels]]
    return found


def training_time(
    session: Session,
    progress: Progress = ignore,
    *,
    like: str = "amazon-670k",
    scales: Sequence[float] = SCALES,
    cluster_counts: Sequence[int] = (10, 30, 100),
    depths: Sequence[int] = (2, 3, 4, 5),
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
    scales : sequence of float
        Sizes of the data, as fractions of the preset's.
    cluster_counts, depths : sequence of int
        K and d. Pairs that leave a node fewer than two labels (d > D) are skipped, and so are models that
        cost too much.
    quick : bool, default False
        Use three small sizes.
    """
    seed, threads = session.seeds[0], threads_to_use(session.threads)
    rows: list[Row] = []
    for scale, part in steps(QUICK_SCALES if quick else scales, progress):
        data, _ = synthesize(like, scale, seed)
        models = [(0, 1), *((K, d) for K in cluster_counts for d in depths)]
        fitting = [one for one in models if _cost(data, *one) <= LARGEST_COST]
        for (K, d), _ in steps(fitting, part):
            rows.append({"like": like, "scale": scale, **_measure(data, K, d, seed, threads)})
    for mine in group(rows, "model").values():
        for key in ("multiply_adds", "train_seconds"):
            _fit(mine, key, "cost")
    caption = f"Training on synthetic data modeled on {like}; multiply-adds of one pass of the solver."
    return [
        Table(
            "time",
            caption,
            TIME_COLUMNS,
            rows,
            figure=_draw(rows, ["multiply_adds", "train_seconds"], "clusters"),
        )
    ]


def _cost(data: Dataset, clusters: int, depth: int) -> float:
    """Return the paper's cost of a tree, or for depth 1 of one-vs-rest; infinite if there is no such tree."""
    nonzeros = data.X.nnz / data.n_instances
    if depth == 1:
        return float(theory.ovr_cost(data.n_labels, data.n_instances, nonzeros))
    if depth > theory.largest_depth(data.n_labels, clusters):
        return np.inf
    return float(theory.tree_cost(data.n_labels, clusters, depth, data.n_instances, nonzeros))


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
    start = time.perf_counter()
    with trained(data, plan):
        train_seconds = time.perf_counter() - start
    return {
        "model": "one-vs-rest" if depth == 1 else "tree",
        "labels": data.n_labels,
        "instances": data.n_instances,
        "clusters": clusters or None,
        "max_depth": depth,
        "depth": plan.depth,
        "nodes": plan.n_nodes,
        "weights": plan.n_weights,
        "cost": _cost(data, clusters, depth),
        "multiply_adds": plan.trees[0].multiply_adds,
        "train_seconds": train_seconds,
        "tree_seconds": seconds["tree"] if depth > 1 else None,
    }


def _fit(rows: list[Row], key: str, cost: str) -> None:
    """Add what the formula gives for a measured column: its cost times one factor, the geometric mean."""
    rates = [row[key] / row[cost] for row in rows if row[key] > 0]
    factor = float(np.exp(np.mean(np.log(rates)))) if rates else 0.0
    for row in rows:
        row[f"fitted_{key}"] = factor * row[cost]


@plots.style()
def _draw(rows: list[Row], measured: Sequence[str], by: str) -> Figure:
    """Draw measured over fitted on logarithmic axes, colored by a column; on the line, both agree."""
    figure, panels = plots.small_multiples([key.replace("_", " ") for key in measured], panel=(4.2, 3.4))
    for axes, key in zip(panels, measured, strict=True):
        for number, value in enumerate(distinct(rows, by)):
            mine = where(rows, **{by: value})
            axes.plot(
                [row[f"fitted_{key}"] for row in mine],
                [row[key] for row in mine],
                color=plots.COLORS[number % 6],
                marker=plots.MARKERS[number % 6],
                linestyle="",
                label="one-vs-rest" if value is None else f"K = {value}" if by == "clusters" else value,
            )
        values = [row[column] for row in rows for column in (key, f"fitted_{key}")]
        ends = min(values), max(values)
        axes.plot(ends, ends, color=plots.MUTED, linewidth=1, zorder=1)
        unit = "s" if key.endswith("seconds") else ""
        plots.log_axes(axes, unit, unit)
        axes.set(xlabel="formula", ylabel="measured")
    figure.legend(*panels[0].get_legend_handles_labels(), loc=plots.LEGEND, ncols=4)
    return figure
