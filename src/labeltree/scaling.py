"""Rows of length 1."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# A squared length that differs from 1 by no more than this is one of rounded values, as in a text file with
# four digits: such a row is left as it is. docs/model-format.md has the same number.
TOLERANCE = 0.002
# How many values are in memory as float64 at a time; they fit in the cache.
_VALUES_AT_ONCE = 1 << 17
_START = np.zeros(1, np.intp)


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Scale rows to length 1, except those that have it already and those without values.

    Parameters
    ----------
    X : csr_matrix of float32
        Every value finite.

    Returns
    -------
    csr_matrix of float32
        The same object if no row changes. Otherwise a matrix with other values that shares the indices; if a
        value becomes 0, because it is smaller than the row is long by more than float32 can represent, it has
        its own indices without that entry.
    """
    values = unit_values(X.indptr, X.data)
    if values is X.data:
        return X
    scaled = sparse.csr_matrix((values, X.indices, X.indptr), shape=X.shape, copy=False)
    if not values.all():
        scaled = scaled.copy()
        scaled.eliminate_zeros()
    return scaled


def unit_values(indptr: NDArray[Any], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the values of all rows, scaled as in `unit_rows`; the same array if none changes."""
    lengths = np.ones(indptr.size - 1)
    for rows, entries, filled in _parts(indptr):
        part = values[entries].astype(np.float64)  # squares can neither overflow nor become 0
        part *= part
        lengths[rows][filled] = np.add.reduceat(part, indptr[rows][filled] - entries.start)
    is_unit = (np.abs(lengths - 1) <= TOLERANCE) | (lengths == 0)
    if is_unit.all():
        return values
    lengths[is_unit] = 1
    np.sqrt(lengths, out=lengths)
    scaled = np.empty_like(values)
    for rows, entries, filled in _parts(indptr):
        counts = np.diff(indptr[rows.start : rows.stop + 1])[filled]
        # Divided as float64, then rounded to float32 once.
        np.divide(
            values[entries],
            np.repeat(lengths[rows][filled], counts),
            out=scaled[entries],
            casting="same_kind",
        )
    return scaled


def unit_row(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the values of a single row, the same as from `unit_values`, in about 2 microseconds.

    Values that are not finite are returned as they are.
    """
    if not values.size:
        return values
    exact = values.astype(np.float64)
    square = float(np.add.reduceat(exact * exact, _START)[0])  # adds in the order of `unit_values`
    if abs(square - 1) <= TOLERANCE or not 0 < square < math.inf:
        return values
    exact /= math.sqrt(square)
    return exact.astype(np.float32)


def _parts(indptr: NDArray[Any]) -> Iterator[tuple[slice, slice, NDArray[np.bool_]]]:
    """Divide whole rows into parts: the rows, their entries, and which of the rows have any."""
    starts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]), _VALUES_AT_ONCE))
    for first, last in pairwise(np.unique([0, *starts.tolist(), indptr.size - 1]).tolist()):
        filled = np.diff(indptr[first : last + 1]) > 0
        if filled.any():
            yield slice(first, last), slice(int(indptr[first]), int(indptr[last])), filled
