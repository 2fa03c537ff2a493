"""Texts and labels in memory: sequences, arrays, columns of any frame library, and indicator matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from labeltree.base.extras import optional
from labeltree.data.columns import Columns, cell_labels, is_missing, no_column, some_names
from labeltree.data.dataset import canonical_csr
from labeltree.errors import InputError

if TYPE_CHECKING:
    import narwhals as nw

_SLICE = 10_000  # values of a column that are Python objects at a time


class Column:
    """The values of a column of a frame, as Python values, a few at a time."""

    def __init__(self, series: nw.Series[Any]) -> None:
        self._series = series

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, len(self._series), _SLICE):
            yield from self._series[first : first + _SLICE].to_list()


Values = Sequence[Any] | Column


def as_frame(data: Any) -> nw.DataFrame[Any] | None:
    """Return a frame of pandas, polars, Arrow or another library; None if it is none."""
    if isinstance(data, list | tuple | np.ndarray | dict) or sparse.issparse(data):
        return None
    import narwhals as nw

    if type(data).__name__ == "RecordBatch":
        data = optional("pyarrow").table(data)
    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InputError("several columns have the same name", hint="rename all but one of them") from None
    if isinstance(frame, nw.LazyFrame):
        what = f"the data is a {type(data).__name__}, whose rows are not computed yet"
        raise InputError(what, hint="pass data.collect()")
    return frame if isinstance(frame, nw.DataFrame) else None


def as_values(data: Any) -> Values | None:
    """Return the values of a sequence, an array or a column; None if it is none of these."""
    if isinstance(data, list | tuple | Column):
        return data
    if isinstance(data, np.ndarray):
        return data.tolist() if data.ndim else None
    if sparse.issparse(data) or isinstance(data, str | bytes | bytearray):
        return None
    if type(data).__module__ == "pyarrow.lib" and not hasattr(data, "chunks"):  # an array without chunks
        data = optional("pyarrow").chunked_array([data])
    import narwhals as nw

    series = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(series, nw.Series):
        return Column(series)
    return data if isinstance(data, Sequence) else None


def first_value(values: Values) -> Any:
    """Return the first value that is not missing; None if all are."""
    return next((value for value in values if not is_missing(value)), None)


def is_indicator(labels: Any) -> bool:
    """Return whether labels are the columns of a matrix: sparse, an array of numbers, or a frame."""
    if isinstance(labels, np.ndarray):
        return labels.ndim == 2 and labels.dtype.kind in "biuf"
    return sparse.issparse(labels) or as_frame(labels) is not None


def indicator(labels: Any) -> tuple[sparse.csr_matrix, tuple[str, ...] | None]:
    """Return an indicator matrix, and the names of its columns if it is a frame."""
    frame = as_frame(labels)
    flags = canonical_csr(labels if frame is None else matrix_of(frame, "labels"), "labels")
    if (other := flags.data[flags.data != 1]).size:
        what = f"labels contains {other[0]:g}, expected an indicator matrix of 0 and 1"
        raise InputError(what, hint="pass labels != 0 if every other number stands for a label")
    return flags, None if frame is None else tuple(map(str, frame.columns))


def matrix_of(frame: nw.DataFrame[Any], name: str) -> Any:
    """Return the numbers of a frame as a matrix."""
    native = frame.to_native()
    if getattr(native, "sparse", None) is not None:  # pandas with sparse columns only
        return native.sparse.to_coo()
    schema = frame.schema.items()
    wrong = [each for each, kind in schema if not (kind.is_numeric() or str(kind) == "Boolean")]
    if wrong:
        what = f"the columns of {name} contain something else than numbers: {some_names(wrong)}"
        hint = "name the column with the documents ({text})"
        raise InputError(what, hint="pass one of the columns" if name == "labels" else hint)
    return frame.to_numpy()


def text_values(frame: nw.DataFrame[Any], columns: Sequence[str]) -> Iterator[str | None]:
    """Return the text of each row of a frame, those of several columns joined by spaces."""
    parts = [
        checked_texts(Column(column(frame, name, "text")), f"column {name!r}, row {{}},") for name in columns
    ]
    if len(parts) == 1:
        return parts[0]
    rows = ([text for text in row if text is not None] for row in zip(*parts, strict=True))
    return (" ".join(row) if row else None for row in rows)


def column(frame: nw.DataFrame[Any], name: str, field: str) -> nw.Series[Any]:
    """Return a column of a frame; `field` is the parameter that names it."""
    if name not in frame.columns:
        raise no_column("the data", name, frame.columns, field)
    return frame.get_column(name)


def checked_texts(values: Values | Iterator[Any], where: str = "data[{}]") -> Iterator[str | None]:
    """Yield texts, None for a missing one; refuse anything else."""
    for number, value in enumerate(values):
        if isinstance(value, str):
            yield value
        elif is_missing(value):
            yield None
        else:
            what = f"{where.format(number)} is of type {type(value).__name__}, expected a string"
            raise InputError(what, hint="convert it to a string, or use None for a missing text")


def checked_labels(
    values: Values, columns: Columns, where: str = "labels", *, strict: bool = False
) -> Iterator[list[str]]:
    """Yield the labels of each row: a list of names, or a string that separators split."""
    split: Callable[[str], list[str]] = columns.split(",")
    for number, value in enumerate(values):
        labels = cell_labels(value, split, f"{where}[{number}]", strict=strict)
        is_repeated = len(labels) > len(set(labels))
        if is_repeated and set(labels) <= {"0", "1"} and not any(isinstance(label, str) for label in value):
            what = f"{where}[{number}] repeats 0 or 1, as if labels were the rows of an indicator matrix"
            raise InputError(what, hint="pass numpy.array(labels), or lists of the labels of each row")
        yield labels
