"""LIBSVM multi-label files: `l1,l2 f:v f:v ...` per line, as in the Extreme Classification Repository.

In addition to the plain format, a file may contain:

- a header line `instances features labels`; features are then numbered from 0, and it gives the shape;
- lines without labels (starting with a space or a feature), without features, or without both: a blank line
  is an instance, except at the end of the file, where blank lines count only if the header requires them;
- comments from `#` to the end of the line; a line that holds only a comment is not an instance;
- features in any order; zeros, which widen the matrix but are not stored; tabs, CRLF, a byte order mark;
- labels that are names. Labels are numbers if all of them are written in plain digits (no sign, no leading
  zeros) and are below 2**31 - 1; otherwise all are names, numbered by their first appearance.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.display import Progress, shown
from labeltree.base.files import display_name, read_pieces, write_whole
from labeltree.base.paths import Paths, data_files, shares, shown_files
from labeltree.base.system import available_memory, human_bytes, threads_to_use
from labeltree.data.dataset import Dataset, csr_arrays, wrap_csr
from labeltree.errors import InputError

_PIECE_BYTES = 1 << 23  # read at a time; two pieces are in memory
_CHUNK_BYTES = 1 << 19  # parsed at a time by a thread
_LABEL_BYTES = 12  # of a column of Y, even an empty one, in the arrays of `Dataset.by_label`

# Names that can be read back unchanged, and those that would be read as numbers if small enough.
_WRITABLE = re.compile(r"(?!\ufeff)[^\x00-\x20\x7f,:#\ud800-\udfff]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")

# What the parser found -> what was expected, and what to do.
_FAULTS: dict[str, tuple[str, str | None]] = {
    "binary": ("text in UTF-8", "pass a text file, plain or compressed with gzip, bzip2 or xz"),
    "empty label": ("a label on both sides of each comma", "remove the extra comma"),
    "no colon": ("index:value", "separate labels by commas without spaces, and features by spaces"),
    "index": ("an integer before the colon", None),
    "index negative": ("an index of at least 0", None),
    "index huge": (f"an index of at most {limits.LARGEST_INT32 - 1}", "renumber the features"),
    "index zero": (
        "indices from 1, as requested or as in the model's training file",
        "if features are numbered from 0, train and predict with {one_based}",
    ),
    "index twice": ("each feature once per line", "remove or sum the repeated feature"),
    "no value": ("a value after the colon", "add the value or remove the feature"),
    "value": ("a number after the colon", None),
    "not finite": ("a finite number that fits in a float32", "correct the value or remove the feature"),
}


def read_svm(
    path: Paths,
    *,
    one_based: bool | None = None,
    threads: int | None = None,
    require_labels: bool = True,
    progress: bool | Progress | None = None,
) -> Dataset:
    """Read a LIBSVM file, plain or compressed (gzip, bzip2 and xz are detected from the first bytes).

    Parameters
    ----------
    path : path-like, or list of them
        The file; "-" for standard input. Several, or a pattern, are read as one file, without headers.
    one_based : bool, optional
        Whether the first feature is 1 rather than 0. Default: it is, unless the file has a header or a
        feature 0.
    threads : int, optional
        Number of threads; the result does not depend on it. Default: all CPUs.
    require_labels : bool, default=True
        Reject a file without any labels, since nothing can be learned from it.
    progress : bool, default False
        Show the progress on standard error or in a notebook.

    Returns
    -------
    Dataset
        With the numbers of features and labels of the header, or those up to the last of each. For more
        features, see `Dataset.widen`.
    """
    threads = threads_to_use(threads)
    files = data_files(path)
    starts: list[tuple[int, str]] = []
    stage = shown(progress, f"reading {shown_files(files)}")
    with stage as done, contextlib.closing(_pieces(files, starts, done)) as pieces:
        try:
            return _parse(shown_files(files), pieces, threads, one_based, require_labels)
        except InputError as error:
            if len(files) == 1 or error.line is None:
                raise
            start, file = max(each for each in starts if each[0] <= error.line)
            hint = error.hint if error.line > start else "remove the header; several files have none"
            raise error.replace(file=file, line=error.line - start + 1, hint=hint) from None


def _pieces(
    files: Sequence[str], starts: list[tuple[int, str]], progress: Progress | None
) -> Generator[tuple[NDArray[np.uint8], bool], None, None]:
    """Yield the pieces of all files as those of one, and append to `starts` on which line each begins."""
    line = 1
    for number, (file, part) in enumerate(shares(files, progress), 1):
        starts.append((line, display_name(file)))
        is_first, is_ended = number > 1, True
        with contextlib.closing(read_pieces(file, _PIECE_BYTES, part)) as pieces:
            for piece, last in pieces:
                if is_first and piece[:3].tobytes() == codecs.BOM_UTF8:
                    piece = piece[3:]
                is_first = False
                if last and number < len(files):  # blank lines at the end are no rows
                    content = piece.tobytes().rstrip()
                    piece = np.frombuffer(content + b"\n" * bool(content or not is_ended), np.uint8)
                if len(files) > 1:
                    line += int(np.count_nonzero(piece == 10))
                    is_ended = bool(piece[-1:].tobytes() == b"\n")
                yield piece, last and number == len(files)


def parse_svm(text: str, name: str, *, one_based: bool | None = None) -> Dataset:
    """Parse LIBSVM text that is in memory and has this name in messages; labels are not required."""
    pieces = [(np.frombuffer(text.encode("utf-8", "replace"), np.uint8), True)]
    return _parse(name, pieces, 1, one_based, require_labels=False)


def _parse(
    name: str,
    pieces: Iterable[tuple[NDArray[np.uint8], bool]],
    threads: int,
    one_based: bool | None,
    require_labels: bool,
) -> Dataset:
    reader = _native.SvmReader(threads, _CHUNK_BYTES, -1 if one_based is None else int(one_based))
    if not (all(reader.feed(piece, last) for piece, last in pieces) and reader.finish()):
        _raise_fault(name, reader)
    header, names = reader.header, reader.names
    if header and reader.n_labels > header[2]:
        what = f"there are {reader.n_labels} different label names, expected at most {header[2]}"
        raise InputError(what, file=name, hint="correct the number of labels")
    width = header[1] if header else reader.n_features
    height = header[2] if header and names is None else reader.n_labels
    # Before arrays with an entry for each label are allocated.
    needed, available = _LABEL_BYTES * height, available_memory()
    if needed > available:
        raise InputError(
            f"not enough memory: {height:,} labels need {human_bytes(needed)}, "
            f"{human_bytes(available)} are available",
            file=name,
            line=1 if header else None,
            hint="correct the header" if header else "number the labels from 0 without large gaps",
        )
    x_indptr, indices, values, y_indptr, columns = reader.arrays()
    n_rows = len(x_indptr) - 1
    if header and header[0] != n_rows:
        what = f"the header declares {header[0]} instances, but the file has {n_rows}"
        raise InputError(what, file=name, line=1, hint="correct the header, or get the complete file")
    if n_rows == 0:
        raise InputError("the input is empty", file=name)
    if require_labels and not len(columns):
        what, hint = "no line has labels", "start each line with its labels, as in `3,17 1:0.5`"
        raise InputError(what, file=name, hint=hint)
    # A model keeps a place for each label up to the largest.
    if names is None and header is None and height > 1_000_000 + 100 * len(columns):
        times = f"{len(columns):,} time{'s' * (len(columns) != 1)}"
        what = f"the largest label number is {height - 1}, but labels occur only {times} in the file"
        hint = "number the labels from 0 without large gaps, or write them as names (`L1234`)"
        raise InputError(what, file=name, hint=hint)
    X = wrap_csr(values, indices, x_indptr, (n_rows, width))
    Y = wrap_csr(np.ones(len(columns), dtype=np.float32), columns, y_indptr, (n_rows, height))
    X.has_canonical_format = Y.has_canonical_format = True  # SciPy need not check
    return Dataset(X, Y, None if names is None else tuple(names), reader.one_based)


def _raise_fault(name: str, reader: _native.SvmReader) -> NoReturn:
    assert reader.fault is not None
    what, line, raw = reader.fault
    text = raw.decode("utf-8", "backslashreplace")
    parameters: dict[str, Any] | None = None
    if what in ("index beyond", "label beyond"):
        assert reader.header is not None
        _, n_features, n_labels = reader.header
        if what == "index beyond":
            problem = f"the feature index {text.split(':')[0]} is out of range for the {n_features} features"
            hint: str | None = "correct that number, or use {one_based} if the first feature is 1"
            parameters = {"one_based": True}
        else:
            problem = f"the label {text} is out of range for the {n_labels} labels"
            hint = "correct that number, and number labels from 0"
        problem += " declared in the header"
    else:
        expected, hint = _FAULTS[what]
        problem = (
            f"expected {expected}, got {f'feature {text} twice' if what == 'index twice' else repr(text)}"
        )
        if what == "index zero":
            parameters = {"one_based": False}
    raise InputError(problem, file=name, line=line, hint=hint, parameters=parameters)


def write_svm(
    path: str | os.PathLike[str], dataset: Dataset, *, one_based: bool | None = None, header: bool = False
) -> None:
    """Write a LIBSVM file that `read_svm` reads back as the same data.

    It is compressed if its name ends in .gz, .bz2 or .xz, and appears under its name once it is complete.
    Without a header, a zero on the first or last line preserves a width, a base or an instance that the file
    would not show otherwise. Unused labels after the last one in use are not preserved, and named labels are
    numbered by their first appearance; names that could not be read back are refused.

    Parameters
    ----------
    path : str or path-like
        The file; an existing one is replaced.
    dataset : Dataset
    one_based : bool, optional
        Number features from 1 rather than 0. Default: without a header only, which is how `read_svm` reads
        a file by default.
    header : bool, default=False
        Start with the numbers of instances, features and labels.
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
    """Return the arrays of X, with zeros that show its last column, its base or an empty last row."""
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
    """Return the start of each label name, and all names in UTF-8, concatenated."""
    if dataset.label_names is None:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    for name in dataset.label_names:
        if not _WRITABLE.fullmatch(name):
            raise InputError(
                f"the label name {name!r} cannot be written",
                hint="avoid spaces, commas, colons and #, or write an .npz file",
            )
    used = [dataset.label_names[column] for column in np.unique(dataset.Y.indices)]
    if used and all(_NUMBER.fullmatch(name) and int(name) < limits.LARGEST_INT32 for name in used):
        what = f"all label names are numbers, such as {used[0]!r}, and would be read as column numbers"
        raise InputError(what, hint="use them as columns of Y instead, or write an .npz file")
    encoded = [name.encode() for name in dataset.label_names]
    name_indptr = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return name_indptr, np.frombuffer(b"".join(encoded), dtype=np.uint8)
