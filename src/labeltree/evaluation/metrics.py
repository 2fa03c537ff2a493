"""Evaluate ranked labels: P@k, R@k, RP@k, nDCG@k and propensity-scored forms, row by row and on average.

Every function takes ``truth``, the true labels: a sparse matrix or an array (instances x labels) whose
non-zeros are the labels, or a list of the label ids of each instance. ``predicted`` are the ranked labels:
a list of the label ids of each instance, best first; an integer array of them (instances x k), padded with
-1; or scores, as a floating-point array (instances x labels) or a sparse matrix. Only the stored entries of
a sparse matrix count, by decreasing score; among equal scores, the smaller label id comes first.

Results are fractions in [0, 1], averaged over the instances with true labels: no prediction for the others
can be right or wrong. A true label that the model does not know counts as a miss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from labeltree.base.limits import TOP, checked
from labeltree.data.dataset import canonical_csr
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_RANKS

_Floats = npt.NDArray[np.float64]
_Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Propensities:
    """The probability that a label is recorded where it applies, low for rare labels (Jain et al. 2016).

    Attributes
    ----------
    values : ndarray of float64, shape (labels,)
        One propensity in (0, 1] per label of the training set.
    unseen : float
        The propensity of a label without training instances, used for labels beyond `values`.
    """

    values: _Floats
    unseen: float

    def __post_init__(self) -> None:
        known = np.append(self.values, self.unseen)
        if not ((known > 0) & (known <= 1)).all():
            hint = "compute propensities with labeltree.metrics.propensities"
            raise InputError("a propensity is not in (0, 1]", hint=hint)

    def weights(self, n_labels: int) -> _Floats:
        """Return the weight of a hit, 1 / propensity, for the label ids 0 to `n_labels` - 1."""
        beyond = np.full(max(0, n_labels - len(self.values)), self.unseen)
        return np.asarray(1.0 / np.append(self.values[:n_labels], beyond), dtype=np.float64)


def propensities(train: Any, n_instances: int | None = None, a: float = 0.55, b: float = 1.5) -> Propensities:
    """Estimate the propensity of each label from its frequency in the training set.

    p = 1 / (1 + C (count + b)^-a) with C = (ln n_instances - 1) (b + 1)^a.

    Parameters
    ----------
    train : sparse matrix (instances x labels), or array of int, shape (labels,)
        The training labels, or the number of training instances of each label.
    n_instances : int, optional
        Number of training instances; required with an array of counts, and only then.
    a, b : float
        Constants of the dataset: the Extreme Classification (XMC) Repository uses 0.5 and 0.4 for Wikipedia,
        0.6 and 2.6 for Amazon, and the defaults otherwise.

    Returns
    -------
    Propensities
        With fewer than 3 instances, for which the formula is not defined, every propensity is 1.

    Examples
    --------
    >>> import numpy as np
    >>> propensities(np.array([1, 100]), n_instances=1000).values.round(3)
    array([0.145, 0.565])
    """
    if issparse(train):
        if n_instances is not None:
            raise InputError(f"n_instances is {n_instances}, expected None with a label matrix")
        labels = _ones(train, "train")
        n_instances, counts = labels.shape[0], labels.sum(axis=0)
    else:
        counts = np.asarray(train)
        if n_instances is None:
            raise InputError("label counts need n_instances", hint="pass the number of training instances")
    if counts.ndim != 1 or counts.dtype.kind not in "iuf" or (counts.size and not counts.min() >= 0):
        raise InputError(
            "expected a sparse label matrix or one count per label, at least 0, "
            f"got an array of {counts.dtype} with shape {counts.shape}"
        )
    if n_instances < 1:
        raise InputError(f"n_instances is {n_instances}, expected at least 1")
    if not (a >= 0 and b > 0):
        raise InputError(f"a is {a} and b is {b}, expected a >= 0 and b > 0")
    c = max(np.log(n_instances) - 1.0, 0.0) * (b + 1.0) ** a
    values = 1.0 / (1.0 + c * (np.append(counts, 0) + b) ** -a)
    return Propensities(values[:-1], float(values[-1]))


def hits(truth: Any, predicted: Any, k: int) -> npt.NDArray[np.bool_]:
    """Return which of the first k predictions of each instance are correct, as an array (instances x k).

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> hits(csr_array([[1, 0, 1], [0, 1, 0]]), [[2, 1], [1, -1]], k=2)
    array([[ True, False],
           [ True, False]])
    """
    return Ranking.of(truth, predicted, k).hits


def row_precision(hits: npt.NDArray[np.bool_], k: int) -> _Floats:
    """Return P@k of each instance from its hits: the only place where it is computed."""
    return np.asarray(hits[:, :k].sum(axis=1) / k, dtype=np.float64)


def paired_gain(differences: _Floats) -> tuple[Any, Any]:
    """Return the mean of paired differences over their last axis, and its standard error."""
    means, spread = differences.mean(axis=-1), differences.std(axis=-1)
    return means, spread / np.sqrt(differences.shape[-1])


def precision_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return P@k: the share of true labels among the first k predictions; a missing prediction is a miss.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> precision_at_k(csr_array([[1, 0, 1], [0, 1, 0]]), [[2, 1], [1, -1]], k=2)
    0.5
    """
    return Ranking.of(truth, predicted, k).metric(f"P@{k}").fraction


