"""Prediction: queries in, checked; the best labels of each row out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.data import csr_arrays
from labeltree.errors import InputError
from labeltree.tree import LabelTree

# Numbers that the kernel knows the scores by (native/beam_search.cpp).
SCORES = {"sigmoid": 0, "hinge2": 1, "hinge3": 2}


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows to predict, as the kernel takes them."""

    arrays: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
    rows: int
    features: int


def check_queries(X: Any, *, top: int, beam: int, score: str, threads: int | None) -> Queries:
    """Check what ``Model.predict`` was given, and bring the rows into the kernel's form."""
    for name, value in (("top", top), ("beam", beam), ("threads", 1 if threads is None else threads)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, but got {value}.")
    if score not in SCORES:
        raise InputError(f"score must be one of {', '.join(SCORES)}, but got {score!r}.")
    try:
        rows: Any = X if sp.issparse(X) else np.atleast_2d(np.asarray(X))
    except ValueError:
        raise InputError("The rows to predict have different lengths; pass equally long rows.") from None
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise InputError(
            "The rows to predict must be a table of real numbers, but got "
            f"{rows.ndim} dimensions of {rows.dtype}."
        )
    if rows.shape[1] > np.iinfo(np.int32).max:
        raise InputError(
            f"The rows to predict have {rows.shape[1]:,} columns, but fewer than 2**31 can be taken."
        )
    matrix: Any = rows
    is_csr = sp.issparse(X) and matrix.format == "csr" and matrix.data.size == matrix.indptr[-1]
    if not (is_csr and matrix.dtype == np.float32):  # else another would take longer than answering a query
        with np.errstate(over="ignore"):  # found below, as an infinite value
            matrix = sp.csr_matrix(rows, dtype=np.float32)
    if not np.isfinite(matrix.data).all():
        raise InputError("The rows to predict hold NaN or infinity; remove or replace those values.")
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return Queries(csr_arrays(matrix), *matrix.shape)


def as_matrix(labels: NDArray[np.int32], scores: NDArray[np.float32], label_count: int) -> sp.csr_matrix:
    """Top labels and their scores as a sparse matrix, rows x labels; entries of a row best first."""
    reached = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(reached.sum(axis=1))])
    return sp.csr_matrix((scores[reached], labels[reached], indptr), shape=(labels.shape[0], label_count))


def reach(tree: LabelTree, beam: int) -> int:
    """How many labels of a tree a beam can reach at most: those of the widest nodes of each depth."""
    leaves = np.add.reduceat(tree.children < 0, tree.child_ptr[:-1], dtype=np.int64)
    widest = (np.sort(leaves[tree.node_depth == d])[-beam:] for d in range(tree.depth))
    return sum(int(counts.sum()) for counts in widest)
