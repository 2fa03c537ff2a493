"""Anything that holds labeled documents or features, as a dataset: files, texts, frames and matrices."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.base import limits
from labeltree.base.display import Progress, shown
from labeltree.base.options import ReadingOptions, shows
from labeltree.base.paths import data_files, format_of, is_pattern, shown_files
from labeltree.data.columns import Columns, Document
from labeltree.data.dataset import Dataset
from labeltree.data.frames import (
    Column,
    Values,
    as_frame,
    as_values,
    checked_labels,
    checked_texts,
    column,
    first_value,
    indicator,
    is_indicator,
    matrix_of,
    text_values,
)
from labeltree.data.read import LabelNumbers, check_options, documents_dataset, read_features, resolve_format
from labeltree.data.records import Documents
from labeltree.errors import InputError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from typing_extensions import Unpack

    # What verbs take as data and as labels.
    Data: TypeAlias = "str | os.PathLike[str] | Iterable[Any] | IntoDataFrame | Dataset"
    Labels: TypeAlias = "str | Iterable[Any] | IntoDataFrame | None"


@shows(ReadingOptions)
def read_data(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    settings: TextSettings | None = None,
    like: Any = None,
    require_labels: bool = True,
    threads: int | None = None,
    progress: bool | Progress = False,
    **reading: Unpack[ReadingOptions],
) -> Dataset:
    """Read data in any form as a dataset: files, texts, frames or matrices.

    Parameters
    ----------
    data : path-like, list of Path, sequence of str, frame, matrix or Dataset
        A string is the path of a file, or a pattern such as "part-*.csv". Texts are a list, a tuple, an
        array or a column of pandas, polars or Arrow. A frame has columns with texts and labels.
    labels : str, sequence or matrix, optional
        The labels of each row: a list of names, or a string that ``separator`` splits; or an indicator
        matrix, 1 where the row has the label. If the data has columns, also the name of one. Default: the
        column "labels".
    text : str or sequence of str, optional
        The column with the text; several are joined by a space. Default: "text".
    settings : TextSettings, optional
        How documents become features.
    like : Model or Dataset, optional
        Read the data for this model, or like this training data: with the same features and columns.
    require_labels : bool, default True
        Refuse data without any labels, and skip documents without text.
    threads : int, optional
        Default: all CPUs.
    progress : bool, default False
        Show the progress on standard error or in a notebook, if the data is a file.
    **reading
        How it is read: ``separator``, ``delimiter``, ``id``, ``format``, ``one_based``, ``strict``, as in
        `labeltree.base.options.ReadingOptions`.

    Returns
    -------
    Dataset
        For a model, with at least its features.

    Examples
    --------
    >>> read_data(["red apples", "a blue whale"], [["fruit"], ["sea", "animal"]])
    Dataset(n_instances=2, n_features=4, n_labels=3)
    """
    source = open_data(data, labels, text=text, like=like, require_labels=require_labels, **reading)
    with shown(progress, f"reading {source.name or 'the data'}") as done:
        return source.dataset(settings, like=like, threads=threads, progress=done)


@dataclass(frozen=True, eq=False)
class Source:
    """Data in any form, which can be read several times: once for each choice of features, or of rows.

    If labels are required, rows without text are skipped, and data without labels is refused. `name` is the
    file, or how many they are, and `format` that of the file, "svm" for any with features. Exactly one of
    `features`, which reads rows of features, and `documents` is given; both take a progress callback. `flags`
    are the labels of the documents and their names, if they are an indicator matrix.
    """

    columns: Columns
    require_labels: bool
    name: str | None = None
    format: str | None = None
    features: Callable[[int | None, Progress | None], Dataset] | None = None
    documents: Callable[[Progress | None], Iterable[Document]] | None = None
    flags: tuple[sparse.csr_matrix, tuple[str, ...] | None] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the rows are documents."""
        return self.documents is not None

    def dataset(
        self,
        settings: TextSettings | None = None,
        *,
        like: Any = None,
        rows: NDArray[np.bool_] | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """Read the data as `read_data` does; `rows` is which rows to keep, also of those without text."""
        if self.documents is None:
            assert self.features is not None
            if settings is not None:
                what = "text settings are given, but the data is not text"
                raise InputError(what, file=self.name, hint="remove them")
            dataset = self.features(threads, progress)
            return dataset if rows is None else dataset.take(np.flatnonzero(rows))
        if like is not None and like.text is None:
            what = "the data is text, but the model was not trained on text"
            raise InputError(what, file=self.name, hint="pass a matrix of features")
        documents = self.documents(progress)
        found = documents_dataset(
            documents if rows is None else compress(documents, rows),
            self.columns,
            settings,
            None if like is None else like.text,
            require_labels=self.require_labels,
            threads=threads,
            name=self.name,
        )
        if self.flags is not None:
            Y, names = self.flags
            kept = np.ones(Y.shape[0], bool) if rows is None else rows.copy()
            if self.require_labels:
                kept &= np.array([bool(text.strip()) for text, _, _ in self.documents(None)])
            found = replace(found, Y=Y[np.flatnonzero(kept)], label_names=names)
        if self.require_labels and not found.Y.nnz:
            what, hint = "no document has a label", "check the labels ({labels})"
            raise InputError(what, file=self.name, hint=hint)
        return found


def open_data(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    like: Any = None,
    require_labels: bool = True,
    **reading: Unpack[ReadingOptions],
) -> Source:
    """Find out what data is, and check how it is to be read; see `read_data`."""
    named = str(labels) if isinstance(labels, str | int) else None
    given = {
        "text": _numbered(tuple(text) if isinstance(text, list | tuple) else text),
        "labels": named,
        "separators": reading.get("separator"),
        "delimiter": reading.get("delimiter"),
        "id": _numbered(reading.get("id")),
    }
    default = Columns() if like is None or like.text is None else like.text.columns
    columns = replace(default, **{name: value for name, value in given.items() if value is not None})
    if isinstance(data, Dataset):
        refuse("the data is a Dataset", {**reading, "text": text, "labels": labels})
        return Source(columns, require_labels, features=lambda threads, progress: data)
    if is_file(data):
        if labels is not None and named is None:
            what = "labels are values, but the data is a file"
            raise InputError(what, hint="pass the name of the column with the labels")
        return _file_source(data, columns, {**given, **reading}, like, require_labels)
    of_files = ("delimiter", "id", "format", "one_based")
    refuse("the data is not a file", {name: reading.get(name) for name in of_files})
    return _memory_source(data, labels, columns, text, like, require_labels, bool(reading.get("strict")))


def _numbered(name: Any) -> Any:
    """Return the name of a column, which in a TSV file is its number."""
    return str(name) if isinstance(name, int) else name


def is_file(data: Any) -> bool:
    """Return whether data is the path of a file, or a list of paths; a list of strings is one of texts."""
    if isinstance(data, list | tuple) and data and isinstance(data[0], os.PathLike):
        return all(isinstance(path, os.PathLike) for path in data)
    return isinstance(data, str | os.PathLike)


def _file_source(
    path: Any, columns: Columns, given: Mapping[str, Any], like: Any, require_labels: bool
) -> Source:
    is_there = path == "-" or os.path.exists(path) or is_pattern(path) if isinstance(path, str) else True
    if not is_there and format_of(path) is None:
        hint = "a string is the name of a file; pass a list of texts"
        raise InputError("no such file", file=reprlib.repr(path), hint=hint)
    files = data_files(path)
    format = resolve_format(files, given.get("format"), like)
    check_options(format, given)
    if format not in limits.TEXT_FORMAT.values:
        one_based = given.get("one_based")
        features = partial(
            read_features, files, format, like, one_based=one_based, require_labels=require_labels
        )
        return Source(columns, require_labels, shown_files(files), format, features)
    documents = partial(
        Documents,
        files,
        format,
        columns,
        require_labels=require_labels,
        strict=bool(given.get("strict")),
        eager=not require_labels,
        learns=like is None,
    )
    return Source(columns, require_labels, shown_files(files), format, documents=documents)


def _memory_source(
    data: Any, labels: Any, columns: Columns, text: Any, like: Any, require_labels: bool, strict: bool
) -> Source:
    frame = as_frame(data)
    is_named = isinstance(labels, str | int)
    first = first_value(data) if isinstance(data, list | tuple) else None
    if isinstance(first, dict) or as_frame(first) is not None:
        hint = "make a frame of it" if isinstance(first, dict) else "concatenate them"
        kind = "dictionaries" if isinstance(first, dict) else "frames"
        raise InputError(f"the data is a list of {kind}", hint=hint)
    files = "; pass Path objects if these are files" * (isinstance(first, str) and os.path.exists(first))
    if frame is None and is_named:
        what = f"labels is {labels!r}, but the data has no columns"
        raise InputError(what, hint=f"pass the labels of each row{files}")
    if frame is not None:
        has_texts = set(columns.texts) <= set(frame.columns)
        is_matrix = like.text is None if like is not None else not (is_named or text or has_texts)
        if is_matrix and not (labels is None and require_labels):
            return _matrix_source(matrix_of(frame, "the data"), labels, columns, require_labels, strict)
        if is_named or (labels is None and (require_labels or columns.labels in frame.columns)):
            labels = Column(column(frame, columns.labels, "labels"))
        n_rows, texts = len(frame), partial(text_values, frame, columns.texts)
        texts()  # refuses columns that it does not have
    else:
        refuse("the data has no columns", {"text": text})
        is_table = isinstance(data, np.ndarray) and data.ndim > 1 and data.dtype.kind in "biufc"
        values = None if is_table else as_values(data)
        first = None if values is None else first_value(values)
        if is_table or sparse.issparse(data) or isinstance(first, list | tuple | np.ndarray):
            check_not_words(first)
            return _matrix_source(data, labels, columns, require_labels, strict)
        if values is None:
            raise unusable(data)
        n_rows, texts = len(values), partial(checked_texts, values)
    flags = None
    if labels is not None and is_indicator(labels):
        flags, labels = indicator(labels), None
        _check_length(n_rows, flags[0].shape[0])
    elif labels is None and require_labels:
        raise InputError("the labels are missing", hint=f"pass the labels of each text as {{labels}}{files}")
    cells = None if labels is None else _label_values(labels, n_rows)

    def documents(progress: Progress | None) -> Iterator[Document]:
        rows = (
            repeat([]) if cells is None else checked_labels(cells, columns, strict=strict and require_labels)
        )
        given = given_texts(texts()) if strict else texts()
        for number, (found, names) in enumerate(zip(given, rows, strict=False)):
            if strict and require_labels and cells is not None and not names:
                raise InputError(f"row {number} has no label", hint=_COMPLETE)
            yield Document(found or "", names)

    return Source(columns, require_labels, documents=documents, flags=flags)


def _matrix_source(X: Any, labels: Any, columns: Columns, require_labels: bool, strict: bool) -> Source:
    if labels is None and require_labels:
        what, hint = "the labels are missing", "pass a matrix of labels, or those of each row, as {labels}"
        raise InputError(what, hint=hint)

    def features(threads: int | None, progress: Progress | None) -> Dataset:
        if labels is None:
            return Dataset.from_matrices(X, sparse.csr_matrix((_n_rows(X), 1)))
        if is_indicator(labels):
            return Dataset.from_matrices(X, *indicator(labels))
        cells = _label_values(labels, _n_rows(X))
        numbers = LabelNumbers()
        for names in checked_labels(cells, columns, strict=strict):
            numbers.append(names)
        label_names, Y = numbers.matrix()
        return Dataset.from_matrices(X, Y, label_names)

    return Source(columns, require_labels, features=features)


def check_not_words(first: Any) -> None:
    """Refuse rows of strings: the first one is neither a text nor a row of numbers."""
    if isinstance(first, list | tuple) and any(isinstance(value, str) for value in first):
        what = f"the first text is of type {type(first).__name__}, expected a string"
        raise InputError(what, hint="join its words, or pass labels as the second argument")


_COMPLETE = "correct it, or remove {strict}"


def given_texts(texts: Iterable[str | None]) -> Iterator[str | None]:
    """Yield texts; refuse a missing one."""
    for number, text in enumerate(texts):
        if not text or text.isspace():
            raise InputError(f"row {number} has no text", hint=_COMPLETE)
        yield text


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _label_values(labels: Any, n_rows: int) -> Values:
    """Return the labels of each row, one value per row."""
    values = as_values(labels)
    if values is None:
        raise unusable(labels, "labels")
    _check_length(n_rows, len(values))
    return values


def _check_length(n_rows: int, n_labels: int) -> None:
    if n_rows != n_labels:
        what = f"there are {n_rows:,} rows of data, but the labels of {n_labels:,}"
        raise InputError(what, hint="pass the labels of each row")


def refuse(what: str, options: Mapping[str, Any]) -> None:
    """Refuse options that do not apply to the data."""
    name = next((name for name, value in options.items() if value is not None and value is not False), None)
    if name is not None:
        raise InputError(f"{what}, to which {name} does not apply", hint=f"remove {{{name}}}")


_INSTEAD = {
    "bytes": "decode it",
    "dict": "pass its values, such as data['text'], or make a frame of it",
    "generator": "make a list of it, because data may be read more than once",
    "set": "pass a list, because a set has no order",
    "NoneType": "pass a list of texts, a frame, a matrix or the path of a file",
}


def unusable(data: Any, name: str = "the data") -> InputError:
    """Return the error for a value that does not hold rows."""
    kind = "generator" if isinstance(data, Iterator) else type(data).__name__
    what = f"{name} {'are' if name == 'labels' else 'is'} of type {kind}"
    return InputError(
        what, hint=_INSTEAD.get(kind, _INSTEAD["NoneType"] if name != "labels" else "pass a list")
    )
