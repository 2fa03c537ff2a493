"""Random samples in which large elements are more likely."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def proportional(sizes: NDArray[np.floating], number: float) -> NDArray[np.float64]:
    """Return probabilities in proportion to sizes, at most 1, whose sum is ``number`` if possible."""
    if number >= sizes.size:
        return np.ones(sizes.size)
    certain = np.zeros(sizes.size, bool)
    while True:
        rest = np.where(certain, 0.0, sizes)
        chance = np.where(certain, 1.0, (number - certain.sum()) * rest / rest.sum())
        if not (chance > 1).any():
            return chance
        certain |= chance >= 1


def systematic(
    chance: NDArray[np.float64], random: np.random.Generator, by: NDArray[np.float64] | None = None
) -> NDArray[np.bool_]:
    """Choose each element with its probability; the number of chosen ones varies by less than 1.

    So does the number of those with values of ``by`` in any range: small and large ones are chosen evenly.
    """
    shuffled = random.permutation(chance.size)
    if by is not None:
        shuffled = shuffled[np.argsort(by[shuffled], kind="stable")]
    ends = np.cumsum(chance[shuffled]) + random.random()
    chosen = np.zeros(chance.size, bool)
    chosen[shuffled] = np.diff(np.floor(ends + 1e-9), prepend=np.floor(ends[:1] - chance[shuffled][:1])) > 0
    return chosen
