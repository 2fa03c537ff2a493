"""Figure, takeaways and claims of the experiment `kmeans`, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.paper.experiments.fits import CONFIDENCE, fit_powers
from labeltree.paper.experiments.result import Claim, Findings
from labeltree.paper.experiments.rows import by_dataset, distinct, group, percent, where
from labeltree.paper.experiments.time_findings import NEAR_1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The factors of the formula, and their keys in a row.
FACTORS = {"nnz(V)": "nonzeros", "K": "clusters", "the iterations": "iterations"}
NOTHING = "No dataset has more labels than K, so nothing is clustered."
LEAST_RATIO = 2.0  # largest to smallest value of a factor from which its power is fitted


class KMeansRow(TypedDict):
    """K-means of all nodes of one depth of one tree."""

    data: str
    clusters: int
    seed: int
    depth: int
    nodes: int
    labels: int
    nonzeros: int
    iterations: int
    multiply_adds: int
    seconds: float


class FittedRow(KMeansRow):
    """The same, with the seconds that the formula predicts."""

    fitted_seconds: float


class TreeCost(TypedDict):
    """All depths of one tree, next to the formula for a balanced tree."""

    data: str
    clusters: int
    seed: int
    depth: int
    iterations: int
    vector_nonzeros: int
    cost: float
    multiply_adds: int
    cost_share: float
    seconds: float


def _errors(rows: Sequence[FittedRow]) -> NDArray[np.float64]:
    """Return the factor, at least 1, by which the formula is off for each row."""
    return np.exp(np.abs(np.log([max(row["seconds"], 1e-9) / row["fitted_seconds"] for row in rows])))


def fit_takeaway(rows: Sequence[FittedRow]) -> str:
    """Write the speed of K-means, and how far the formula is off."""
    if not rows:
        return NOTHING
    rate = rows[0]["multiply_adds"] / rows[0]["fitted_seconds"] / 1e9
    return (
        f"K-means does {rate:.2g} billion multiply-adds per second; typically, the formula is off by a "
        f"factor of {np.median(_errors(rows)):.2f}."
    )


def table_takeaway(rows: Sequence[FittedRow]) -> str:
    """Write the range of the times."""
    if not rows:
        return NOTHING
    seconds = [row["seconds"] for row in rows]
    return f"Clustering the nodes of one depth takes {min(seconds):.2g} to {max(seconds):.2g} CPU seconds."


def share_takeaway(trees: Sequence[TreeCost]) -> str:
    """Write the share of the formula's multiply-adds that real trees need."""
    if not trees:
        return "No tree was built by clustering."
    shares = {
        name: min(tree["cost_share"] for tree in mine) for (name,), mine in group(trees, "data").items()
    }
    most = max(tree["cost_share"] for tree in trees)
    return (
        f"Real trees need {by_dataset(shares)} of the formula's multiply-adds at least, and "
        f"{percent(most)} at most, because labels that are separated early are not clustered again."
    )


def figure(rows: Sequence[FittedRow]) -> Figure:
    """Draw seconds over multiply-adds, with a color per dataset and a marker per K."""
    line = optional("matplotlib.lines").Line2D
    names, clusters = distinct(rows, "data"), sorted(distinct(rows, "clusters"))
    colour = {name: figures.COLOURS[i % len(figures.COLOURS)] for i, name in enumerate(names)}
    marker = {K: figures.MARKERS[i % len(figures.MARKERS)] for i, K in enumerate(clusters)}
    figure, (axes,) = figures.new_figure(1, 1, panel=(5.0, 3.6))
    with figures.style():
        for row in rows:
            axes.plot(
                row["multiply_adds"],
                row["seconds"],
                color=colour[row["data"]],
                marker=marker[row["clusters"]],
                linestyle="",
            )
        ends = sorted((row["multiply_adds"], row["fitted_seconds"]) for row in rows)
        axes.plot(*zip(ends[0], ends[-1], strict=True), color=figures.MUTED, linewidth=1, zorder=1)
        figures.log_axes(axes)
        axes.yaxis.set_major_formatter(optional("matplotlib.ticker").EngFormatter("s"))
        axes.set(xlabel="multiply-adds", ylabel="CPU seconds")
        handles = [
            *(line([], [], color=colour[name], marker="o", linestyle="", label=name) for name in names),
            *(
                line([], [], color=figures.MUTED, marker=marker[K], linestyle="", label=f"K = {K}")
                for K in clusters
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def claims(rows: Sequence[FittedRow], trees: Sequence[TreeCost]) -> list[Claim]:
    """Check that the formula is an upper bound, and that seconds are proportional to its factors."""
    bound: Findings = {
        name: (
            all(tree["cost_share"] <= 1 for tree in mine),
            ", ".join(f"{percent(share)} for K = {K}" for K, share in _shares(mine).items()),
        )
        for (name,), mine in group(trees, "data").items()
    }
    statement = "Building a tree costs at most nnz(V) K iterations d multiply-adds."
    upper = Claim.from_findings(statement, bound) if bound else Claim(statement, None)
    return [upper, _proportional(rows)]


def _shares(trees: Sequence[TreeCost]) -> dict[int, float]:
    """Return the share of the formula by K; it does not depend on the iterations."""
    return {tree["clusters"]: tree["cost_share"] for tree in trees}


def _proportional(rows: Sequence[FittedRow]) -> Claim:
    """Check that the seconds grow as each factor of the formula does."""
    statement = (
        "The time of K-means is proportional to nnz(V), to K and to the iterations (tested: seconds grow as "
        f"each of them to a power between {NEAR_1[0]} and {NEAR_1[1]}, with intervals of {CONFIDENCE:.0%})."
    )
    findings: Findings = {}
    factors = {
        name: np.array([float(row[key]) for row in rows])  # type: ignore[literal-required]
        for name, key in FACTORS.items()
    }
    varied = {
        name: values
        for name, values in factors.items()
        if rows and values.max() >= LEAST_RATIO * values.min()
    }
    decided = len(rows) > len(varied) + 2 and all(row["seconds"] > 0 for row in rows)
    powers = fit_powers(list(varied.values()), [row["seconds"] for row in rows]) if decided and varied else []
    for name, power in zip(varied, powers, strict=False):
        findings[name] = power.within(*NEAR_1), f"power {power}"
    for name in factors:
        findings.setdefault(name, (None, "too few sizes to decide"))
    rates = ", ".join(
        f"{_rate(where(rows, clusters=K)):.2g} for K = {K}" for K in sorted(distinct(rows, "clusters"))
    )
    claim = Claim.from_findings(statement, {name: findings[name] for name in FACTORS})
    speed = f" Billions of multiply-adds per second: {rates}." if decided else ""
    return Claim(claim.sentence + speed, claim.holds, claim.partly)


def _rate(rows: Sequence[FittedRow]) -> float:
    """Return the billions of multiply-adds per second."""
    return sum(row["multiply_adds"] for row in rows) / sum(row["seconds"] for row in rows) / 1e9
