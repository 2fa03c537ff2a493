"""A sketch of training rows: a few bytes that tell how many rows of other data occur among them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.base import limits
from labeltree.data.split import Keys, row_keys

MAX_KEYS = 1024
_FEWEST = 10  # rows that are compared
_BLOCK = 1 << 20  # non-zeros whose keys are computed at a time


@dataclass(frozen=True, eq=False)
class RowSketch:
    """The smallest keys of rows (a bottom-k sketch); rows of the same features have the same key.

    Other rows with keys in this range are a random sample of them, and of each it is certain whether it
    occurs. Rows without features do not count. A share of the rows repeat the features of another one: about
    as many rows of other data that is like this one occur in it by chance.
    """

    keys: Keys  # increasing, at most 1,024
    repeated: float

    @classmethod
    def of(cls, X: sparse.csr_matrix) -> RowSketch:
        """Return the sketch of the rows of a matrix."""
        keys, counts = np.unique(_keys(X), return_counts=True)
        repeated = counts[counts > 1].sum() / max(1, counts.sum())
        return cls(keys[:MAX_KEYS], round(float(repeated), 6))

    @classmethod
    def stored(cls, entry: Mapping[str, Any] | None) -> RowSketch | None:
        """Return what an entry of a manifest describes."""
        return None if entry is None else cls(_decoded(entry["keys"]), entry["repeated"])

    def entry(self) -> dict[str, Any]:
        """Return what a manifest records."""
        content = self.keys.astype("<u8").tobytes()
        return {"keys": base64.b64encode(content).decode(), "repeated": self.repeated}

    def share(self, X: sparse.csr_matrix) -> tuple[float, int] | None:
        """Return the share of rows that occur in the sketch, and how many were compared: all, or a sample.

        None if these are fewer than 10.
        """
        keys = _keys(X)
        if self.keys.size == MAX_KEYS:
            keys = keys[keys <= self.keys[-1]]
        return (float(np.isin(keys, self.keys).mean()), keys.size) if keys.size >= _FEWEST else None


def _keys(X: sparse.csr_matrix) -> Keys:
    """Return a key for each row that has features."""
    ends = np.searchsorted(X.indptr, np.arange(_BLOCK, X.nnz, _BLOCK))
    blocks = np.unique([0, *ends, X.shape[0]])
    keys: Keys = np.concatenate([row_keys(X[a:b], by_value=False) for a, b in pairwise(blocks)])
    return keys[keys > 0]


def _decoded(text: Any) -> Any:
    """Return keys from Base64, 64-bit little-endian integers; None if they are not those of a sketch."""
    try:
        content = base64.b64decode(text, validate=True) if type(text) is str else b"?"
    except (binascii.Error, ValueError):
        return None
    if len(content) % 8 or len(content) > 8 * MAX_KEYS:
        return None
    keys = np.frombuffer(content, "<u8").astype(np.uint64)
    return keys if (keys[1:] > keys[:-1]).all() and keys.all() else None


SKETCH_LIMITS: dict[str, limits.Limit] = {
    "keys": limits.Value("increasing keys in Base64", _decoded),
    "repeated": limits.Number(0.0, 1.0),
}
