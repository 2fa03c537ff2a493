"""`alpha` and `last-depth`: the share of its parent's features that a node uses, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from labeltree.base import plots
from labeltree.base.extras import optional
from labeltree.base.progress import Progress, ignore
from labeltree.paper.session import Session, steps
from labeltree.paper.sizes import CLUSTERS, DEPTHS, unfinished
from labeltree.paper.table import Row, Table, distinct, group, means, where
from labeltree.training.plan import TreePlan
from labeltree.trees.tree import describe_depths, mean_alpha, node_alpha

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
NODE_COLUMNS = ("data", "seed", "depth", "node", "children", "used_features", "parent_used_features", "alpha")
LAST_COLUMNS = {
    "data": "dataset",
    "max_depth": "d_max",
    "nodes": "nodes at the last depth",
    "unfinished_nodes": "unfinished",
    "children_share": "their share of the children",
    "features_unfinished": "used features, unfinished",
    "features_others": "used features, others",
    "alpha_unfinished": "alpha, unfinished",
    "alpha_others": "alpha, others",
    "alpha": "alpha, all",
}


def alpha(
    session: Session, progress: Progress = ignore, *, clusters: int = CLUSTERS, max_depth: int = 6
) -> list[Table]:
    """Compute alpha of every node, and its average per depth, weighted by the number of children.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters, max_depth : int, default 100 and 6
        K and d_max.
    """
    nodes: list[Row] = []
    averages: list[Row] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for (split, seed), part in steps(pairs, progress):
        plan = session.tree_plan(split.name, clusters, max_depth, seed, part)
        nodes += _nodes(split.name, seed, plan)
        depths = describe_depths(plan.tree, plan.used_features)
        averages += [{"data": split.name, "seed": seed, **row} for row in depths if row["alpha"] is not None]
    summary = means(averages, "data", "depth")
    for mean, mine in zip(summary, group(averages, "data", "depth").values(), strict=True):
        alphas = [row["alpha"] for row in mine]
        mean["mean_used_features"] = round(mean["mean_used_features"])
        mean["alpha_least"], mean["alpha_most"] = min(alphas), max(alphas)
    columns = {
        "data": "dataset",
        "depth": "depth",
        "nodes": "nodes",
        "children": "children",
        "mean_used_features": "used features per node",
        "alpha": "weighted average of alpha",
        "alpha_least": "smallest",
        "alpha_most": "largest",
    }
    first = session.seeds[0]
    figure = _draw_alpha(where(nodes, seed=first), where(averages, seed=first)) if nodes else None
    caption = f"Alpha by depth, means over the seeds; the figure shows the nodes of seed {first}."
    return [
        Table("alpha", caption, columns, summary, figure=figure),
        Table("alpha-nodes", "One row per node.", {key: key for key in NODE_COLUMNS}, nodes, shown=False),
    ]


def _nodes(name: str, seed: int, part: TreePlan) -> list[Row]:
    """Return a row per node that has an alpha."""
    tree, used = part.tree, part.used_features
    shares = node_alpha(tree, used)
    found = np.flatnonzero(~np.isnan(shares))
    columns = (
        tree.node_depth[found],
        found,
        tree.child_count[found],
        used[found],
        used[tree.parent[found]],
        shares[found],
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(NODE_COLUMNS, (name, seed, *row), strict=True)) for row in rows]


@plots.style()
def _draw_alpha(nodes: list[Row], averages: list[Row]) -> Figure:
    """Draw a histogram per dataset and depth: a row of panels per dataset."""
    names, deepest = distinct(nodes, "data"), max(row["depth"] for row in nodes)
    average = {(row["data"], row["depth"]): row["alpha"] for row in averages}
    shares = {key: [row["alpha"] for row in rows] for key, rows in group(nodes, "data", "depth").items()}
    figure, panels = plots.new_figure(len(names), deepest, panel=(3.4 if deepest < 3 else 2.5, 2.3))
    places = [(name, depth) for name in names for depth in range(1, deepest + 1)]
    for axes, (name, depth) in zip(panels, places, strict=True):
        if (name, depth) not in average:
            axes.remove()
            continue
        heights, edges = np.histogram(shares[name, depth], bins=BINS, range=(0, 1))
        axes.bar(edges[:-1], heights, width=1 / BINS, align="edge", color=plots.COLORS[0])
        axes.set_xlim(0, 1)
        axes.grid(axis="x", visible=False)
        axes.yaxis.set_major_locator(optional("matplotlib.ticker").MaxNLocator(4, integer=True))
        axes.set(xlabel="alpha", ylabel="nodes")
        plots.box(axes, f"average {average[name, depth]:.3f}", float(heights.max()), 0.3)
        plots.title(axes, f"{name if depth == 1 else ''}\ndepth {depth}", fontsize=10)
    return figure


def last_depth(
    session: Session,
    progress: Progress = ignore,
    *,
    clusters: int = CLUSTERS,
    depths: Sequence[int] = DEPTHS,
) -> list[Table]:
    """Compare the nodes that only d_max keeps from being split with the other nodes of the last depth.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters : int, default 100
        K.
    depths : sequence of int, default 2 to 6
        The values of d_max. All depths of a seed come from one tree.
    """
    rows: list[Row] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for (split, seed), part in steps(pairs, progress):
        deep = session.plan(split.name, clusters, max(depths), seed, part)
        for max_depth in depths:
            row = _last(deep.clip(max_depth).trees[0], clusters, max_depth)
            if row is not None:
                rows.append({"data": split.name, "seed": seed, "max_depth": max_depth, **row})
    summary = means(rows, "data", "max_depth")
    caption = "Nodes at depth d_max - 1, in trees that reach it: means over the seeds."
    figure = _draw_last(summary) if summary else None
    return [
        Table("last-depth", caption, LAST_COLUMNS, summary, figure=figure),
        Table("last-depth-seeds", "One row per tree.", LAST_COLUMNS, rows, shown=False),
    ]


def _last(part: TreePlan, clusters: int, max_depth: int) -> Row | None:
    """Compare the nodes at the last depth of one tree; None if it does not reach the depth."""
    tree, used, children = part.tree, part.used_features, part.tree.child_count
    shares = node_alpha(tree, used)
    last = (tree.node_depth == max_depth - 1) & ~np.isnan(shares)
    if not last.any():
        return None
    cut = unfinished(part, clusters, max_depth) & last
    others = last & ~cut
    return {
        "nodes": int(last.sum()),
        "unfinished_nodes": int(cut.sum()),
        "children_share": float(children[cut].sum() / children[last].sum()),
        "features_unfinished": float(used[cut].mean()) if cut.any() else None,
        "features_others": float(used[others].mean()) if others.any() else None,
        "alpha_unfinished": mean_alpha(shares[cut], children[cut]),
        "alpha_others": mean_alpha(shares[others], children[others]),
        "alpha": mean_alpha(shares[last], children[last]),
    }


@plots.style()
def _draw_last(summary: list[Row]) -> Figure:
    """Draw a panel per dataset with the averages over d_max."""
    names = distinct(summary, "data")
    figure, panels = plots.small_multiples(names)
    keys = {"alpha": "all nodes", "alpha_unfinished": "unfinished nodes", "alpha_others": "other nodes"}
    for axes, name in zip(panels, names, strict=True):
        rows = where(summary, data=name)
        depths = [row["max_depth"] for row in rows]
        for number, (key, label) in enumerate(keys.items()):
            values = [np.nan if row[key] is None else row[key] for row in rows]
            axes.plot(depths, values, color=plots.COLORS[number], marker=plots.MARKERS[number], label=label)
        axes.set_xticks(depths)
        axes.set(xlim=(min(depths) - 0.3, max(depths) + 0.3), ylim=(0, 1.02), xlabel="d_max")
    panels[0].set_ylabel("alpha at depth d_max - 1")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc=plots.LEGEND, ncols=len(labels) if len(names) > 1 else 1)
    return figure
