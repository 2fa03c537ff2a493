"""Judge ranked labels against the true ones: P@k, R@k, nDCG@k and their propensity-scored forms.

Every function takes ``truth``, a sparse matrix (instances x labels) whose non-zeros are the true labels, and
``predicted``, either an integer array (instances x k) of label ids, best first, padded with -1, or a sparse
matrix of scores, of which only the stored entries count, ranked by falling score, ties by rising label id.
Results are fractions in [0, 1], averaged over all instances; one without a true label counts 0, and a true
label that the model does not know is a miss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from labeltree.errors import InputError

_Floats = npt.NDArray[np.float64]
_Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Propensities:
    """How likely each label is to be noted where it applies (Jain et al. 2016); rare labels are often missed.

    Attributes
    ----------
    values : ndarray of float64, shape (labels,)
        One propensity in (0, 1] for each label of the training set.
    unseen : float
        The propensity of a label without training instances, used for labels beyond `values`.
    """

    values: _Floats
    unseen: float

    def __post_init__(self) -> None:
        known = np.append(self.values, self.unseen)
        if not ((known > 0) & (known <= 1)).all():
            raise InputError(
                "propensities must lie in (0, 1]; compute them with labeltree.metrics.propensities"
            )

    def weights(self, labels: int) -> _Floats:
        """Return what a hit is worth, 1 / propensity, for the label ids 0 to `labels` - 1."""
        beyond = np.full(max(0, labels - len(self.values)), self.unseen)
        return np.asarray(1.0 / np.append(self.values[:labels], beyond), dtype=np.float64)


def propensities(train: Any, instances: int | None = None, a: float = 0.55, b: float = 1.5) -> Propensities:
    """Estimate the propensity of each label from how often it occurs in the training set.

    p = 1 / (1 + C (count + b)^-a) with C = (ln instances - 1) (b + 1)^a.

    Parameters
    ----------
    train : sparse matrix (instances x labels), or array of int, shape (labels,)
        The training labels, or how many training instances each label has.
    instances : int, optional
        Number of training instances; needed with, and only with, an array of counts.
    a, b : float
        The data set's constants: the XMC repository uses 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon,
        and the defaults for the rest.

    Returns
    -------
    Propensities
        With fewer than 3 instances the formula has no meaning, and every propensity is 1.

    Examples
    --------
    >>> import numpy as np
    >>> propensities(np.array([1, 100]), instances=1000).values.round(3)
    array([0.145, 0.565])
    """
    if issparse(train):
        if instances is not None:
            raise InputError(
                f"got instances={instances} beside a label matrix; give it only with label counts"
            )
        labels = _canonical(train)
        instances, counts = labels.shape[0], labels.sum(axis=0)
    else:
        counts = np.asarray(train)
        if instances is None:
            raise InputError("label counts need the number of training instances; give instances=...")
    if counts.ndim != 1 or counts.dtype.kind not in "iuf" or (counts.size and not counts.min() >= 0):
        raise InputError(
            f"got an array of {counts.dtype} with shape {counts.shape}, expected a sparse label matrix or "
            "one count of at least 0 for each label"
        )
    if instances < 1 or a < 0 or b <= 0:
        raise InputError(
            f"got instances={instances}, a={a}, b={b}, expected instances >= 1, a >= 0 and b > 0"
        )
    c = max(np.log(instances) - 1.0, 0.0) * (b + 1.0) ** a
    values = 1.0 / (1.0 + c * (np.append(counts, 0) + b) ** -a)
    return Propensities(values[:-1], float(values[-1]))


def precision_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return P@k: the share of true labels among the first k predicted; a missing prediction is a miss.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> precision_at_k(csr_array([[1, 0, 1], [0, 1, 0]]), [[2, 1], [1, -1]], k=2)
    0.5
    """
    return _Judged.of(truth, predicted, k).precision(k)


def recall_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return R@k: the share of an instance's true labels that are among the first k predicted."""
    return _Judged.of(truth, predicted, k).recall(k)


