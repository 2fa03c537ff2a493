"""Calibration: thresholds and a map from scores to probabilities, both fitted to labeled data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.table import Table
from labeltree.errors import InputError
from labeltree.evaluation.accepted import Candidates, Decision

CALIBRATION_LIMITS: dict[str, limits.Limit] = {"scores": limits.POINTS, "probabilities": limits.POINTS}

N_BINS = 10
# Groups of labels that the map is fitted to: correct labels in each, and their number.
_GROUP_HITS, _MAX_GROUPS = 50, 30
_STEP = 1e-6  # the least difference between two points
# The threshold of a label is chosen as if it had so many more true instances, with the scores of all labels.
PRIORS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
MIN_DECISION_ROWS = 50  # with fewer, the choice would be random

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """A map from scores to probabilities that keeps their order: linear between a few points.

    Both coordinates of the points increase; the scores go from 0 to 1.
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        limits.check_fields(self, CALIBRATION_LIMITS)
        if len(self.scores) != len(self.probabilities) or (self.scores[0], self.scores[-1]) != (0, 1):
            what = "the points of the calibration do not go from 0 to 1, one probability per score"
            raise InputError(what)

    @classmethod
    def stored(cls, entry: Mapping[str, Any] | None) -> Calibration | None:
        """Return what an entry of a manifest describes."""
        return None if entry is None else cls(tuple(entry["scores"]), tuple(entry["probabilities"]))

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
    counts, means, observed = (values[::-1] for values in _grouped(candidates, group, n_groups))
    known = np.append(True, np.diff(means) > _STEP) & (means > _STEP) & (means < 1 - _STEP) & (counts > 0)
    means, observed, counts = means[known], observed[known], counts[known]
    fitted = isotonic_regression(observed, weights=counts).x if means.size else observed
    points = np.concatenate([[0.0], means, [1.0]])
    last = fitted[-1] if fitted.size else n_hits / max(1, candidates.hits.size)
    values = np.concatenate([[0.0], fitted, [last]])
    # Not constant anywhere, so that different scores stay different.
    values = (values + _STEP * np.arange(values.size)) / (1 + _STEP * values.size)
    return Calibration(tuple(points.tolist()), tuple(values.tolist()))


def _grouped(
    candidates: Candidates, group: NDArray[np.int64], n_groups: int
) -> tuple[_Floats, _Floats, _Floats]:
    """Return the number of candidates of each group, their mean score, and the share that is correct."""
    counts = np.bincount(group, minlength=n_groups).astype(np.float64)
    sums = (np.bincount(group, values, n_groups) for values in (candidates.scores, candidates.hits))
    means, observed = (summed / np.maximum(counts, 1) for summed in sums)
    return counts, means, observed


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


def reliability(candidates: Candidates) -> tuple[list[dict[str, Any]], float]:
    """Compare scores with how often they are correct: a row per interval, and the error over all labels.

    The expected calibration error (ECE) is the mean over all ranked labels of the difference between mean
    score and observed frequency of their interval.
    """
    bins = np.minimum((candidates.scores.astype(np.float64) * N_BINS).astype(np.int64), N_BINS - 1)
    counts, means, observed = _grouped(candidates, bins, N_BINS)
    error = float(np.abs(means - observed) @ counts / max(1, counts.sum()))
    used = np.flatnonzero(counts)
    columns = {
        "low": used / N_BINS,
        "high": (used + 1) / N_BINS,
        "labels": counts[used].astype(np.int64),
        "mean_score": means[used],
        "observed": observed[used],
    }
    return list(Table(columns)), error


