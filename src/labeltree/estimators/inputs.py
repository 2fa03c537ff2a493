"""What scikit-learn passes to an estimator, as labeled data: X, y in any of its forms, and weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from labeltree.data.columns import Columns, is_missing
from labeltree.data.dataset import Dataset, canonical_csr
from labeltree.data.frames import Values, as_values, checked_labels, checked_texts, first_value
from labeltree.data.read import LabelNumbers
from labeltree.data.tfidf import learn_features
from labeltree.errors import InputError, NoTermError

# How scikit-learn checks X. `Dataset` checks that the values are finite.
CHECKS_OF_X: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": (np.float32, np.float64),
    "ensure_all_finite": False,
}
_LISTS = (list, tuple, set, frozenset, np.ndarray)
_HINT = (
    "pass lists of names (strings), or an indicator matrix, as from MultiLabelBinarizer(sparse_output=True)"
)


@dataclass(frozen=True, eq=False)
class Target:
    """The labels of each row: an indicator matrix, and the class of each of its columns."""

    Y: sparse.csr_matrix
    classes: NDArray[Any]
    single: bool  # whether y was one-dimensional, with one class per row


def make_dataset(
    X: Any, target: Target, check: Callable[[Any], Any], sample_weight: Any = None, threads: int | None = None
) -> tuple[Dataset, NDArray[np.float64] | None]:
    """Return the dataset without rows of weight 0 and without texts that are missing; and the weights.

    `check` validates X as scikit-learn does, or the features of texts, and returns it.
    """
    texts = texts_of(X)
    rows: Any = check_matrix(X, check) if texts is None else np.array([text or "" for text in texts], object)
    check_rows(n_rows := rows.shape[0], target)
    Y, features = target.Y, None
    weights = np.ones(n_rows) if sample_weight is None else check_weights(sample_weight, n_rows)
    kept = weights > 0
    if texts is not None:
        kept &= (has_text := np.array([bool(text.strip()) for text in rows], bool))
        if blank := n_rows - has_text.sum():
            warnings.warn(f"{blank:,} of {n_rows:,} rows have no text and are skipped.", stacklevel=3)
    if not kept.all():
        rows, Y, weights = rows[kept], Y[kept], weights[kept]
    if texts is not None and rows.size:
        try:
            features, rows = learn_features(rows.tolist(), threads=threads)
        except NoTermError as error:
            hint = "check that X contains texts, or use a Pipeline with another vectorizer"
            raise error.replace(hint=hint, parameters=None) from None
        check(rows)
    if not rows.shape[0]:
        raise InputError("X has no rows" + (" with text" if texts else ""), hint="pass at least one")
    if Y.count_nonzero() == 0:
        raise InputError("no row of y has a label", hint="pass the labels of at least one row")
    names = None if _are_column_numbers(target.classes) else tuple(map(str, target.classes.tolist()))
    dataset = Dataset.from_matrices(rows, Y, names)
    return replace(dataset, text=features), None if sample_weight is None else weights


def values_of(data: Any, name: str) -> Values | None:
    """Return the values of a list, an array or a column; None for what has rows and columns."""
    if sparse.issparse(data) or len(getattr(data, "shape", (0,))) != 1:
        return None
    values = as_values(data)
    if values is None and not hasattr(data, "__array__"):
        what = f"{name} is of type {type(data).__name__}, expected one value per row"
        raise InputError(what, hint="pass a list, an array, a column or a matrix")
    return values


def texts_of(X: Any) -> list[str | None] | None:
    """Return texts, None for a missing one; None if X is not a list or a column of texts."""
    values = values_of(X, "X")
    first = "" if values is None else first_value(values)
    words = isinstance(first, list | tuple) and any(isinstance(word, str) for word in first)
    if values is None or not (words or first is None or isinstance(first, str | bytes)):
        return None
    return list(checked_texts(values, "X[{}]"))


def check_matrix(X: Any, check: Callable[[Any], Any]) -> Any:
    """Return X as `check` does; if that fails and a column of X is text, name it."""
    try:
        return check(X)
    except (TypeError, ValueError):
        for name in () if (names := column_names(X)) is None else names:
            if texts_of(X[name]):
                what = f"X is a frame, and its column {name!r} is text"
                raise InputError(what, hint=f"pass only this column, X[{name!r}]") from None
        raise


def column_names(data: Any) -> Any:
    """Return the names of the columns of a frame, or of an Arrow table, whose `columns` have the values."""
    return getattr(data, "column_names", getattr(data, "columns", None))


def check_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the weights of the rows; refuse any that cannot be used."""
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,):
        what = f"sample_weight has shape {weights.shape}"
        raise InputError(f"{what}, expected one weight for each of the {n_rows} rows")
    if not (weights >= 0).all() or not np.isfinite(weights).all():
        raise InputError("sample_weight contains a negative number, NaN or infinity")
    if not weights.any():
        raise InputError("every sample_weight is zero")
    return weights


def check_rows(n_rows: int, target: Target) -> None:
    """Refuse X and Y with different numbers of rows."""
    if n_rows != target.Y.shape[0]:
        what = f"X has {n_rows} rows and Y has {target.Y.shape[0]}"
        raise InputError(what, hint="pass the labels of each row of X")


