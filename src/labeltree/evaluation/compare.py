"""Differences of metrics on the same rows: a paired bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.evaluation.row_metrics import RowMetric

# Resamples of the rows for each interval and p-value.
RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Difference:
    """By how much a model is better than the first one on the same rows, by a metric.

    Attributes
    ----------
    points : float
        The difference in percentage points.
    low, high : float
        Its 95% interval, by a paired bootstrap over rows.
    p_value : float
        The two-sided p-value of the paired bootstrap: how often resampled rows turn the difference around.
    """

    points: float
    low: float
    high: float
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the difference is larger than chance explains, at the 5% level."""
        return self.p_value < 0.05


def paired_differences(
    first: dict[str, RowMetric], other: dict[str, RowMetric], seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Difference]:
    """Return the differences of metrics on the same rows, with a paired bootstrap.

    Every resample draws as many rows as there are, with replacement, the same for both models and all
    metrics.
    """
    limits.checked("seed", seed, limits.SEED)
    pairs = {name: (first[name], other[name]) for name in first}
    n_rows = next(iter(first.values())).gained.size
    sums = np.stack(
        [part for a, b in pairs.values() for part in (a.gained, a.possible, b.gained, b.possible)]
    )
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, sums.shape[0]))
    for number in range(resamples):
        # How often each row is drawn: only the counts matter.
        counts = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows)
        drawn[number] = sums @ counts
    differences = {}
    for number, (name, (a, b)) in enumerate(pairs.items()):
        ga, pa, gb, pb = drawn[:, 4 * number : 4 * number + 4].T
        spread = 100 * (_ratio(gb, pb) - _ratio(ga, pa))
        points = b.value - a.value
        low, high = np.quantile(spread, (0.025, 0.975))
        # One more of each, so that a p-value is never 0.
        tail = min(int((spread <= 0).sum()), int((spread >= 0).sum())) + 1
        differences[name] = Difference(points, float(low), float(high), min(1.0, 2 * tail / (resamples + 1)))
    return differences


def _ratio(gained: NDArray[np.float64], possible: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(gained, possible, out=np.zeros_like(gained), where=possible > 0)
