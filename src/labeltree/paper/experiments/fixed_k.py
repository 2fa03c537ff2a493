"""`fixed-k`: the ratio of a tree's size to one-vs-rest at K = 100, for trees of depth 2 to 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labeltree.errors import InputError
from labeltree.paper.experiments import figures, sizes
from labeltree.paper.experiments.result import Claim, Found, Plot, Result, Table
from labeltree.paper.experiments.session import Session, part_of
from labeltree.paper.experiments.sizes import Row, percent
from labeltree.progress import Progress
from labeltree.system import human_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLUSTERS, DEPTHS = 100, (2, 3, 4, 5, 6)
# The paper does not say where "large" begins. It sets four of its six data sets apart as the larger ones;
# the smallest of them has so many labels.
LARGE = 30_938


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    clusters: int = CLUSTERS,
    depths: Sequence[int] = DEPTHS,
) -> Result:
    """Measure the ratio for each data set, depth and seed, one deep tree a seed, clipped.

    Parameters
    ----------
    session : Session
    progress : callable, optional
    clusters : int, default 100
        K.
    depths : sequence of int, default 2 to 6
        The values of d_max, at least two and rising.

    Returns
    -------
    Result
    """
    depths = tuple(depths)
    if len(depths) < 2 or list(depths) != sorted(set(depths)) or depths[0] < 2:
        raise InputError(f"got the depths {list(depths)}, expected at least two, from 2 on, and rising.")
    rows: list[Row] = []
    for number, split in enumerate(session.splits):
        part = part_of(progress, number, len(session.splits))
        rows += sizes.measure(session, split.name, clusters, depths, part)
    summary = sizes.summarize(rows)
    return Result(
        name="fixed-k",
        title=f"Size of a tree against one-vs-rest, K = {clusters}",
        source="fig:ratio-fixed-K",
        introduction=(
            "A node of a label tree sees only the instances of its labels, so it needs weights only for the "
            "features of those. How much smaller does that make a tree than one-vs-rest, which has a weight "
            "for each label and feature? The sizes follow from the tree and the data; nothing is trained. "
            "The paper counts 12 bytes for each weight of a tree, 8 and an index, and 8 bytes for each of "
            "one-vs-rest. What it could not show are labeltree's own files, which hold the same tree in "
            "dense blocks of 4 bytes a weight. One tree is built for each seed and clipped at each depth."
        ),
        settings={"clusters (K)": clusters, "depths (d_max)": list(depths), "seeds": list(session.seeds)},
        tables=[
            Table("fixed-k-means", "Means over the seeds.", sizes.COLUMNS, summary),
            Table("fixed-k", "Each seed and depth.", {**sizes.COLUMNS, "seed": "seed"}, rows, shown=False),
        ],
        plots=[
            Plot(
                "fixed-k",
                "Size of a tree over that of one-vs-rest by the largest depth, the mean over "
                f"{len(session.seeds)} seeds and, as a band, from the least to the most. The box shows the "
                f"sizes at d_max = {depths[-1]}. labeltree's own files take {sizes.own_share(summary)} of "
                "what the paper counts for the same tree.",
                _figure(summary, depths),
            )
        ],
        claims=_claims(session, summary, clusters, depths),
    )


def _figure(summary: list[Row], depths: Sequence[int]) -> Figure:
    names = list(dict.fromkeys(row["data"] for row in summary))
    figure, panels = figures.small_multiples(len(names), panel=(3.5, 3.0))
    with figures.style():
        for axes, name in zip(panels, names, strict=True):
            mine = [row for row in summary if row["data"] == name]
            highest = sizes.draw_lines(axes, mine)
            figures.headroom(axes, highest, 0.42)
            last = mine[-1]
            figures.box(
                axes,
                f"d_max = {depths[-1]}: {percent(last['ratio'])}\n"
                f"tree {human_bytes(last['tree_bytes'])}, OVR {human_bytes(last['ovr_bytes'])}\n"
                f"labeltree {human_bytes(last['labeltree_bytes'])}",
            )
            axes.set_xlabel("d_max")
        panels[0].set_ylabel("size / one-vs-rest")
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=2 if len(names) > 1 else 1,  # under one panel there is no room for two
        )
    return figure


def _claims(session: Session, summary: list[Row], clusters: int, depths: Sequence[int]) -> list[Claim]:
    smaller: Found = {}
    ranges: Found = {}
    drops: Found = {}
    settles: Found = {}
    first, last = depths[0], depths[-1]
    for split in session.splits:
        name, labels = split.name, split.used_labels
        if labels <= clusters:
            smaller[name] = ranges[name] = drops[name] = settles[name] = None, f"L = {labels}: no tree"
            continue
        ratio = sizes.ratios(summary, name)
        grown = max(row["depth"] for row in summary if row["data"] == name)
        # Labels without instances make one-vs-rest larger, but are nothing that a tree saves.
        judged = ratio[last] * split.train.n_labels / labels
        said, with_labels = percent(ratio[last]), f" with {labels:,} labels"
        if labels < split.train.n_labels:
            said, with_labels = f"{said}, but {percent(judged)} over the {labels:,} labels that occur", ""
        smaller[name] = judged < 1, said
        ranges[name] = judged < 0.1 if labels >= LARGE else judged <= 0.4, said + with_labels
        said = f"{percent(ratio[first])} to {percent(ratio[depths[1]])}"
        drops[name] = (ratio[depths[1]] <= 0.9 * ratio[first] if grown > first else None, said)
        change = ratio[last] / ratio[depths[-2]] - 1 if ratio[depths[-2]] else 0.0
        settles[name] = abs(change) < 0.05, f"{100 * change:+.1f}%, depth {grown}"
    return [
        Claim.of_data(f"A tree takes less space than one-vs-rest (d_max = {last}).", smaller),
        Claim.of_data(
            "The tree takes 20 to 40% of one-vs-rest on smaller data sets, and less than 10% on large ones "
            f"(here: 40% at most, and less than 10% from {LARGE:,} labels on).",
            ranges,
        ),
        Claim.of_data(
            f"At first the ratio drops significantly as trees get deeper (here: by a tenth or more from "
            f"d_max = {first} to {depths[1]}).",
            drops,
        ),
        Claim.of_data(
            "Later it may not change much, since the labels are parted before the largest depth is reached "
            f"(here: less than 5% from d_max = {depths[-2]} to {last}).",
            settles,
        ),
    ]
