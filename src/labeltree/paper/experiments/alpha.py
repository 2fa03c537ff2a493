"""`alpha`: which share of its parent's features a node uses, depth by depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.paper import theory
from labeltree.paper.experiments import figures
from labeltree.paper.experiments.result import Claim, Found, Plot, Result, Table
from labeltree.paper.experiments.session import Session, part_of
from labeltree.plan import TreePlan
from labeltree.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]

CLUSTERS, MAX_DEPTH = 100, 6
NODE_KEYS = ("data", "seed", "depth", "node", "children", "used_features", "parent_used_features", "alpha")
BINS = 20


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: int = CLUSTERS,
    max_depth: int = MAX_DEPTH,
) -> Result:
    """Compute alpha_u of every node, and its weighted average for every depth.

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
    nodes: list[Row] = []
    averages: list[Row] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for number, (split, seed) in enumerate(pairs):
        part = session.tree_plan(split.name, clusters, max_depth, seed, part_of(progress, number, len(pairs)))
        key = {"data": split.name, "seed": seed}
        of_tree = _node_rows(key, part)
        nodes += of_tree
        averages += _averages(key, of_tree)
    first = session.seeds[0]
    shown = [row for row in nodes if row["seed"] == first]
    drawn = {(row["data"], row["depth"]): row["alpha"] for row in averages if row["seed"] == first}
    return Result(
        name="alpha",
        title="How the used features shrink from depth to depth",
        source="fig:alpha-in-real-world, appendix E",
        introduction=(
            "The formulas for balanced trees take for granted that a node uses the share alpha of its "
            "parent's features. In a real tree each node has an alpha of its own: its used features over "
            "those of its parent. The average of a depth is weighted by the number of children "
            "(eq:weighted-average-alpha), since each child has a weight vector of that length."
        ),
        settings={
            "clusters (K)": clusters,
            "largest depth (d_max)": max_depth,
            "seeds": list(session.seeds),
        },
        tables=[
            Table(
                "alpha-means",
                "Means over the seeds, and the least and the most of the weighted average.",
                {
                    "data": "data",
                    "depth": "depth",
                    "nodes": "nodes",
                    "children": "children",
                    "mean_used_features": "used features of a node",
                    "alpha": "weighted average of alpha",
                    "alpha_least": "least",
                    "alpha_most": "most",
                },
                _summary(averages),
            ),
            Table(
                "alpha",
                "Each node of each tree.",
                {key: key.replace("_", " ") for key in NODE_KEYS},
                nodes,
                shown=False,
            ),
        ],
        plots=[
            Plot(
                "alpha",
                "Nodes of a depth by their alpha, and in the box the weighted average; the trees of "
                f"seed {first}.",
                _figure(shown, drawn),
            )
        ]
        if shown
        else [],
        claims=_claims(session, averages, clusters),
    )


def _node_rows(key: Row, part: TreePlan) -> list[Row]:
    """A row for each node but the root, and but that of labels without instances, which has no weights."""
    tree, used = part.tree, part.used_features
    return [
        {
            **key,
            "depth": int(tree.node_depth[u]),
            "node": u,
            "children": int(tree.child_count[u]),
            "used_features": int(used[u]),
            "parent_used_features": int(used[tree.parent[u]]),
            "alpha": float(used[u] / max(used[tree.parent[u]], 1)),
        }
        for u in range(1, tree.n_nodes)
        if part.instances[u]
    ]


def _averages(key: Row, nodes: list[Row]) -> list[Row]:
    """A row for each depth of a tree (eq:weighted-average-alpha)."""
    rows = []
    for depth in sorted({row["depth"] for row in nodes}):
        at = [row for row in nodes if row["depth"] == depth]
        children = [row["children"] for row in at]
        rows.append(
            {
                **key,
                "depth": depth,
                "nodes": len(at),
                "children": sum(children),
                "mean_used_features": float(np.mean([row["used_features"] for row in at])),
                "alpha": float(np.average([row["alpha"] for row in at], weights=children)),
            }
        )
    return rows


