"""The sizes of trees as the paper counts them, beside labeltree's own; for `fixed-k` and `varied-k`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.paper.experiments import figures
from labeltree.paper.experiments.session import Session, part_of
from labeltree.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]

COLUMNS = {
    "data": "data",
    "max_depth": "d_max",
    "clusters": "K",
    "depth": "depth reached",
    "weights": "weights",
    "tree_bytes": "tree, paper",
    "ovr_bytes": "one-vs-rest, paper",
    "ratio": "ratio",
    "ratio_deviation": "± (standard deviation)",
    "labeltree_bytes": "labeltree's files",
    "labeltree_ratio": "their ratio",
}
PAPER_LINE = "paper's count: 12 bytes a weight"
OWN_LINE = "labeltree's own files"


def measure(
    session: Session, name: str, clusters: int, depths: Sequence[int], progress: Progress | None = None
) -> list[Row]:
    """Size of the trees of a data set: a row for each seed and depth, all depths of a seed from one tree.

    Parameters
    ----------
    session : Session
    name : str
        Of the data set.
    clusters : int
        K.
    depths : sequence of int
        The values of d_max.
    progress : callable, optional

    Returns
    -------
    list of dict
    """
    rows = []
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
                    "labeltree_ratio": plan.model_bytes / max(plan.paper_ovr_bytes, 1),
                }
            )
    return rows


def summarize(rows: Iterable[Row]) -> list[Row]:
    """Mean over the seeds for each data set, K and d_max; of the ratio also deviation, least and most."""
    groups: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["max_depth"], row["clusters"]), []).append(row)
    summary = []
    for (data, max_depth, clusters), group in groups.items():
        ratio = np.array([row["ratio"] for row in group])
        mean: Row = {
            key: round(np.mean([row[key] for row in group]))
            for key in ("nodes", "weights", "tree_bytes", "ovr_bytes", "labeltree_bytes")
        }
        summary.append(
            {
                "data": data,
                "max_depth": max_depth,
                "clusters": clusters,
                "seeds": len(group),
                "depth": max(row["depth"] for row in group),
                **mean,
                "ratio": float(ratio.mean()),
                "ratio_deviation": float(ratio.std(ddof=1)) if len(group) > 1 else None,
                "ratio_least": float(ratio.min()),
                "ratio_most": float(ratio.max()),
                "labeltree_ratio": float(np.mean([row["labeltree_ratio"] for row in group])),
            }
        )
    return summary


def ratios(summary: Iterable[Row], data: str) -> dict[int, float]:
    """Mean ratio of a data set by d_max."""
    return {row["max_depth"]: row["ratio"] for row in summary if row["data"] == data}


def draw_lines(axes: Axes, summary: Sequence[Row]) -> float:
    """Draw both ratios of one data set over d_max, the seeds' spread as a band; return the highest value."""
    depths = [row["max_depth"] for row in summary]
    least, most = ([row[key] for row in summary] for key in ("ratio_least", "ratio_most"))
    for key, label, colour, marker in zip(
        ("ratio", "labeltree_ratio"), (PAPER_LINE, OWN_LINE), figures.COLOURS, figures.MARKERS, strict=False
    ):
        axes.plot(depths, [row[key] for row in summary], color=colour, marker=marker, label=label)
    axes.fill_between(depths, least, most, color=figures.COLOURS[0], alpha=0.2, linewidth=0)
    axes.set_xticks(depths)
    axes.set_xlim(min(depths) - 0.3, max(depths) + 0.3)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    figures.title(axes, summary[0]["data"])
    return float(max(*most, *(row["labeltree_ratio"] for row in summary)))


def own_share(summary: Iterable[Row]) -> str:
    """What share of the paper's bytes labeltree's files take, in words."""
    shares = sorted(row["labeltree_bytes"] / max(row["tree_bytes"], 1) for row in summary)
    low, high = f"{100 * shares[0]:.1f}", f"{100 * shares[-1]:.1f}"
    return f"{low}%" if low == high else f"{low} to {high}%"


def percent(ratio: float) -> str:
    """Write a ratio as the sentences have it.

    Examples
    --------
    >>> percent(0.25173), percent(0.01234)
    ('25.2%', '1.23%')
    """
    return f"{100 * ratio:.3g}%"
