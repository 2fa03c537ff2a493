"""Ranking metrics for scikit-learn's ``scoring=``: P@k, R@k, nDCG@k and their propensity-scored forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import metrics
from labeltree.estimators.targets import read_target
from labeltree.metrics import Propensities


@dataclass(frozen=True)
class RankingScorer:
    """A scorer that judges the first k labels of each row; made by the functions of this module.

    It takes any classifier: a ``LabelTreeClassifier``, alone or at the end of a ``Pipeline``, is asked for
    its k best labels only, others for their ``decision_function`` or ``predict_proba``.

    Parameters
    ----------
    metric : callable
        One of :mod:`labeltree.metrics`.
    k : int
        The rank at which to cut.
    propensities : Propensities, optional
        What the metric needs, if it is propensity-scored.
    """

    metric: Callable[..., float]
    k: int
    propensities: Propensities | None = None

    def __post_init__(self) -> None:
        metrics._check_k(self.k)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Judge a fitted estimator.

        Parameters
        ----------
        estimator : classifier
            A fitted one.
        X : anything that it takes
        y : indicator matrix, or the class of each row
            The true labels.

        Returns
        -------
        float
            A fraction; larger is better.
        """
        target = read_target(y, estimator.classes_)
        more = () if self.propensities is None else (self.propensities,)
        return self.metric(target.Y, _ranking(estimator, X, self.k), self.k, *more)


def precision_at(k: int) -> RankingScorer:
    """Make a scorer of P@k.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeltree import LabelTreeClassifier
    >>> search = GridSearchCV(LabelTreeClassifier(), {"cost": [0.5, 1, 2]}, scoring=precision_at(5))
    """
    return RankingScorer(metrics.precision_at_k, k)


def recall_at(k: int) -> RankingScorer:
    """Make a scorer of R@k."""
    return RankingScorer(metrics.recall_at_k, k)


def ndcg_at(k: int) -> RankingScorer:
    """Make a scorer of nDCG@k."""
    return RankingScorer(metrics.ndcg_at_k, k)


def propensity_scored_precision_at(k: int, propensities: Propensities) -> RankingScorer:
    """Make a scorer of PSP@k, with the propensities of ``labeltree.metrics.propensities(Y)``."""
    return RankingScorer(metrics.propensity_scored_precision_at_k, k, propensities)


def propensity_scored_ndcg_at(k: int, propensities: Propensities) -> RankingScorer:
    """Make a scorer of PSnDCG@k, with the propensities of ``labeltree.metrics.propensities(Y)``."""
    return RankingScorer(metrics.propensity_scored_ndcg_at_k, k, propensities)


def _ranking(estimator: Any, X: Any, k: int) -> Any:
    """The first k labels of each row, or a sparse matrix of scores, as the metrics take them."""
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline) and hasattr(estimator[-1], "predict_top"):
        return _ranking(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X, k)
    if hasattr(estimator, "predict_top"):
        return _padded(estimator.predict_top(X, k)[0], k)
    judge = getattr(estimator, "decision_function", None) or estimator.predict_proba
    scores = judge(X)
    if sparse.issparse(scores):
        return scores
    if scores.ndim == 1:  # of two classes, that of the second
        scores = np.stack([-scores, scores], axis=1)
    return _padded(np.argsort(-scores, axis=1, kind="stable")[:, :k], k)


def _padded(labels: NDArray[Any], k: int) -> NDArray[Any]:
    return np.pad(labels, ((0, 0), (0, k - labels.shape[1])), constant_values=-1)
