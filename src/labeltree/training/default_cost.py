"""Costs of nodes, and their default by the numbers of features and of instances, and the length of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from labeltree.settings import SolverSettings

# The default cost for one feature per instance in rows of length 1, how it grows with more of them, and what
# it can be at least and at most.
_BASE_COST, _FEATURE_GROWTH = 0.7, 1 / 3
_LEAST_BASE, _MOST_BASE = 0.5, 2.0
# Rows with this many non-zero features, or more, do not get a cost below 1.
_LONG_ROW = 128
# The least and the most that the inverse of the mean squared norm counts as.
_LEAST_COST, _MOST_COST = 0.01, 100.0
# The cost grows in smaller nodes by their share of the instances to minus this power.
_NODE_GROWTH = 0.2
# Values that are read at a time.
_VALUES_AT_ONCE = 1 << 20


def with_costs(
    settings: SolverSettings, X: csr_matrix, weights: NDArray[np.floating[Any]] | None = None
) -> SolverSettings:
    """Return settings with the costs that are not given: the defaults for the rows that are trained on.

    ``weights`` is how often each instance counts, as in `default_costs`.
    """
    counts = None if weights is None else weights.astype(np.float64)
    cost, most = (settings.cost, settings.cost) if settings.cost is not None else default_costs(X, counts)
    max_cost = most if settings.max_cost is None else max(cost, settings.max_cost)
    return replace(settings, cost=cost, max_cost=max_cost)


def default_costs(X: csr_matrix, weights: NDArray[np.float64] | None = None) -> tuple[float, float]:
    """Return the cost at the root, and the most that it becomes in smaller nodes, if none is given.

    The first is ``length_cost`` times 0.7 (F / n)^(1/3), from 0.5 to 2; the second is the larger of it and
    ``length_cost``. ``weights`` is how often each instance counts: 2 is the same row twice.

    F is the number of features that occur, n the number of instances that have any. On samples of a dataset,
    the cost that ranks best becomes smaller as instances are added. For long and for dense rows, a smaller
    cost than 1 can rank much worse, even with few features, so the factor is at least (mean number of non-
    zero features) / 128, up to 1.
    """
    lengths = np.diff(X.indptr)
    counts = (lengths > 0).astype(np.float64) if weights is None else weights * (lengths > 0)
    n_rows = float(counts.sum())
    if not n_rows:
        return 1.0, 1.0
    occurs = np.zeros(X.shape[1], bool)
    for first in range(0, X.indices.size, _VALUES_AT_ONCE):
        occurs[X.indices[first : first + _VALUES_AT_ONCE]] = True
    factor = _BASE_COST * (np.count_nonzero(occurs) / n_rows) ** _FEATURE_GROWTH
    least = min(max(float(counts @ lengths) / n_rows / _LONG_ROW, _LEAST_BASE), 1.0)
    by_length = length_cost(X, weights)
    cost = _rounded(by_length * min(max(factor, least), _MOST_BASE))
    return cost, max(cost, by_length)


def length_cost(X: csr_matrix, weights: NDArray[np.float64] | None = None) -> float:
    """Return the cost that fits rows as closely as 1 fits rows of length 1, with two significant digits.

    It is 1 / (mean squared norm of the instances that have features), from 0.01 to 100. With it, longer rows
    are not fitted more closely: what a model predicts depends little on the unit of the features, apart from
    the bias. The limits are for data in which a few features are far larger than the others.
    """
    filled = np.diff(X.indptr) > 0
    if weights is not None:
        weights = weights / weights.max()
    total = 0.0
    for first in range(0, X.data.size, _VALUES_AT_ONCE):
        squares = np.square(X.data[first : first + _VALUES_AT_ONCE], dtype=np.float64)
        if weights is not None:
            row = np.searchsorted(X.indptr, np.arange(first, first + squares.size), side="right") - 1
            squares *= weights[row]
        total += float(squares.sum())
    if not total:
        return 1.0
    count = np.count_nonzero(filled) if weights is None else float(weights[filled].sum())
    return _rounded(min(max(count / total, _LEAST_COST), _MOST_COST))


def _rounded(cost: float) -> float:
    """Return a cost with two digits, so that rounding of sums does not change it."""
    # Ten digits first: 0.125 must not become 0.12 or 0.13 by chance.
    return float(f"{float(f'{cost:.10g}'):.2g}")


def node_costs(settings: SolverSettings, n_instances: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cost of nodes with so many instances (or sum of their weights), the root first."""
    assert settings.cost is not None
    assert settings.max_cost is not None
    share = np.where(n_instances > 0, n_instances, 1) / (n_instances[0] or 1)
    return np.minimum(settings.cost * share**-_NODE_GROWTH, settings.max_cost)


def positive_costs(settings: SolverSettings, depth: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the factor of the cost of positive instances for nodes at these depths."""
    factors = np.atleast_1d(np.asarray(settings.positive_cost, np.float64))
    return factors[np.minimum(depth, factors.size - 1)]
