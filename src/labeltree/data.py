"""Stand-in for the real data module, until it lands: the Dataset that synth hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Dataset:
    """Features, labels and their names."""

    X: Any
    Y: Any
    label_names: tuple[str, ...] | None = None

    @classmethod
    def from_matrices(cls, X: Any, Y: Any, label_names: tuple[str, ...] | None = None) -> Dataset:
        """Build a data set."""
        return cls(X, Y, label_names)
