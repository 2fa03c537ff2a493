"""What scikit-learn passes to an estimator, as labeled data: X, y in any of its forms, and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.data.dataset import Dataset
from labeltree.errors import InputError

# How scikit-learn checks X. `Dataset` checks that the values are finite.
CHECKS_OF_X: dict[str, Any] = {"accept_sparse": "csr", "ensure_all_finite": False}
_HINT = "pass an indicator matrix, for example from MultiLabelBinarizer(sparse_output=True)"


@dataclass(frozen=True, eq=False)
class Target:
    """The labels of each row.

    Attributes
    ----------
    Y : scipy.sparse.csr_matrix, shape (rows, labels)
        Non-zero where the row has the label.
    classes : ndarray
        The label of each column of Y.
    single : bool
        Whether y was one-dimensional, with one class per row.
    """

    Y: sparse.csr_matrix
    classes: NDArray[Any]
    single: bool

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of the labels for the model; None if they are the integers from 0."""
        return None if _are_column_numbers(self.classes) else tuple(map(str, self.classes.tolist()))


def make_dataset(
    rows: Any, target: Target, sample_weight: Any = None
) -> tuple[Dataset, NDArray[np.float64] | None]:
    """Return the dataset without rows of weight 0, and the weights of the others."""
    check_rows(rows.shape[0], target)
    Y, weights = target.Y, None
    if sample_weight is not None:
        weights = check_weights(sample_weight, rows.shape[0])
        if not weights.all():
            kept = np.flatnonzero(weights)
            rows, Y, weights = rows[kept], Y[kept], weights[kept]
    dataset = Dataset.from_matrices(rows, Y, target.label_names)
    if dataset.Y.nnz == 0:
        raise InputError("Y has no positive entry")
    return dataset, weights


def check_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the weights of the rows; refuse any that cannot be used."""
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}, expected one weight for each of the {n_rows} rows"
        )
    if not (weights >= 0).all() or not np.isfinite(weights).all():
        raise InputError("sample_weight contains a negative number, NaN or infinity")
    if not weights.any():
        raise InputError("every sample_weight is zero")
    return weights


def check_rows(n_rows: int, target: Target) -> None:
    """Refuse X and Y with different numbers of rows."""
    if n_rows != target.Y.shape[0]:
        raise InputError(f"X has {n_rows} rows and Y has {target.Y.shape[0]}")


def read_target(y: Any, known: NDArray[Any] | None = None) -> Target:
    """Convert y from any form that scikit-learn accepts.

    Parameters
    ----------
    y : sparse matrix, array-like or data frame
        With two dimensions, 1 where the row has the label. With one dimension, or with a single dense column
        (which scikit-learn accepts with a warning), the class of each row.
    known : ndarray, optional
        The classes of a fitted estimator, in order. New classes get columns after them.

    Returns
    -------
    Target
    """
    if y is None:
        raise InputError("the estimator requires y to be passed, but the target y is None", hint=_HINT)
    names = getattr(y, "columns", None)
    if names is not None and getattr(y, "sparse", None) is not None:  # a data frame with sparse columns
        y = y.sparse.to_coo()
    if sparse.issparse(y):
        return _indicator(y, names, known)
    try:
        table = np.asarray(y)
    except ValueError:
        raise InputError("Y has rows of different lengths", hint=_HINT) from None
    if table.ndim > 2 or (table.ndim == 2 and table.shape[1] != 1):
        return _indicator(table, names, known)
    return _classes(y, known)


def restore_classes(label_names: tuple[str, ...] | None, n_labels: int, dtype: str | None) -> NDArray[Any]:
    """Return the classes of a saved estimator, from its model's label names and their original type."""
    if label_names is None:
        classes: NDArray[Any] = np.arange(n_labels).astype(np.dtype(dtype or int))
        if not _are_column_numbers(classes):
            raise ValueError(f"{dtype} is not the type of {n_labels} numbers")
        return classes
    kind = np.dtype(dtype or "O")
    if kind.kind == "U":
        kind = np.dtype("U")  # as long as the names: the stored length may be anything
    if kind.kind == "b":
        return np.array([name == "True" for name in label_names])
    return np.array(label_names, dtype=object).astype(kind)


def _are_column_numbers(classes: NDArray[Any]) -> bool:
    """Return whether the classes are the numbers of the columns."""
    return classes.dtype.kind in "iu" and bool((classes == np.arange(len(classes))).all())


def _indicator(matrix: Any, names: Any, known: NDArray[Any] | None) -> Target:
    if matrix.ndim != 2:
        raise InputError(f"Y has {matrix.ndim} dimensions, expected 2", hint=_HINT)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"Y contains {matrix.dtype} values, expected 0 and 1", hint=_HINT)
    rows = sparse.csr_matrix(matrix)
    wrong = rows.data[(rows.data != 0) & (rows.data != 1)]
    if wrong.size:
        raise InputError(f"Y contains the value {wrong[0]}, expected only 0 and 1", hint=_HINT)
    if known is not None and rows.shape[1] != len(known):
        raise InputError(f"Y has {rows.shape[1]} columns, expected {len(known)} as in fit")
    classes = np.arange(rows.shape[1]) if names is None else np.asarray(names)
    if known is not None and names is not None and not _are_column_numbers(known):
        for column, name in enumerate(classes):
            if str(name) != str(known[column]):
                raise InputError(
                    f"column {column} of Y is {name!r}, expected {known[column]!r} as in fit",
                    hint="pass the same columns in the same order",
                )
    return Target(rows, classes if known is None else known, single=False)


def _classes(y: Any, known: NDArray[Any] | None) -> Target:
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    row_classes = column_or_1d(y, warn=True)
    if row_classes.dtype.kind == "f" and not np.isfinite(row_classes).all():
        raise InputError("y contains NaN or infinity", hint="remove these rows, or replace the values")
    check_classification_targets(row_classes)
    classes, columns = np.unique(row_classes, return_inverse=True)
    if known is not None:
        column_of = {name: column for column, name in enumerate(known.tolist())}
        new = np.array([column_of.setdefault(name, len(column_of)) for name in classes.tolist()], np.int64)
        columns = new[columns]
        classes = np.array(list(column_of), dtype=object)
    n_rows = len(row_classes)
    ones, indptr = np.ones(n_rows, np.float32), np.arange(n_rows + 1)
    Y = sparse.csr_matrix((ones, columns, indptr), shape=(n_rows, len(classes)))
    return Target(Y, classes, single=True)
