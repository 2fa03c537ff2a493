"""Prediction: queries in, checked; the best labels of each row out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.data import csr_arrays
from labeltree.errors import InputError
from labeltree.tree import LabelTree


@dataclass(frozen=True)
class Score:
    """A function that turns the margin of a child into a factor in (0, 1].

    Attributes
    ----------
    formula : str
    function : callable
        The function in NumPy.
    """

    formula: str
    function: Callable[[Any], Any]


def _hinge(power: int) -> Callable[[Any], Any]:
    return lambda margin: np.exp(-(np.maximum(0.0, 1 - margin) ** power))


# The scores by name; the kernel has the same (`_native.SCORES`).
SCORES = {
    "sigmoid": Score("sigmoid(3 x margin)", lambda margin: np.exp(-np.logaddexp(0.0, -3 * margin))),
    "hinge2": Score("exp(-max(0, 1 - margin)^2)", _hinge(2)),
    "hinge3": Score("exp(-max(0, 1 - margin)^3)", _hinge(3)),
}

_LARGEST_INT32 = 2**31 - 1
_CSR = (sp.csr_matrix, sp.csr_array)


class Queries(NamedTuple):
    """Rows to predict, as the kernel takes them."""

    arrays: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
    n_rows: int
    n_features: int


def check_queries(X: Any, *, top: int, beam: int, score: str, threads: int | None) -> Queries:
    """Check what ``Model.predict`` was given, and bring the rows into the kernel's form.

    A single query takes some microseconds in the kernel, so a matrix that is in its form already takes no
    detour here.
    """
    if top < 1 or beam < 1 or (threads is not None and threads < 1):
        name, value = ("top", top) if top < 1 else ("beam", beam) if beam < 1 else ("threads", threads)
        raise InputError(f"{name} must be at least 1, but got {value}.")
    if score not in SCORES:
        raise InputError(f"score must be one of {', '.join(SCORES)}, but got {score!r}.")
    if not (isinstance(X, _CSR) and X.ndim == 2 and X.dtype == np.float32 and X.data.size == X.indptr[-1]):
        X = _to_csr(X)
    rows, features = X.shape
    if features > _LARGEST_INT32:
        raise InputError(f"The rows to predict have {features:,} columns, but fewer than 2**31 can be taken.")
    if not np.isfinite(X.data).all():
        raise InputError("The rows to predict hold NaN or infinity; remove or replace those values.")
    if not X.has_sorted_indices:
        X = X.sorted_indices()
    return Queries(csr_arrays(X), rows, features)


def _to_csr(X: Any) -> sp.csr_matrix:
    """Bring any table of real numbers into a csr_matrix of float32."""
    try:
        rows: Any = X if sp.issparse(X) else np.atleast_2d(np.asarray(X))
    except ValueError:
        raise InputError("The rows to predict have different lengths; pass equally long rows.") from None
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise InputError(
            "The rows to predict must be a table of real numbers, but got "
            f"{rows.ndim} dimensions of {rows.dtype}."
        )
    with np.errstate(over="ignore"):  # found later, as an infinite value
        return sp.csr_matrix(rows, dtype=np.float32)


def as_matrix(labels: NDArray[np.int32], scores: NDArray[np.float32], n_labels: int) -> sp.csr_matrix:
    """Top labels and their scores as a sparse matrix, rows x labels; entries of a row best first."""
    reached = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(reached.sum(axis=1))])
    return sp.csr_matrix((scores[reached], labels[reached], indptr), shape=(labels.shape[0], n_labels))


def reach(tree: LabelTree, beam: int) -> int:
    """How many labels of a tree a beam can reach at most: those of the widest nodes of each depth."""
    leaves = np.add.reduceat(tree.children < 0, tree.child_ptr[:-1], dtype=np.int64)
    widest = (np.sort(leaves[tree.node_depth == d])[-beam:] for d in range(tree.depth))
    return sum(int(counts.sum()) for counts in widest)
