"""Count the terms of documents on several threads, and turn the counts into features in place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native
from labeltree.data.dataset import wrap_csr
from labeltree.data.text_settings import TextSettings

CHUNK_BYTES = 1 << 19  # text that a thread analyzes at a time
_MOST_LENGTHS = 16
_LONGEST = 2**62  # n-grams longer than any document


def make_analyzer(settings: TextSettings) -> _native.Analyzer:
    """Return a function that splits a document into its terms."""
    shortest, longest = settings.ngrams
    ignored = settings.resolved().stop_words or ()
    return _native.Analyzer(
        settings.analyzer, min(shortest, _LONGEST), min(longest, _LONGEST), settings.lowercase, ignored
    )


def new_counts(
    settings: TextSettings,
    analyzer: _native.Analyzer,
    threads: int,
    known: _native.Vocabulary | None = None,
) -> _native.TermCounts:
    """Return an empty matrix of counts, to be filled with documents.

    Parameters
    ----------
    settings : TextSettings
    analyzer : Analyzer
        Made from the settings.
    threads : int
        Threads that analyze documents; the result does not depend on it.
    known : Vocabulary, optional
        The only terms to count. Default: all terms, numbered in the order of their first appearance.

    Returns
    -------
    TermCounts
    """
    shortest, longest = settings.ngrams
    n_lengths = min(longest - shortest + 1, _MOST_LENGTHS)  # each adds terms to those of a chunk
    return _native.TermCounts(analyzer, known, threads, max(1, CHUNK_BYTES // n_lengths))


def weighted(
    counts: _native.TermCounts,
    target: NDArray[np.int32] | None,
    idf: NDArray[np.float64],
    sublinear: bool,
    threads: int,
) -> sparse.csr_matrix:
    """Turn counts into features in place; the counts are lost.

    Parameters
    ----------
    counts : TermCounts
    target : ndarray of int32 or None
        The column of each term, -1 to leave it out. None if the terms are the columns.
    idf : ndarray of float64
        The weight of each column.
    sublinear : bool
        Count n occurrences as 1 + log(n).
    threads : int

    Returns
    -------
    scipy.sparse.csr_matrix of float32
        Rows have an L2 norm of 1, or 0 if no term is left.
    """
    levels = counts.distinct_counts()
    frequency = levels.astype(np.float64)
    if sublinear:
        frequency = (
            np.log(frequency) + 1.0
        )  # by NumPy, as in scikit-learn: other logarithms round differently
    ptr, columns, values = counts.arrays()
    _native.weight_terms(ptr, columns, values, target, idf, levels, frequency, threads)
    n_rows, filled = len(ptr) - 1, int(ptr[-1])
    X = wrap_csr(values[:filled].view(np.float32), columns[:filled], ptr, (n_rows, len(idf)))
    X.has_canonical_format = True
    return X
