"""What scikit-learn calls y: an indicator matrix of labels, or one class a row, brought into one form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.errors import InputError

_HOW = "pass an indicator matrix, for instance from MultiLabelBinarizer(sparse_output=True)"


@dataclass(frozen=True, eq=False)
class Target:
    """The labels of each row.

    Attributes
    ----------
    Y : scipy.sparse.csr_matrix, shape (rows, labels)
        Not zero where the row has the label.
    classes : ndarray
        What each column of Y stands for.
    single : bool
        Whether y was one-dimensional: one class a row.
    """

    Y: sparse.csr_matrix
    classes: NDArray[Any]
    single: bool

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of the labels as a model keeps them; None where they are the integers from 0."""
        return None if _numbered(self.classes) else tuple(map(str, self.classes.tolist()))


def read_target(y: Any, known: NDArray[Any] | None = None) -> Target:
    """Take y in any form that scikit-learn knows.

    Parameters
    ----------
    y : sparse matrix, array-like or data frame
        With two dimensions, 1 where the row has the label. With one, the class of each row; so too with one
        dense column, which scikit-learn takes for a column vector, with a warning.
    known : ndarray, optional
        The classes of a fitted estimator, in their order. Classes beside them get columns behind theirs.

    Returns
    -------
    Target
    """
    if y is None:
        raise InputError(f"the estimator requires y to be passed, but the target y is None; {_HOW}")
    names = getattr(y, "columns", None)
    if names is not None and getattr(y, "sparse", None) is not None:  # a data frame of sparse columns
        y = y.sparse.to_coo()
    if sparse.issparse(y):
        return _indicator(y, names, known)
    try:
        table = np.asarray(y)
    except ValueError:
        raise InputError(f"Y has rows of different lengths, expected a table of 0 and 1; {_HOW}") from None
    if table.ndim > 2 or (table.ndim == 2 and table.shape[1] != 1):
        return _indicator(table, names, known)
    return _classes(y, known)


def restored_classes(label_names: tuple[str, ...] | None, labels: int, dtype: str | None) -> NDArray[Any]:
    """Make the classes of a saved estimator from its model's label names and the type they had."""
    if label_names is None:
        return np.arange(labels, dtype=dtype)
    kind = np.dtype(dtype or "O")
    if kind.kind == "b":
        return np.array([name == "True" for name in label_names])
    return np.array(label_names, dtype=object).astype(kind)


def _numbered(classes: NDArray[Any]) -> bool:
    """Whether classes are nothing but the numbers of the columns."""
    return classes.dtype.kind in "iu" and bool((classes == np.arange(len(classes))).all())


def _indicator(matrix: Any, names: Any, known: NDArray[Any] | None) -> Target:
    if matrix.ndim != 2:
        raise InputError(f"Y has {matrix.ndim} dimension{'s' * (matrix.ndim != 1)}, expected 2; {_HOW}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"Y holds {matrix.dtype} entries, expected 0 and 1; {_HOW}")
    rows = sparse.csr_matrix(matrix)
    wrong = rows.data[(rows.data != 0) & (rows.data != 1)]
    if wrong.size:
        raise InputError(f"Y holds the value {wrong[0]}, expected only 0 and 1; {_HOW}")
    if known is not None and rows.shape[1] != len(known):
        raise InputError(
            f"Y has {rows.shape[1]} columns, but the estimator was fitted with {len(known)} labels; "
            "pass the same columns"
        )
    classes = np.arange(rows.shape[1]) if names is None else np.asarray(names)
    if known is not None and names is not None and not _numbered(known):
        wrong = next((place for place, name in enumerate(classes) if str(name) != str(known[place])), None)
        if wrong is not None:
            raise InputError(
                f"column {wrong} of Y is {classes[wrong]!r}, but the estimator was fitted with "
                f"{known[wrong]!r} there; pass the same columns in the same order"
            )
    return Target(rows, classes if known is None else known, single=False)


def _classes(y: Any, known: NDArray[Any] | None) -> Target:
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    row_classes = column_or_1d(y, warn=True)
    if row_classes.dtype.kind == "f" and not np.isfinite(row_classes).all():
        raise InputError("y holds NaN or infinity, expected the class of each row; replace or remove them")
    check_classification_targets(row_classes)
    classes, columns = np.unique(row_classes, return_inverse=True)
    if known is not None:
        places = {name: place for place, name in enumerate(known.tolist())}
        target = np.array([places.setdefault(name, len(places)) for name in classes.tolist()], np.int64)
        columns = target[columns]
        classes = np.array(list(places), dtype=object)
    rows = len(row_classes)
    ones, indptr = np.ones(rows, np.float32), np.arange(rows + 1)
    Y = sparse.csr_matrix((ones, columns, indptr), shape=(rows, len(classes)))
    return Target(Y, classes, single=True)
