"""Metrics row by row, so that two models can be compared on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.evaluation import metrics
from labeltree.evaluation.accepted import Decision, labeled_candidates
from labeltree.evaluation.thresholds import choose_threshold
from labeltree.settings import MAX_ACCEPTED

_Floats = NDArray[np.float64]

METRIC = limits.TUNING_METRIC
# Labels per row that are ranked; a threshold for F1 may accept more.
RANKED = 5


@dataclass(frozen=True, eq=False)
class RowMetric:
    """A metric as a ratio of two sums over rows.

    Attributes
    ----------
    gained, possible : ndarray of float64, shape (rows,)
        The metric is the sum of one divided by the sum of the other: for P@k, the share of hits and 1.
    """

    gained: _Floats
    possible: _Floats

    @property
    def value(self) -> float:
        """The metric in percent."""
        total = float(self.possible.sum())
        return 100 * float(self.gained.sum()) / total if total > 0 else 0.0

    @property
    def rows(self) -> _Floats:
        """What each row contributes, in percent: the mean is the metric, and the spread is its error.

        A row of a ratio of sums counts with its first-order effect on the ratio.
        """
        mean = float(self.possible.mean())
        if mean <= 0:
            return np.zeros(self.gained.size)
        return self.value + (100 * self.gained - self.value * self.possible) / mean

    @property
    def error(self) -> float:
        """The standard error of the metric, in percentage points."""
        return standard_error(self.rows)


def standard_error(values: _Floats) -> float:
    """Return the standard error of a mean."""
    return float(metrics.paired_gain(values)[1])


def labels_needed(metric: str) -> int:
    """Return how many labels per row a metric looks at."""
    return MAX_ACCEPTED if metric == "F1" else RANKED


def row_metrics(
    truth: sp.csr_matrix,
    labels: NDArray[Any],
    scores: NDArray[Any],
    propensities: metrics.Propensities,
    names: tuple[str, ...] = METRIC.values,
    decision: Decision | None = None,
) -> dict[str, RowMetric]:
    """Compute metrics row by row.

    Parameters
    ----------
    truth : csr_matrix, rows x labels
        The true labels, as the model numbers them.
    labels, scores : ndarray, rows x top
        What `Model.predict` returns.
    propensities : Propensities
        Of the training labels, for PSP@k.
    names : tuple of str
        Which metrics to compute.
    decision : Decision, optional
        The labels that F1 counts as accepted. Default: from the one threshold of scores on that makes F1
        largest.

    Returns
    -------
    dict of str to RowMetric
    """
    width = max(labels.shape[1], RANKED)
    ranked = metrics.pad_labels(labels, width)
    hits = metrics.hits(truth, ranked, width)
    counts = np.diff(truth.indptr).astype(np.float64)
    ones = np.ones(truth.shape[0])
    found = {}
    for name in names:
        kind, _, rank = name.partition("@")
        k = int(rank or 0)
        if kind == "P":
            found[name] = RowMetric(metrics.row_precision(hits, k) / k, ones)
        elif kind == "nDCG":
            discounts = 1.0 / np.log2(np.arange(2, k + 2))
            ideal = np.cumsum(discounts)[np.clip(counts.astype(np.int64), 1, k) - 1]
            found[name] = RowMetric(hits[:, :k] @ discounts / ideal, ones)
        elif kind == "PSP":
            found[name] = _propensity_scored(truth, ranked[:, :k], hits[:, :k], propensities)
        else:
            found[name] = _micro_f1(truth, labels, scores, decision)
    return found


def _propensity_scored(
    truth: sp.csr_matrix, ranked: NDArray[Any], hits: NDArray[np.bool_], propensities: metrics.Propensities
) -> RowMetric:
    weights = np.append(propensities.weights(truth.shape[1]), 0.0)
    gained = np.where(hits, weights[np.where(hits, ranked, -1)], 0.0).sum(axis=1)
    # The largest weights of each row come first.
    sizes = np.diff(truth.indptr)
    row = np.repeat(np.arange(truth.shape[0]), sizes)
    values = weights[truth.indices]
    order = np.lexsort((-values, row))
    rank = np.arange(values.size) - np.repeat(truth.indptr[:-1], sizes)
    best = np.where(rank < ranked.shape[1], values[order], 0.0)
    return RowMetric(gained, np.bincount(row, best, minlength=truth.shape[0]).astype(np.float64))


def _micro_f1(
    truth: sp.csr_matrix, labels: NDArray[Any], scores: NDArray[Any], decision: Decision | None
) -> RowMetric:
    """Return F1 over all labels of the rows with labels; the other rows do not count."""
    candidates, _ = labeled_candidates(truth, labels, scores)
    if decision is None and candidates.ends.size:
        decision = choose_threshold(candidates)
    kept = np.zeros(0, np.bool_) if decision is None else candidates.accepted(decision)
    labeled = np.flatnonzero(np.diff(truth.indptr))
    rows = candidates.rows[kept]
    gained, possible = np.zeros((2, truth.shape[0]))
    gained[labeled] = 2 * np.bincount(rows, candidates.hits[kept], minlength=labeled.size)
    possible[labeled] = np.bincount(rows, minlength=labeled.size) + candidates.row_true
    return RowMetric(gained, possible)
