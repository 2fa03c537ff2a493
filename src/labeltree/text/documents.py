"""Read a file of documents as a dataset, in one pass: features from the text, a column for each label."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.data import Dataset, wrap_csr
from labeltree.errors import InputError, NoTermError
from labeltree.files import display_name
from labeltree.system import threads_to_use
from labeltree.text.formats import Columns, Document
from labeltree.text.reader import check_format, read_text
from labeltree.text.settings import TextSettings
from labeltree.text.tfidf import Learner, TextFeatures, Transformer
from labeltree.text.tsv import count_tsv


def read_documents(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    settings: TextSettings | None = None,
    features: TextFeatures | None = None,
    require_labels: bool = True,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """Read a file of documents as a dataset. The documents themselves are not kept in memory.

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
        Reject a file without any labels.
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
    if columns is None:
        columns = Columns() if features is None else features.columns
    task = Learner(settings, threads) if features is None else Transformer(features, threads)
    if format == "txt" or (format == "tsv" and columns.split(" ") is str.split):
        names, Y = _matrix(
            *count_tsv(
                path,
                task.counts,
                threads,
                only_text=format == "txt",
                require_labels=require_labels,
                progress=progress,
            )
        )
    else:
        labels = _Labels()
        documents = read_text(path, format, columns, require_labels=require_labels, progress=progress)
        for text in labels.collect(documents):
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
        raise InputError("no document has a label", file=name, hint=hint, parameters={"columns": None})
    return Dataset(X, Y, names, text=features)


class _Labels:
    """The labels of documents, collected while their texts are processed."""

    def __init__(self) -> None:
        self._columns, self._ptr = array("i"), array("q", [0])
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def collect(self, documents: Iterable[Document]) -> Iterator[str]:
        """Yield the texts of the documents and keep the labels."""
        number = self._numbers.__getitem__
        for text, labels in documents:
            self._columns.extend(map(number, labels))
            self._ptr.append(len(self._columns))
            yield text

    def matrix(self) -> tuple[tuple[str, ...], sparse.csr_matrix]:
        """Return the sorted names and the matrix with these columns."""
        names = sorted(self._numbers)
        target = np.empty(len(names), np.int32)
        target[[self._numbers[name] for name in names]] = np.arange(len(names))
        return _matrix(names, np.asarray(self._ptr), target[np.asarray(self._columns)])


def _matrix(
    names: list[str], ptr: NDArray[np.int64], columns: NDArray[np.int32]
) -> tuple[tuple[str, ...], sparse.csr_matrix]:
    """Return the names, and the matrix with these columns."""
    ones = np.ones(len(columns), np.float32)
    Y = wrap_csr(ones, columns, ptr, (len(ptr) - 1, len(names)))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label may be repeated
    return tuple(names), Y
