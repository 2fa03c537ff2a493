"""`kmeans`: the cost of K-means in appendix A, compared with measured seconds, depth by depth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.base.progress import Progress, part_of
from labeltree.errors import InputError
from labeltree.paper import theory
from labeltree.paper.experiments.result import Plot, Result, Table, distinct, listed
from labeltree.paper.experiments.session import Session
from labeltree.training.plan import TreePlan
from labeltree.trees.kmeans import MAX_KMEANS_ITERATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class KMeansRow(TypedDict):
    """K-means of all nodes of one depth of one tree."""

    data: str
    clusters: int
    seed: int
    depth: int
    nodes: int
    labels: int
    nonzeros: int
    iterations: int
    multiply_adds: int
    seconds: float


class FittedRow(KMeansRow):
    """The same, with the seconds that the formula predicts."""

    fitted_seconds: float


class TreeCost(TypedDict):
    """All depths of one tree, next to the formula for a balanced tree."""

    data: str
    clusters: int
    seed: int
    depth: int
    iterations: int
    vector_nonzeros: int
    cost: float
    multiply_adds: int
    cost_share: float
    seconds: float


def figure(rows: Sequence[FittedRow]) -> Figure:
    """Draw seconds over multiply-adds, with a color per dataset and a marker per K."""
    line = optional("matplotlib.lines").Line2D
    names, clusters = distinct(rows, "data"), sorted(distinct(rows, "clusters"))
    color = {name: figures.COLORS[i % len(figures.COLORS)] for i, name in enumerate(names)}
    marker = {K: figures.MARKERS[i % len(figures.MARKERS)] for i, K in enumerate(clusters)}
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.0, 3.6))
    with figures.style():
        for row in rows:
            axes.plot(
                row["multiply_adds"],
                row["seconds"],
                color=color[row["data"]],
                marker=marker[row["clusters"]],
                linestyle="",
            )
        ends = sorted((row["multiply_adds"], row["fitted_seconds"]) for row in rows)
        axes.plot(*zip(ends[0], ends[-1], strict=True), color=figures.MUTED, linewidth=1, zorder=1)
        figures.log_axes(axes)
        axes.yaxis.set_major_formatter(optional("matplotlib.ticker").EngFormatter("s"))
        axes.set(xlabel="multiply-adds", ylabel="CPU seconds")
        handles = [
            *(line([], [], color=color[name], marker="o", linestyle="", label=name) for name in names),
            *(
                line([], [], color=figures.MUTED, marker=marker[K], linestyle="", label=f"K = {K}")
                for K in clusters
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


CLUSTERS, MAX_DEPTH = (10, 30, 100), 6
ITERATIONS, QUICK_ITERATIONS = (5, MAX_KMEANS_ITERATIONS), (1, 2)
REPEATS = 3  # measurements of a depth, of which the fastest counts
LONG = 1.0  # seconds from which one measurement is enough


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: Sequence[int] = CLUSTERS,
    max_depth: int = MAX_DEPTH,
    iterations: Sequence[int] | None = None,
    quick: bool = False,
) -> Result:
    """Time K-means depth by depth with a fixed number of iterations; compare with the formula.

    Parameters
    ----------
    session : Session
        Only its first seed is used.
    progress : callable, optional
    clusters : sequence of int
        The values of K.
    max_depth : int, default 6
        d_max.
    iterations : sequence of int, optional
        Default: 5 and 10, the maximum of ``build_tree``, which stops earlier if few labels move.
    quick : bool, default False
        Run one and two iterations, and measure once: for a first look, not for conclusions.

    Returns
    -------
    Result
    """
    if not clusters or min(clusters) < 2:
        raise InputError(f"{listed('cluster counts', clusters)}, expected one or more integers of at least 2")
    if iterations is None:
        iterations = QUICK_ITERATIONS if quick else ITERATIONS
    if not iterations or min(iterations) < 1:
        raise InputError(f"{listed('iterations', iterations)}, expected one or more integers of at least 1")
    repeats = 1 if quick else REPEATS
    seed = session.seeds[0]
    measured: list[KMeansRow] = []
    trees: list[TreeCost] = []
    pairs = [(split, K) for split in session.splits for K in sorted(set(clusters))]
    for number, (split, K) in enumerate(pairs):
        part = part_of(progress, number, len(pairs))
        tree = session.tree_plan(split.name, K, max_depth, seed, part_of(part, 0, 2))
        vectors, nonzeros = session.label_vectors(split.name, K)
        known = np.diff(split.train.by_label[0]) > 0
        for passes in sorted(set(iterations)):
            mine = _measure(split.name, K, seed, tree, vectors, nonzeros, known, passes, repeats)
            measured += mine
            trees += _whole_tree(split.name, K, seed, tree, nonzeros, passes, mine)
        if part is not None:
            part(1.0)
    rows = _fit(measured)
    return Result(
        name="kmeans",
        title="The cost of K-means: the formula compared with measurements",
        source="appendix A of the paper, part 2",
        settings={
            "clusters (K)": list(clusters),
            "largest depth (d_max)": max_depth,
            "iterations": list(iterations),
            "repeats": repeats,
            "seed": seed,
            "quick": quick,
        },
        tables=[
            Table(
                "kmeans",
                "K-means of the nodes of one depth. The last column is the formula, multiplied by one factor "
                "for all rows.",
                {
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
                },
                rows,
            ),
            Table(
                "kmeans-trees",
                "Whole trees: nnz(V) K iterations d of the formula, the multiply-adds of all depths, and "
                "their share of the formula.",
                {
                    "data": "dataset",
                    "clusters": "K",
                    "depth": "tree depth (d)",
                    "iterations": "iterations",
                    "vector_nonzeros": "nnz(V)",
                    "cost": "formula",
                    "multiply_adds": "multiply-adds",
                    "cost_share": "share",
                    "seconds": "CPU seconds",
                },
                trees,
            ),
        ],
        plots=[
            Plot(
                "kmeans",
                "CPU seconds of K-means over the multiply-adds, one point per dataset, K and depth. The line "
                "is the formula.",
                figure(rows),
            )
        ]
        if rows
        else [],
    )


def _measure(
    name: str,
    clusters: int,
    seed: int,
    part: TreePlan,
    vectors: _native.SparseRows,
    nonzeros: NDArray[np.int64],
    known: NDArray[np.bool_],
    iterations: int,
    repeats: int,
) -> list[KMeansRow]:
    """Cluster the nodes of each depth that were split, as ``build_tree`` does, and time it."""
    rows: list[KMeansRow] = []
    for depth in range(part.tree.depth - 1):
        split = _split_nodes(part, clusters, depth, known)
        if not split:
            continue
        labels = np.concatenate(list(split.values())).astype(np.int32)
        sizes = np.array([own.size for own in split.values()])
        last = np.cumsum(sizes)
        nodes = np.array(list(split), np.int64)
        seconds = []
        for _ in range(repeats):
            start = time.process_time()
            # Nothing is below a share of 0 that moves, so every iteration is run.
            _native.cluster_level(
                vectors, labels, last - sizes, last, nodes, clusters, iterations, 0.0, seed, 1, None
            )
            seconds.append(time.process_time() - start)
            if seconds[-1] > LONG:
                break
        in_vectors = int(nonzeros[labels].sum())
        rows.append(
            {
                "data": name,
                "clusters": clusters,
                "seed": seed,
                "depth": depth,
                "nodes": int(nodes.size),
                "labels": int(labels.size),
                "nonzeros": in_vectors,
                "iterations": iterations,
                "multiply_adds": in_vectors * clusters * iterations,
                "seconds": min(seconds),
            }
        )
    return rows


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


def _whole_tree(
    name: str,
    clusters: int,
    seed: int,
    part: TreePlan,
    nonzeros: NDArray[np.int64],
    iterations: int,
    rows: Sequence[KMeansRow],
) -> list[TreeCost]:
    """Add up the depths of a tree, next to the formula; nothing if no node was split."""
    if not rows:
        return []
    depth, total = part.tree.depth, int(nonzeros.sum())
    cost = float(theory.kmeans_cost(total, clusters, iterations, depth))
    done = sum(row["multiply_adds"] for row in rows)
    return [
        {
            "data": name,
            "clusters": clusters,
            "seed": seed,
            "depth": depth,
            "iterations": iterations,
            "vector_nonzeros": total,
            "cost": cost,
            "multiply_adds": done,
            "cost_share": done / cost,
            "seconds": sum(row["seconds"] for row in rows),
        }
    ]


def _fit(rows: Sequence[KMeansRow]) -> list[FittedRow]:
    """Scale the multiply-adds to the seconds, with one factor: the geometric mean."""
    rates = [row["seconds"] / row["multiply_adds"] for row in rows if row["seconds"] > 0]
    factor = float(np.exp(np.mean(np.log(rates)))) if rates else 0.0
    return [{**row, "fitted_seconds": factor * row["multiply_adds"]} for row in rows]
