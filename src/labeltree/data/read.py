"""Read a data file of any format as a dataset: LIBSVM or documents, for training or for a model."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.base import limits
from labeltree.base.display import Progress
from labeltree.base.paths import detected_format, format_of, shown_files
from labeltree.base.system import threads_to_use
from labeltree.data.binary import read_npz
from labeltree.data.columns import Columns, Document, Labels
from labeltree.data.dataset import Dataset, wrap_csr
from labeltree.data.records import Documents, Lines
from labeltree.data.svm import read_svm
from labeltree.data.tfidf import TextFeatures, learn_features
from labeltree.data.tsv import is_of_pecos
from labeltree.errors import InputError, NoTermError, alternatives
from labeltree.settings import TextSettings

_BATCH_ROWS = 10_000


def resolve_format(files: Sequence[str], format: str | None, like: Any) -> str:
    """Return the format of data files, given or detected; refuse one that a model cannot use.

    A file whose name shows no format is in LIBSVM format, or plain text if a model was trained on text; those
    of PECOS are TSV.
    """
    found = detected_format(files, format)
    if found is None:
        found = "svm" if like is None or like.text is None else "txt"
        found = "tsv" if os.path.isfile(files[0]) and is_of_pecos(Lines(files[0], None)) else found
    is_text = found in limits.TEXT_FORMAT.values
    if like is not None and is_text != (like.text is not None):
        trained = "training data is" if isinstance(like, Dataset) else f"model {like.path} was trained on"
        if like.text is None:
            what = f"the file is text, but the {trained} LIBSVM data or matrices"
            hint = "pass a LIBSVM or .npz file, or set {format}"
        else:
            kind = "a matrix" if found == "npz" else "in LIBSVM format"
            what = f"the file is {kind}, but the {trained} text"
            hint = "pass text (TSV, CSV, JSONL or plain lines), or set {format}"
        raise InputError(what, file=shown_files(files), hint=hint)
    return found


# The formats that an option applies to, if not to all text.
_COLUMNAR = ("csv", "jsonl", "parquet", "arrow")
_APPLIES_TO = {"text": _COLUMNAR, "labels": _COLUMNAR, "delimiter": ("csv",), "one_based": ("svm",)}
_SHOWN = {"svm": "LIBSVM", "parquet": "Parquet", "arrow": "Arrow", "npz": "NumPy", "txt": "plain text"}


def check_options(format: str, given: Mapping[str, Any]) -> None:
    """Refuse options that do not apply to data of a format."""
    for name, value in given.items():
        if value is None or (value is False and name != "one_based"):
            continue
        formats = _APPLIES_TO.get(name, limits.TEXT_FORMAT.values)
        applies = format in formats or name == "format"
        if format == "tsv" and name in ("text", "labels"):  # its columns have numbers
            applies = all(
                str(number).isdecimal() for number in ([value] if isinstance(value, str) else value)
            )
        if not applies:
            kinds = [_SHOWN.get(each, each.upper()) for each in formats]
            only = "text" if formats is limits.TEXT_FORMAT.values else alternatives(kinds)
            kind = _SHOWN.get(format, format.upper())
            raise InputError(
                f"an option applies only to {only}, but the data is in {kind} format",
                hint=f"remove {{{name}}}, or set {{format}}",
                parameters={name: value if name == "one_based" else None, "format": None},
            )


def read_features(
    files: tuple[str, ...],
    format: str,
    like: Any,
    threads: int | None,
    progress: Progress | None,
    *,
    one_based: bool | None,
    require_labels: bool,
) -> Dataset:
    """Read LIBSVM or .npz files, with the features of a model."""
    if format == "npz":
        dataset = read_npz(files, require_labels=require_labels)
        return dataset if like is None else dataset.widen(like.n_features)
    if like is not None and one_based is None:
        # A file that lacks the first feature does not show its base, but the model knows it.
        one_based = like.one_based
    try:
        dataset = read_svm(
            files, one_based=one_based, threads=threads, require_labels=require_labels, progress=progress
        )
    except InputError as error:
        if error.line is not None and format_of(files[0]) is None:
            hint = "set {format} to tsv if the file is text"
            raise error.replace(hint=f"{error.hint}, or {hint}" if error.hint else hint) from None
        raise
    if (dataset.X.nnz if like is None else dataset.n_features) == 0:  # such as a list of names
        what = "no row has any features (expected index:value pairs)"
        raise InputError(what, file=shown_files(files), hint="check that this is the right file")
    return dataset if like is None else dataset.widen(like.n_features)


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
    """Learn the features of documents from any source, or compute given ones, and number their labels.

    The columns are stored with the features. If labels are required, documents without text are skipped and
    counted. `name` is the file, for messages.
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
    notes = [*documents.notes] if isinstance(documents, Documents) else []
    return Dataset(X, Y, names, text=features, n_skipped=labels.n_skipped, notes=(*notes, *labels.notes()))


def read_batches(
    documents: Iterable[Document], features: TextFeatures, *, threads: int | None = None
) -> Iterator[tuple[list[str], sparse.csr_matrix]]:
    """Yield the IDs and the features of documents in batches, as soon as a pipe or a terminal has them.

    Every document is in a batch, in order; one without text has no features. If a document cannot be read,
    the error comes after those before it.
    """
    ids: list[str] = []
    texts: list[str] = []
    error = None
    try:
        for text, _, key in documents:
            ids.append(key)
            texts.append(text)
            is_last = isinstance(documents, Documents) and documents.waiting  # of those that a pipe has
            if is_last or len(texts) == _BATCH_ROWS:
                yield ids, features.transform(texts, threads=threads)
                ids, texts = [], []
    except InputError as invalid:  # the rows before it are answered first
        error = invalid
    if texts:
        yield ids, features.transform(texts, threads=threads)
    if error is not None:
        raise error


class LabelNumbers:
    """The labels of documents, collected while their texts are processed."""

    def __init__(self) -> None:
        self.n_skipped = 0
        self._n_binary, self._ids = 0, array("q")
        self._columns, self._ptr = array("i"), array("q", [0])
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def collect(self, documents: Iterable[Document], *, skip: bool) -> Iterator[str]:
        """Yield the texts of the documents and keep the labels; `skip` and count those without text."""
        # As `append` does, without a call per document.
        number, columns, end = self._numbers.__getitem__, self._columns, self._ptr.append
        for text, labels, key in documents:
            if key:
                self._ids.append(hash(key))
            if skip and (not text or text.isspace()):
                self.n_skipped += 1
                continue
            if "\0" in text:
                self._n_binary += 1
            columns.extend(map(number, labels))
            end(len(columns))
            yield text

    def append(self, labels: Labels) -> None:
        """Keep the labels of the next row."""
        self._columns.extend(map(self._numbers.__getitem__, labels))
        self._ptr.append(len(self._columns))

    def notes(self) -> Iterator[str]:
        """Yield what looks wrong in the documents."""
        if self._n_binary:
            number = f"{self._n_binary:,} document{'s contain' if self._n_binary > 1 else ' contains'}"
            yield f"{number} NUL bytes. Check that the text was exported completely."
        if repeated := len(self._ids) - len(np.unique(self._ids)):
            number = f"{repeated:,} document{'s have' if repeated > 1 else ' has'}"
            yield f"{number} the ID of another. If they are copies, remove them."

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