def read_target(y: Any, known: NDArray[Any] | None = None) -> Target:
    """Convert y from any form that `LabelTreeClassifier.fit` accepts.

    `known` are the classes of a fitted estimator, in order; new classes get columns after them.
    """
    if y is None:
        raise InputError("the estimator requires y to be passed, but the target y is None", hint=_HINT)
    names = column_names(y)
    if names is not None and getattr(y, "sparse", None) is not None:  # a data frame with sparse columns
        y = y.sparse.to_coo()
    if sparse.issparse(y):
        return _indicator(y, names, known)
    if (values := values_of(y, "y")) is not None:
        lists = [value for value in values if isinstance(value, _LISTS)]
        # Strings are names, and lists of numbers are the rows of a matrix.
        if lists and (isinstance(lists[0], set | frozenset) or isinstance(next(chain(*lists), ""), str)):
            return _names(values, known)
        missing = next((row for row, value in enumerate(values) if is_missing(value)), None)
        if missing is not None:
            raise InputError(f"y[{missing}] is missing", hint="remove rows without a class, or give them one")
        y = list(values) if lists else y
    try:
        table = np.asarray(y)
    except ValueError:
        raise InputError("Y has rows of different lengths", hint=_HINT) from None
    if table.dtype == object and table.shape[1:] == (1,):  # a frame with one column of lists, perhaps
        return read_target(table[:, 0], known)
    if table.ndim > 2 or (table.ndim == 2 and table.shape[1] != 1):
        return _indicator(table, names, known)
    return _classes(table, known)


def restore_classes(label_names: tuple[str, ...] | None, n_labels: int, dtype: str | None) -> NDArray[Any]:
    """Return the classes of a saved estimator, from its model's label names and their original type."""
    if label_names is None:
        classes: NDArray[Any] = np.arange(n_labels).astype(np.dtype(dtype or int))
        if not _are_column_numbers(classes):
            raise ValueError(f"{dtype} is not the type of {n_labels} numbers")
        return classes
    kind = np.dtype(dtype or "O")
    if kind.kind == "b":
        return np.array([name == "True" for name in label_names])
    # Strings are as long as the names: the stored length may be anything.
    return np.array(label_names, dtype=object).astype("U" if kind.kind == "U" else kind)


def _are_column_numbers(classes: NDArray[Any]) -> bool:
    """Return whether the classes are the numbers of the columns."""
    return classes.dtype.kind in "iu" and bool((classes == np.arange(len(classes))).all())


def _indicator(matrix: Any, names: Any, known: NDArray[Any] | None) -> Target:
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"Y contains {matrix.dtype} values, expected 0 and 1", hint=_HINT)
    rows = canonical_csr(matrix, "Y")
    wrong = rows.data[rows.data != 1]
    if wrong.size:
        raise InputError(f"Y contains the value {wrong[0]:g}, expected only 0 and 1", hint=_HINT)
    if known is not None and rows.shape[1] != len(known):
        raise InputError(f"Y has {rows.shape[1]} columns, expected {len(known)} as in fit")
    classes = np.arange(rows.shape[1]) if names is None else np.asarray(names)
    if known is not None and names is not None and not _are_column_numbers(known):
        for column, (name, expected) in enumerate(zip(classes.tolist(), known.tolist(), strict=True)):
            if str(name) != str(expected):
                what = f"column {column} of Y is {name!r}, expected {expected!r} as in fit"
                raise InputError(what, hint="pass the same columns in the same order")
    return Target(rows, classes if known is None else known, single=False)


def _classes(y: Any, known: NDArray[Any] | None) -> Target:
    row_classes = column_or_1d(y, warn=True)
    if row_classes.dtype.kind == "f" and not np.isfinite(row_classes).all():
        raise InputError("y contains NaN or infinity", hint="remove these rows, or replace the values")
    try:
        check_classification_targets(row_classes)
        classes, columns = np.unique(row_classes, return_inverse=True)
    except TypeError:
        raise InputError("y has classes of different types", hint="pass strings only, or numbers") from None
    n_rows = len(row_classes)
    ones, indptr = np.ones(n_rows, np.float32), np.arange(n_rows + 1)
    Y = sparse.csr_matrix((ones, columns, indptr), shape=(n_rows, len(classes)))
    return _aligned(Target(Y, classes, single=True), None if known is None else known.tolist())


def _names(rows: Values, known: NDArray[Any] | None) -> Target:
    """Return the target of lists of names."""
    numbers = LabelNumbers()
    for labels in checked_labels(rows, Columns(), "y"):
        numbers.append(labels)
    names, Y = numbers.matrix()
    target = Target(Y, np.array(names, dtype=object), single=False)
    # The number 5 and the name "5" are the same label.
    return _aligned(target, None if known is None else [str(name) for name in known.tolist()])


def _aligned(target: Target, known: list[Any] | None) -> Target:
    """Return a target with the known classes first, then new ones."""
    if known is None:
        return target
    column_of = {name: column for column, name in enumerate(known)}
    columns = [column_of.setdefault(name, len(column_of)) for name in target.classes.tolist()]
    Y, shape = target.Y, (target.Y.shape[0], len(column_of))
    Y = sparse.csr_matrix((Y.data, np.array(columns, np.int64)[Y.indices], Y.indptr), shape=shape)
    return Target(Y, np.array(list(column_of), dtype=object), target.single)
