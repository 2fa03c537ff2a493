"""`alpha`: the share of its parent's features that a node uses, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.base.progress import Progress, part_of
from labeltree.paper.experiments.result import Plot, Result, Table, distinct, group, mean, where
from labeltree.paper.experiments.session import Session
from labeltree.training.plan import TreePlan
from labeltree.trees.tree import describe_depths, node_alpha

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLUSTERS, MAX_DEPTH = 100, 6
BINS = 20


class NodeRow(TypedDict):
    """One node of one tree."""

    data: str
    seed: int
    depth: int
    node: int
    children: int
    used_features: int
    parent_used_features: int
    alpha: float


class DepthRow(TypedDict):
    """Weighted average of alpha over the nodes of one depth of one tree."""

    data: str
    seed: int
    depth: int
    nodes: int
    children: int
    mean_used_features: float
    alpha: float


class AlphaSummary(TypedDict):
    """Means over the seeds, for one dataset and depth."""

    data: str
    depth: int
    seeds: int
    nodes: int
    children: int
    mean_used_features: int
    alpha: float
    alpha_least: float
    alpha_most: float


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: int = CLUSTERS,
    max_depth: int = MAX_DEPTH,
) -> Result:
    """Compute alpha of every node, and its weighted average per depth.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters, max_depth : int, default 100 and 6
        K and d_max.

    Returns
    -------
    Result
    """
    nodes: list[NodeRow] = []
    averages: list[DepthRow] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for number, (split, seed) in enumerate(pairs):
        part = session.tree_plan(split.name, clusters, max_depth, seed, part_of(progress, number, len(pairs)))
        nodes += node_rows(split.name, seed, part)
        averages += _averages(split.name, seed, part)
    summary = _summarize(averages)
    first = session.seeds[0]
    drawn, drawn_averages = where(nodes, seed=first), where(averages, seed=first)
    return Result(
        name="alpha",
        title="How the number of used features falls with depth",
        source="Figure 7 of the paper (appendix E)",
        settings={
            "clusters (K)": clusters,
            "largest depth (d_max)": max_depth,
            "seeds": list(session.seeds),
        },
        tables=[
            Table(
                "alpha-means",
                "Means over the seeds, and the smallest and largest weighted average of a seed.",
                {
                    "data": "dataset",
                    "depth": "depth",
                    "nodes": "nodes",
                    "children": "children",
                    "mean_used_features": "used features per node",
                    "alpha": "weighted average of alpha",
                    "alpha_least": "smallest",
                    "alpha_most": "largest",
                },
                summary,
            ),
            Table(
                "alpha",
                "One row per node of each tree.",
                {key: key.replace("_", " ") for key in NodeRow.__annotations__},
                nodes,
                shown=False,
            ),
        ],
        plots=[
            Plot(
                "alpha",
                "Number of nodes by alpha, for the trees of seed "
                f"{first}. The box shows the weighted average of the depth.",
                _figure(drawn, drawn_averages),
            )
        ]
        if drawn
        else [],
    )


def node_rows(name: str, seed: int, part: TreePlan) -> list[NodeRow]:
    """Return a row per node that has an alpha."""
    tree, used = part.tree, part.used_features
    alpha = node_alpha(tree, used)
    return [
        {
            "data": name,
            "seed": seed,
            "depth": int(tree.node_depth[u]),
            "node": int(u),
            "children": int(tree.child_count[u]),
            "used_features": int(used[u]),
            "parent_used_features": int(used[tree.parent[u]]),
            "alpha": float(alpha[u]),
        }
        for u in np.flatnonzero(~np.isnan(alpha))
    ]


def _averages(name: str, seed: int, part: TreePlan) -> list[DepthRow]:
    """Return a row per depth of a tree that has an alpha, as `labeltree estimate` computes it."""
    return [
        {
            "data": name,
            "seed": seed,
            "depth": row["depth"],
            "nodes": row["nodes"],
            "children": row["children"],
            "mean_used_features": row["mean_used_features"],
            "alpha": row["alpha"],
        }
        for row in describe_depths(part.tree, part.used_features)
        if row["alpha"] is not None
    ]


def _summarize(averages: Sequence[DepthRow]) -> list[AlphaSummary]:
    rows: list[AlphaSummary] = []
    for (data, depth), seeds in group(averages, "data", "depth").items():
        alpha = [row["alpha"] for row in seeds]
        rows.append(
            {
                "data": data,
                "depth": depth,
                "seeds": len(seeds),
                "nodes": round(mean(seeds, "nodes")),
                "children": round(mean(seeds, "children")),
                "mean_used_features": round(mean(seeds, "mean_used_features")),
                "alpha": mean(seeds, "alpha"),
                "alpha_least": min(alpha),
                "alpha_most": max(alpha),
            }
        )
    return rows


def _figure(nodes: Sequence[NodeRow], averages: Sequence[DepthRow]) -> Figure:
    """Draw a histogram per dataset and depth; a row per dataset if there are several depths."""
    names, deepest = distinct(nodes, "data"), max(row["depth"] for row in nodes)
    average = {(row["data"], row["depth"]): row["alpha"] for row in averages}
    alphas = {key: [row["alpha"] for row in rows] for key, rows in group(nodes, "data", "depth").items()}
    if deepest == 1:
        figure, panels = figures.small_multiples(len(names), panel=(3.4, 2.5))
    else:
        figure, panels = figures.new_figure(len(names), deepest, panel=(3.4 if deepest < 3 else 2.5, 2.3))
    with figures.style():
        for place, axes in enumerate(panels):
            row, depth = place // deepest, place % deepest + 1
            if (names[row], depth) not in average:
                axes.remove()
                continue
            _histogram(axes, alphas[names[row], depth], average[names[row], depth])
            figures.title(axes, f"{names[row] if depth == 1 else ''}\ndepth {depth}", fontsize=10)
            if depth == 1:
                axes.set_ylabel("nodes")
            lowest = row == len(names) - 1 or (names[row + 1], depth) not in average
            if deepest == 1 or lowest:
                axes.set_xlabel("alpha")
    return figure


def _histogram(axes: Axes, alphas: Sequence[float], average: float) -> None:
    heights, edges = np.histogram(alphas, bins=BINS, range=(0, 1))
    axes.bar(edges[:-1], heights, width=1 / BINS, align="edge", color=figures.COLORS[0])
    figures.headroom(axes, float(heights.max()), 0.3)
    axes.set_xlim(0, 1)
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_locator(optional("matplotlib.ticker").MaxNLocator(4, integer=True))
    figures.box(axes, f"average {average:.3f}")