def choose_threshold(
    candidates: Candidates,
    metric: str = "micro_f1",
    target: float | None = None,
    *,
    n_labels: int | None = None,
    held_out: bool = False,
) -> Decision:
    """Choose the threshold with the largest F1 on labeled data, or with at least a precision or a recall.

    With "macro_f1" and the labels of the model, choose a threshold for each of them.
    """
    ends = candidates.ends
    if ends.size == 0 or candidates.n_true == 0:
        raise InputError("no label was predicted for any row with labels", hint="use other validation data")
    figures = candidates.figures(ends)
    if target is None:
        best = int(np.argmax(figures[metric]))
    else:
        reached = np.flatnonzero(figures[metric] >= target)
        if reached.size == 0:
            most = float(figures[metric].max())
            what = f"no threshold reaches a {metric} of {target:g} on the validation data: at most {most:.4g}"
            raise InputError(what, hint="choose a lower target")
        other = "recall" if metric == "precision" else "precision"
        best = int(reached[np.argmax(figures[other][reached])])
    threshold = candidates.below(int(ends[best]))
    own = None
    if metric == "macro_f1" and n_labels is not None:
        prior = _choose_prior(candidates, n_labels)
        own = None if prior is None else _label_thresholds(candidates, threshold, n_labels, prior)
    return Decision(threshold, metric, target, candidates.row_true.size, held_out, own)


def cross_validate(candidates: Candidates, n_labels: int) -> dict[str, float]:
    """Return every figure if each half of the rows has the thresholds chosen on the other, per label."""
    half = candidates.random_half
    one, other = (
        choose_threshold(candidates.of_rows(rows), "macro_f1", n_labels=n_labels) for rows in (half, ~half)
    )
    kept = np.where(half[candidates.rows], candidates.accepted(other), candidates.accepted(one))
    return candidates.measure_accepted(kept)


def _choose_prior(candidates: Candidates, n_labels: int) -> float | None:
    """Return the prior with the best macro F1 if half of the rows choose for the others; None for none."""
    parts = candidates.halves()
    if not all(part.n_true and part.scores.size for part in parts):
        return None
    totals = np.zeros(len(PRIORS) + 1)
    for one, other in (parts, parts[::-1]):
        common = choose_threshold(one, "macro_f1").threshold
        totals[0] += other.at(common)["macro_f1"][0]
        for number, prior in enumerate(PRIORS, 1):
            chosen = _label_thresholds(one, common, n_labels, prior)
            totals[number] += other.measure(Decision(common, thresholds=chosen))["macro_f1"]
    best = int(np.argmax(totals))
    return PRIORS[best - 1] if best else None


def _label_thresholds(
    candidates: Candidates, threshold: float, n_labels: int, prior: float
) -> NDArray[np.float32]:
    """Choose a threshold for each label by its F1.

    Few true instances do not determine a threshold. So the candidates of all labels, scaled down to `prior`
    true instances, are added to those of each label: the fewer it has, the closer its threshold stays to the
    common one. A label without true instances has the common threshold.
    """
    groups, labels, n_true = candidates.by_label, candidates.labels, candidates.label_true
    n_common = candidates.count(threshold)
    share = prior / candidates.n_true
    position = np.arange(1, labels.size + 1)

    def smoothed(rank: Any, found: Any, total: Any, position: Any) -> _Floats:
        correct = found + share * candidates.correct[position]
        values: _Floats = 2 * correct / (rank + share * position + total + prior)
        return values

    values = smoothed(groups.rank, groups.found, n_true[labels], position)
    # The same at the common threshold.
    rank = np.bincount(labels[:n_common], minlength=n_true.size)
    found = np.bincount(labels[:n_common], candidates.hits[:n_common], minlength=n_true.size)
    common = smoothed(rank, found, n_true, n_common)
    better = (values > common[labels] + 1e-12) & (n_true[labels] > 0) & (labels < n_labels)
    chosen = np.full(n_labels, threshold, np.float32)
    # Sorted so that the best candidate of a label comes first; of equal ones, the one with the larger score.
    at = np.flatnonzero(better)
    at = at[np.lexsort((at, -values[at], labels[at]))]
    at = at[np.append(True, labels[at][1:] != labels[at][:-1])[: at.size]]
    # Any threshold down to the next score of the label accepts the same: the common one if possible.
    following = np.zeros(labels.size, np.float32)
    order = np.argsort(labels, kind="stable")
    same = labels[order][1:] == labels[order][:-1]
    following[order[:-1][same]] = candidates.scores[order[1:][same]]
    last, rest = candidates.scores[at], following[at]
    middle = np.maximum((last + rest) / 2, np.nextafter(rest, np.float32(1)))
    is_between = (rest < threshold) & (threshold <= last)
    chosen[labels[at]] = np.where(is_between, np.float32(threshold), middle)
    return chosen
