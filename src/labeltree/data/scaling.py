"""Rows of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native

# A squared length that differs from 1 by no more than this is one of rounded values, as in a text file with
# four digits: such a row is left as it is. docs/model-format.md has the same number.
TOLERANCE = _native.UNIT_TOLERANCE


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
        value becomes too small for float32, it has its own indices without that entry.
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
    scaled = _native.unit_rows(
        np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(values, np.float32)
    )
    return values if scaled is None else scaled
