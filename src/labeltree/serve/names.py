"""Names of labels in one string: quick to search, and shared by worker processes.

Whoever uses an object of Python writes to its page, to count references, which ends the sharing. Parts of one
string are copies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

import numpy as np
from numpy.typing import NDArray

# It separates names that are searched; names may contain it, too.
_BETWEEN = "\0"


class LabelNames:
    """The names of labels as JSON, and a search among them.

    Parameters
    ----------
    names : sequence of str or None
        None if labels have none; their numbers are searched then.
    n_labels : int
    """

    def __init__(self, names: Sequence[str] | None, n_labels: int) -> None:
        self._names, self._n_labels = names, n_labels
        parts = [] if names is None else list(map(_quoted, names))
        self._json = "".join(parts)
        self._ends: Any = memoryview(_ends(parts))  # type: ignore[arg-type]

    def json(self, label: int) -> str:
        """Return the name of a label as JSON: null if it has none."""
        if self._names is None:
            return "null"
        return self._json[self._ends[label - 1] if label else 0 : self._ends[label]]

    def containing(self, part: str) -> NDArray[np.bool_]:
        """Return for each label whether its name, or its number, contains a text in any case."""
        wanted = part.casefold()
        if _BETWEEN in wanted:
            return np.fromiter((wanted in name for name in self._folded_names()), np.bool_, self._n_labels)
        found = np.zeros(self._n_labels, np.bool_)
        if not wanted:
            return ~found
        text, ends = self._folded
        starts = np.fromiter((hit.start() for hit in re.finditer(re.escape(wanted), text)), np.int64)
        found[np.searchsorted(ends, starts, side="right")] = True
        return found

    @cached_property
    def _folded(self) -> tuple[str, NDArray[np.int64]]:
        """All names in small letters, and where each one ends."""
        parts = [name + _BETWEEN for name in self._folded_names()]
        return "".join(parts), _ends(parts)

    def _folded_names(self) -> Iterable[str]:
        names = map(str, range(self._n_labels)) if self._names is None else self._names
        return (name.casefold() for name in names)


def _ends(parts: list[str]) -> NDArray[np.int64]:
    return np.fromiter(accumulate(map(len, parts)), np.int64, len(parts))
