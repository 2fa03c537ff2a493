"""`statistics`, `fixed-k` and `varied-k`: counts of the datasets, and sizes of their trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots
from labeltree.base.display import Progress, ignore
from labeltree.base.system import human_bytes
from labeltree.paper.session import Session, Split, steps
from labeltree.paper.tables import Row, Table, distinct, means, where
from labeltree.training.plan import Plan
from labeltree.training.tree_plan import TreePlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLUSTERS, DEPTHS = 100, (2, 3, 4, 5, 6)
COLUMNS = (
    *("data", "max_depth", "clusters", "weights", "tree_bytes", "ovr_bytes", "ratio", "labeltree_bytes"),
    *("labeltree_ovr_bytes", "labeltree_ratio", "unfinished_share"),
)


def statistics(session: Session, progress: Progress = ignore) -> list[Table]:
    """Count instances, features, labels and non-zeros of each dataset."""
    rows = [_count(split) for split, _ in steps(session.splits, progress)]
    rows.sort(key=lambda row: int(row["labels"]))
    caption = "Training data, ordered by the number of labels; used features and labels are those that occur."
    return [Table("statistics", caption, list(rows[0]), rows)]


def _count(split: Split) -> Row:
    train = split.train
    instances_per_label = np.diff(train.by_label[0])
    return {
        "data": split.name,
        "instances": train.n_instances,
        "test_instances": split.test.n_instances if split.test else None,
        "features": train.n_features,
        "used_features": int(np.unique(train.X.indices).size),
        "labels": train.n_labels,
        "used_labels": int(np.count_nonzero(instances_per_label)),
        "nonzeros_per_instance": train.X.nnz / train.n_instances,
        "labels_per_instance": train.Y.nnz / train.n_instances,
        "one_instance_share": float((instances_per_label == 1).mean()),
    }


def fixed_k(
    session: Session, progress: Progress = ignore, *, clusters: int = CLUSTERS, depths: Sequence[int] = DEPTHS
) -> list[Table]:
    """Compute sizes with the same K for all depths (values of d_max), from one deep tree per seed."""
    rows: list[Row] = []
    for (split, seed), part in steps(product(session.splits, session.seeds), progress):
        deep = session.plan(split, clusters, max(depths), seed, part)
        for max_depth in depths:
            sizes = _sizes(deep.clip(max_depth), clusters, max_depth)
            rows.append({"data": split.name, "seed": seed, **sizes})
    return _tables("fixed-k", rows, COLUMNS)


def varied_k(
    session: Session, progress: Progress = ignore, *, depths: Sequence[int] = (2, 3, 4)
) -> list[Table]:
    """Compute sizes with K = ceil(L^(1/d_max)), and the ratio with K = 100 for comparison."""
    rows: list[Row] = []
    for (split, max_depth, seed), part in steps(product(session.splits, depths, session.seeds), progress):
        clusters = root_above(split.train.n_labels, max_depth)
        sizes = _sizes(session.plan(split, clusters, max_depth, seed, part), clusters, max_depth)
        # As deep as in fixed-k, so that both experiments share the trees.
        fixed = session.plan(split, CLUSTERS, max(*depths, *DEPTHS), seed).clip(max_depth)
        rows.append({"data": split.name, "seed": seed, **sizes, "fixed_k_ratio": fixed.ratio})
    return _tables("varied-k", rows, (*COLUMNS, "fixed_k_ratio"))


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


def _sizes(plan: Plan, clusters: int, max_depth: int) -> Row:
    """Return the sizes of a tree as the paper counts them and as labeltree stores them."""
    (tree,) = plan.trees
    cut = tree.tree.child_count[unfinished(tree, clusters, max_depth)]
    return {
        "max_depth": max_depth,
        "clusters": clusters,
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


def _tables(name: str, rows: list[Row], columns: Sequence[str]) -> list[Table]:
    caption = (
        "Size of a tree relative to one-vs-rest (ovr), means over the seeds: as the paper counts, with 12 "
        "and 8 bytes per weight, and of labeltree's files. Unfinished labels are those of nodes with more "
        "than K labels that only d_max keeps from being split."
    )
    summary = means(rows, "data", "max_depth", "clusters", spread="ratio")
    return [
        Table(name, caption, columns, summary, figure=_draw(summary)),
        Table(f"{name}-seeds", "One row per seed and depth.", columns, rows, shown=False),
    ]


@plots.drawing
def _draw(summary: list[Row]) -> Figure:
    """Draw a panel per dataset with both ratios over d_max."""
    names = distinct(summary, "data")
    figure, panels = plots.small_multiples(names, panel=(3.5, 3.0))
    for axes, name in zip(panels, names, strict=True):
        _draw_panel(axes, where(summary, data=name))
    panels[0].set_ylabel("size / one-vs-rest")
    add_legend(figure, panels)
    return figure


def _draw_panel(axes: Axes, rows: list[Row]) -> None:
    depths = [row["max_depth"] for row in rows]
    lines = {
        "ratio": "as the paper counts, 12 / 8 bytes per weight",
        "labeltree_ratio": "both in labeltree's files",
        "fixed_k_ratio": f"as the paper counts, with K = {CLUSTERS}",
    }
    lines = {key: label for key, label in lines.items() if key in rows[0]}
    draw_lines(axes, depths, rows, lines)
    least, most = ([row[key] for row in rows] for key in ("ratio_least", "ratio_most"))
    axes.fill_between(depths, least, most, color=plots.COLORS[0], alpha=0.2, linewidth=0)
    highest = max(row[key] for row in rows for key in ("ratio_most", *lines))
    if highest > 0.9:
        axes.axhline(1, color=plots.MUTED, linestyle=":", linewidth=1.2, zorder=1)
    axes.set_xticks(depths, [f"{row['max_depth']}\nK = {row['clusters']:,}" for row in rows])
    axes.set(xlim=(min(depths) - 0.3, max(depths) + 0.3), xlabel="d_max")
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


def draw_lines(axes: Axes, x: Sequence[float], rows: Sequence[Row], lines: Mapping[str, str]) -> None:
    """Draw columns of a table as lines, each with its label, a color and a marker; None leaves a gap."""
    for number, (key, label) in enumerate(lines.items()):
        values = [np.nan if row[key] is None else row[key] for row in rows]
        axes.plot(x, values, color=plots.COLORS[number], marker=plots.MARKERS[number], label=label)


def add_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Add the legend of panels that show the same lines; in one row, if the figure is wide enough."""
    handles, labels = panels[0].get_legend_handles_labels()
    columns = len(labels) if len(panels) >= len(labels) else 1
    figure.legend(handles, labels, loc=plots.LEGEND, ncols=columns)
