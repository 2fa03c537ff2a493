"""Ranking metrics for scikit-learn's ``scoring=``: P@k, R@k, nDCG@k and their propensity-scored forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from labeltree.base.limits import TOP, checked
from labeltree.estimators.inputs import check_weights, read_target
from labeltree.evaluation.metrics import Propensities, Ranking, RowMetric, pad_labels


@dataclass
class RankingScorer:
    """A scorer of the first k labels of each row, for any classifier; the functions of this module create it.

    Of a ``LabelTreeClassifier``, alone or at the end of a ``Pipeline``, it uses ``predict_top``; of other
    classifiers, ``decision_function`` or ``predict_proba``.
    """

    metric: str  # P, R, nDCG, PSP or PSnDCG; the last two need propensities
    k: int
    propensities: Propensities | None = None

    def __post_init__(self) -> None:
        checked("k", self.k, TOP)
        self._sample_weight: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the metric of a fitted estimator as a fraction; `y` is as in ``fit``."""
        target = read_target(y, estimator.classes_)
        ranking = Ranking.of(target.Y, _rank_labels(estimator, X, self.k), self.k, self.propensities)
        rows = ranking.metric(f"{self.metric}@{self.k}")
        if sample_weight is not None:
            weights = check_weights(sample_weight, target.Y.shape[0])
            rows = RowMetric(rows.gained * weights, rows.possible * weights)
        return rows.fraction

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> RankingScorer:
        """Request weights for the metadata routing, as ``set_score_request`` of an estimator does."""
        self._sample_weight = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """Return what is requested, as a ``sklearn.utils.metadata_routing.MetadataRequest``."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._sample_weight)
        return request


def precision_at(k: int) -> RankingScorer:
    """Return a scorer for P@k.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeltree import LabelTreeClassifier
    >>> search = GridSearchCV(LabelTreeClassifier(), {"cost": [0.5, 1, 2]}, scoring=precision_at(5))
    """
    return RankingScorer("P", k)


def recall_at(k: int) -> RankingScorer:
    """Return a scorer for R@k."""
    return RankingScorer("R", k)


def ndcg_at(k: int) -> RankingScorer:
    """Return a scorer for nDCG@k."""
    return RankingScorer("nDCG", k)


def propensity_scored_precision_at(k: int, propensities: Propensities) -> RankingScorer:
    """Return a scorer for PSP@k, with propensities from ``labeltree.metrics.propensities(Y)``."""
    return RankingScorer("PSP", k, propensities)


def propensity_scored_ndcg_at(k: int, propensities: Propensities) -> RankingScorer:
    """Return a scorer for PSnDCG@k, with propensities from ``labeltree.metrics.propensities(Y)``."""
    return RankingScorer("PSnDCG", k, propensities)


def _rank_labels(estimator: Any, X: Any, k: int) -> Any:
    """Return the first k labels of each row, or a sparse matrix of scores, for the metrics."""
    if isinstance(estimator, Pipeline) and hasattr(estimator[-1], "predict_top"):
        return _rank_labels(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X, k)
    if hasattr(estimator, "predict_top"):
        return pad_labels(estimator.predict_top(X, k)[0], k)
    score = getattr(estimator, "decision_function", None) or estimator.predict_proba
    scores = score(X)
    if sparse.issparse(scores):
        return scores
    if scores.ndim == 1:  # with two classes, the score of the second
        scores = np.stack([-scores, scores], axis=1)
    return pad_labels(np.argsort(-scores, axis=1, kind="stable")[:, :k], k)
