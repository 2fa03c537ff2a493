"""`kmeans`: the cost of K-means in appendix A, compared with measured seconds, depth by depth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import plots
from labeltree.base.progress import Progress, ignore
from labeltree.errors import InputError
from labeltree.paper import theory
from labeltree.paper.session import Session, steps
from labeltree.paper.table import Row, Table, distinct, listed, where
from labeltree.training.plan import TreePlan
from labeltree.trees.kmeans import MAX_KMEANS_ITERATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 3  # measurements of a depth, of which the fastest counts
LONG = 1.0  # seconds from which one measurement is enough
COLUMNS = {
    "data": "dataset",
    "clusters": "K",
    "depth": "depth",
    "nodes": "nodes split",
    "labels": "labels",
    "nonzeros": "non-zeros of their vectors",
    "iterations": "iterations",
    "multiply_adds": "multiply-adds",
    "seconds": "CPU seconds",
    "fitted_seconds": "by the formula",
}
TREE_COLUMNS = {
    "data": "dataset",
    "clusters": "K",
    "depth": "tree depth (d)",
    "iterations": "iterations",
    "vector_nonzeros": "nnz(V)",
    "cost": "formula",
    "multiply_adds": "multiply-adds",
    "cost_share": "share",
    "seconds": "CPU seconds",
}


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
        Run one and two iterations, and measure once.
    """
    if not cluster_counts or min(cluster_counts) < 2:
        raise InputError(f"{listed('cluster counts', cluster_counts)}, expected integers of at least 2")
    iterations = (1, 2) if quick else iterations
    if not iterations or min(iterations) < 1:
        raise InputError(f"{listed('iterations', iterations)}, expected integers of at least 1")
    rows: list[Row] = []
    trees: list[Row] = []
    pairs = [(split, K) for split in session.splits for K in sorted(set(cluster_counts))]
    for (split, K), part in steps(pairs, progress):
        plan = session.tree_plan(split.name, K, max_depth, session.seeds[0], part)
        vectors, nonzeros = session.label_vectors(split.name, K)
        known = np.diff(split.train.by_label[0]) > 0
        total, depth = int(nonzeros.sum()), plan.tree.depth
        levels = [(level, _split_nodes(plan, K, level, known)) for level in range(depth - 1)]
        for passes in sorted(set(iterations)):
            mine: list[Row] = []
            common = {"data": split.name, "clusters": K, "iterations": passes}
            for level, split_nodes in levels:
                if not split_nodes:
                    continue
                labels = np.concatenate(list(split_nodes.values())).astype(np.int32)
                of_depth = {
                    "depth": level,
                    "nodes": len(split_nodes),
                    "labels": int(labels.size),
                    "nonzeros": int(nonzeros[labels].sum()),
                    "multiply_adds": int(nonzeros[labels].sum()) * K * passes,
                    "seconds": _time(vectors, labels, split_nodes, K, passes, session.seeds[0], quick),
                }
                mine.append(common | of_depth)
            if mine:
                cost = float(theory.kmeans_cost(total, K, passes, depth))
                done = sum(row["multiply_adds"] for row in mine)
                seconds = sum(row["seconds"] for row in mine)
                of_tree = {"depth": depth, "vector_nonzeros": total, "cost": cost, "multiply_adds": done}
                trees.append(common | of_tree | {"cost_share": done / cost, "seconds": seconds})
            rows += mine
    rates = [row["seconds"] / row["multiply_adds"] for row in rows if row["seconds"] > 0]
    factor = float(np.exp(np.mean(np.log(rates)))) if rates else 0.0  # one for all rows: the geometric mean
    for row in rows:
        row["fitted_seconds"] = factor * row["multiply_adds"]
    figure = _draw(rows) if rows else None
    return [
        Table("kmeans", "K-means of the nodes of one depth.", COLUMNS, rows, figure=figure),
        Table("kmeans-trees", "Whole trees, and the formula nnz(V) K iterations d.", TREE_COLUMNS, trees),
    ]


def _time(
    vectors: _native.SparseRows,
    labels: NDArray[np.int32],
    split: dict[int, NDArray[np.int32]],
    clusters: int,
    iterations: int,
    seed: int,
    quick: bool,
) -> float:
    """Cluster the nodes of one depth as ``build_tree`` does; return the CPU seconds of the fastest repeat."""
    sizes = np.array([own.size for own in split.values()])
    last = np.cumsum(sizes)
    nodes = np.array(list(split), np.int64)
    fastest = np.inf
    for _ in range(1 if quick else REPEATS):
        start = time.process_time()
        # Nothing is below a share of 0 that moves, so every iteration is run.
        _native.cluster_level(
            vectors, labels, last - sizes, last, nodes, clusters, iterations, 0.0, seed, 1, None
        )
        fastest = min(fastest, seconds := time.process_time() - start)
        if seconds > LONG:
            break
    return float(fastest)


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


@plots.style()
def _draw(rows: list[Row]) -> Figure:
    """Draw seconds over multiply-adds: a color and a marker per dataset, and a line for the formula."""
    figure, (axes,) = plots.new_figure(1, 1, panel=(5.0, 3.6))
    for number, name in enumerate(distinct(rows, "data")):
        mine = where(rows, data=name)
        axes.plot(
            [row["multiply_adds"] for row in mine],
            [row["seconds"] for row in mine],
            color=plots.COLORS[number % 6],
            marker=plots.MARKERS[number % 6],
            linestyle="",
            label=name,
        )
    ends = sorted((row["multiply_adds"], row["fitted_seconds"]) for row in rows)
    axes.plot(*zip(ends[0], ends[-1], strict=True), color=plots.MUTED, linewidth=1, zorder=1, label="formula")
    plots.log_axes(axes, "", "s")
    axes.set(xlabel="multiply-adds", ylabel="CPU seconds")
    figure.legend(loc=plots.LEGEND, ncols=3)
    return figure
