"""Partitions of training data: each is written to a file by a task, and one task makes a dataset of them."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from labeltree.base.extras import optional
from labeltree.dask.cluster import check_visible
from labeltree.data.dataset import Dataset, canonical_csr, csr_arrays, wrap_csr
from labeltree.data.text_settings import TextSettings
from labeltree.data.tfidf import TextFeatures, learn_features
from labeltree.errors import InputError
from labeltree.estimators.fitting import CHECKS_OF_X
from labeltree.estimators.targets import Target, read_target

_TEXT, _MATRIX = "documents", "a matrix"
_LISTS, _INDICATOR, _CLASSES = "lists of labels", "an indicator matrix", "one class per row"


@dataclass(frozen=True)
class Written:
    """What a task has written: the rows of a partition, and the forms and columns of X and y."""

    n_rows: int
    x_form: str
    y_form: str
    n_features: int = 0
    feature_names: tuple[str, ...] | None = None
    classes: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class Assembled:
    """The dataset of all partitions, and what the estimator keeps about it."""

    dataset: Dataset
    classes: NDArray[Any]
    single: bool
    feature_names: tuple[str, ...] | None


def is_lazy(data: Any) -> bool:
    """Return whether data is a Dask collection."""
    return bool(optional("dask").is_dask_collection(data))


def partitions_of(data: Any) -> list[Any]:
    """Return the partitions of a Dask collection as delayed objects, with whole rows in each."""
    if getattr(data, "ndim", 1) == 2 and hasattr(data, "rechunk"):
        data = data.rechunk({1: -1}) if len(data.chunks[1]) > 1 else data
    parts = data.to_delayed()
    return list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)


def paired_partitions(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return the partitions of X and y, which must be divided in the same way."""
    if not (is_lazy(X) and is_lazy(y)):
        raise InputError(
            "only one of X and y is a Dask collection", hint="pass both as Dask collections, or neither"
        )
    if hasattr(X, "rechunk") and hasattr(y, "rechunk") and X.shape[0] == y.shape[0]:  # both are known
        y = y.rechunk({0: X.chunks[0]})
    rows, targets = partitions_of(X), partitions_of(y)
    if len(rows) != len(targets):
        raise InputError(
            f"X has {len(rows)} partitions and y has {len(targets)}", hint="divide both in the same way"
        )
    return list(zip(rows, targets, strict=True))


def documents_of(X: Any) -> list[str] | None:
    """Return the documents of a partition, or None if it contains numbers."""
    if sparse.issparse(X):
        return None
    if getattr(X, "ndim", 1) == 2 and hasattr(X, "iloc") and X.shape[1] == 1:
        X = X.iloc[:, 0]
    if getattr(X, "ndim", 1) != 1 or getattr(getattr(X, "dtype", None), "kind", "O") in "biuf":
        return None
    documents = list(X)
    found = [isinstance(document, str) for document in documents]
    if not any(found):
        return None
    if not all(found):
        number = found.index(False)
        raise InputError(f"X contains {documents[number]!r} in place of a document", hint="remove that row")
    return list(map(str, documents))


def write_partition(directory: str, number: int, X: Any, y: Any) -> Written:
    """Write the rows of a partition, in a task or in the client."""
    check_visible(directory)
    X, y = (list(part) if isinstance(part, Iterator) else part for part in (X, y))
    place = Path(directory)
    documents = documents_of(X)
    if documents is not None:
        about: dict[str, Any] = {"n_rows": len(documents), "x_form": _TEXT}
        _write_json(place / f"x-{number}.json", documents)
    else:
        checker = _Checker()
        matrix = canonical_csr(validate_data(checker, X, ensure_min_samples=0, **CHECKS_OF_X), "X")
        names = getattr(checker, "feature_names_in_", None)
        about = {
            "n_rows": matrix.shape[0],
            "x_form": _MATRIX,
            "n_features": matrix.shape[1],
            "feature_names": None if names is None else tuple(names),
        }
        _write_arrays(place / f"x-{number}.npz", csr_arrays(matrix))
    n_targets, described = _write_target(place, number, y)
    if n_targets != about["n_rows"]:
        raise InputError(
            f"partition {number} of X has {about['n_rows']} rows and that of y has {n_targets}",
            hint="divide both in the same way",
        )
    return Written(**about, **described)


class _Checker(BaseEstimator):  # type: ignore[misc]
    """Checks X as an estimator does, and keeps the names of its columns."""


def _write_target(place: Path, number: int, y: Any) -> tuple[int, dict[str, Any]]:
    if y is None:
        read_target(y)  # refuses it
    file = place / f"y-{number}"
    flat = getattr(y, "ndim", 1) == 1 and not sparse.issparse(y)
    if flat and len(y) and all(map(_is_list_of_names, y)):
        _write_json(file.with_suffix(".json"), [list(labels) for labels in y])
        return len(y), {"y_form": _LISTS}
    if isinstance(y, list) and y and isinstance(y[0], list | tuple):
        y, flat = np.asarray(y), False
    if flat or (not sparse.issparse(y) and y.shape[1] == 1):
        classes = np.asarray(y).ravel()
        if classes.dtype.kind in "biufU":
            _write_arrays(file.with_suffix(".npz"), (classes,))
        else:
            _write_json(file.with_suffix(".json"), classes.tolist())
        return len(classes), {"y_form": _CLASSES}
    target = read_target(y)
    _write_arrays(file.with_suffix(".npz"), csr_arrays(target.Y.astype(bool).astype(np.float32)))
    return target.Y.shape[0], {"y_form": _INDICATOR, "classes": target.classes}