def _summary(averages: list[Row]) -> list[Row]:
    rows = []
    for data, depth in dict.fromkeys((row["data"], row["depth"]) for row in averages):
        group = [row for row in averages if (row["data"], row["depth"]) == (data, depth)]
        alpha = [row["alpha"] for row in group]
        rows.append(
            {
                "data": data,
                "depth": depth,
                "seeds": len(group),
                "nodes": round(np.mean([row["nodes"] for row in group])),
                "children": round(np.mean([row["children"] for row in group])),
                "mean_used_features": round(np.mean([row["mean_used_features"] for row in group])),
                "alpha": float(np.mean(alpha)),
                "alpha_least": min(alpha),
                "alpha_most": max(alpha),
            }
        )
    return rows


def _figure(nodes: list[Row], averages: dict[tuple[str, int], float]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(row["data"] for row in nodes))
    deepest = max(row["depth"] for row in nodes)
    width = 3.4 if deepest < 3 else 2.5
    figure, panels = figures.new_figure(len(names), deepest, panel=(width, 2.3))
    with figures.style():
        for place, axes in enumerate(panels):
            name, depth = names[place // deepest], place % deepest + 1
            if (name, depth) not in averages:
                axes.remove()
                continue
            alphas = [row["alpha"] for row in nodes if (row["data"], row["depth"]) == (name, depth)]
            heights, edges = np.histogram(alphas, bins=BINS, range=(0, 1))
            axes.bar(edges[:-1], heights, width=1 / BINS, align="edge", color=figures.COLOURS[0])
            figures.headroom(axes, float(heights.max()), 0.3)
            axes.set_xlim(0, 1)
            axes.grid(axis="x", visible=False)
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            figures.box(axes, f"average {averages[name, depth]:.3f}")
            figures.title(axes, f"{name}\ndepth {depth}" if depth == 1 else f"\ndepth {depth}", fontsize=10)
            if depth == 1:
                axes.set_ylabel("nodes")
            if place // deepest == len(names) - 1 or (names[place // deepest + 1], depth) not in averages:
                axes.set_xlabel("alpha")
    return figure


def _claims(session: Session, averages: list[Row], clusters: int) -> list[Claim]:
    small: Found = {}
    bounded: Found = {}
    for split in session.splits:
        mine = [row for row in _summary(averages) if row["data"] == split.name]
        if not mine:
            small[split.name] = bounded[split.name] = None, "no node below the root"
            continue
        said = ", ".join(f"{row['alpha']:.3f}" for row in mine)
        below = sum(row["alpha"] < 0.5 for row in mine)
        small[split.name] = 2 * below > len(mine), f"{said} from depth 1 down"
        bounded[split.name] = _within_bound(split.used_labels, clusters, mine)
    return [
        Claim.of_data("Most averages are small, much lower than 0.5 (here: below it at most depths).", small),
        Claim.of_data(
            "Theorem 1: with an alpha below a bound, a tree has fewer weights than one-vs-rest; the averages "
            "lie below it, down to the deepest tree that the theorem speaks of.",
            bounded,
        ),
    ]


def _within_bound(labels: int, clusters: int, averages: list[Row]) -> tuple[bool | None, str]:
    """Compare the averages with the bound for a tree of this depth, or of the deepest it is given for."""
    largest = int(theory.largest_depth(labels, clusters)) if labels > 1 else 1
    depth = min(averages[-1]["depth"] + 1, largest)
    if depth < 2 or (depth > 2 and clusters < 4):
        return None, f"too few labels or clusters, D = {largest}"
    bound = float(theory.alpha_bound(labels, clusters, depth))
    most = max(row["alpha"] for row in averages if row["depth"] < depth)
    return most < bound, f"{most:.3f} against {bound:.3f} for depth {depth}"
