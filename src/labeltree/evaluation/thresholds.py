"""Thresholds: chosen on labeled data, for all labels or for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import InputError
from labeltree.evaluation.accepted import Candidates, Decision

# The threshold of a label is chosen as if it had so many more true instances, with the scores of all labels.
PRIORS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
# With fewer rows, the choice would be random.
MIN_DECISION_ROWS = 50

_Floats = NDArray[np.float64]


def choose_threshold(
    candidates: Candidates,
    metric: str = "micro_f1",
    target: float | None = None,
    *,
    n_labels: int | None = None,
    held_out: bool = False,
) -> Decision:
    """Choose the threshold that is best on labeled data.

    Parameters
    ----------
    candidates : Candidates
    metric : {"micro_f1", "macro_f1", "row_f1", "precision", "recall"}
        The largest F1 over all pairs of row and label, on average over labels, or on average over rows. With
        a target, the largest recall with at least this precision, or the largest precision with at least
        this recall.
    target : float, optional
        The precision or recall to be reached.
    n_labels : int, optional
        The labels of the model: with "macro_f1", choose a threshold for each of them.
    held_out : bool, default False
        Recorded in the decision.

    Returns
    -------
    Decision

    Raises
    ------
    InputError
        If no threshold reaches the target.
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
