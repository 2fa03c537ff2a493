"""A fitted estimator: predicts the labels of rows, and scores its predictions."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from labeltree.base import limits
from labeltree.base.limits import AUTO, Optional, checked
from labeltree.base.system import available_memory, human_bytes
from labeltree.errors import InputError, ResourceError
from labeltree.estimators import inputs
from labeltree.model.model import Model
from labeltree.model.ranker import reach

# The scores of so many (row, label) pairs are in memory before they become sparse.
_PAIRS_AT_ONCE = 1 << 23

# Of a model that has none: trained on fewer than 50 rows, with the hinge loss, or as a large one-vs-rest
# model.
DEFAULT_THRESHOLD = 0.5


class TreePredictor(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The part of an estimator that only predicts. See `labeltree.LabelTreeClassifier`."""

    model_: Model
    classes_: NDArray[Any]
    sparse_output: bool
    force: bool
    _single: bool  # whether y had one dimension, with one class per row

    def predict(
        self, X: Any, *, top: int | None = None, threshold: float | Literal["stored"] | None = None
    ) -> Any:
        """Predict the labels of each row.

        Parameters
        ----------
        X : as in ``fit``
        top : int, optional
            Maximum number of labels per row.
        threshold : float or "stored", optional
            Minimum score of a label. Default: 0 if `top` is given; otherwise that in the model ("stored"), by
            default the one with the largest micro F1 on training rows, held out of training; 0.5 if the model
            has none.

        Returns
        -------
        csr_matrix of int, rows x labels
            1 where the label is predicted; an ndarray with ``sparse_output=False``. If y had one dimension:
            an ndarray, the best class of each row; of a text without known words, the most frequent class.
        """
        rows = self._rows(X)
        top = checked("top", top, Optional(limits.TOP))
        threshold = checked("threshold", threshold, Optional(limits.THRESHOLD_OR_STORED))
        if self._single:
            if top is not None or threshold is not None:
                what = "top and threshold cannot be used after fitting with one class per row"
                raise InputError(what, hint="use predict_top, or fit with an indicator matrix")
            return self.classes_[self._best(rows)]
        scores = self._scores(rows, top, self._threshold(top, threshold))
        scores.data = np.ones(scores.nnz, np.int64)
        return self._output(scores)

    def predict_top(self, X: Any, k: int = 5) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the k best labels of each row.

        Parameters
        ----------
        X : as in ``fit``
        k : int, default 5

        Returns
        -------
        labels : ndarray of int32, rows x k (fewer columns if there are fewer labels)
            Best first, as positions in ``classes_`` (columns of Y), also for texts; -1 if the beam reached
            fewer labels, and for a text without known words.
        scores : ndarray of float32, rows x k
            In (0, 1]; 0 where the label is -1.
        """
        rows = self._rows(X)
        return self.model_.predict(rows, top=checked("k", k, limits.TOP), **self._options())

    def predict_proba(self, X: Any) -> Any:
        """Return the scores of the labels that the beam reaches.

        Scores rank the labels of a row. They are not calibrated probabilities.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        csr_matrix of float32, rows x labels
            Scores in (0, 1] of the labels that the beam reached; other labels have no entry. An ndarray with
            ``sparse_output=False``, with 0 for labels that were not reached. If y had one dimension: an
            ndarray of float64 whose rows sum to 1, with 0 for classes that were not reached.
        """
        scores = self._reached_scores(X)
        return scores / scores.sum(axis=1, keepdims=True) if self._single else scores

    def decision_function(self, X: Any) -> Any:
        """Return the scores of the labels that the beam reaches; larger is better.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        csr_matrix of float32, rows x labels
            The same as ``predict_proba``: a label without an entry counts as 0, less than any reached label.
            If y had one dimension: an ndarray of float64 with the scores, 0 for classes that were not
            reached; for two classes, the logarithm of their ratio, above 0 for the second class.
        """
        scores = self._reached_scores(X)
        if not self._single or scores.shape[1] != 2:
            return scores
        logs = np.log(np.maximum(scores, np.finfo(np.float32).tiny))
        return logs[:, 1] - logs[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return P@1, the share of the labeled rows whose best label is correct; the accuracy for classes.

        Parameters
        ----------
        X : as in ``fit``
        y : as in ``fit``
            The true labels.
        sample_weight : array-like of float, optional
            Weights of the rows.

        Returns
        -------
        float
        """
        best = self._best(self._rows(X))
        target = inputs.read_target(y, self.classes_)
        if target.single != self._single:
            forms = {True: "one class per row", False: "an indicator matrix"}
            raise InputError(f"y is {forms[target.single]}, expected {forms[self._single]} as in fit")
        inputs.check_rows(len(best), target)
        hits = np.asarray(target.Y[np.arange(len(best)), best]).ravel() != 0
        hits &= best >= 0  # a document without known words has no label
        given = np.ones(len(hits)) if sample_weight is None else sample_weight
        weights = inputs.check_weights(given, len(hits))
        if not self._single:
            weights = weights * (target.Y.getnnz(axis=1) > 0)
        return float(np.average(hits, weights=weights)) if weights.any() else 0.0

    def _rows(self, X: Any) -> Any:
        """Return X as a matrix of features."""
        check_is_fitted(self, "model_")
        texts, model = inputs.texts_of(X), self.model_
        if texts is None:
            return inputs.check_matrix(X, partial(validate_data, self, reset=False, **inputs.CHECKS_OF_X))
        if model.text is None:
            what = "X is a list of texts, but the estimator was fitted on a matrix"
            raise InputError(what, hint="pass a matrix with the same features")
        return model.text.transform([text or "" for text in texts], threads=self._checked()["threads"])

    def _options(self) -> dict[str, Any]:
        """Return the parameters as options of ``Model.predict``."""
        parameters = self._checked()
        options = {name: parameters[name] for name in ("beam", "score_scale", "threads")}
        function = parameters["score_function"]
        return {**options, "score": None if function == AUTO else function}

    def _best(self, rows: Any) -> NDArray[np.int32]:
        """Return the best label of each row, or -1; as a class, the most frequent one instead."""
        best = self.model_.predict(rows, top=1, **self._options())[0][:, 0]
        return np.where(best < 0, self.model_.label_counts.argmax(), best) if self._single else best

    def _reached_scores(self, X: Any) -> Any:
        """Return the scores of the labels that the beam reaches; dense if y had one dimension."""
        scores = self._output(self._scores(self._rows(X)))
        if not self._single:
            return scores
        scores, counts = scores.astype(np.float64), self.model_.label_counts
        scores[~scores.any(axis=1)] = counts / counts.sum()  # of texts without known words
        return scores

    def _output(self, matrix: sparse.csr_matrix) -> Any:
        """Return a matrix of labels as it is, or as an array if that is expected."""
        if self.sparse_output and not self._single:
            return matrix
        size, free = matrix.shape[0] * matrix.shape[1] * 8, available_memory()
        if size > free and not self.force:
            n_rows, n_labels = matrix.shape
            what = f"an array of {n_rows:,} rows and {n_labels:,} labels takes {human_bytes(size)}"
            what = f"{what}, but only {human_bytes(free)} are available"
            hint = "pass fewer rows, or use predict_top" + ("" if self._single else " or {sparse_output}")
            raise ResourceError(what, hint=hint, parameters={"sparse_output": True})
        return matrix.toarray()

    def _threshold(
        self, top: int | None, threshold: float | Literal["stored"] | None
    ) -> float | Literal["stored"] | None:
        """Return the least score of a label to predict; None for all."""
        if threshold is not None or top is not None:
            return threshold
        options = self._options()
        used = self.model_.score.replace(options["score"], options["score_scale"])
        stored = self.model_.decision is not None and used == self.model_.score
        return "stored" if stored else DEFAULT_THRESHOLD

    def _scores(
        self, rows: Any, top: int | None = None, threshold: float | Literal["stored"] | None = None
    ) -> sparse.csr_matrix:
        """Return the scores of the `top` best labels that the beam reaches and that are accepted."""
        options = self._options()
        if top is None:
            reached = sum(reach(part.tree, options["beam"]) for part in self.model_.trees)
            top = min(reached, self.model_.n_labels)
        step = max(1, _PAIRS_AT_ONCE // min(top, self.model_.n_labels))
        parts = [
            self.model_.predict_matrix(rows[first : first + step], top=top, threshold=threshold, **options)
            for first in range(0, rows.shape[0] or 1, step)
        ]
        matrix: sparse.csr_matrix = sparse.vstack(parts, format="csr")
        matrix.sort_indices()
        return matrix
