"""`fixed-k`: size of a tree relative to one-vs-rest at K = 100, for trees of depth 2 to 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labeltree.base import plots as figures
from labeltree.base.progress import Progress, part_of
from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.paper.experiments import sizes
from labeltree.paper.experiments.result import (
    Plot,
    Result,
    count,
    listed,
    percent,
)
from labeltree.paper.experiments.session import Session
from labeltree.paper.experiments.sizes import SizeRow, SizeSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLUSTERS, DEPTHS = 100, (2, 3, 4, 5, 6)


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: int = CLUSTERS,
    depths: Sequence[int] = DEPTHS,
) -> Result:
    """Compute the ratio per dataset, depth and seed, from one deep tree per seed.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters : int, default 100
        K.
    depths : sequence of int, default 2 to 6
        The values of d_max: at least two, in increasing order.

    Returns
    -------
    Result
    """
    depths = tuple(depths)
    if len(depths) < 2 or list(depths) != sorted(set(depths)) or depths[0] < 2:
        raise InputError(f"{listed('depths', depths)}, expected two or more increasing integers from 2")
    rows: list[SizeRow] = []
    for number, split in enumerate(session.splits):
        part = part_of(progress, number, len(session.splits))
        rows += sizes.measure(session, split.name, clusters, depths, part)
    summary = sizes.summarize(rows)
    return Result(
        name="fixed-k",
        title=f"Size of a tree relative to one-vs-rest, K = {clusters}",
        source="Figure 4 of the paper",
        settings={"clusters (K)": clusters, "depths (d_max)": list(depths), "seeds": list(session.seeds)},
        tables=sizes.tables(
            "fixed-k",
            summary,
            rows,
        ),
        plots=[
            Plot(
                "fixed-k",
                f"Size of a tree relative to one-vs-rest, by maximum depth. Mean over "
                f"{count(len(session.seeds), 'seed')}; the band is the range over the seeds. The box lists "
                f"the sizes at d_max = {depths[-1]}.",
                sizes.figure(summary, _finish, 3.0),
            )
        ],
    )


def _finish(axes: Axes, rows: list[SizeSummary], highest: float) -> None:
    """Add the sizes of the deepest tree to a panel."""
    last = rows[-1]
    figures.headroom(axes, highest, 0.42)
    figures.box(
        axes,
        f"d_max = {last['max_depth']}\n"
        f"paper: {human_bytes(last['tree_bytes'])} / {human_bytes(last['ovr_bytes'])} = "
        f"{percent(last['ratio'])}\n"
        f"labeltree: {human_bytes(last['labeltree_bytes'])} / {human_bytes(last['labeltree_ovr_bytes'])} = "
        f"{percent(last['labeltree_ratio'])}",
    )
