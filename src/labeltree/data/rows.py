"""Parts of data in the form that it has: rows of frames, lists and matrices; lines of files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.base.files import check_output, write_whole
from labeltree.base.paths import data_files
from labeltree.data.columns import Columns
from labeltree.data.dataset import Dataset
from labeltree.data.records import Documents, Lines
from labeltree.data.svm import write_svm
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.inputs import Source

# Formats whose documents are lines, so that a part is some of the lines.
LINES = ("tsv", "csv", "jsonl", "txt")


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
    path: str,
    format: str,
    columns: Columns,
    parts: NDArray[np.int8],
    outputs: Sequence[Path],
) -> None:
    """Write the lines of the documents of a file to the file of their part, each as it is.

    Lines before the first document, such as the header of a CSV file, are written to all of them.
    """
    starts: list[int] = []
    for _ in Documents([path], format, columns, require_labels=False, strict=False, starts=starts):
        pass
    if len(starts) != len(parts):
        raise InputError("the file has changed", file=path, hint="split it again")
    with ExitStack() as stack:
        files = [stack.enter_context(write_whole(output)) for output in outputs]
        document = -1
        for number, line in enumerate(Lines(path, None), 1):
            while document + 1 < len(starts) and starts[document + 1] <= number:
                document += 1
            content = f"{line}\n".encode()
            for file in files if document < 0 else (files[parts[document]],):
                file.write(content)


def write_parts(
    data: Any, source: Source, dataset: Dataset | None, parts: NDArray[np.int8], outputs: Sequence[Path]
) -> None:
    """Write the parts of a file, or of several that are read one after the other, as one file each."""
    if dataset is not None:
        for number, output in enumerate(outputs):
            write_svm(output, dataset.take(np.flatnonzero(parts == number)))
    elif source.format in LINES and len(files := data_files(data)) == 1:
        split_lines(files[0], source.format, source.columns, parts, outputs)
    else:
        kind = f"a {source.format} file" if source.format not in LINES else "several files"
        what = f"{kind} cannot be split"
        raise InputError(
            what, file=source.name, hint="pass a frame or a list of texts, or concatenate the files"
        )


def output_files(path: Path, names: Sequence[str], format: str, overwrite: bool) -> list[Path]:
    """Return the files of the parts in a directory; refuse those that exist unless they may be replaced."""
    files = [path / f"{name}.{format}" for name in names]
    if path.exists() and not path.is_dir():
        raise InputError("the output is a file, not a directory", file=path, hint="choose another name")
    for file in files if path.exists() else ():
        check_output(file, overwrite)
    return files
