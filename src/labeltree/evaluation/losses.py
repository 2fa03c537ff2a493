"""What smaller forms of a model lose of P@1, P@3 and P@5 on the same rows, and upper bounds of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from labeltree.settings import DEFAULT_RANKS

# A form costs clearly too much if its loss exceeds so many budgets by so many standard errors.
_TOO_MUCH, _CLEARLY = 4.0, 2.0
_Floats: TypeAlias = NDArray[np.float64]
_RANKS = np.array(DEFAULT_RANKS)


class PairedLosses:
    """What forms of a model lose, in the order of their sizes; arrays are forms x ranks.

    Each part has the hits that some rows lose: rows x forms x ranks. `mean` is the loss, `error` its standard
    error, and `changed` the share of hits that are lost or gained, with one more hit than was counted:
    without it, few rows would show that nothing changes.
    """

    def __init__(self, parts: Sequence[NDArray[np.int8]]) -> None:
        self.n_rows = sum(len(part) for part in parts)
        hit = 1 / (_RANKS * self.n_rows)
        self.mean: _Floats = hit * sum(part.sum(axis=0) for part in parts)
        self.changed: _Floats = hit * (1 + sum(abs(part).sum(axis=0) for part in parts))
        columns = (part.transpose(2, 1, 0).astype(np.float32) for part in parts)
        products = sum((part @ part.transpose(0, 2, 1)).astype(np.float64) for part in columns)
        means = self.mean.T
        # Of the losses of two forms in the same row, for each rank.
        self._covariance = products * (hit / _RANKS)[:, None, None] - means[:, :, None] * means[:, None]
        variance = np.diagonal(self._covariance, axis1=1, axis2=2).T + hit / _RANKS
        self.error: _Floats = np.sqrt(variance / self.n_rows)

    def costs_too_much(self, budget: float) -> NDArray[np.bool_]:
        """Return which forms lose clearly more than a budget, so that no smaller form has to be measured."""
        worst: _Floats = np.max(self.mean - _CLEARLY * self.error, axis=1)
        return worst > _TOO_MUCH * budget

    def upper(self, budget: float) -> _Floats:
        """Return an upper bound of each loss, one standard error above an estimate.

        A smaller form swaps labels with similar scores. If few hits change, about as many are gained as lost,
        and the loss grows with the square of `changed`. The factor is fitted to all forms up to the first
        that costs clearly too much, whose losses are large enough to be measured. If the standard error is
        within the budget, the bound of the measured loss counts where it is lower. A bound is at least the
        measured loss less its standard error.
        """
        used = slice(int(np.argmax(np.append(self.costs_too_much(budget), True))) + 1)
        bounds = np.where(self.error <= budget, self.mean + self.error, np.inf)
        factors = []
        for rank, changed in enumerate(self.changed[used].T):
            weights = changed / (changed**3).sum()
            variance = weights @ self._covariance[rank, used, used] @ weights / self.n_rows
            factors.append(max(0.0, float(weights @ self.mean[used, rank])) + max(0.0, variance) ** 0.5)
        if (self.mean[used] - _CLEARLY * self.error[used]).max() > budget:  # else all losses may be chance
            bounds = np.minimum(bounds, np.array(factors) * self.changed**2)
        return np.maximum(bounds, self.mean - self.error)

    def smallest(self, budget: float, harmless: NDArray[np.bool_]) -> int:
        """Return the last form that a budget allows before one costs clearly too much.

        The first is the model itself. What is harmless needs no bound, unless the rows contradict it.
        """
        measured = np.where(harmless[:, None], self.mean - self.error, self.upper(budget))
        within = (measured <= budget).all(axis=1) & ~np.logical_or.accumulate(self.costs_too_much(budget))
        return int(np.flatnonzero(within).max(initial=0))
