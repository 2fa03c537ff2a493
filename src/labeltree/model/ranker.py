"""Prediction: validate queries, rank their labels by beam search, and arrange the best labels of each row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.display import warn
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import canonical_csr, csr_arrays, unit_values
from labeltree.errors import InputError
from labeltree.settings import ScoreSettings
from labeltree.trees.tree import LabelTree, pointers

# The power p of the other score functions.
_POWERS = {"hinge2": 2, "hinge3": 3}


def score_formula(settings: ScoreSettings) -> str:
    """Return how a margin becomes a factor of a score, for people."""
    if settings.function == "sigmoid":
        return f"sigmoid({settings.scale:g} x margin)"
    return f"exp(-max(0, 1 - margin)^{_POWERS[settings.function]})"


def score_factor(settings: ScoreSettings, margin: Any) -> Any:
    """Return the factor in (0, 1] that a margin becomes, as the kernel computes it."""
    if settings.function == "sigmoid":
        return np.exp(-np.logaddexp(0.0, -settings.scale * margin))
    return np.exp(-(np.maximum(0.0, 1 - margin) ** _POWERS[settings.function]))


_CSR = (sp.csr_matrix, sp.csr_array)


class Queries(NamedTuple):
    """Rows to predict, as the kernel takes them."""

    arrays: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
    n_rows: int
    n_features: int


def check_options(top: int, beam: int, threads: int | None) -> None:
    """Validate the options of ``Model.predict``."""
    limits.checked("top", top, limits.TOP)
    limits.checked("beam", beam, limits.BEAM)
    limits.checked("threads", threads, limits.OPTIONAL_THREADS)


def is_csr_row(X: Any) -> bool:
    """Return whether X is a single row whose indices and values the kernel may take as they are.

    A single query takes a few microseconds in the kernel, which then checks the contents of the arrays, too.
    """
    if not isinstance(X, _CSR):
        return False
    shape, indptr = X.shape, X.indptr
    is_row = len(shape) == 2 and shape[0] == 1 and shape[1] <= limits.LARGEST_INT32
    return bool(is_row and len(indptr) == 2 and indptr[0] == 0 and indptr[1] == X.data.size)


def check_width(n_columns: int, n_features: int) -> None:
    """Refuse rows that lack features of the model: they were computed in another way, or are not rows."""
    if n_columns < n_features:
        hint = "compute the features as for training, or read the file with the model's n_features"
        raise InputError(f"X has {n_columns:,} columns, but the model has {n_features:,} features", hint=hint)


def named_labels(
    labels: NDArray[np.int32], scores: NDArray[np.float32], names: Sequence[str] | None
) -> tuple[list[list[Any]], list[NDArray[np.float32]]]:
    """Return for each row the names of its labels, or their numbers, and their scores, without padding."""
    kept = labels >= 0
    rows = [row[found].tolist() for row, found in zip(labels, kept, strict=True)]
    named = rows if names is None else [[names[label] for label in row] for row in rows]
    return named, [row[found] for row, found in zip(scores, kept, strict=True)]


def check_queries(X: Any) -> Queries:
    """Validate rows, and bring them into the kernel's form; arrays that are already in it are not copied."""
    matrix = canonical_csr(X, "X")
    return Queries(csr_arrays(matrix), *matrix.shape)


def unit_queries(queries: Queries, n_features: int) -> Queries:
    """Scale rows to length 1, without features beyond those of the model; the arrays are not changed."""
    indptr, indices, values = queries.arrays
    known = indices < n_features
    if not known.all():
        indptr = pointers(known)[indptr]
        indices, values = indices[known], values[known]
    return Queries((indptr, indices, unit_values(indptr, values)), queries.n_rows, n_features)


class Ranker(NamedTuple):
    """The beam search of a model over queries in any form."""

    search: _native.BeamSearch
    n_features: int
    normalized: bool  # scale rows to length 1
    is_text: bool  # rows without features get no label, instead of those that the bias prefers

    def rank(
        self, X: Any, top: int, beam: int, settings: ScoreSettings, threads: int | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the best labels of each row, and their scores before calibration."""
        if is_csr_row(X):
            check_width(X.shape[1], self.n_features)
            found = self.search.search_row(X.indices, X.data, beam, top, *settings.values, self.normalized)
            if found is not None:
                self._warn_of_features(X.shape[1])
                if self.is_text and X.data.size == 0:
                    found[0].fill(-1)
                    found[1].fill(0)
                return found
        queries = check_queries(X)
        check_width(queries.n_features, self.n_features)
        self._warn_of_features(queries.n_features)
        if self.normalized:
            queries = unit_queries(queries, self.n_features)
        # One row needs no second thread, and finding the number of CPUs would take longer than the search.
        workers = 1 if queries.n_rows == 1 else threads_to_use(threads)
        labels, scores = self.search.search(*queries.arrays, beam, top, *settings.values, workers)
        labels, scores = labels.reshape(queries.n_rows, top), scores.reshape(queries.n_rows, top)
        if self.is_text:
            unknown = np.diff(queries.arrays[0]) == 0
            labels[unknown], scores[unknown] = -1, 0
        return labels, scores

    def _warn_of_features(self, n_features: int) -> None:
        if n_features > self.n_features:
            warn(
                f"The data has {n_features:,} features, but the model has {self.n_features:,}; "
                "the additional ones are ignored."
            )


def as_matrix(labels: NDArray[np.int32], scores: NDArray[np.float32], n_labels: int) -> sp.csr_matrix:
    """Return the best labels and their scores as a sparse matrix, rows x labels."""
    reached = labels >= 0
    indptr = pointers(reached.sum(axis=1))
    return sp.csr_matrix((scores[reached], labels[reached], indptr), shape=(labels.shape[0], n_labels))


def reach(tree: LabelTree, beam: int) -> int:
    """Return how many labels of a tree a beam can reach at most: those of the widest nodes of each depth."""
    leaves = np.add.reduceat(tree.children < 0, tree.child_ptr[:-1], dtype=np.int64)
    levels = itertools.pairwise(tree.level_ptr.tolist())
    widest = (np.sort(leaves[first:last])[-beam:] for first, last in levels)
    return sum(int(counts.sum()) for counts in widest)
