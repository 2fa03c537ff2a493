"""`varied-k`: size of a tree relative to one-vs-rest where K is chosen for the depth: ceil(L^(1/d_max))."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labeltree.base import plots as figures
from labeltree.base.progress import Progress, part_of
from labeltree.paper.experiments import sizes
from labeltree.paper.experiments.fixed_k import CLUSTERS
from labeltree.paper.experiments.fixed_k import DEPTHS as FIXED_DEPTHS
from labeltree.paper.experiments.result import Plot, Result, count
from labeltree.paper.experiments.session import Session
from labeltree.paper.experiments.sizes import SizeRow, SizeSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEPTHS = (2, 3, 4)


class VariedSummary(SizeSummary):
    """Means over the seeds, and the ratio of the tree of the same d_max with K = 100."""

    fixed_k_ratio: float


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


def run(session: Session, progress: Progress | None = None, *, depths: Sequence[int] = DEPTHS) -> Result:
    """Compute the ratio per dataset, depth and seed, and that of K = 100 for comparison.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    depths : sequence of int, default 2 to 4
        The values of d_max.

    Returns
    -------
    Result
    """
    rows: list[SizeRow] = []
    fixed: list[SizeRow] = []
    steps = len(session.splits) * (len(depths) + 1)
    for number, split in enumerate(session.splits):
        for d, max_depth in enumerate(depths):
            part = part_of(progress, number * (len(depths) + 1) + d, steps)
            clusters = root_above(split.train.n_labels, max_depth)
            rows += sizes.measure(session, split.name, clusters, [max_depth], part)
        part = part_of(progress, number * (len(depths) + 1) + len(depths), steps)
        # As deep as in fixed-k, so that both experiments share the trees.
        compared = sizes.measure(session, split.name, CLUSTERS, sorted({*depths, *FIXED_DEPTHS}), part)
        fixed += [row for row in compared if row["max_depth"] in depths]
    summary: list[VariedSummary] = [
        {**row, "fixed_k_ratio": other["ratio"]}
        for row, other in zip(sizes.summarize(rows), sizes.summarize(fixed), strict=True)
    ]
    return Result(
        name="varied-k",
        title="Size of a tree relative to one-vs-rest, K chosen for the depth",
        source="Figure 5 of the paper",
        settings={
            "clusters (K)": "ceil(L^(1/d_max))",
            "depths (d_max)": list(depths),
            "seeds": list(session.seeds),
        },
        tables=sizes.tables("varied-k", summary, rows, {"fixed_k_ratio": f"ratio at K = {CLUSTERS}"}),
        plots=[
            Plot(
                "varied-k",
                "Size of a tree relative to one-vs-rest with K = ceil(L^(1/d_max)). Mean over "
                f"{count(len(session.seeds), 'seed')}; the band is the range over the seeds. The dashed line "
                f"is the paper's count with K = {CLUSTERS}.",
                sizes.figure(summary, _finish, 2.9),
            )
        ],
    )


def _finish(axes: Axes, rows: list[VariedSummary], highest: float) -> None:
    """Add K, and the ratios at K = 100, to a panel."""
    fixed = [row["fixed_k_ratio"] for row in rows]
    depths = [row["max_depth"] for row in rows]
    axes.plot(
        depths,
        fixed,
        color=figures.MUTED,
        linestyle="--",
        linewidth=1.3,
        marker=figures.MARKERS[2],
        markersize=4,
        label=f"the same with K = {CLUSTERS}",
    )
    axes.set_xticks(depths, [f"{row['max_depth']}\nK = {row['clusters']:,}" for row in rows])
    figures.headroom(axes, max(highest, *fixed), 0.08)
