"""From a file of documents to a data set: texts become features, labels get their columns, in one pass."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy import sparse

from labeltree.data import Dataset, wrap_csr
from labeltree.errors import InputError, NoTermError
from labeltree.files import display_name
from labeltree.text.formats import Columns, Document, read_text
from labeltree.text.tfidf import TextFeatures, TextSettings, learn_features


def read_documents(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    settings: TextSettings | None = None,
    features: TextFeatures | None = None,
    require_labels: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """Read a file of texts as a data set; texts are not kept in memory.

    Parameters
    ----------
    path : str or path-like
        The file, in UTF-8, plain or compressed; "-" for standard input.
    format : {"tsv", "csv", "jsonl", "txt"}, optional
        Told by the ending of the name unless given.
    columns : Columns, optional
        Names of columns, separators of labels. By default those of `features`, if given.
    settings : TextSettings, optional
        How texts become features.
    features : TextFeatures, optional
        Take these features (``model.text``), and learn none.
    require_labels : bool, default True
        Whether to refuse a file without a single label.
    progress : callable, optional
        Called now and then with the fraction that is read.

    Returns
    -------
    Dataset
        Its ``text`` tells how features are made of other texts; its labels have names, and are sorted.

    Raises
    ------
    InputError
        If the file cannot be read, or there is nothing to learn from. The message names the first line that
        is wrong.
    """
    name = display_name(path)
    if columns is None and features is not None:
        columns = features.columns
    labels = _Labels()
    documents = read_text(path, format, columns, require_labels=require_labels, progress=progress)
    texts = labels.put_aside(documents)
    if features is None:
        try:
            features, X = learn_features(texts, settings, columns)
        except NoTermError as error:
            raise InputError(f"{name}: {error}") from None
    else:
        X = features.transform(texts)
    if not X.shape[0]:
        raise InputError(f"{name}: the file holds no document, expected some; check how it was made")
    names, Y = labels.matrix()
    if require_labels and not names:
        raise InputError(f"{name}: no document has a label, expected some; add the labels")
    return Dataset(X, Y, names, text=features)


class _Labels:
    """The labels of documents, gathered while the texts go by."""

    def __init__(self) -> None:
        self._columns, self._ptr = array("i"), array("q", [0])
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def put_aside(self, documents: Iterable[Document]) -> Iterator[str]:
        """Yield the texts of documents, and keep their labels."""
        number = self._numbers.__getitem__
        for text, labels in documents:
            self._columns.extend(map(number, labels))
            self._ptr.append(len(self._columns))
            yield text

    def matrix(self) -> tuple[tuple[str, ...], sparse.csr_matrix]:
        """Names in their order, sorted, and the matrix with these columns."""
        names = tuple(sorted(self._numbers))
        target = np.empty(len(names), np.int32)
        target[[self._numbers[name] for name in names]] = np.arange(len(names))
        ones = np.ones(len(self._columns), np.float32)
        columns, ptr = target[np.asarray(self._columns)], np.asarray(self._ptr)
        Y = wrap_csr(ones, columns, ptr, (len(ptr) - 1, len(names)))
        Y.sum_duplicates()
        Y.data[:] = 1  # a label said twice is one
        return names, Y
