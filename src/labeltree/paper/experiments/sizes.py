"""Sizes of trees as the paper counts them and as labeltree stores them, for `fixed-k` and `varied-k`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots as figures
from labeltree.base.progress import Progress, part_of
from labeltree.paper.experiments.result import Table, distinct, group, mean, where
from labeltree.paper.experiments.session import Session
from labeltree.training.plan import TreePlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {
    "data": "dataset",
    "max_depth": "d_max",
    "clusters": "K",
    "weights": "weights",
    "tree_bytes": "tree (paper)",
    "ovr_bytes": "one-vs-rest (paper)",
    "ratio": "ratio",
    "labeltree_bytes": "tree (labeltree)",
    "labeltree_ovr_bytes": "one-vs-rest (labeltree)",
    "labeltree_ratio": "ratio",
    "unfinished_share": "labels in unfinished nodes",
}
PAPER_LINE = "as the paper counts, 12 / 8 bytes per weight"
OWN_LINE = "both in labeltree's files"


class SizeRow(TypedDict):
    """Size of the tree of one dataset, K, d_max and seed."""

    data: str
    clusters: int
    max_depth: int
    seed: int
    depth: int
    nodes: int
    weights: int
    tree_bytes: int
    ovr_bytes: int
    ratio: float
    labeltree_bytes: int
    labeltree_ovr_bytes: int
    labeltree_ratio: float
    unfinished_share: float


class SizeSummary(TypedDict):
    """Means over the seeds, for one dataset, K and d_max."""

    data: str
    max_depth: int
    clusters: int
    seeds: int
    depth: int
    nodes: int
    weights: int
    tree_bytes: int
    ovr_bytes: int
    labeltree_bytes: int
    labeltree_ovr_bytes: int
    ratio: float
    ratio_deviation: float | None
    ratio_least: float
    ratio_most: float
    labeltree_ratio: float
    unfinished_share: float


Summary = TypeVar("Summary", bound=SizeSummary)


def measure(
    session: Session, name: str, clusters: int, depths: Sequence[int], progress: Progress | None = None
) -> list[SizeRow]:
    """Compute the sizes of the trees of a dataset.

    Parameters
    ----------
    session : Session
    name : str
        Name of the dataset.
    clusters : int
        K.
    depths : sequence of int
        The values of d_max. All depths of a seed come from one tree.
    progress : callable, optional

    Returns
    -------
    list of SizeRow
        One per seed and depth.
    """
    rows: list[SizeRow] = []
    for number, seed in enumerate(session.seeds):
        deep = session.plan(name, clusters, max(depths), seed, part_of(progress, number, len(session.seeds)))
        for max_depth in depths:
            plan = deep.clip(max_depth)
            rows.append(
                {
                    "data": name,
                    "clusters": clusters,
                    "max_depth": max_depth,
                    "seed": seed,
                    "depth": plan.depth,
                    "nodes": plan.n_nodes,
                    "weights": plan.n_weights,
                    "tree_bytes": plan.paper_tree_bytes,
                    "ovr_bytes": plan.paper_ovr_bytes,
                    "ratio": plan.ratio,
                    "labeltree_bytes": plan.model_bytes,
                    "labeltree_ovr_bytes": plan.ovr_bytes,
                    "labeltree_ratio": plan.ovr_ratio,
                    "unfinished_share": unfinished_share(plan.trees[0], clusters, max_depth),
                }
            )
    return rows


def unfinished(part: TreePlan, clusters: int, max_depth: int) -> NDArray[np.bool_]:
    """Return which nodes were not split only because of d_max: at depth d_max - 1, with more than K labels.

    All children of such a node are labels. Labels without instances are never split.
    """
    tree = part.tree
    wide = (tree.child_count > clusters) & (part.instances > 0)
    cut: NDArray[np.bool_] = wide & (tree.node_depth == max_depth - 1)
    return cut


def unfinished_share(part: TreePlan, clusters: int, max_depth: int) -> float:
    """Return the share of the labels that are children of unfinished nodes."""
    cut = unfinished(part, clusters, max_depth)
    return float(part.tree.child_count[cut].sum() / part.tree.n_labels)


def summarize(rows: Sequence[SizeRow]) -> list[SizeSummary]:
    """Return the means over the seeds, and the spread of the ratio, per dataset, d_max and K."""
    summary: list[SizeSummary] = []
    for (data, max_depth, clusters), seeds in group(rows, "data", "max_depth", "clusters").items():
        ratio = np.array([row["ratio"] for row in seeds])
        summary.append(
            {
                "data": data,
                "max_depth": max_depth,
                "clusters": clusters,
                "seeds": len(seeds),
                "depth": max(row["depth"] for row in seeds),
                "nodes": round(mean(seeds, "nodes")),
                "weights": round(mean(seeds, "weights")),
                "tree_bytes": round(mean(seeds, "tree_bytes")),
                "ovr_bytes": round(mean(seeds, "ovr_bytes")),
                "labeltree_bytes": round(mean(seeds, "labeltree_bytes")),
                "labeltree_ovr_bytes": round(mean(seeds, "labeltree_ovr_bytes")),
                "ratio": float(ratio.mean()),
                "ratio_deviation": float(ratio.std(ddof=1)) if len(seeds) > 1 else None,
                "ratio_least": float(ratio.min()),
                "ratio_most": float(ratio.max()),
                "labeltree_ratio": mean(seeds, "labeltree_ratio"),
                "unfinished_share": mean(seeds, "unfinished_share"),
            }
        )
    return summary


def ratios(summary: Sequence[SizeSummary], data: str) -> dict[int, float]:
    """Return the mean ratio of a dataset by d_max."""
    return {row["max_depth"]: row["ratio"] for row in where(summary, data=data)}


def tables(
    name: str,
    summary: Sequence[SizeSummary],
    rows: Sequence[SizeRow],
    more_columns: dict[str, str] | None = None,
) -> list[Table]:
    """Return the table of the means, which the report shows, and that of all seeds."""
    return [
        Table(
            f"{name}-means",
            "Sizes as the paper counts them, and in labeltree's own files, tree and one-vs-rest each in the "
            "same format. A node is unfinished if it has more than K labels and is not split only because "
            "of d_max. Means over the seeds.",
            {**COLUMNS, **(more_columns or {})},
            summary,
        ),
        Table(name, "One row per seed and depth.", {**COLUMNS, "seed": "seed"}, rows, shown=False),
    ]


def figure(
    summary: Sequence[Summary], finish: Callable[[Axes, list[Summary], float], None], height: float
) -> Figure:
    """Draw one panel per dataset with both ratios over d_max.

    Parameters
    ----------
    summary : sequence of SizeSummary
    finish : callable
        Completes a panel; takes the axes, the rows of its dataset and the highest ratio.
    height : float
        Height of a panel, in inches.
    """
    names = distinct(summary, "data")
    result, panels = figures.small_multiples(len(names), panel=(3.5, height))
    with figures.style():
        for axes, name in zip(panels, names, strict=True):
            rows = where(summary, data=name)
            finish(axes, rows, _draw_lines(axes, rows))
            axes.set_xlabel("d_max")
        panels[0].set_ylabel("size / one-vs-rest")
        lines, labels = panels[0].get_legend_handles_labels()
        in_a_row = len(labels) if len(names) >= len(labels) else 1
        result.legend(lines, labels, loc="outside lower center", ncols=in_a_row)
    return result


def _draw_lines(axes: Axes, rows: Sequence[SizeSummary]) -> float:
    """Draw both ratios of a dataset, the range over the seeds as a band; return the highest value."""
    depths = [row["max_depth"] for row in rows]
    own = [row["labeltree_ratio"] for row in rows]
    most = [row["ratio_most"] for row in rows]
    for number, (values, label) in enumerate((([row["ratio"] for row in rows], PAPER_LINE), (own, OWN_LINE))):
        axes.plot(depths, values, color=figures.COLORS[number], marker=figures.MARKERS[number], label=label)
    least = [row["ratio_least"] for row in rows]
    axes.fill_between(depths, least, most, color=figures.COLORS[0], alpha=0.2, linewidth=0)
    if max(*most, *own) > 0.9:
        axes.axhline(1, color=figures.MUTED, linestyle=":", linewidth=1.2, zorder=1)
    axes.set_xticks(depths)
    axes.set_xlim(min(depths) - 0.3, max(depths) + 0.3)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    figures.title(axes, rows[0]["data"])
    return max(*most, *own)