def ndcg_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return nDCG@k: hits discounted by 1 / log2(rank + 1), over the most that the true labels can give."""
    return _Judged.of(truth, predicted, k).ndcg(k)


def propensity_scored_precision_at_k(truth: Any, predicted: Any, k: int, propensities: Propensities) -> float:
    """Return PSP@k: hits weighted by 1 / propensity, over the most that any prediction could reach.

    As in the XMC repository's scripts, both are summed over all instances before they are divided.
    """
    return _Judged.of(truth, predicted, k).gains(propensities).share(np.ones(k))


def propensity_scored_ndcg_at_k(truth: Any, predicted: Any, k: int, propensities: Propensities) -> float:
    """Return PSnDCG@k: as PSP@k, with hits discounted by 1 / log2(rank + 1).

    This is the XMC repository's script, which does not normalise each instance before summing; pyxclib first
    divides each instance by the ideal DCG of its number of true labels, and so reports slightly other values.
    """
    return _Judged.of(truth, predicted, k).gains(propensities).share(_discounts(k))


def evaluate(
    truth: Any, predicted: Any, ks: Iterable[int] = (1, 3, 5), propensities: Propensities | None = None
) -> dict[str, float]:
    """Compute all metrics at once.

    Parameters
    ----------
    truth : sparse matrix (instances x labels)
        The true labels.
    predicted : array of int (instances x k) or sparse matrix of scores
        The ranked labels, at least max(ks) columns of them if an array.
    ks : iterable of int
        The ranks at which to cut.
    propensities : Propensities, optional
        From `propensities`, on the training set; adds PSP@k and PSnDCG@k.

    Returns
    -------
    dict of str to float
        ``P@k``, ``R@k``, ``nDCG@k`` for each k, and with `propensities` ``PSP@k``, ``PSnDCG@k``.
    """
    ks = tuple(ks)
    if not ks:
        raise InputError("got no k to evaluate at, expected at least one, such as ks=(1, 3, 5)")
    for k in ks:
        _check_k(k)
    judged = _Judged.of(truth, predicted, max(ks))
    results = {f"P@{k}": judged.precision(k) for k in ks}
    results |= {f"R@{k}": judged.recall(k) for k in ks}
    results |= {f"nDCG@{k}": judged.ndcg(k) for k in ks}
    if propensities is not None:
        gains = judged.gains(propensities)
        results |= {f"PSP@{k}": gains.share(np.ones(k)) for k in ks}
        results |= {f"PSnDCG@{k}": gains.share(_discounts(k)) for k in ks}
    return results


@dataclass(frozen=True)
class _Judged:
    """The first k predictions of each instance, and which of them are true."""

    truth: csr_array
    labels: _Labels
    hits: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, truth: Any, predicted: Any, k: int) -> _Judged:
        _check_k(k)
        if not issparse(truth):
            raise InputError(f"got truth of type {type(truth).__name__}, expected a sparse matrix of labels")
        truth = _canonical(truth)
        labels = _ranked(predicted, k) if issparse(predicted) else _checked(predicted, k)
        if labels.shape[0] != truth.shape[0]:
            raise InputError(
                f"got predictions for {len(labels)} instances, but the truth has {truth.shape[0]}"
            )
        if truth.shape[0] == 0:
            raise InputError("got no instances to evaluate, expected at least one")
        # Number each (instance, label) pair, so that one sorted search finds all hits.
        width = truth.shape[1] + 1
        row = np.arange(truth.shape[0], dtype=np.int64) * width
        true_pairs = np.repeat(row, np.diff(truth.indptr)) + truth.indices + 1
        pairs = row[:, None] + np.where(labels < truth.shape[1], labels, -1) + 1
        return cls(truth, labels, np.append(true_pairs, -1)[np.searchsorted(true_pairs, pairs)] == pairs)

    def precision(self, k: int) -> float:
        return float(self.hits[:, :k].sum(axis=1).mean() / k)

    def recall(self, k: int) -> float:
        return float((self.hits[:, :k].sum(axis=1) / np.maximum(np.diff(self.truth.indptr), 1)).mean())

    def ndcg(self, k: int) -> float:
        ideal = np.cumsum(_discounts(k))[np.clip(np.diff(self.truth.indptr), 1, k) - 1]
        return float((self.hits[:, :k] @ _discounts(k) / ideal).mean())

    def gains(self, propensities: Propensities) -> _Gains:
        # One weight more than there are labels: index -1, no hit, is worth nothing.
        weights = np.append(propensities.weights(self.truth.shape[1]), 0.0)
        true_weights = weights[self.truth.indices]
        weighted = csr_array((true_weights, self.truth.indices, self.truth.indptr), shape=self.truth.shape)
        return _Gains(
            achieved=weights[np.where(self.hits, self.labels, -1)].sum(axis=0),
            ideal=weights[_ranked(weighted, self.labels.shape[1])].sum(axis=0),
        )


@dataclass(frozen=True)
class _Gains:
    """What the hits at each rank are worth in sum over all instances, and the most they could be."""

    achieved: _Floats
    ideal: _Floats

    def share(self, discounts: _Floats) -> float:
        ideal = float(self.ideal[: len(discounts)] @ discounts)
        return float(self.achieved[: len(discounts)] @ discounts) / ideal if ideal > 0 else 0.0


def _discounts(k: int) -> _Floats:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)), dtype=np.float64)


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"got k={k!r}, expected an integer of at least 1")


def _canonical(labels: Any) -> csr_array:
    """Copy a label matrix as csr of ones, without stored zeros and duplicates, sorted."""
    ones = csr_array(labels, dtype=np.float64, copy=True)
    ones.sum_duplicates()
    ones.eliminate_zeros()
    ones.data[:] = 1.0
    return ones


def _ranked(scores: Any, k: int) -> _Labels:
    """Return the k best stored labels of each row of a sparse matrix, padded with -1."""
    scores = csr_array(scores, dtype=np.float64)
    if not scores.has_canonical_format:
        scores = scores.copy()
        scores.sum_duplicates()
    if np.isnan(scores.data).any():
        raise InputError("got a score that is not a number (NaN), expected finite scores")
    sizes = np.diff(scores.indptr)
    rows = np.repeat(np.arange(scores.shape[0]), sizes)
    order = np.lexsort((scores.indices, -scores.data, rows))
    rank = np.arange(len(rows)) - np.repeat(scores.indptr[:-1], sizes)
    kept = rank < k
    best = np.full((scores.shape[0], k), -1, dtype=np.int64)
    best[rows[kept], rank[kept]] = scores.indices[order][kept]
    return best


def _checked(predicted: Any, k: int) -> _Labels:
    """Return the first k columns of an array of label ids, if it is one."""
    labels = np.asarray(predicted)
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise InputError(
            f"got predictions of {labels.dtype} with shape {labels.shape}, expected an integer array "
            "(instances x k) of label ids or a sparse matrix of scores"
        )
    if labels.shape[1] < k:
        raise InputError(
            f"got {labels.shape[1]} predictions for each instance, expected at least k={k}; "
            "predict more, or pad the rows with -1"
        )
    best = labels[:, :k].astype(np.int64)
    if best.size and best.min() < -1:
        raise InputError(f"got label id {best.min()}, expected ids from 0, or -1 for no prediction")
    ordered = np.sort(best, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise InputError(f"got label id {ordered[row, column]} twice among the predictions of instance {row}")
    return best
