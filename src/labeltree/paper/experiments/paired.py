"""Compare two models on the same test rows: the change of precision and its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

PrecisionName = Literal["P@1", "P@3", "P@5"]
PRECISIONS: tuple[PrecisionName, ...] = ("P@1", "P@3", "P@5")
RANKS = (1, 3, 5)
# Standard errors beyond which a change counts: by chance, one of three changes exceeds them in 5% of cases.
NOISE = 2.4


class ChangeRow(TypedDict):
    """Change of one precision on one dataset when weights below a threshold are set to zero."""

    data: str
    threshold: float
    precision: PrecisionName
    rows: int
    rows_better: int
    rows_worse: int
    change: float
    error: float


def row_precision(hits: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return P@1, P@3 and P@5 of each row in percent, rows x 3, from its hits among the first five."""
    return np.stack([100 * hits[:, :k].sum(axis=1) / k for k in RANKS], axis=1)


def compare(
    data: str,
    threshold: float,
    before: Sequence[NDArray[np.float64]],
    after: Sequence[NDArray[np.float64]],
) -> list[ChangeRow]:
    """Test whether precision changes, paired over the rows.

    Parameters
    ----------
    data : str
        Name of the dataset.
    threshold : float
    before, after : sequence of arrays, one per seed
        ``row_precision`` of the two models. The seeds share the test rows, so they are averaged row by row
        before the standard error is computed over the rows.

    Returns
    -------
    list of ChangeRow
        One per precision. The change is in points, ``error`` is its standard error.
    """
    difference = np.mean(after, axis=0) - np.mean(before, axis=0)
    n_rows = len(difference)
    change = difference.mean(axis=0)
    error = difference.std(axis=0, ddof=1) / np.sqrt(n_rows) if n_rows > 1 else np.full(len(RANKS), np.inf)
    return [
        {
            "data": data,
            "threshold": threshold,
            "precision": name,
            "rows": n_rows,
            "rows_better": int((difference[:, k] > 0).sum()),
            "rows_worse": int((difference[:, k] < 0).sum()),
            "change": float(change[k]),
            "error": float(error[k]),
        }
        for k, name in enumerate(PRECISIONS)
    ]