def _is_list_of_names(labels: Any) -> bool:
    is_list = isinstance(labels, list | tuple | set | frozenset | np.ndarray)
    return is_list and all(isinstance(label, str) for label in labels)


def read_partitions(directory: str, written: Sequence[Written], text: TextSettings | None) -> Assembled:
    """Make a dataset of all partitions.

    Parameters
    ----------
    directory : str
        What the tasks have written to.
    written : sequence of Written
        The result of each task.
    text : TextSettings or None
        How documents become features.

    Returns
    -------
    Assembled
    """
    place = Path(directory)
    # Empty partitions do not show what they contain.
    numbers = [number for number, part in enumerate(written) if part.n_rows]
    if not numbers:
        raise InputError("X has no rows")
    first = written[numbers[0]]
    for number in numbers:
        _check_same(first, written[number], number)
    features: TextFeatures | None = None
    if first.x_form == _TEXT:
        documents = (document for number in numbers for document in _read_json(place / f"x-{number}.json"))
        features, X = learn_features(documents, text)
    else:
        X = _stacked([place / f"x-{number}.npz" for number in numbers], first.n_features)
    target = _target(place, numbers, first)
    dataset = replace(Dataset.from_matrices(X, target.Y, target.label_names), text=features)
    if dataset.Y.nnz == 0:
        raise InputError("Y has no positive entry")
    return Assembled(dataset, target.classes, target.single, first.feature_names)


def _check_same(first: Written, other: Written, number: int) -> None:
    for name, one, two in (
        ("X", first.x_form, other.x_form),
        ("y", first.y_form, other.y_form),
        ("X", f"{first.n_features} columns", f"{other.n_features} columns"),
        ("X", f"the columns {first.feature_names}", f"the columns {other.feature_names}"),
        ("y", *(f"the columns {None if w.classes is None else w.classes.tolist()}" for w in (first, other))),
    ):
        if one != two:
            raise InputError(f"partition {number} of {name} has {two}, but the first one has {one}")


def _target(place: Path, numbers: Sequence[int], first: Written) -> Target:
    files = [place / f"y-{number}" for number in numbers]
    if first.y_form == _INDICATOR:
        assert first.classes is not None
        Y = _stacked([file.with_suffix(".npz") for file in files], len(first.classes))
        return Target(Y, first.classes, single=False)
    if first.y_form == _LISTS:
        return _target_of_lists(files)
    parts = [
        _read_arrays(file.with_suffix(".npz"))[0]
        if file.with_suffix(".npz").exists()
        else np.array(_read_json(file.with_suffix(".json")), dtype=object)
        for file in files
    ]
    return read_target(np.concatenate(parts))


def _target_of_lists(files: Sequence[Path]) -> Target:
    """Give each label a column, in the order of their names."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    columns, lengths = list[int](), list[int]()
    for file in files:
        for labels in _read_json(file.with_suffix(".json")):
            columns += map(numbers.__getitem__, labels)
            lengths.append(len(labels))
    names = sorted(numbers)
    place = np.empty(len(names), np.int32)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    ones = np.ones(len(columns), np.float32)
    Y = wrap_csr(ones, place[np.array(columns, np.int64)], ptr, (len(lengths), len(names)))
    Y.sum_duplicates()
    return Target(Y, np.array(names, dtype=object), single=False)


def _stacked(files: Sequence[Path], n_columns: int) -> sparse.csr_matrix:
    """Join the rows of several files in arrays that are allocated once."""
    lengths = [_read_arrays(file, 0)[0] for file in files]
    ptr = np.zeros(sum(part.size - 1 for part in lengths) + 1, np.int64)
    n_entries = sum(int(part[-1]) for part in lengths)
    indices, data = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
    row = entry = 0
    for file, own in zip(files, lengths, strict=True):
        ptr[row : row + own.size] = own + entry
        row += own.size - 1
        here = slice(entry, entry + int(own[-1]))
        indices[here], data[here] = _read_arrays(file, 1, 2)
        entry = here.stop
    return wrap_csr(data, indices, ptr, (ptr.size - 1, n_columns))


def _write_arrays(path: Path, arrays: Sequence[NDArray[Any]]) -> None:
    with _replacing(path) as stream:
        np.savez(stream, *arrays)


def _read_arrays(path: Path, *numbers: int) -> list[NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return [arrays[f"arr_{number}"] for number in numbers or (0,)]


def _write_json(path: Path, content: Any) -> None:
    with _replacing(path) as stream:
        stream.write(json.dumps(content).encode())


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """Write a file that two tasks may write at the same time."""
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with new.open("wb") as stream:
        yield stream
    new.replace(path)


def concatenated(X: Any, blocks: list[Any], columns: tuple[int, ...], meta: Any) -> Any:
    """Join delayed blocks of rows to a dask array."""
    da = optional("dask.array")
    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(blocks)
    arrays = [
        da.from_delayed(block, shape=(length, *columns), dtype=meta.dtype, meta=meta)
        for block, length in zip(blocks, lengths, strict=True)
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)
