"""Parts of data in the form that it has: rows of frames, lists and matrices; lines of files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.base.extras import optional
from labeltree.base.files import check_output, write_whole
from labeltree.base.paths import data_files
from labeltree.data.columns import Columns
from labeltree.data.dataset import Dataset
from labeltree.data.records import Documents, Lines
from labeltree.data.svm import write_svm
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.inputs import Source

_ALIKE = "give the files the same columns in the same order"


def take_rows(data: Any, rows: NDArray[Any]) -> Any:
    """Return some rows, by number, of a dataset, a matrix, a frame, a column or a list, as the same type."""
    if isinstance(data, Dataset):
        return data.take(rows)
    if sparse.issparse(data):
        matrix: Any = data
        return matrix.tocsr()[rows]
    if isinstance(data, np.ndarray):
        return data[rows]
    if not isinstance(data, list | tuple):
        import narwhals as nw

        native = nw.from_native(data, pass_through=True, allow_series=True)
        if isinstance(native, nw.DataFrame | nw.Series):
            return native[rows.tolist()].to_native()
        if hasattr(data, "take"):  # an array of Arrow without chunks
            return data.take(rows)
    kept = [data[row] for row in rows.tolist()]
    return tuple(kept) if isinstance(data, tuple) else kept


def split_lines(
    paths: Sequence[str], format: str, columns: Columns, parts: NDArray[np.int8], outputs: Sequence[Path]
) -> None:
    """Write the lines of the documents of files to the file of their part, each as it is.

    Lines before the first document, such as the header of a CSV file, are written to all of them once.
    """
    head: list[str] | None = None
    with ExitStack() as stack:
        files = [stack.enter_context(write_whole(output)) for output in outputs]
        for path in paths:
            starts: list[int] = []
            for _ in Documents([path], format, columns, require_labels=False, strict=False, starts=starts):
                pass
            own, parts = parts[: len(starts)], parts[len(starts) :]
            if len(own) < len(starts):
                raise InputError("the file has changed", file=path, hint="split it again")
            document, before = -1, list[str]()
            for number, line in enumerate(Lines(path, None), 1):
                while document + 1 < len(starts) and starts[document + 1] <= number:
                    document += 1
                if document < 0:
                    before.append(line)
                targets = [files[own[document]]] if document >= 0 else files if head is None else []
                for file in targets:
                    file.write(f"{line}\n".encode())
            if format == "csv" and head is not None and before != head:
                what = f"the header differs from that of {paths[0]}"
                raise InputError(what, file=path, hint=_ALIKE)
            head = before


def write_parts(
    data: Any, source: Source, dataset: Dataset | None, parts: NDArray[np.int8], outputs: Sequence[Path]
) -> None:
    """Write the parts of a file, or of several that are read one after the other, as one file each."""
    if dataset is not None:
        for number, output in enumerate(outputs):
            write_svm(output, dataset.take(np.flatnonzero(parts == number)))
    elif source.format == "parquet":
        parquet = optional("pyarrow.parquet")
        tables = list(map(parquet.read_table, data_files(data)))
        if any(other.schema != tables[0].schema for other in tables):
            raise InputError("the files have different columns", file=source.name, hint=_ALIKE)
        table = optional("pyarrow").concat_tables(tables)
        for number, output in enumerate(outputs):
            with write_whole(output) as file:
                parquet.write_table(table.take(np.flatnonzero(parts == number)), file)
    elif source.format == "arrow":
        raise InputError("an Arrow file cannot be split", file=source.name, hint="save it as Parquet")
    else:
        split_lines(data_files(data), str(source.format), source.columns, parts, outputs)


def output_files(path: Path, names: Sequence[str], format: str, overwrite: bool) -> list[Path]:
    """Return the files of the parts in a directory; refuse those that exist unless they may be replaced."""
    files = [path / f"{name}.{format}" for name in names]
    if path.exists() and not path.is_dir():
        raise InputError("the output is a file, not a directory", file=path, hint="choose another name")
    for file in files if path.exists() else ():
        check_output(file, overwrite)
    return files
