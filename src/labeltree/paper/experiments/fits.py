"""Fit power laws to measurements, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Power:
    """The exponent of a power law, and its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"

    def within(self, low: float, high: float) -> bool | None:
        """Return whether the interval is inside these bounds; None if it is only partly."""
        if low <= self.low and self.high <= high:
            return True
        return False if self.high < low or self.low > high else None


def fit_powers(factors: Sequence[ArrayLike], y: ArrayLike) -> list[Power]:
    """Fit y = c x1^p1 x2^p2 ... by least squares of the logarithms.

    Parameters
    ----------
    factors : sequence of array-like
        x1, x2, ...: positive, and not powers of each other.
    y : array-like
        Positive; more values than there are unknowns.

    Returns
    -------
    list of Power
        One per factor; the intervals are Student's.
    """
    from scipy.stats import t

    logs = np.stack([np.log(np.asarray(x, np.float64)) for x in factors], axis=1)
    columns = np.column_stack([np.ones(len(logs)), logs])
    target = np.log(np.asarray(y, np.float64))
    solution, *_ = np.linalg.lstsq(columns, target, rcond=None)
    freedom = len(columns) - columns.shape[1]
    variance = float(np.square(target - columns @ solution).sum()) / freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(columns.T @ columns)))
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * errors
    return [
        Power(float(value), float(value - width), float(value + width))
        for value, width in zip(solution[1:], half[1:], strict=True)
    ]
