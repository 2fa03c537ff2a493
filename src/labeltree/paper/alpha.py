"""`alpha` and `last-depth`: the share of its parent's features that a node uses, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from labeltree.base import plots
from labeltree.base.display import Progress, ignore
from labeltree.base.extras import optional
from labeltree.paper.session import Session, steps
from labeltree.paper.sizes import CLUSTERS, DEPTHS, add_legend, draw_lines, unfinished
from labeltree.paper.tables import Row, Table, distinct, group, means, where
from labeltree.training.tree_plan import TreePlan
from labeltree.trees.tree import describe_depths, mean_alpha, node_alpha

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
NODE_COLUMNS = ("data", "seed", "depth", "node", "children", "used_features", "parent_used_features", "alpha")
DEPTH_COLUMNS = (
    *("data", "depth", "nodes", "children", "mean_used_features"),
    *("alpha", "alpha_least", "alpha_most"),
)
LAST_COLUMNS = (
    *("data", "max_depth", "nodes", "unfinished_nodes", "children_share", "features_unfinished"),
    *("features_others", "alpha_unfinished", "alpha_others", "alpha"),
)


def alpha(
    session: Session, progress: Progress = ignore, *, clusters: int = CLUSTERS, max_depth: int = 6
) -> list[Table]:
    """Compute alpha of every node, and its average per depth, weighted by the number of children."""
    nodes: list[Row] = []
    averages: list[Row] = []
    for (split, seed), part in steps(product(session.splits, session.seeds), progress):
        (plan,) = session.plan(split, clusters, max_depth, seed, part).trees
        common = {"data": split.name, "seed": seed}
        nodes += [common | row for row in _nodes(plan)]
        depths = describe_depths(plan.tree, plan.used_features)
        averages += [{**common, **row} for row in depths if row["alpha"] is not None]
    first = session.seeds[0]
    figure = _draw_alpha(where(nodes, seed=first), where(averages, seed=first)) if nodes else None
    caption = (
        "Alpha by depth, averages weighted by the number of children, and means over the seeds; the figure "
        f"shows the nodes of seed {first}."
    )
    summary = means(averages, "data", "depth", spread="alpha")
    return [
        Table("alpha", caption, DEPTH_COLUMNS, summary, figure=figure),
        Table("alpha-nodes", "One row per node.", NODE_COLUMNS, nodes, shown=False),
    ]


def _nodes(part: TreePlan) -> list[Row]:
    """Return a row per node that has an alpha."""
    tree, used = part.tree, part.used_features
    shares = node_alpha(tree, used)
    return [
        {
            "depth": int(tree.node_depth[u]),
            "node": u,
            "children": int(tree.child_count[u]),
            "used_features": int(used[u]),
            "parent_used_features": int(used[tree.parent[u]]),
            "alpha": float(shares[u]),
        }
        for u in np.flatnonzero(~np.isnan(shares)).tolist()
    ]


@plots.drawing
def _draw_alpha(nodes: list[Row], averages: list[Row]) -> Figure:
    """Draw a histogram per dataset and depth: a row of panels per dataset."""
    names, deepest = distinct(nodes, "data"), max(row["depth"] for row in nodes)
    average = {(row["data"], row["depth"]): row["alpha"] for row in averages}
    shares = {key: [row["alpha"] for row in rows] for key, rows in group(nodes, "data", "depth").items()}
    figure, panels = plots.new_figure(len(names), deepest, panel=(3.4 if deepest < 3 else 2.5, 2.3))
    for axes, (name, depth) in zip(panels, product(names, range(1, deepest + 1)), strict=True):
        if (name, depth) not in average:
            axes.remove()
            continue
        heights, edges = np.histogram(shares[name, depth], bins=BINS, range=(0, 1))
        axes.bar(edges[:-1], heights, width=1 / BINS, align="edge", color=plots.COLORS[0])
        axes.grid(axis="x", visible=False)
        axes.yaxis.set_major_locator(optional("matplotlib.ticker").MaxNLocator(4, integer=True))
        axes.set(xlim=(0, 1), xlabel="alpha", ylabel="nodes")
        plots.box(axes, f"average {average[name, depth]:.3f}", float(heights.max()), 0.3)
        plots.title(axes, f"{name if depth == 1 else ''}\ndepth {depth}", fontsize=10)
    return figure


def last_depth(
    session: Session, progress: Progress = ignore, *, clusters: int = CLUSTERS, depths: Sequence[int] = DEPTHS
) -> list[Table]:
    """Compare the nodes that only d_max keeps from being split with the other nodes of the last depth.

    The ``depths`` are the values of d_max. All depths of a seed come from one tree.
    """
    rows: list[Row] = []
    for (split, seed), part in steps(product(session.splits, session.seeds), progress):
        deep = session.plan(split, clusters, max(depths), seed, part)
        for max_depth in depths:
            row = _last(deep.clip(max_depth).trees[0], clusters, max_depth)
            if row is not None:
                rows.append({"data": split.name, "seed": seed, "max_depth": max_depth, **row})
    summary = means(rows, "data", "max_depth")
    caption = (
        "Nodes at depth d_max - 1, in trees that reach it: means over the seeds. Unfinished nodes have more "
        "than K labels; only d_max keeps them from being split."
    )
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
    row: Row = {
        "nodes": int(last.sum()),
        "unfinished_nodes": int(cut.sum()),
        "children_share": float(children[cut].sum() / children[last].sum()),
        "alpha": mean_alpha(shares[last], children[last]),
    }
    for name, some in (("unfinished", cut), ("others", last & ~cut)):
        row[f"features_{name}"] = float(used[some].mean()) if some.any() else None
        row[f"alpha_{name}"] = mean_alpha(shares[some], children[some])
    return row


@plots.drawing
def _draw_last(summary: list[Row]) -> Figure:
    """Draw a panel per dataset with the averages over d_max."""
    names = distinct(summary, "data")
    figure, panels = plots.small_multiples(names)
    lines = {"alpha": "all nodes", "alpha_unfinished": "unfinished nodes", "alpha_others": "other nodes"}
    for axes, name in zip(panels, names, strict=True):
        rows = where(summary, data=name)
        depths = [row["max_depth"] for row in rows]
        draw_lines(axes, depths, rows, lines)
        axes.set_xticks(depths)
        axes.set(xlim=(min(depths) - 0.3, max(depths) + 0.3), ylim=(0, 1.02), xlabel="d_max")
    panels[0].set_ylabel("alpha at depth d_max - 1")
    add_legend(figure, panels)
    return figure
