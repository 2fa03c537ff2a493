"""`varied-k`: the ratio of a tree's size to one-vs-rest where K is the root of L that the depth asks for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from labeltree.paper.experiments import figures, sizes
from labeltree.paper.experiments.fixed_k import CLUSTERS
from labeltree.paper.experiments.fixed_k import DEPTHS as FIXED_DEPTHS
from labeltree.paper.experiments.result import Claim, Found, Plot, Result, Table
from labeltree.paper.experiments.session import Session, part_of
from labeltree.paper.experiments.sizes import Row, percent
from labeltree.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (2, 3, 4)


def root_above(labels: int, depth: int) -> int:
    """Smallest K with K^d >= L: ceil(L^(1/d)), exact where a rounded root would err; 2 at least.

    Examples
    --------
    >>> root_above(1000, 3), root_above(1001, 3)
    (10, 11)
    """
    root = max(2, int(labels ** (1 / depth)) - 1)
    while root**depth < labels:
        root += 1
    return root


def run(session: Session, progress: Progress | None = None, *, depths: Sequence[int] = DEPTHS) -> Result:
    """Measure the ratio for each data set, depth and seed, and beside it that of K = 100.

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
    rows: list[Row] = []
    fixed: list[Row] = []
    steps = len(session.splits) * (len(depths) + 1)
    for number, split in enumerate(session.splits):
        for d, max_depth in enumerate(depths):
            part = part_of(progress, number * (len(depths) + 1) + d, steps)
            clusters = root_above(split.train.n_labels, max_depth)
            rows += sizes.measure(session, split.name, clusters, [max_depth], part)
        part = part_of(progress, number * (len(depths) + 1) + len(depths), steps)
        # As deep as fixed-k has them, so that both take the same trees.
        beside = sizes.measure(session, split.name, CLUSTERS, sorted({*depths, *FIXED_DEPTHS}), part)
        fixed += [row for row in beside if row["max_depth"] in depths]
    summary, fixed_summary = sizes.summarize(rows), sizes.summarize(fixed)
    for row, other in zip(summary, fixed_summary, strict=True):
        row["fixed_k_ratio"] = other["ratio"]
    return Result(
        name="varied-k",
        title="Size of a tree against one-vs-rest, K by the depth",
        source="fig:ratio-varied-K",
        introduction=(
            "With a fixed K, a tree of few labels ends early, and one of many labels has wide nodes above "
            "its leaves. Here K is chosen for the depth, K = ceil(L^(1/d_max)), so that every node of a "
            f"balanced tree would have as many children. Trees of the same depth with K = {CLUSTERS} stand "
            "beside: which K gives the smaller model?"
        ),
        settings={
            "clusters (K)": "ceil(L^(1/d_max))",
            "depths (d_max)": list(depths),
            "seeds": list(session.seeds),
        },
        tables=[
            Table(
                "varied-k-means",
                f"Means over the seeds, beside the ratio with K = {CLUSTERS}.",
                {**sizes.COLUMNS, "fixed_k_ratio": f"ratio at K = {CLUSTERS}"},
                summary,
            ),
            Table("varied-k", "Each seed and depth.", {**sizes.COLUMNS, "seed": "seed"}, rows, shown=False),
        ],
        plots=[
            Plot(
                "varied-k",
                "Size of a tree over that of one-vs-rest with K = ceil(L^(1/d_max)), the mean over "
                f"{len(session.seeds)} seeds and, as a band, from the least to the most; dashed, the paper's "
                f"count with K = {CLUSTERS}.",
                _figure(summary),
            )
        ],
        claims=_claims(session, summary, depths),
    )


def _figure(summary: list[Row]) -> Figure:
    names = list(dict.fromkeys(row["data"] for row in summary))
    figure, panels = figures.small_multiples(len(names), panel=(3.5, 2.9))
    with figures.style():
        for axes, name in zip(panels, names, strict=True):
            mine = [row for row in summary if row["data"] == name]
            depths = [row["max_depth"] for row in mine]
            highest = sizes.draw_lines(axes, mine)
            dashed = [row["fixed_k_ratio"] for row in mine]
            axes.plot(
                depths,
                dashed,
                color=figures.MUTED,
                linestyle="--",
                linewidth=1.3,
                marker=figures.MARKERS[2],
                markersize=4,
                label=f"paper's count, K = {CLUSTERS}",
            )
            axes.set_xticks(depths, [f"{row['max_depth']}\nK = {row['clusters']:,}" for row in mine])
            axes.set_xlabel("d_max")
            figures.headroom(axes, max(highest, *dashed), 0.08)
        panels[0].set_ylabel("size / one-vs-rest")
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3 if len(names) > 2 else 1,
        )
    return figure


def _claims(session: Session, summary: list[Row], depths: Sequence[int]) -> list[Claim]:
    falls: Found = {}
    wider: Found = {}
    for name, split in session.by_name.items():
        # With K or fewer labels there is no tree.
        mine = [row for row in summary if row["data"] == name and row["clusters"] < split.used_labels]
        ratio = sizes.ratios(summary, name)
        steps = [ratio[b] < ratio[a] for a, b in pairwise(depths)]
        falls[name] = (
            all(steps) if steps and len(mine) == len(depths) else None,
            ", ".join(percent(ratio[d]) for d in depths),
        )
        compared = [row for row in mine if row["clusters"] != CLUSTERS < split.used_labels]
        right = [
            row["ratio"] < row["fixed_k_ratio"]
            if row["clusters"] > CLUSTERS
            else row["fixed_k_ratio"] < row["ratio"]
            for row in compared
        ]
        wider[name] = (
            (2 * sum(right) > len(right), f"{sum(right)} of {len(right)} depths")
            if right
            else (None, "no two trees to compare")
        )
    depth_words = f"{', '.join(map(str, depths[:-1]))} and {depths[-1]}" if len(depths) > 1 else depths[0]
    return [
        Claim.of_data(f"The model gets smaller with the depth (d_max = {depth_words}).", falls),
        Claim.of_data(
            f"At the same d_max, in general the larger K gives the smaller model (against K = {CLUSTERS}; "
            "here: at most of the depths).",
            wider,
        ),
    ]
