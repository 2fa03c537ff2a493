"""Calibration: how often labels with a score are correct, and a map from scores to probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.evaluation.accepted import Candidates

N_BINS = 10
# Groups of labels that the map is fitted to: correct labels in each, and their number.
_GROUP_HITS, _MAX_GROUPS = 50, 30
# The least difference between two points.
_STEP = 1e-6


class ReliabilityBin(TypedDict):
    """Labels whose scores are in an interval."""

    low: float
    high: float
    labels: int
    mean_score: float
    observed: float


@dataclass(frozen=True)
class Calibration:
    """A map from scores to probabilities that keeps their order: linear between a few points.

    Parameters
    ----------
    scores, probabilities : sequence of float
        The points, both increasing; the scores go from 0 to 1.
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        limits.check_fields(self, limits.CALIBRATION)
        limits.check_calibration(self.scores, self.probabilities)

    @classmethod
    def stored(cls, entry: Mapping[str, Any]) -> Calibration:
        """Return what an entry of a manifest describes."""
        return cls(tuple(entry["scores"]), tuple(entry["probabilities"]))

    def entry(self) -> dict[str, list[float]]:
        """Return what a manifest records."""
        return {"scores": list(self.scores), "probabilities": list(self.probabilities)}

    def apply(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probability for each score; 0, the score of no label, stays 0."""
        probability = np.interp(scores, self.scores, self.probabilities)
        smallest = np.finfo(np.float32).tiny
        return np.where(scores > 0, np.maximum(probability, smallest), 0.0).astype(np.float32)


def fit_calibration(candidates: Candidates) -> Calibration:
    """Fit the map to labeled data: isotonic regression of groups with equal numbers of correct labels.

    A group has at least 50 correct labels, if there are as many, and there are at most 30 groups.
    """
    from scipy.optimize import isotonic_regression

    n_hits = int(candidates.hits.sum())
    n_groups = min(max(n_hits // _GROUP_HITS, 1), _MAX_GROUPS)
    # Scores in decreasing order, so that groups are, too.
    group = np.minimum(candidates.correct[:-1] * n_groups // max(n_hits, 1), n_groups - 1)
    counts = np.bincount(group, minlength=n_groups).astype(np.float64)[::-1]
    means, observed = (
        np.bincount(group, values, minlength=n_groups)[::-1] / np.maximum(counts, 1)
        for values in (candidates.scores.astype(np.float64), candidates.hits)
    )
    known = np.append(True, np.diff(means) > _STEP) & (means > _STEP) & (means < 1 - _STEP) & (counts > 0)
    means, observed, counts = means[known], observed[known], counts[known]
    fitted = isotonic_regression(observed, weights=counts).x if means.size else observed
    points = np.concatenate([[0.0], means, [1.0]])
    last = fitted[-1] if fitted.size else n_hits / max(1, candidates.hits.size)
    values = np.concatenate([[0.0], fitted, [last]])
    # Not constant anywhere, so that different scores stay different.
    values = (values + _STEP * np.arange(values.size)) / (1 + _STEP * values.size)
    return Calibration(tuple(points.tolist()), tuple(values.tolist()))


def calibration_gain(candidates: Candidates) -> float:
    """Return by how much calibration lowers the mean log loss of the other half of the rows, on average.

    Not above 0: the scores are as good as they are.
    """
    parts = candidates.halves()
    if not all(part.hits.any() and not part.hits.all() for part in parts):
        return 0.0
    gain = 0.0
    for one, other in (parts, parts[::-1]):
        calibrated = fit_calibration(one).apply(other.scores)
        gain += (_log_loss(other.scores, other.hits) - _log_loss(calibrated, other.hits)) / 2
    return gain


def _log_loss(scores: NDArray[np.float32], hits: NDArray[np.bool_]) -> float:
    likely = np.where(hits, scores, 1 - scores.astype(np.float64))
    return float(-np.log(np.maximum(likely, 1e-7)).mean())


def reliability(candidates: Candidates, n_bins: int = N_BINS) -> tuple[list[ReliabilityBin], float]:
    """Compare scores with how often they are correct.

    Parameters
    ----------
    candidates : Candidates
    n_bins : int, default 10
        Number of intervals of equal width.

    Returns
    -------
    bins : list of ReliabilityBin
        Those that contain scores.
    error : float
        The expected calibration error (ECE): the mean over all ranked labels of the difference between mean
        score and observed frequency of their interval.
    """
    bins = np.minimum((candidates.scores.astype(np.float64) * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    means, observed = (
        np.bincount(bins, values, minlength=n_bins) / np.maximum(counts, 1)
        for values in (candidates.scores.astype(np.float64), candidates.hits)
    )
    error = float(np.abs(means - observed) @ counts / max(1, counts.sum()))
    rows: list[ReliabilityBin] = [
        {
            "low": number / n_bins,
            "high": (number + 1) / n_bins,
            "labels": int(counts[number]),
            "mean_score": float(means[number]),
            "observed": float(observed[number]),
        }
        for number in np.flatnonzero(counts).tolist()
    ]
    return rows, error
