"""Read a data file of any format as a dataset: LIBSVM or documents, for training or for a model."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.base.display import Progress
from labeltree.base.files import display_name
from labeltree.base.system import threads_to_use
from labeltree.data.columns import Columns, Document, Labels, checked_columns, format_of
from labeltree.data.dataset import Dataset, wrap_csr
from labeltree.data.records import Lines, parse, read_text
from labeltree.data.svm import read_svm
from labeltree.data.tfidf import TextFeatures, learn_features
from labeltree.errors import InputError, NoTermError
from labeltree.settings import TextSettings

_BATCH_ROWS = 10_000


def resolve_format(path: str | os.PathLike[str], format: str | None, like: Any) -> str:
    """Return the format of a data file, given or detected; refuse one that a model cannot use.

    A file whose name shows no format is in LIBSVM format, or plain text if a model was trained on text.
    """
    found = format or format_of(path)
    found = found or ("svm" if like is None or like.text is None else "txt")
    if like is not None and (found == "svm") != (like.text is None):
        trained = "training data is" if isinstance(like, Dataset) else f"model {like.path} was trained on"
        if like.text is None:
            what = f"the file is text, but the {trained} LIBSVM data"
            hint = "pass a LIBSVM file, or set {format}"
        else:
            what = f"the file is in LIBSVM format, but the {trained} text"
            hint = "pass text (TSV, CSV, JSONL or plain lines), or set {format}"
        raise InputError(what, file=display_name(path), hint=hint, parameters={"format": None})
    return found


def check_path(path: Any) -> None:
    """Refuse what is not the name of a file, such as a matrix."""
    if not isinstance(path, str | os.PathLike):
        what = f"the data is of type {type(path).__name__}, expected a path or a Dataset"
        raise InputError(what, hint="make a Dataset with labeltree.Dataset.from_matrices(X, Y)")


def read_file(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    settings: TextSettings | None = None,
    like: Any = None,
    one_based: bool | None = None,
    require_labels: bool = True,
    strict: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read a file of documents or a LIBSVM file as a dataset, as the command line does.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed; "-" for standard input.
    format : {"svm", "tsv", "csv", "jsonl", "txt"}, optional
        Default: detected from the extension of the file name; LIBSVM (svm) if it shows no format.
    columns : Columns, optional
        Names of the columns and separators of labels. Default: those of the model.
    settings : TextSettings, optional
        How documents become features.
    like : Model or Dataset, optional
        Read the file for this model, or like this training data: with the same features, columns and first
        index.
    one_based : bool, optional
        Whether the first feature of a LIBSVM file has the index 1. Default: as in training, or detected.
    require_labels : bool, default True
        Reject a file without any labels, and skip documents without text.
    strict : bool, default False
        Reject a document without text, and with `require_labels` one without labels.
    threads : int, optional
        Default: all CPUs.
    progress : callable, optional
        Called periodically with the fraction of the file read so far.

    Returns
    -------
    Dataset
        For a model, with at least its features.
    """
    check_path(path)
    given = format or format_of(path)
    format = resolve_format(path, format, like)
    if format != "svm":
        return read_documents(
            path,
            format,
            columns,
            settings=settings,
            features=None if like is None else like.text,
            require_labels=require_labels,
            strict=strict,
            threads=threads,
            progress=progress,
        )
    if like is not None and one_based is None:
        # A file that lacks the first feature does not show its base, but the model knows it.
        one_based = like.one_based
    try:
        dataset = read_svm(
            path, one_based=one_based, threads=threads_to_use(threads), require_labels=require_labels
        )
    except InputError as error:
        if given is None and error.line is not None:
            hint, more = "set {format} to tsv if the file is text", dict(error.parameters or {})
            raise error.replace(
                hint=f"{error.hint}, or {hint}" if error.hint else hint, parameters={**more, "format": None}
            ) from None
        raise
    if like is not None:
        return dataset.widen(like.n_features)
    if dataset.X.nnz == 0:  # such as a list of names
        raise InputError(
            "no row has any features (expected index:value pairs)",
            file=display_name(path),
            hint="check that this is the right file",
        )
    return dataset


