"""`last-depth`: whether nodes that only d_max keeps from being split explain a large alpha (appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from labeltree.base import plots as figures
from labeltree.base.progress import Progress, part_of
from labeltree.paper.experiments.result import Plot, Result, Table, count, distinct, group, mean, where
from labeltree.paper.experiments.session import Session
from labeltree.paper.experiments.sizes import unfinished
from labeltree.training.plan import TreePlan
from labeltree.trees.tree import mean_alpha, node_alpha

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLUSTERS, DEPTHS = 100, (2, 3, 4, 5, 6)
LARGE_ALPHA = 0.5  # the paper calls averages "generally much lower than 0.5" small
LINES = (("alpha", "all nodes"), ("alpha_unfinished", "unfinished nodes"), ("alpha_others", "other nodes"))
_COLUMNS = {
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


class LastDepth(TypedDict):
    """The nodes at the last depth, d_max - 1, of one tree, or means over the seeds."""

    data: str
    max_depth: int
    nodes: int
    unfinished_nodes: int
    children_share: float
    features_unfinished: float | None
    features_others: float | None
    alpha_unfinished: float | None
    alpha_others: float | None
    alpha: float


class LastDepthRow(LastDepth):
    """One tree."""

    seed: int


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: int = CLUSTERS,
    depths: Sequence[int] = DEPTHS,
) -> Result:
    """Compare the nodes that d_max cuts short with the other nodes of the last depth.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters : int, default 100
        K.
    depths : sequence of int, default 2 to 6
        The values of d_max. All depths of a seed come from one tree.

    Returns
    -------
    Result
    """
    rows: list[LastDepthRow] = []
    pairs = [(split, seed) for split in session.splits for seed in session.seeds]
    for number, (split, seed) in enumerate(pairs):
        deep = session.plan(split.name, clusters, max(depths), seed, part_of(progress, number, len(pairs)))
        for max_depth in depths:
            rows += _measure(split.name, seed, deep.clip(max_depth).trees[0], clusters, max_depth)
    summary = _summarize(rows)
    return Result(
        name="last-depth",
        title="A large alpha at the last depth: is it due to unfinished nodes?",
        source="the explanation in appendix E of the paper",
        settings={"clusters (K)": clusters, "depths (d_max)": list(depths), "seeds": list(session.seeds)},
        tables=[
            Table(
                "last-depth-means",
                "Nodes at depth d_max - 1, in trees that reach it. Alpha is the average weighted by the "
                "number of children, used features are the mean per node. Means over the seeds.",
                _COLUMNS,
                summary,
            ),
            Table("last-depth", "One row per tree.", {**_COLUMNS, "seed": "seed"}, rows, shown=False),
        ],
        plots=[
            Plot(
                "last-depth",
                "Average of alpha at the last depth, d_max - 1, of all nodes, of the unfinished nodes and of "
                f"the others. Means over {count(len(session.seeds), 'seed')}. The dotted line is "
                f"{LARGE_ALPHA:g}.",
                _figure(summary),
            )
        ]
        if summary
        else [],
    )


def _measure(name: str, seed: int, part: TreePlan, clusters: int, max_depth: int) -> list[LastDepthRow]:
    """Return the row of one tree; none if it does not reach the depth."""
    tree, used = part.tree, part.used_features
    alpha = node_alpha(tree, used)
    last = (tree.node_depth == max_depth - 1) & ~np.isnan(alpha)
    if not last.any():
        return []
    cut = unfinished(part, clusters, max_depth) & last
    others = last & ~cut
    children = tree.child_count
    average = mean_alpha(alpha[last], children[last])
    assert average is not None  # the nodes of `last` have an alpha
    return [
        {
            "data": name,
            "seed": seed,
            "max_depth": max_depth,
            "nodes": int(last.sum()),
            "unfinished_nodes": int(cut.sum()),
            "children_share": float(children[cut].sum() / children[last].sum()),
            "features_unfinished": float(used[cut].mean()) if cut.any() else None,
            "features_others": float(used[others].mean()) if others.any() else None,
            "alpha_unfinished": mean_alpha(alpha[cut], children[cut]),
            "alpha_others": mean_alpha(alpha[others], children[others]),
            "alpha": average,
        }
    ]


def _summarize(rows: Sequence[LastDepthRow]) -> list[LastDepth]:
    return [
        {
            "data": data,
            "max_depth": max_depth,
            "nodes": round(mean(seeds, "nodes")),
            "unfinished_nodes": round(mean(seeds, "unfinished_nodes")),
            "children_share": mean(seeds, "children_share"),
            "features_unfinished": _mean([row["features_unfinished"] for row in seeds]),
            "features_others": _mean([row["features_others"] for row in seeds]),
            "alpha_unfinished": _mean([row["alpha_unfinished"] for row in seeds]),
            "alpha_others": _mean([row["alpha_others"] for row in seeds]),
            "alpha": mean(seeds, "alpha"),
        }
        for (data, max_depth), seeds in group(rows, "data", "max_depth").items()
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _figure(summary: Sequence[LastDepth]) -> Figure:
    """Draw a panel per dataset with the averages over d_max."""
    names = distinct(summary, "data")
    figure, panels = figures.small_multiples(len(names), panel=(3.5, 2.7))
    with figures.style():
        for axes, name in zip(panels, names, strict=True):
            _draw(axes, where(summary, data=name))
            figures.title(axes, name)
        panels[0].set_ylabel("alpha at depth d_max - 1")
        lines, labels = panels[0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside lower center", ncols=len(labels) if len(names) > 1 else 1)
    return figure


def _draw(axes: Axes, rows: Sequence[LastDepth]) -> None:
    depths = [row["max_depth"] for row in rows]
    for number, (key, label) in enumerate(LINES):
        values = [np.nan if row[key] is None else row[key] for row in rows]  # type: ignore[literal-required]
        axes.plot(depths, values, color=figures.COLORS[number], marker=figures.MARKERS[number], label=label)
    axes.axhline(LARGE_ALPHA, color=figures.MUTED, linestyle=":", linewidth=1.2, zorder=1)
    axes.set_xticks(depths)
    axes.set_xlim(min(depths) - 0.3, max(depths) + 0.3)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("d_max")