def recall_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return R@k: the share of an instance's true labels that are among the first k predictions."""
    return Ranking.of(truth, predicted, k).metric(f"R@{k}").fraction


def r_precision_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return RP@k: hits among the first k predictions, relative to min(k, number of true labels)."""
    return Ranking.of(truth, predicted, k).metric(f"RP@{k}").fraction


def ndcg_at_k(truth: Any, predicted: Any, k: int) -> float:
    """Return nDCG@k: hits discounted by 1 / log2(rank + 1), relative to the best possible ranking."""
    return Ranking.of(truth, predicted, k).metric(f"nDCG@{k}").fraction


def propensity_scored_precision_at_k(truth: Any, predicted: Any, k: int, propensities: Propensities) -> float:
    """Return PSP@k: hits weighted by 1 / propensity, relative to the best possible predictions.

    As in the XMC repository's scripts, both are summed over all instances before the division.
    """
    return Ranking.of(truth, predicted, k, propensities).metric(f"PSP@{k}").fraction


def propensity_scored_ndcg_at_k(truth: Any, predicted: Any, k: int, propensities: Propensities) -> float:
    """Return PSnDCG@k: like PSP@k, with hits discounted by 1 / log2(rank + 1).

    As in the XMC repository's script, instances are not normalized before they are summed. pyxclib first
    divides each instance by the ideal DCG for its number of true labels; its values differ slightly.
    """
    return Ranking.of(truth, predicted, k, propensities).metric(f"PSnDCG@{k}").fraction


def evaluate(
    truth: Any, predicted: Any, ks: Iterable[int] = DEFAULT_RANKS, propensities: Propensities | None = None
) -> dict[str, float]:
    """Compute all metrics at once.

    Parameters
    ----------
    truth, predicted
        True labels, and ranked labels or scores; an integer array has at least max(ks) columns.
    ks : iterable of int
        The values of k.
    propensities : Propensities, optional
        From `propensities` of the training set; adds PSP@k and PSnDCG@k.

    Returns
    -------
    dict of str to float
        ``P@k``, ``R@k``, ``RP@k``, ``nDCG@k`` for each k, and with `propensities` ``PSP@k``, ``PSnDCG@k``.
    """
    ks = tuple(ks)
    if not ks:
        raise InputError("ks is empty, expected at least one k", hint="pass for example ks=(1, 3, 5)")
    for k in ks:
        checked("k", k, TOP)
    ranking = Ranking.of(truth, predicted, max(ks), propensities)
    kinds = ("P", "R", "RP", "nDCG", *(() if propensities is None else ("PSP", "PSnDCG")))
    return {f"{kind}@{k}": ranking.metric(f"{kind}@{k}").fraction for kind in kinds for k in ks}


@dataclass(frozen=True, eq=False)
class RowMetric:
    """A metric as a ratio of two sums over rows: for P@k, of the shares of hits, and of 1."""

    gained: _Floats
    possible: _Floats

    @property
    def fraction(self) -> float:
        """The metric."""
        total = float(self.possible.sum())
        return float(self.gained.sum()) / total if total > 0 else 0.0

    @property
    def rows(self) -> _Floats:
        """What each row contributes: the mean is the metric, and the spread is its error.

        A row of a ratio of sums counts with its first-order effect on the ratio. A row without labels, which
        does not count, contributes the metric itself.
        """
        mean = float(self.possible.mean())
        if mean <= 0:
            return np.zeros(self.gained.size)
        return self.fraction + (self.gained - self.fraction * self.possible) / mean

    @property
    def error(self) -> float:
        """The standard error of the metric."""
        return float(paired_gain(self.rows)[1])


@dataclass(frozen=True, eq=False)
class Ranking:
    """The first k predictions of each instance, and which of them are correct."""

    truth: csr_array
    labels: _Labels
    hits: npt.NDArray[np.bool_]
    propensities: Propensities | None = None

    @classmethod
    def of(cls, truth: Any, predicted: Any, k: int, propensities: Propensities | None = None) -> Ranking:
        """Compare predictions with the true labels."""
        checked("k", k, TOP)
        truth = _true_labels(truth)
        labels = _check_labels(label_ids(predicted, k, truth.shape[1]), k)
        if labels.shape[0] != truth.shape[0]:
            raise InputError(f"predicted has {len(labels)} rows and truth has {truth.shape[0]}")
        if truth.shape[0] == 0:
            raise InputError("there are no instances to evaluate")
        # Number the (instance, label) pairs, so that one binary search finds all hits.
        width = truth.shape[1] + 1
        row = np.arange(truth.shape[0], dtype=np.int64) * width
        true_pairs = np.repeat(row, np.diff(truth.indptr)) + truth.indices + 1
        pairs = row[:, None] + np.where(labels < truth.shape[1], labels, -1) + 1
        hits = np.append(true_pairs, -1)[np.searchsorted(true_pairs, pairs)] == pairs
        return cls(truth, labels, hits, propensities)

    def metric(self, name: str) -> RowMetric:
        """Return a metric such as "P@1" row by row."""
        kind, _, rank = name.partition("@")
        k = int(rank)
        n_true, discounts = np.diff(self.truth.indptr), 1.0 / np.log2(np.arange(2, k + 2))
        if kind in ("PSP", "PSnDCG"):
            factors = np.ones(k) if kind == "PSP" else discounts
            achieved, ideal = self._gains
            return RowMetric(achieved[:, :k] @ factors, ideal[:, :k] @ factors)
        labeled = (n_true > 0).astype(np.float64)
        if kind == "P":
            values = row_precision(self.hits, k)
        elif kind in ("R", "RP"):
            values = self.hits[:, :k].sum(axis=1) / np.clip(n_true, 1, None if kind == "R" else k)
        else:
            values = self.hits[:, :k] @ discounts / np.cumsum(discounts)[np.clip(n_true, 1, k) - 1]
        return RowMetric(values, labeled)

    @cached_property
    def _gains(self) -> tuple[_Floats, _Floats]:
        """The weights of the hits at each rank of each instance, and those of the best ranking."""
        assert self.propensities is not None
        # An extra weight of 0 at the end, for index -1: no hit.
        weights = np.append(self.propensities.weights(self.truth.shape[1]), 0.0)
        true_weights = weights[self.truth.indices]
        weighted = csr_array((true_weights, self.truth.indices, self.truth.indptr), shape=self.truth.shape)
        best = ranked_labels(weighted, self.labels.shape[1])
        return weights[np.where(self.hits, self.labels, -1)], weights[best]


def _ones(labels: Any, name: str) -> csr_array:
    """Return a label matrix as sorted CSR of ones, without stored zeros or duplicates."""
    csr = canonical_csr(labels, name)
    return csr_array((np.ones(csr.nnz), csr.indices, csr.indptr), shape=csr.shape)


def _true_labels(truth: Any) -> csr_array:
    """Return true labels of any form as sorted CSR of ones."""
    if issparse(truth):
        return _ones(truth, "truth")
    if isinstance(truth, np.ndarray) and truth.dtype != object:
        if truth.ndim != 2 or not ((truth == 0) | (truth == 1)).all():
            what = f"truth is an array of {truth.dtype} with shape {truth.shape}, expected 0 or 1 per label"
            raise InputError(what, hint="pass a list of the label ids of each instance")
        return _ones(truth, "truth")
    ids, ends = _ragged(truth, "truth")
    if ids.min(initial=0) < 0:
        raise InputError(f"truth contains the label id {ids.min()}, expected at least 0")
    shape = (ends.size - 1, int(ids.max(initial=0)) + 1)
    return _ones(csr_array((np.ones(ids.size), ids, ends), shape=shape), "truth")


def _ragged(rows: Any, name: str) -> tuple[_Labels, _Labels]:
    """Return the label ids of all rows, and where each row starts and ends."""
    try:
        lists = [list(row) for row in rows]
    except TypeError:
        what = f"expected {name} as a matrix or a list of label ids per instance, got {type(rows).__name__}"
        raise InputError(what) from None
    ids = np.array([label for row in lists for label in row] or np.zeros(0, np.int64))
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        what = f"{name} has lists of {ids.dtype}, expected lists of label ids"
        raise InputError(what, hint="pass integers, or an array of scores")
    return ids.astype(np.int64), np.cumsum([0, *map(len, lists)])


def label_ids(predicted: Any, k: int, n_labels: int) -> npt.NDArray[Any]:
    """Return predictions of any form as an array of label ids, best first and padded with -1.

    An integer array is returned as it is, scores give k columns, and lists the longest or k.
    """
    if issparse(predicted):
        return ranked_labels(predicted, k)
    if isinstance(predicted, np.ndarray) and predicted.dtype != object:
        if predicted.dtype.kind != "f" or predicted.ndim != 2:
            return predicted
        if predicted.shape[1] < n_labels:
            what = f"predicted is an array of {predicted.dtype} with shape {predicted.shape}"
            what = f"{what}, which are scores, but there are {n_labels} labels"
            raise InputError(what, hint="pass label ids as integers")
        if np.isnan(predicted).any():
            raise InputError("a predicted score is NaN")
        return pad_labels(np.argsort(-predicted, axis=1, kind="stable")[:, :k], k)
    ids, ends = _ragged(predicted, "predicted")
    sizes = np.diff(ends)
    padded = np.full((sizes.size, max(k, sizes.max(initial=0))), -1)
    padded[np.arange(padded.shape[1]) < sizes[:, None]] = ids
    return padded


def pad_labels(labels: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
    """Fill the rows of ranked labels up to k columns with -1: there may be fewer labels than ranks."""
    return np.pad(labels, ((0, 0), (0, max(0, k - labels.shape[1]))), constant_values=-1)


def ranked_labels(scores: Any, k: int) -> _Labels:
    """Return the k best stored labels of each row of a sparse matrix of scores, padded with -1."""
    scores = csr_array(scores, dtype=np.float64)
    if not scores.has_canonical_format:
        scores = scores.copy()
        scores.sum_duplicates()
    if np.isnan(scores.data).any():
        raise InputError("a predicted score is NaN")
    sizes = np.diff(scores.indptr)
    rows = np.repeat(np.arange(scores.shape[0]), sizes)
    order = np.lexsort((scores.indices, -scores.data, rows))
    rank = np.arange(len(rows)) - np.repeat(scores.indptr[:-1], sizes)
    kept = rank < k
    best = np.full((scores.shape[0], k), -1, dtype=np.int64)
    best[rows[kept], rank[kept]] = scores.indices[order][kept]
    return best


def _check_labels(labels: npt.NDArray[Any], k: int) -> _Labels:
    """Return the first k columns of an array of label ids, after checking it."""
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise InputError(
            "expected predictions as an integer array (instances x k) or scores (instances x labels), "
            f"got an array of {labels.dtype} with shape {labels.shape}"
        )
    if labels.shape[1] < k:
        what = f"predicted has {labels.shape[1]} labels per instance, expected at least k={k}"
        raise InputError(what, hint="predict more labels, or pad the rows with -1")
    best = labels[:, :k].astype(np.int64)
    if best.size and best.min() < -1:
        raise InputError(f"predicted contains the label id {best.min()}, expected at least 0, or -1 for none")
    ordered = np.sort(best, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if repeated.any():
        row, column = np.argwhere(repeated)[0]
        raise InputError(f"predicted contains the label id {ordered[row, column]} twice in row {row}")
    return best
