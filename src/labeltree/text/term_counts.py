"""Count the terms of documents, one document at a time, and turn the counts into features in place."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.data import wrap_csr
from labeltree.text.analyzer import Analyze

_BATCH_ENTRIES = 1 << 20  # occurrences of terms to count, or entries to weight, at a time


class Known(dict[str, int]):
    """A vocabulary to which no terms are added: the number of an unknown term is -1."""

    def __missing__(self, term: str) -> int:
        return -1


class TermCounts:
    """The number of times each term occurs in each document, at 8 bytes per entry.

    Parameters
    ----------
    documents : iterable of str
    vocabulary : dict
        The number of each term, -1 to ignore it; new terms may be added when looked up.
    analyze : callable
        Splits a document into terms.

    Attributes
    ----------
    n_documents : int
        The number of documents.
    """

    def __init__(self, documents: Iterable[str], vocabulary: dict[str, int], analyze: Analyze) -> None:
        columns, counts, ptr = array("i"), array("i"), array("q", [0])
        for batch in _batches(documents, vocabulary, analyze):
            ptr.frombytes((batch.indptr[1:] + np.int64(ptr[-1])).tobytes())
            columns.frombytes(batch.indices.astype(np.int32, copy=False).tobytes())
            counts.frombytes(batch.data.tobytes())
        self.n_documents = len(ptr) - 1
        self._columns, self._counts, self._ptr = np.asarray(columns), np.asarray(counts), np.asarray(ptr)

    def totals(self, n_terms: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each term the number of documents with it, and the number of its occurrences."""
        df, occurrences = np.zeros(n_terms, np.int64), np.zeros(n_terms, np.int64)
        for _, _, part in self._strips():
            df += np.bincount(self._columns[part], minlength=n_terms)
            occurrences += np.bincount(self._columns[part], self._counts[part], n_terms).astype(np.int64)
        return df, occurrences

    def weighted(
        self, target: NDArray[np.int32], idf: NDArray[np.float64], sublinear: bool
    ) -> sparse.csr_matrix:
        """Turn the counts into features in place; the counts are lost.

        Parameters
        ----------
        target : ndarray of int32
            The column of each term, -1 to leave it out.
        idf : ndarray of float64
            The weight of each column.
        sublinear : bool
            Count n occurrences as 1 + log(n).

        Returns
        -------
        scipy.sparse.csr_matrix of float32
            Rows have an L2 norm of 1, or 0 if no term is left.
        """
        values = self._counts.view(np.float32)
        indptr, filled = np.zeros(self.n_documents + 1, np.int64), 0
        for first, last, part in self._strips():
            columns = target[self._columns[part]]
            kept = columns >= 0
            ptr = _shrunk(self._ptr[first : last + 1] - self._ptr[first], kept)
            columns = columns[kept]
            weights = tfidf_weights(self._counts[part][kept], columns, ptr, idf, sublinear)
            # Sorted only now: sums of squares round as in scikit-learn, which does not sort either.
            strip = wrap_csr(weights.astype(np.float32), columns, ptr, (last - first, len(idf)))
            strip.sort_indices()
            place = slice(filled, filled + strip.nnz)
            self._columns[place], values[place] = strip.indices, strip.data
            indptr[first + 1 : last + 1] = ptr[1:] + filled
            filled += strip.nnz
        X = wrap_csr(values[:filled], self._columns[:filled], indptr, (self.n_documents, len(idf)))
        X.has_canonical_format = True
        return X

    def _strips(self) -> Iterator[tuple[int, int, slice]]:
        """Yield ranges of rows: the first, the one after the last, and the slice of their entries."""
        first = 0
        while first < self.n_documents:
            end = np.searchsorted(self._ptr, self._ptr[first] + _BATCH_ENTRIES, "right") - 1
            last = max(first + 1, int(end))
            yield first, last, slice(int(self._ptr[first]), int(self._ptr[last]))
            first = last


def tfidf_weights(
    counts: NDArray[np.int32],
    columns: NDArray[np.int32],
    ptr: NDArray[np.int64],
    idf: NDArray[np.float64],
    sublinear: bool,
) -> NDArray[np.float64]:
    """Return the weights of a CSR matrix of counts, with L2-normalized rows, as TfidfTransformer does."""
    weights = counts.astype(np.float64)
    if sublinear:
        np.log(weights, out=weights)
        weights += 1.0
    weights *= idf[columns]
    n_rows = len(ptr) - 1
    rows = np.repeat(np.arange(n_rows), np.diff(ptr))
    # bincount adds one after the other, as scikit-learn does; a pairwise sum would round differently.
    lengths = np.sqrt(np.bincount(rows, weights * weights, n_rows))
    lengths[lengths == 0] = 1.0
    weights /= lengths[rows]
    return weights


def _batches(
    documents: Iterable[str], vocabulary: dict[str, int], analyze: Analyze
) -> Iterator[sparse.csr_matrix]:
    """Count the terms of a number of documents at a time."""
    number = vocabulary.__getitem__
    found, ptr = array("i"), [0]
    for document in documents:
        found.extend(map(number, analyze(document)))
        ptr.append(len(found))
        if len(found) >= _BATCH_ENTRIES:
            yield _counted(found, ptr, len(vocabulary))
            found, ptr = array("i"), [0]
    yield _counted(found, ptr, len(vocabulary))


def _counted(found: array[int], ptr: list[int], n_terms: int) -> sparse.csr_matrix:
    columns = np.asarray(found)
    known = columns >= 0
    indptr = _shrunk(np.array(ptr), known)
    ones = np.ones(int(indptr[-1]), np.int32)
    batch = sparse.csr_matrix((ones, columns[known], indptr), shape=(len(ptr) - 1, max(n_terms, 1)))
    batch.sum_duplicates()
    return batch


def _shrunk(ptr: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where rows begin when only the kept entries remain."""
    return np.concatenate([[0], np.cumsum(kept)])[ptr]
