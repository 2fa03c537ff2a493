"""Read binary files: documents from Parquet and Arrow, in batches, and matrices that SciPy has written."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.base.extras import optional
from labeltree.data.columns import Document, Rules, no_column
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError

_BATCH_ROWS = 10_000


def parse_arrow(
    rules: Rules, file: str, format: str, progress: Callable[[float], None] | None
) -> Iterator[Document]:
    """Yield the document of each row; errors name the row, counted from 1, as their line."""
    pyarrow = optional("pyarrow")
    failures = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
    read = _parquet_batches if format == "parquet" else _arrow_batches
    first = 1
    try:
        for batch, part in read(rules, file):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                piece = batch.slice(start, _BATCH_ROWS)
                columns = [piece.column(at).to_pylist() for at in range(piece.num_columns)]
                names = piece.schema.names
                for cells in zip(*columns, strict=True):
                    try:
                        document = rules.document(dict(zip(names, cells, strict=True)))
                    except InputError as error:
                        raise error.replace(file=rules.name, line=first) from None
                    yield rules.check(document, first)
                    first += 1
            if progress is not None:
                progress(part)
    except failures as error:
        what = f"the file cannot be read as {format.title()} ({' '.join(str(error).split())})"
        raise InputError(what, file=rules.name, hint="check that this is the right file") from None


def _parquet_batches(rules: Rules, path: str) -> Iterator[tuple[Any, float]]:
    """Yield batches of rows, and the fraction of the file that was read after each."""
    with optional("pyarrow.parquet").ParquetFile(path) as file:
        wanted, done = _wanted(rules, file.schema_arrow.names), 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
            done += batch.num_rows
            yield batch, done / file.metadata.num_rows


def _arrow_batches(rules: Rules, path: str) -> Iterator[tuple[Any, float]]:
    """Yield the batches of a file, or of a stream that was written to one."""
    pyarrow, ipc = optional("pyarrow"), optional("pyarrow.ipc")
    with pyarrow.OSFile(path) as source:
        try:
            file = ipc.open_file(source)
            batches = map(file.get_batch, range(file.num_record_batches))
        except pyarrow.ArrowInvalid:
            source.seek(0)
            batches = file = ipc.open_stream(source)
        wanted = _wanted(rules, file.schema.names)
        for batch in batches:
            yield batch.select(wanted), source.tell() / source.size()


def _wanted(rules: Rules, names: list[str]) -> list[str]:
    """Return the columns to read."""
    label_column = rules.label_column(names)
    wanted = dict.fromkeys(rules.columns.texts, "text")
    if rules.require_labels or label_column in names:
        wanted[label_column] = "labels"
    if rules.columns.id is not None:
        wanted[rules.columns.id] = "id"
    for name, field in wanted.items():
        if name not in names:
            raise no_column("the file", name, names, field).replace(file=rules.name)
    return list(wanted)


def read_npz(files: Sequence[str], *, require_labels: bool = True) -> Dataset:
    """Read X and Y from two files of `scipy.sparse.save_npz`, or a file that `labeltree convert` wrote."""
    if len(files) > 2:
        what = f"there are {len(files)} .npz files, expected two"
        raise InputError(what, hint="pass the features and the labels, such as X.npz Y.npz")
    X, Y, names = _read(files[0])
    if len(files) == 2:
        Y, _, names = _read(files[1])
    if Y is None:
        if require_labels:
            hint = "add the file with the labels, as in X.npz Y.npz"
            raise InputError("the file has features only", file=files[0], hint=hint)
        return Dataset.from_matrices(X, np.zeros((X.shape[0], 1), np.float32))
    return Dataset.from_matrices(X, Y, names)


def _read(file: str) -> tuple[Any, Any, list[str] | None]:
    """Return the matrix of a file, and the labels and their names if it has any."""
    try:
        matrix = sparse.load_npz(file)
        with np.load(file) as arrays:
            if "labels_indptr" not in arrays:
                return matrix, None, None
            indices, indptr = arrays["labels_indices"], arrays["labels_indptr"]
            shape = (len(indptr) - 1, int(arrays["n_labels"]))
            names = arrays["label_names"].tolist() if "label_names" in arrays else None
        return matrix, sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape), names
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        what = f"the file is not a sparse matrix ({' '.join(str(error).split())})"
        raise InputError(what, file=file, hint="write it with scipy.sparse.save_npz") from None
