"""Counts of terms in texts: taken one text after the other, kept in arrays that become the features."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.data import wrap_csr
from labeltree.text.analyzer import Analyze

_BATCH_ENTRIES = 1 << 20  # occurrences of terms that are counted, or entries that are weighed, at once


class Known(dict[str, int]):
    """A vocabulary that does not grow: other terms get no number."""

    def __missing__(self, term: str) -> int:
        return -1


class TermCounts:
    """How often each term occurs in each text, 8 bytes an entry.

    Parameters
    ----------
    texts : iterable of str
    vocabulary : dict
        Gives a term its number, -1 if it is to be passed over; may take in new ones on the way.
    analyze : callable
        Takes a text apart into terms.

    Attributes
    ----------
    rows : int
        The number of texts.
    """

    def __init__(self, texts: Iterable[str], vocabulary: dict[str, int], analyze: Analyze) -> None:
        columns, counts, ptr = array("i"), array("i"), array("q", [0])
        for batch in _batches(texts, vocabulary, analyze):
            ptr.frombytes((batch.indptr[1:] + np.int64(ptr[-1])).tobytes())
            columns.frombytes(batch.indices.astype(np.int32, copy=False).tobytes())
            counts.frombytes(batch.data.tobytes())
        self.rows = len(ptr) - 1
        self._columns, self._counts, self._ptr = np.asarray(columns), np.asarray(counts), np.asarray(ptr)

    def totals(self, terms: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each term, the number of texts that it occurs in, and how often it occurs in all."""
        texts, often = np.zeros(terms, np.int64), np.zeros(terms, np.int64)
        for _, _, part in self._strips():
            texts += np.bincount(self._columns[part], minlength=terms)
            often += np.bincount(self._columns[part], self._counts[part], terms).astype(np.int64)
        return texts, often

    def weighted(
        self, target: NDArray[np.int32], idf: NDArray[np.float64], sublinear: bool
    ) -> sparse.csr_matrix:
        """Turn the counts into features, in their place: they are gone afterwards.

        Parameters
        ----------
        target : ndarray of int32
            The column that each term gets; -1 leaves it out.
        idf : ndarray of float64
            The weight of each column.
        sublinear : bool
            Whether n occurrences count as 1 + log(n).

        Returns
        -------
        scipy.sparse.csr_matrix of float32
            Rows of length 1, or 0 where no term is left.
        """
        values = self._counts.view(np.float32)
        indptr, filled = np.zeros(self.rows + 1, np.int64), 0
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
        X = wrap_csr(values[:filled], self._columns[:filled], indptr, (self.rows, len(idf)))
        X.has_canonical_format = True
        return X

    def _strips(self) -> Iterator[tuple[int, int, slice]]:
        """Some rows at a time: the first, the one after the last, and where their entries are."""
        first = 0
        while first < self.rows:
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
    """Return the weights of a CSR matrix of counts, with rows of length 1, as TfidfTransformer does."""
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
    texts: Iterable[str], vocabulary: dict[str, int], analyze: Analyze
) -> Iterator[sparse.csr_matrix]:
    """Count the terms of some texts at a time."""
    number = vocabulary.__getitem__
    found, ptr = array("i"), [0]
    for text in texts:
        found.extend(map(number, analyze(text)))
        ptr.append(len(found))
        if len(found) >= _BATCH_ENTRIES:
            yield _counted(found, ptr, len(vocabulary))
            found, ptr = array("i"), [0]
    yield _counted(found, ptr, len(vocabulary))


def _counted(found: array[int], ptr: list[int], terms: int) -> sparse.csr_matrix:
    columns = np.asarray(found)
    known = columns >= 0
    indptr = _shrunk(np.array(ptr), known)
    ones = np.ones(int(indptr[-1]), np.int32)
    batch = sparse.csr_matrix((ones, columns[known], indptr), shape=(len(ptr) - 1, max(terms, 1)))
    batch.sum_duplicates()
    return batch


def _shrunk(ptr: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where rows begin once only the kept entries are left."""
    return np.concatenate([[0], np.cumsum(kept)])[ptr]
