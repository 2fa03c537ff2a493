"""The forms of a trained model that a trial evaluates: types of weights and thresholds, by their bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree.model.compress import PER_DECADE, dense_bytes, sparse_bytes, threshold_grid
from labeltree.model.model import Model
from labeltree.settings import StorageSettings

# Of the forms that fit, those that are evaluated, counted from the largest.
_FITTING = (0, 1, 3, 6, 10)
# Without a size, thresholds that leave these shares of the bytes of int8 weights.
_SHARES = (0.5, 0.25, 0.12, 0.06, 0.03)
# More trees are expected only if each can have this share of the weights that a single one could have.
_LEAST_SHARE = 0.25


@dataclass(frozen=True)
class Target:
    """What trials are evaluated for.

    Attributes
    ----------
    metric : str
    max_size : int or None
        Bytes that the model of all rows may take.
    growth : float
        Bytes of the weights of a model of all rows, divided by those of a model of the rows of the trial.
    expected_trees : int
        A trial with fewer trees leaves room for the others, which will be added.
    """

    metric: str
    max_size: int | None
    growth: float = 1.0
    expected_trees: int = 1


@dataclass(frozen=True, eq=False)
class Forms:
    """The forms of a model from the largest to the smallest.

    Attributes
    ----------
    storages : list of StorageSettings
    n_bytes : ndarray of int64, trees x forms
        Bytes of the model with its first tree, its first two, and so on.
    other_bytes : int
        Bytes of what is not in a tree: names, terms, counts.
    target : Target
    """

    storages: list[StorageSettings]
    n_bytes: NDArray[np.int64]
    other_bytes: int
    target: Target

    @classmethod
    def of(cls, model: Model, target: Target, threads: int) -> Forms:
        """Compute the sizes of all forms."""
        other = model.bytes - dense_bytes(model.trees, "float32")
        codecs = ("float32", "float16", "int8")
        thresholds = [0.0, *threshold_grid(model.trees, PER_DECADE)]
        each = [
            [dense_bytes([part], codec) for codec in codecs]
            + sparse_bytes([part], np.array(thresholds), threads)[0].tolist()
            for part in model.trees
        ]
        storages = [StorageSettings(codec) for codec in codecs]
        storages += [StorageSettings(prune=threshold) for threshold in thresholds]
        return cls(storages, other + np.cumsum(np.array(each, np.int64), axis=0), other, target)

    @property
    def screening(self) -> bool:
        """Whether more trees will be added."""
        return bool(self.target.expected_trees > len(self.n_bytes))

    def final_bytes(self, form: int, trees: int) -> int:
        """Return the bytes expected of a model of all rows: weights grow, and the rest does not."""
        own, least = self.n_bytes[trees - 1, form], self.n_bytes[trees - 1].min()
        return int(least + round(float(own - least) * self.target.growth))

    def chosen(self) -> list[tuple[int, StorageSettings]]:
        """Return the forms to evaluate, with their numbers, from the largest to the smallest."""
        chosen: set[int] = set()
        if self.target.max_size is None:
            if self.screening:
                return [(0, self.storages[0])]
            whole = self.n_bytes[-1]
            limits = [whole[0], whole[2], *(share * whole[2] for share in _SHARES)]
            chosen |= {int(np.flatnonzero(whole <= limit)[0]) for limit in limits if (whole <= limit).any()}
        else:
            for number, n_bytes in enumerate(self.n_bytes):
                least = n_bytes.min()
                allowed = least + self._room(number + 1) / self.target.growth
                fitting = np.flatnonzero(n_bytes <= allowed)
                steps = _FITTING[:1] if self.screening else _FITTING
                chosen |= {int(fitting[step]) for step in steps if step < fitting.size}
        return [(number, self.storages[number]) for number in sorted(chosen)]

    def _room(self, trees: int) -> float:
        """Return the bytes that the weights of some trees may take in a model of all rows."""
        assert self.target.max_size is not None
        least = int(self.n_bytes[trees - 1].min())
        alone = float(self.target.max_size - least)
        if not self.screening:
            return alone
        # Every tree has bytes of its own, which are not weights.
        more = self.target.expected_trees / trees
        together = (self.target.max_size - self.other_bytes - more * (least - self.other_bytes)) / more
        return together if together >= _LEAST_SHARE * alone else alone
