"""Compare models on the same rows: metrics row by row, and a paired bootstrap of their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.evaluation.accepted import Decision, labeled_candidates
from labeltree.evaluation.calibration import choose_threshold
from labeltree.evaluation.metrics import Propensities, Ranking, RowMetric, pad_labels

METRIC = limits.TUNING_METRIC
RANKED = 5  # labels per row; a threshold for F1 may accept more
RESAMPLES = 2000  # of the rows, for each interval and p-value


def row_metrics(
    truth: sp.csr_matrix,
    labels: NDArray[Any],
    scores: NDArray[Any],
    propensities: Propensities,
    names: tuple[str, ...] = METRIC.values,
    decision: Decision | None = None,
) -> dict[str, RowMetric]:
    """Compute metrics of the labels and scores that `Model.predict` returns, row by row.

    F1 counts the labels that a decision accepts; without one, those that reach the threshold with the largest
    F1.
    """
    ranking = Ranking.of(truth, pad_labels(labels, RANKED), RANKED, propensities)
    return {
        name: _micro_f1(truth, labels, scores, decision) if name == "F1" else ranking.metric(name)
        for name in names
    }


def _micro_f1(
    truth: sp.csr_matrix, labels: NDArray[Any], scores: NDArray[Any], decision: Decision | None
) -> RowMetric:
    """Return F1 over all labels of the rows with labels; the other rows do not count."""
    candidates = labeled_candidates(truth, labels, scores)
    if decision is None and candidates.ends.size:
        decision = choose_threshold(candidates)
    kept = np.zeros(0, np.bool_) if decision is None else candidates.accepted(decision)
    labeled = np.flatnonzero(np.diff(truth.indptr))
    rows = candidates.rows[kept]
    gained, possible = np.zeros((2, truth.shape[0]))
    gained[labeled] = 2 * np.bincount(rows, candidates.hits[kept], minlength=labeled.size)
    possible[labeled] = np.bincount(rows, minlength=labeled.size) + candidates.row_true
    return RowMetric(gained, possible)


@dataclass(frozen=True, eq=False)
class Difference:
    """By how much a model is better than the first one on the same rows, by a metric.

    Attributes
    ----------
    value : float
        The difference of two fractions.
    low, high : float
        Its 95% interval, by a paired bootstrap over rows.
    p_value : float
        The two-sided p-value of the paired bootstrap: how often its sign changes in resampled rows.
    """

    value: float
    low: float
    high: float
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at the 5% level."""
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
        spread = _ratio(gb, pb) - _ratio(ga, pa)
        gap = b.fraction - a.fraction
        low, high = np.quantile(spread, (0.025, 0.975))
        # One more of each, so that a p-value is never 0.
        tail = min(int((spread <= 0).sum()), int((spread >= 0).sum())) + 1
        differences[name] = Difference(gap, float(low), float(high), min(1.0, 2 * tail / (resamples + 1)))
    return differences


def _ratio(gained: NDArray[np.float64], possible: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(gained, possible, out=np.zeros_like(gained), where=possible > 0)
