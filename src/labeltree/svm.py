"""LIBSVM files with many labels a line: `l1,l2 f:v f:v ...`, as the XMC repository keeps its data sets.

What a file may hold, beyond the plain format:

- a first line `instances features labels`; then features count from 0, and the shape is the header's;
- no labels (the line begins with a blank or with a feature), no features, or neither: a blank line is an
  instance, except at the end of the file, where blank lines count only as far as a header needs them;
- comments from `#` to the end of the line; a line that is only a comment is no instance;
- features in any order; zeros, which widen the matrix and are not stored; tabs, CRLF, a byte order mark;
- labels that are names. Labels are numbers if every one of them is written in plain digits (no sign, no
  leading zeros) and is below 2**31 - 1; otherwise all are names, numbered by their first appearance.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data import Dataset, csr_arrays, wrap_csr
from labeltree.errors import InputError
from labeltree.files import display_name, read_pieces, write_whole
from labeltree.system import threads_to_use

_PIECE_BYTES = 1 << 23  # read at once; two pieces are in memory
_CHUNK_BYTES = 1 << 19  # parsed at once by a thread

# Names that are read back as they are, and those that, small enough, are read as numbers.
_WRITABLE = re.compile(r"(?!\ufeff)[^\x00-\x20\x7f,:#\ud800-\udfff]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")

# What the parser found -> what it expected, and what to do.
_FAULTS = {
    "binary": ("text in UTF-8", "pass a text file, plain or compressed with gzip, bzip2 or xz"),
    "empty label": ("a label on either side of each comma", "remove the comma too many"),
    "no colon": ("index:value", "separate labels by commas without blanks, and features by blanks"),
    "index": ("a whole number before the colon", "number the features"),
    "index negative": ("an index of at least 0", "number the features from 0 or 1"),
    "index huge": ("an index up to 2147483646", "number the features anew"),
    "index zero": (
        "indices from 1, as said or as in the model's training file",
        "if features count from 0, train and predict with one_based=False (--zero-based)",
    ),
    "index twice": ("each feature once a line", "remove or add up the repeated feature"),
    "no value": ("a value after the colon", "add the value or remove the feature"),
    "value": ("a number after the colon", "correct the value"),
    "not finite": ("a finite number that fits a float32", "correct the value or remove the feature"),
}


def read_svm(
    path: str | os.PathLike[str],
    *,
    one_based: bool | None = None,
    threads: int | None = None,
    features: int | None = None,
    labels: int | None = None,
    require_labels: bool = True,
) -> Dataset:
    """Read a LIBSVM file, plain or compressed (gzip, bzip2, xz: told by its first bytes).

    Parameters
    ----------
    path : str or path-like
        The file; "-" for standard input.
    one_based : bool, optional
        Whether the first feature is 1 rather than 0. By default it is, unless the file has a header or a
        feature 0.
    threads : int, optional
        Threads that parse; by default one for each usable processor. The result does not depend on it.
    features : int, optional
        Number of columns of X, instead of the header's or of one more than the last feature.
    labels : int, optional
        Number of columns of Y, likewise; names need none and only must not be more.
    require_labels : bool, default=True
        Whether to refuse a file without a single label, from which nothing can be learned; there are
        labels to predict for it.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the file cannot be read. The message names the first line that is wrong.
    """
    for name, value in (("threads", threads), ("features", features), ("labels", labels)):
        if value is not None and not 1 <= value < 2**31:
            raise InputError(
                f"got {name}={value}, expected a whole number from 1 to 2147483647; correct or omit it"
            )
    return _read(path, one_based, threads, features, labels, _PIECE_BYTES, _CHUNK_BYTES, require_labels)


def parse_svm(text: str, name: str, *, one_based: bool | None = None) -> Dataset:
    """Read lines of a LIBSVM file that are in memory; labels are not required.

    Parameters
    ----------
    text : str
        What a file would hold.
    name : str
        What to call it in messages.
    one_based : bool, optional
        As in `read_svm`.

    Returns
    -------
    Dataset
    """
    reader = _native.SvmReader(1, _CHUNK_BYTES, -1 if one_based is None else int(one_based), -1, -1)
    pieces = [(np.frombuffer(text.encode("utf-8", "replace"), np.uint8), True)]
    return _parsed(name, reader, pieces, None, None, require_labels=False)


def _read(
    path: str | os.PathLike[str],
    one_based: bool | None,
    threads: int | None,
    features: int | None,
    labels: int | None,
    piece_bytes: int,
    chunk_bytes: int,
    require_labels: bool = True,
) -> Dataset:
    name = display_name(path)
    reader = _native.SvmReader(
        threads_to_use(threads),
        chunk_bytes,
        -1 if one_based is None else int(one_based),
        -1 if features is None else features,
        -1 if labels is None else labels,
    )
    with contextlib.closing(read_pieces(path, piece_bytes)) as pieces:
        return _parsed(name, reader, pieces, features, labels, require_labels)


def _parsed(
    name: str,
    reader: _native.SvmReader,
    pieces: Iterable[tuple[NDArray[np.uint8], bool]],
    features: int | None,
    labels: int | None,
    require_labels: bool,
) -> Dataset:
    for piece, last in pieces:
        if not reader.feed(piece, last):
            _raise_fault(name, reader, features, labels)
    if not reader.finish():
        _raise_fault(name, reader, features, labels)
    shape = _shape(name, reader, features, labels)
    x_indptr, indices, values, y_indptr, columns = reader.arrays()
    _check_rows(name, reader.header, len(x_indptr) - 1)
    if require_labels and not len(columns):
        raise InputError(
            f"{name}: the file has no label, expected some before the features (`3,17 1:0.5`); add the labels"
        )
    if reader.names is None and reader.header is None and labels is None:
        _check_label_gaps(name, reader.n_labels, len(columns))
    X = wrap_csr(values, indices, x_indptr, (len(x_indptr) - 1, shape[0]))
    Y = wrap_csr(np.ones(len(columns), dtype=np.float32), columns, y_indptr, (len(y_indptr) - 1, shape[1]))
    X.has_canonical_format = Y.has_canonical_format = True  # SciPy need not look
    names = reader.names
    return Dataset(X, Y, None if names is None else tuple(names), reader.one_based)


def _shape(name: str, reader: _native.SvmReader, features: int | None, labels: int | None) -> tuple[int, int]:
    """Columns of X and Y, once the whole file is known."""
    header = reader.header
    if features is not None and reader.n_features > features:
        raise InputError(
            f"{name}: got feature {features} counted from 0, expected indices below features={features}; "
            "set one_based=True (--one-based) if the first feature is 1, or omit features"
        )
    allowed = min(n for n in (labels, header and header[2], reader.n_labels) if n is not None)
    if reader.n_labels > allowed:
        raise InputError(
            f"{name}: got {reader.n_labels} different label names, expected at most {allowed}, the number of "
            "labels said; correct that number"
        )
    wide = features or (header[1] if header else reader.n_features)
    if reader.names is not None:
        return wide, reader.n_labels
    return wide, labels or (header[2] if header else reader.n_labels)


def _check_label_gaps(name: str, labels: int, entries: int) -> None:
    """Refuse numbers that are no column numbers: a model keeps a place for each label up to the largest."""
    if labels > 1_000_000 + 100 * entries:
        raise InputError(
            f"{name}: got label {labels - 1} in a file with only {entries:,} labels in all, expected numbers "
            "from 0 without large gaps; number the labels anew, or write them as names (`L1234`)"
        )


def _check_rows(name: str, header: tuple[int, int, int] | None, rows: int) -> None:
    if header and header[0] != rows:
        raise InputError(
            f"{name}:1: the header says {header[0]} instances, the file holds {rows}, expected as many; "
            "correct the header, or get the whole file"
        )
    if rows == 0:
        raise InputError(
            f"{name}: the file is empty (comments and blank lines apart), expected a line for each instance; "
            "check how it was made"
        )


def _raise_fault(name: str, reader: _native.SvmReader, features: int | None, labels: int | None) -> NoReturn:
    assert reader.fault is not None
    what, line, raw = reader.fault
    if what == "index beyond":
        expected = f"indices within {_tighter(features, 'features', reader.header and reader.header[1])}"
        remedy = "correct that number, or set one_based=True (--one-based) if the first feature is 1"
    elif what == "label beyond":
        expected = f"labels from 0 within {_tighter(labels, 'labels', reader.header and reader.header[2])}"
        remedy = "correct that number"
    else:
        expected, remedy = _FAULTS[what]
    text = raw.decode("utf-8", "backslashreplace")
    got = f"feature {text} twice" if what == "index twice" else repr(text)
    raise InputError(f"{name}:{line}: got {got}, expected {expected}; {remedy}")


def _tighter(said: int | None, what: str, header: int | None) -> str:
    if said is None or (header is not None and header < said):
        return f"the header's {header} {what}"
    return f"{what}={said}"


def write_svm(
    path: str | os.PathLike[str], dataset: Dataset, *, one_based: bool | None = None, header: bool = False
) -> None:
    """Write a LIBSVM file that `read_svm` reads back as the same data.

    It is compressed if its name ends in .gz, .bz2 or .xz, and appears under its name only when complete.
    Without a header, a zero on the first line or the last keeps a width, a base or an instance that the file
    would not show; labels after the last that is used are then not kept, nor is the order of named columns
    other than that of their first appearance.

    Parameters
    ----------
    path : str or path-like
        The file; one that exists is replaced.
    dataset : Dataset
        What to write.
    one_based : bool, optional
        Whether to number features from 1 rather than 0. By default without a header only, which is how
        `read_svm` takes a file unless it is told.
    header : bool, default=False
        Whether to begin with the numbers of instances, features and labels.

    Raises
    ------
    InputError
        If a label's name would not be read back as it is, or the file cannot be written.
    """
    base = int(not header if one_based is None else one_based)
    name_indptr, names = _encoded_names(dataset)
    x_indptr, indices, values = csr_arrays(dataset.X) if header else _with_zeros(dataset, base)
    y_indptr, columns, _ = csr_arrays(dataset.Y)
    with write_whole(path) as file:
        if header:
            file.write(f"{dataset.n_instances} {dataset.n_features} {dataset.n_labels}\n".encode())
        step = max(1, _PIECE_BYTES // 16 * dataset.n_instances // (len(indices) + 1))  # about a piece of text
        for first in range(0, dataset.n_instances, step):
            rows = slice(first, min(first + step, dataset.n_instances) + 1)
            x_rows, y_rows = x_indptr[rows], y_indptr[rows]
            entries, marks = slice(x_rows[0], x_rows[-1]), slice(y_rows[0], y_rows[-1])
            lines = _native.format_svm(
                x_rows - x_rows[0],
                indices[entries],
                values[entries],
                y_rows - y_rows[0],
                columns[marks],
                base,
                name_indptr,
                names,
            )
            file.write(lines)


def _with_zeros(
    dataset: Dataset, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Arrays of X, with zeros where text would not show its last column, its base or an empty last row."""
    x_indptr, indices, values = csr_arrays(dataset.X)
    last_row, last_column = dataset.n_instances - 1, dataset.n_features - 1
    cells = set()
    if dataset.n_features and dataset.n_instances:
        if base == 0 and indices.min(initial=last_column + 1) > 0:
            cells.add((0, 0))
        if indices.max(initial=-1) < last_column:
            cells.add((0, last_column))
        if x_indptr[-1] == x_indptr[-2] and dataset.Y.indptr[-1] == dataset.Y.indptr[-2]:
            cells.add((last_row, last_column))
    if not cells:
        return x_indptr, indices, values
    rows, columns = zip(*sorted(cells), strict=True)
    places = [x_indptr[row + (column > 0)] for row, column in sorted(cells)]
    added = np.searchsorted(rows, np.arange(dataset.n_instances + 1))
    return x_indptr + added, np.insert(indices, places, columns), np.insert(values, places, 0)


def _encoded_names(dataset: Dataset) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Names of the labels in UTF-8, one after the other, and where each begins."""
    if dataset.label_names is None:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    for name in dataset.label_names:
        if not _WRITABLE.fullmatch(name):
            raise InputError(
                f"got the label name {name!r}, expected characters other than blanks, commas, colons and #; "
                "rename it"
            )
    used = [dataset.label_names[column] for column in np.unique(dataset.Y.indices)]
    if used and all(_NUMBER.fullmatch(name) and int(name) < 2**31 - 1 for name in used):
        raise InputError(
            f"got only numbers as label names, such as {used[0]!r}, expected some other name, or the file "
            "would be read with them as columns; make them columns of Y"
        )
    encoded = [name.encode() for name in dataset.label_names]
    name_indptr = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return name_indptr, np.frombuffer(b"".join(encoded), dtype=np.uint8)
