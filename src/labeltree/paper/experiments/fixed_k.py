"""`fixed-k`: size of a tree relative to one-vs-rest at K = 100, for trees of depth 2 to 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from labeltree.base import plots as figures
from labeltree.base.progress import Progress, part_of
from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.paper.experiments import sizes
from labeltree.paper.experiments.result import Claim, Findings, Plot, Result
from labeltree.paper.experiments.rows import (
    by_dataset,
    count,
    distinct,
    join_words,
    listed,
    percent,
    where,
)
from labeltree.paper.experiments.session import Session
from labeltree.paper.experiments.sizes import SizeRow, SizeSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLUSTERS, DEPTHS = 100, (2, 3, 4, 5, 6)
# The paper does not define "large". It sets four of its six datasets apart as the larger ones, and the
# smallest of these has this many labels.
LARGE = 30_938
SMALL_CHANGE = 0.05  # relative change of the ratio, or share of the labels, that counts as small


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
    deepest = {row["data"]: row["ratio"] for row in where(summary, max_depth=depths[-1])}
    own = {row["data"]: row["labeltree_ratio"] for row in where(summary, max_depth=depths[-1])}
    return Result(
        name="fixed-k",
        title=f"Size of a tree relative to one-vs-rest, K = {clusters}",
        source="Figure 4 of the paper",
        introduction=(
            "A node of a label tree trains only on the instances of its labels, so it needs weights only for "
            "the features of these instances. One-vs-rest has a weight for every label and feature. How much "
            "smaller is a tree? Its size follows from the tree and the data, so nothing is trained. The "
            "paper counts 12 bytes per weight of a tree (8 for the weight, 4 for its index) and 8 bytes per "
            "weight of one-vs-rest. labeltree's own files store either model in dense blocks of 4 bytes per "
            "weight, with a list of features per node, so their ratio is that of two models in the same "
            "format. One tree is built per seed and cut off at each depth."
        ),
        settings={"clusters (K)": clusters, "depths (d_max)": list(depths), "seeds": list(session.seeds)},
        tables=sizes.tables(
            "fixed-k",
            summary,
            rows,
            f"In labeltree's own files, a tree with d_max = {depths[-1]} takes "
            f"{by_dataset(own, unit='of one-vs-rest')}{_larger(own)}.",
        ),
        plots=[
            Plot(
                "fixed-k",
                f"Size of a tree relative to one-vs-rest, by maximum depth. Mean over "
                f"{count(len(session.seeds), 'seed')}; the band is the range over the seeds. The box lists "
                f"the sizes at d_max = {depths[-1]}.",
                sizes.figure(summary, _finish, 3.0),
                f"As the paper counts, a tree with d_max = {depths[-1]} takes "
                f"{by_dataset(deepest, unit='of the one-vs-rest size')}{_larger(deepest)}.",
            )
        ],
        claims=_claims(session, summary, clusters, depths),
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


def _larger(ratio: Mapping[str, float]) -> str:
    """Name the datasets on which a tree is not smaller."""
    larger = [name for name, value in ratio.items() if value >= 1]
    if not larger:
        return ""
    return ": it is larger" if len(ratio) == 1 else f": it is larger on {join_words(larger)}"


def _claims(
    session: Session, summary: Sequence[SizeSummary], clusters: int, depths: Sequence[int]
) -> list[Claim]:
    smaller: Findings = {}
    ranges: Findings = {}
    drops: Findings = {}
    settles: Findings = {}
    finished: Findings = {}
    first, second, last_but_one, last = depths[0], depths[1], depths[-2], depths[-1]
    for split in session.splits:
        name, labels = split.name, split.used_labels
        if labels <= clusters:
            smaller[name] = ranges[name] = drops[name] = settles[name] = None, f"L = {labels}: no tree"
            finished[name] = settles[name]
            continue
        ratio = sizes.ratios(summary, name)
        depth = max(distinct(where(summary, data=name), "depth"))
        # Labels without instances make one-vs-rest larger, but a tree saves nothing on them.
        judged = ratio[last] * split.train.n_labels / labels
        found, with_labels = percent(ratio[last]), f" with {labels:,} labels"
        if labels < split.train.n_labels:
            found, with_labels = f"{found}, or {percent(judged)} for the {labels:,} labels that occur", ""
        own = where(summary, data=name, max_depth=last)[0]["labeltree_ratio"]
        smaller[name] = judged < 1, f"{found}; in labeltree's files {percent(own)}"
        ranges[name] = judged < 0.1 if labels >= LARGE else judged <= 0.4, found + with_labels
        drops[name] = (
            ratio[second] <= 0.9 * ratio[first] if depth > first else None,
            f"{percent(ratio[first])} to {percent(ratio[second])}",
        )
        change = ratio[last] / ratio[last_but_one] - 1 if ratio[last_but_one] else 0.0
        settled = abs(change) < SMALL_CHANGE
        settles[name] = settled, f"{100 * change:+.1f}%"
        left = where(summary, data=name, max_depth=last_but_one)[0]["unfinished_share"]
        found = f"{percent(left)} of the labels in unfinished nodes, tree depth {depth}"
        finished[name] = left < SMALL_CHANGE if settled else None, found
    return [
        Claim.from_findings(
            f"A tree takes less space than one-vs-rest (d_max = {last}; tested: as the paper counts).",
            smaller,
        ),
        Claim.from_findings(
            "The tree takes 20 to 40% of one-vs-rest on smaller datasets, and less than 10% on large ones "
            f"(tested: at most 40%, and less than 10% from {LARGE:,} labels).",
            ranges,
        ),
        Claim.from_findings(
            "At first, the ratio drops significantly as d_max grows (tested: by at least a tenth from "
            f"d_max = {first} to {second}).",
            drops,
        ),
        Claim.from_findings(
            f"Later, it may not change much (tested: by less than {SMALL_CHANGE:.0%} from d_max = "
            f"{last_but_one} to {last}).",
            settles,
        ),
        Claim.from_findings(
            "The reason is that the partitioning finishes before d_max is reached (tested where the ratio "
            f"settles: at d_max = {last_but_one}, less than {SMALL_CHANGE:.0%} of the labels are in nodes "
            f"of more than K = {clusters} labels that are left unsplit because of d_max).",
            finished,
        ),
    ]
