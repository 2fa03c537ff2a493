"""`fixed-k` and `varied-k`: sizes of trees as the paper counts them and as labeltree stores them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots
from labeltree.base.progress import Progress, ignore
from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.paper.session import Session, steps
from labeltree.paper.table import Row, Table, distinct, group, listed, means, where
from labeltree.training.plan import TreePlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLUSTERS, DEPTHS = 100, (2, 3, 4, 5, 6)
COLUMNS = {
    "data": "dataset",
    "max_depth": "d_max",
    "clusters": "K",
    "weights": "weights",
    "tree_bytes": "tree (paper)",
    "ovr_bytes": "one-vs-rest (paper)",
    "ratio": "ratio (paper)",
    "labeltree_bytes": "tree (labeltree)",
    "labeltree_ovr_bytes": "one-vs-rest (labeltree)",
    "labeltree_ratio": "ratio (labeltree)",
    "unfinished_share": "labels in unfinished nodes",
}


def fixed_k(
    session: Session,
    progress: Progress = ignore,
    *,
    clusters: int = CLUSTERS,
    depths: Sequence[int] = DEPTHS,
) -> list[Table]:
    """Compute sizes with the same K for all depths, from one deep tree per seed.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters : int, default 100
        K.
    depths : sequence of int, default 2 to 6
        The values of d_max: at least two, in increasing order.
    """
    if len(depths) < 2 or list(depths) != sorted(set(depths)) or depths[0] < 2:
        raise InputError(f"{listed('depths', depths)}, expected two or more increasing integers from 2")
    rows: list[Row] = []
    for split, part in steps(session.splits, progress):
        rows += _measure(session, split.name, clusters, depths, part)
    return _tables("fixed-k", _summarize(rows), rows)


def varied_k(
    session: Session, progress: Progress = ignore, *, depths: Sequence[int] = (2, 3, 4)
) -> list[Table]:
    """Compute sizes with K = ceil(L^(1/d_max)), and the ratio with K = 100 for comparison.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    depths : sequence of int, default 2 to 4
        The values of d_max.
    """
    rows: list[Row] = []
    fixed: list[Row] = []
    for split, part in steps(session.splits, progress):
        for max_depth, of_depth in steps((*depths, None), part):
            if max_depth is not None:
                clusters = root_above(split.train.n_labels, max_depth)
                rows += _measure(session, split.name, clusters, [max_depth], of_depth)
            else:  # as deep as in fixed-k, so that both experiments share the trees
                fixed += _measure(session, split.name, CLUSTERS, sorted({*depths, *DEPTHS}), of_depth)
    compared = _summarize(row for row in fixed if row["max_depth"] in depths)
    summary = _summarize(rows)
    for row, other in zip(summary, compared, strict=True):
        row["fixed_k_ratio"] = other["ratio"]
    return _tables("varied-k", summary, rows, {"fixed_k_ratio": f"ratio at K = {CLUSTERS}"})


def root_above(n_labels: int, depth: int) -> int:
    """Return the smallest K, at least 2, with K^d >= L, without rounding errors.

    Examples
    --------
    >>> root_above(1000, 3), root_above(1001, 3)
    (10, 11)
    """
    root = max(2, int(n_labels ** (1 / depth)) - 1)
    while root**depth < n_labels:
        root += 1
    return root


def unfinished(part: TreePlan, clusters: int, max_depth: int) -> NDArray[np.bool_]:
    """Return which nodes were not split only because of d_max: at depth d_max - 1, with more than K labels.

    All children of such a node are labels. Labels without instances are never split.
    """
    wide = (part.tree.child_count > clusters) & (part.instances > 0)
    cut: NDArray[np.bool_] = wide & (part.tree.node_depth == max_depth - 1)
    return cut


def _measure(
    session: Session, name: str, clusters: int, depths: Sequence[int], progress: Progress
) -> list[Row]:
    """Return the sizes of the trees of a dataset: a row per seed and depth."""
    rows: list[Row] = []
    for seed, part in steps(session.seeds, progress):
        deep = session.plan(name, clusters, max(depths), seed, part)
        for max_depth in depths:
            plan = deep.clip(max_depth)
            tree = plan.trees[0]
            cut = tree.tree.child_count[unfinished(tree, clusters, max_depth)]
            rows.append(
                {
                    "data": name,
                    "max_depth": max_depth,
                    "clusters": clusters,
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
                    "unfinished_share": float(cut.sum() / tree.tree.n_labels),
                }
            )
    return rows


def _summarize(rows: Iterable[Row]) -> list[Row]:
    """Return the means over the seeds, and the spread of the ratio."""
    keys = "data", "max_depth", "clusters"
    groups = group(rows, *keys).values()
    summary = means((row for mine in groups for row in mine), *keys)
    for mean, mine in zip(summary, groups, strict=True):
        ratios = [row["ratio"] for row in mine]
        mean["depth"] = max(row["depth"] for row in mine)
        mean["ratio_deviation"] = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None
        mean["ratio_least"], mean["ratio_most"] = min(ratios), max(ratios)
    return summary


def _tables(
    name: str, summary: list[Row], rows: list[Row], more: dict[str, str] | None = None
) -> list[Table]:
    caption = (
        "Size of a tree relative to one-vs-rest, means over the seeds. A node is unfinished if it has more "
        "than K labels and only d_max keeps it from being split."
    )
    return [
        Table(name, caption, {**COLUMNS, **(more or {})}, summary, figure=_draw(summary)),
        Table(f"{name}-seeds", "One row per seed and depth.", COLUMNS, rows, shown=False),
    ]


@plots.style()
def _draw(summary: list[Row]) -> Figure:
    """Draw a panel per dataset with both ratios over d_max."""
    names = distinct(summary, "data")
    figure, panels = plots.small_multiples(names, panel=(3.5, 3.0))
    for axes, name in zip(panels, names, strict=True):
        _draw_panel(axes, where(summary, data=name))
    panels[0].set_ylabel("size / one-vs-rest")
    handles, labels = panels[0].get_legend_handles_labels()
    columns = len(labels) if len(names) >= len(labels) else 1
    figure.legend(handles, labels, loc=plots.LEGEND, ncols=columns)
    return figure


def _draw_panel(axes: Axes, rows: list[Row]) -> None:
    depths = [row["max_depth"] for row in rows]
    lines = {
        "ratio": "as the paper counts, 12 / 8 bytes per weight",
        "labeltree_ratio": "both in labeltree's files",
        "fixed_k_ratio": f"as the paper counts, with K = {CLUSTERS}",
    }
    for number, (key, label) in enumerate(lines.items()):
        if key in rows[0]:
            values = [row[key] for row in rows]
            axes.plot(depths, values, color=plots.COLORS[number], marker=plots.MARKERS[number], label=label)
    least, most = ([row[key] for row in rows] for key in ("ratio_least", "ratio_most"))
    axes.fill_between(depths, least, most, color=plots.COLORS[0], alpha=0.2, linewidth=0)
    highest = max(row.get(key, 0) for row in rows for key in ("ratio_most", *lines))
    if highest > 0.9:
        axes.axhline(1, color=plots.MUTED, linestyle=":", linewidth=1.2, zorder=1)
    axes.set_xlim(min(depths) - 0.3, max(depths) + 0.3)
    axes.set_xticks(depths, [f"{row['max_depth']}\nK = {row['clusters']:,}" for row in rows])
    axes.set_xlabel("d_max")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    last = rows[-1]
    sizes = [
        f"{name}: {human_bytes(last[size])} / {human_bytes(last[ovr])} = {100 * last[ratio]:.3g}%"
        for name, size, ovr, ratio in (
            ("paper", "tree_bytes", "ovr_bytes", "ratio"),
            ("labeltree", "labeltree_bytes", "labeltree_ovr_bytes", "labeltree_ratio"),
        )
    ]
    plots.box(axes, "\n".join([f"d_max = {last['max_depth']}", *sizes]), highest, 0.42)
