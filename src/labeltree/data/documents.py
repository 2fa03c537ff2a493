"""Read a file of documents as a dataset, in one pass: features from the text, a column for each label."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from labeltree.base.files import display_name
from labeltree.base.system import threads_to_use
from labeltree.data.columns import LABELS, Columns, Record, check_format, checked_columns
from labeltree.data.dataset import Dataset, wrap_csr
from labeltree.data.records import Records
from labeltree.data.tfidf import Learner, TextFeatures, Transformer
from labeltree.errors import InputError, NoTermError
from labeltree.settings import TextSettings

_BATCH_ROWS = 10_000


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
    name, threads = display_name(path), threads_to_use(threads)
    format = check_format(path, format, require_labels)
    columns = checked_columns(columns, Columns() if features is None else features.columns)
    task = Learner(settings, threads) if features is None else Transformer(features, threads)
    labels = _Labels()
    records = Records(path, format, columns, require_labels=require_labels, strict=strict, progress=progress)
    for text in labels.collect(records, skip=require_labels):
        task.counts.append(text)
    names, Y = labels.matrix()
    try:
        features, X = task.finish(columns)
    except NoTermError as error:
        raise error.replace(file=name) from None
    if not X.shape[0]:
        raise InputError("the file contains no documents", file=name)
    if require_labels and not names:
        hint = "check the label column ({columns})"
        raise InputError("no document has a label", file=name, hint=hint, parameters={"columns": LABELS})
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
    records = Records(
        path,
        format,
        columns or features.columns,
        require_labels=False,
        strict=strict,
        progress=progress,
        eager=True,
    )
    ids: list[str] = []
    texts: list[str] = []
    rows, error = iter(records), None
    while True:
        try:
            text, _, key = next(rows)
        except StopIteration:
            break
        except InputError as invalid:  # the rows before it are answered first
            error = invalid
            break
        ids.append(key)
        texts.append(text or "")
        if records.waiting or len(texts) == _BATCH_ROWS:
            yield Batch(ids, features.transform(texts, threads=threads))
            ids, texts = [], []
    if texts:
        yield Batch(ids, features.transform(texts, threads=threads))
    if error is not None:
        raise error


class _Labels:
    """The labels of documents, collected while their texts are processed."""

    def __init__(self) -> None:
        self.n_skipped = 0
        self._columns, self._ptr = array("i"), array("q", [0])
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def collect(self, records: Iterable[Record], *, skip: bool) -> Iterator[str]:
        """Yield the texts of the documents and keep the labels; `skip` and count those without text."""
        number = self._numbers.__getitem__
        for text, labels, _ in records:
            if skip and (not text or text.isspace()):
                self.n_skipped += 1
                continue
            self._columns.extend(map(number, labels or ()))
            self._ptr.append(len(self._columns))
            yield text or ""

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
