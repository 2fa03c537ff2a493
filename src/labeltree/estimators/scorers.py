"""Ranking metrics for scikit-learn's ``scoring=``: P@k, R@k, nDCG@k and their propensity-scored forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.base.limits import TOP, checked
from labeltree.estimators.inputs import read_target
from labeltree.evaluation import metrics
from labeltree.evaluation.metrics import Propensities


@dataclass(frozen=True)
class RankingScorer:
    """A scorer that evaluates the first k labels of each row; created by the functions of this module.

    It accepts any classifier. For a ``LabelTreeClassifier``, alone or at the end of a ``Pipeline``, it uses
    ``predict_top``; for other classifiers, ``decision_function`` or ``predict_proba``.

    Parameters
    ----------
    metric : callable
        One of :mod:`labeltree.metrics`.
    k : int
    propensities : Propensities, optional
        Required by the propensity-scored metrics.
    """

    metric: Callable[..., float]
    k: int
    propensities: Propensities | None = None

    def __post_init__(self) -> None:
        checked("k", self.k, TOP)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Evaluate a fitted estimator.

        Parameters
        ----------
        estimator : classifier
            It must be fitted.
        X : anything the estimator accepts
        y : indicator matrix, or the class of each row
            The true labels.

        Returns
        -------
        float
            A fraction in [0, 1]; larger is better.
        """
        target = read_target(y, estimator.classes_)
        extra = () if self.propensities is None else (self.propensities,)
        return self.metric(target.Y, _rank_labels(estimator, X, self.k), self.k, *extra)


def precision_at(k: int) -> RankingScorer:
    """Return a scorer for P@k.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeltree import LabelTreeClassifier
    >>> search = GridSearchCV(LabelTreeClassifier(), {"cost": [0.5, 1, 2]}, scoring=precision_at(5))
    """
    return RankingScorer(metrics.precision_at_k, k)


def recall_at(k: int) -> RankingScorer:
    """Return a scorer for R@k."""
    return RankingScorer(metrics.recall_at_k, k)


def ndcg_at(k: int) -> RankingScorer:
    """Return a scorer for nDCG@k."""
    return RankingScorer(metrics.ndcg_at_k, k)


def propensity_scored_precision_at(k: int, propensities: Propensities) -> RankingScorer:
    """Return a scorer for PSP@k, with propensities from ``labeltree.metrics.propensities(Y)``."""
    return RankingScorer(metrics.propensity_scored_precision_at_k, k, propensities)


def propensity_scored_ndcg_at(k: int, propensities: Propensities) -> RankingScorer:
    """Return a scorer for PSnDCG@k, with propensities from ``labeltree.metrics.propensities(Y)``."""
    return RankingScorer(metrics.propensity_scored_ndcg_at_k, k, propensities)


def _rank_labels(estimator: Any, X: Any, k: int) -> Any:
    """Return the first k labels of each row, or a sparse matrix of scores, for the metrics."""
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline) and hasattr(estimator[-1], "predict_top"):
        return _rank_labels(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X, k)
    if hasattr(estimator, "predict_top"):
        return metrics.pad_labels(estimator.predict_top(X, k)[0], k)
    score = getattr(estimator, "decision_function", None) or estimator.predict_proba
    scores = score(X)
    if sparse.issparse(scores):
        return scores
    if scores.ndim == 1:  # with two classes, the score of the second
        scores = np.stack([-scores, scores], axis=1)
    return metrics.pad_labels(np.argsort(-scores, axis=1, kind="stable")[:, :k], k)