def read_documents(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    settings: TextSettings | None = None,
    features: TextFeatures | None = None,
    require_labels: bool = True,
    strict: bool = False,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """Read a file of documents as a dataset. The documents themselves are not kept in memory.

    Documents without text are skipped, and counted in ``n_skipped`` of the dataset, if labels are required.

    Parameters
    ----------
    path, format, progress
        As in :func:`labeltree.read_text`.
    columns : Columns, optional
        Names of the columns and separators of labels. Default: those of `features`, if given.
    settings : TextSettings, optional
        How documents become features.
    features : TextFeatures, optional
        Compute these features (``model.text``) instead of learning new ones.
    require_labels : bool, default True
        Reject a file without any labels, and skip documents without text: null, missing or blank.
    strict : bool, default False
        Reject a document without text, and with `require_labels` one without labels.
    threads : int, optional
        Threads to use; the result does not depend on it. Default: all CPUs.

    Returns
    -------
    Dataset
        Its ``text`` computes the same features for other documents; its labels are sorted by name.

    Raises
    ------
    InputError
        If the file cannot be read, or there is nothing to learn from. The message names the first invalid
        line.
    """
    name = display_name(path)
    columns = checked_columns(columns, Columns() if features is None else features.columns)
    documents = read_text(
        path, format, columns, require_labels=require_labels, strict=strict, progress=progress
    )
    dataset = documents_dataset(
        documents, columns, settings, features, require_labels=require_labels, threads=threads, name=name
    )
    if require_labels and not dataset.label_names:
        hint = "check the label column ({labels})"
        raise InputError("no document has a label", file=name, hint=hint, parameters={"labels": None})
    return dataset


def documents_dataset(
    documents: Iterable[Document],
    columns: Columns,
    settings: TextSettings | None,
    features: TextFeatures | None,
    *,
    require_labels: bool,
    threads: int | None,
    name: str | None = None,
) -> Dataset:
    """Learn or compute the features of documents from any source, and number their labels.

    Parameters
    ----------
    documents : iterable of Document
    columns : Columns
        Where they were found, to be stored with the features.
    settings, features, threads
        As in `read_documents`.
    require_labels : bool
        Skip and count documents without text.
    name : str, optional
        The file of the documents, for messages.

    Returns
    -------
    Dataset
    """
    labels, threads = LabelNumbers(), threads_to_use(threads)
    texts = labels.collect(documents, skip=require_labels)
    try:
        if features is None:
            features, X = learn_features(texts, settings, columns, threads=threads)
        else:
            X = features.transform(texts, threads=threads)
    except NoTermError as error:
        raise error.replace(file=name) from None
    names, Y = labels.matrix()
    if not X.shape[0]:
        raise InputError(f"{'the file contains' if name else 'there are'} no documents", file=name)
    return Dataset(X, Y, names, text=features, n_skipped=labels.n_skipped)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some successive documents of a file: what identifies each, and their features."""

    ids: list[str]
    X: sparse.csr_matrix


def read_batches(
    path: str | os.PathLike[str],
    features: TextFeatures,
    format: str | None = None,
    columns: Columns | None = None,
    *,
    strict: bool = False,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Batch]:
    """Read the features of documents batch by batch, as soon as a pipe or a terminal has them.

    Parameters
    ----------
    path, format, strict, threads, progress
        As in `read_documents`. Labels are not required.
    features : TextFeatures
        The features to compute.
    columns : Columns, optional
        Default: those of `features`.

    Yields
    ------
    Batch
        Every document is in one of them, in the order of the file; one without text has no features.

    Raises
    ------
    InputError
        If a line is invalid, after the documents before it.
    """
    lines = Lines(path, progress, eager=True)
    documents = parse(lines, format, columns or features.columns, require_labels=False, strict=strict)
    ids: list[str] = []
    texts: list[str] = []
    error = None
    try:
        for text, _, key in documents:
            ids.append(key)
            texts.append(text)
            if lines.waiting or len(texts) == _BATCH_ROWS:
                yield Batch(ids, features.transform(texts, threads=threads))
                ids, texts = [], []
    except InputError as invalid:  # the rows before it are answered first
        error = invalid
    if texts:
        yield Batch(ids, features.transform(texts, threads=threads))
    if error is not None:
        raise error


class LabelNumbers:
    """The labels of documents, collected while their texts are processed."""

    def __init__(self) -> None:
        self.n_skipped = 0
        self._columns, self._ptr = array("i"), array("q", [0])
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def collect(self, documents: Iterable[Document], *, skip: bool) -> Iterator[str]:
        """Yield the texts of the documents and keep the labels; `skip` and count those without text."""
        for text, labels, _ in documents:
            if skip and (not text or text.isspace()):
                self.n_skipped += 1
                continue
            self.append(labels)
            yield text

    def append(self, labels: Labels) -> None:
        """Keep the labels of the next row."""
        self._columns.extend(map(self._numbers.__getitem__, labels))
        self._ptr.append(len(self._columns))

    def matrix(self) -> tuple[tuple[str, ...], sparse.csr_matrix]:
        """Return the sorted names and the matrix with these columns."""
        names = sorted(self._numbers)
        target = np.empty(len(names), np.int32)
        target[[self._numbers[name] for name in names]] = np.arange(len(names))
        columns = target[np.asarray(self._columns)]
        ones = np.ones(len(columns), np.float32)
        Y = wrap_csr(ones, columns, np.asarray(self._ptr), (len(self._ptr) - 1, len(names)))
        Y.sum_duplicates()
        Y.data[:] = 1  # a label may be repeated
        return tuple(names), Y
