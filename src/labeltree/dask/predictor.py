"""A fitted estimator on a Dask cluster: predicts for each partition, in a task, and for data in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labeltree.base.extras import optional
from labeltree.dask import cluster, tasks
from labeltree.dask.partitions import concatenated, is_lazy, paired_partitions, partitions_of
from labeltree.errors import InputError
from labeltree.estimators.classifier import LabelTreeClassifier


class LazyPredictor(LabelTreeClassifier):
    """Predicts lazily for Dask collections, and as its base class for data in memory.

    It uses ``client_`` and ``work_dir``, which `labeltree.dask.DaskLabelTreeClassifier` adds.
    """

    _place: Any  # the directory with the model's directory, once there is one
    _model_name = "model"

    def predict(self, X: Any, *, top: int | None = None, threshold: float | None = None) -> Any:
        """Predict the labels of each row; lazily, if X is a Dask collection.

        Parameters
        ----------
        X : dask array, data frame, series or bag, or data in memory
            As in ``fit``.
        top, threshold
            As in ``LabelTreeClassifier.predict``.

        Returns
        -------
        dask array, or as from ``LabelTreeClassifier.predict``
            With one block for each partition of X, of the type that ``LabelTreeClassifier`` returns.
        """
        if not is_lazy(X):
            return super().predict(self._numbers(X), top=top, threshold=threshold)
        return self._lazily(X, "predict", top=top, threshold=threshold)

    def predict_top(self, X: Any, k: int = 5) -> tuple[Any, Any]:
        """Return the k best labels of each row; lazily, if X is a Dask collection.

        Parameters
        ----------
        X : dask array, data frame, series or bag, or data in memory
            As in ``fit``.
        k : int, default 5

        Returns
        -------
        labels : dask array or ndarray of int32, rows x k
            As from ``LabelTreeClassifier.predict_top``.
        scores : dask array or ndarray of float32, rows x k
            To compute both at once, use ``dask.compute(labels, scores)``.
        """
        if not is_lazy(X):
            return super().predict_top(self._numbers(X), k)
        self._first_rows("predict_top", k=k)
        both = self._tasks(X, "predict_top", k=k)
        shape = (min(k, self.model_.n_labels),)
        labels, scores = ([delayed[i] for delayed in both] for i in (0, 1))
        return (
            concatenated(X, labels, shape, np.empty((0, 0), np.int32)),
            concatenated(X, scores, shape, np.empty((0, 0), np.float32)),
        )

    def predict_proba(self, X: Any) -> Any:
        """Return the scores of the labels that the beam reaches; lazily, if X is a Dask collection.

        Parameters
        ----------
        X : dask array, data frame, series or bag, or data in memory
            As in ``fit``.

        Returns
        -------
        dask array, or as from ``LabelTreeClassifier.predict_proba``
            With one block for each partition of X, of the type that ``LabelTreeClassifier`` returns.
        """
        return self._lazily(X, "predict_proba") if is_lazy(X) else super().predict_proba(self._numbers(X))

    def decision_function(self, X: Any) -> Any:
        """Return the scores of the labels that the beam reaches; lazily, if X is a Dask collection.

        Parameters
        ----------
        X : dask array, data frame, series or bag, or data in memory
            As in ``fit``.

        Returns
        -------
        dask array, or as from ``LabelTreeClassifier.decision_function``
            With one block for each partition of X, of the type that ``LabelTreeClassifier`` returns.
        """
        if not is_lazy(X):
            return super().decision_function(self._numbers(X))
        return self._lazily(X, "decision_function")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return P@1, the share of rows whose best label is correct. For one class per row, the accuracy.

        Parameters
        ----------
        X : dask array, data frame, series or bag, or data in memory
            As in ``fit``.
        y : dask array, data frame or series, or data in memory
            The true labels, as an indicator matrix or the class of each row.
        sample_weight : array-like of float, optional
            Weights of the rows, if they are in memory.

        Returns
        -------
        float
        """
        if not is_lazy(X) and not is_lazy(y):
            return super().score(self._numbers(X), y, sample_weight)
        if sample_weight is not None:
            raise InputError("sample_weight is not supported for Dask collections", hint="leave it out")
        score = optional("dask").delayed(tasks.score, pure=False)
        place, about = self._described()
        pairs = paired_partitions(X, y)
        scores = cluster.wait_for(self.client_.compute([score(place, about, *pair) for pair in pairs]))
        hits, n_rows = np.sum(scores, axis=0)
        return float(hits / n_rows)

    def _model_place(self) -> Any:
        """Return the directory with the model's directory; a copy of an estimator gets one of its own."""
        if "_place" not in vars(self):
            directory = cluster.SharedDirectory(self.work_dir)
            self.model_.save(Path(str(directory)) / self._model_name)
            self._place = directory
        return self._place

    def _numbers(self, X: Any) -> Any:
        """Turn documents into features."""
        check_is_fitted(self, "model_")
        return tasks.numbers_of(self.model_, X, self.threads)

    def _described(self) -> tuple[Any, ...]:
        """Return what a worker needs to predict: a path, no weights."""
        check_is_fitted(self, "model_")
        parameters = {**self._local_parameters(), "threads": 1, "tree": None}
        names = getattr(self, "feature_names_in_", None)
        crc = self.model_.manifest["crc32c"]
        classes = self.classes_ if self._single else None
        about = (self._model_name, crc, parameters, self._single, classes, names)
        # One object for all tasks.
        return self._model_place(), optional("dask").delayed(about, pure=False, traverse=False)

    def _tasks(self, X: Any, method: str, **arguments: Any) -> list[Any]:
        predict = optional("dask").delayed(tasks.predict, pure=False)
        place, about = self._described()
        return [predict(place, about, method, arguments, part) for part in partitions_of(X)]

    def _first_rows(self, method: str, **arguments: Any) -> Any:
        """Return the prediction for an empty row: its type and columns, and errors in the arguments."""
        check_is_fitted(self, "model_")
        local = getattr(super(), method)
        names = self.__dict__.pop("feature_names_in_", None)
        try:
            return local(tasks.empty_row(self.model_), **arguments)
        finally:
            if names is not None:
                self.feature_names_in_ = names

    def _lazily(self, X: Any, method: str, **arguments: Any) -> Any:
        example = self._first_rows(method, **arguments)
        meta = example[:0] if isinstance(example, np.ndarray) else type(example)((0, 0), dtype=example.dtype)
        return concatenated(X, self._tasks(X, method, **arguments), example.shape[1:], meta)

    def _checked(self) -> dict[str, Any]:
        return LabelTreeClassifier(**self._local_parameters())._checked()

    def _local_parameters(self) -> dict[str, Any]:
        """Return the parameters of the same estimator on one machine."""
        given = self.get_params(deep=False)
        return {name: value for name, value in given.items() if name not in ("client", "work_dir", "text")}
