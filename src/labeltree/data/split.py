"""Split labeled rows into parts with the same share of every label; equal rows stay together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.base import limits
from labeltree.base.display import Progress, html_table
from labeltree.data.dataset import Dataset
from labeltree.data.read import LabelNumbers
from labeltree.errors import InputError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from labeltree.data.inputs import Source

Keys = NDArray[np.uint64]
_Array = NDArray[Any]

TRAIN, TEST, VALIDATION = "train", "test", "validation"
# Shares of labels are compared from this number of rows on: of fewer, few shares are possible.
COMPARED_ROWS = 20
_PASSES = 4
_BLOCK = 1 << 16  # units that are Python objects at a time
# What a row too many or too few costs at least; the same in a label with n rows costs 1 / n.
_SIZE_COST = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Parts of data with the same share of every label; iteration yields the parts.

    Attributes
    ----------
    train, test : object
        In the form of the data: frames, datasets, pairs of data and labels, or the paths of files.
    validation : object or None
    rows : dict of str to int
        Rows of each part.
    largest_error : float
        How far the part's share of a label's rows is from its share of all rows, at most: 0.05 is one row of
        a label with 20.
    compared_labels : int
        Labels with at least 20 rows, among which that is the largest.
    """

    train: Any
    test: Any
    validation: Any
    rows: dict[str, int]
    largest_error: float
    compared_labels: int

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the largest error, as ``labeltree split --json`` prints them."""
        found = {
            name: {"path": str(part), "rows": count} if isinstance(part, Path) else {"rows": count}
            for (name, count), part in zip(self.rows.items(), self, strict=True)
        }
        return {**found, "largest_error": self.largest_error, "compared_labels": self.compared_labels}

    def _repr_html_(self) -> str:
        rows = ([name, f"{count:,}"] for name, count in self.rows.items())
        return html_table(self._error(), ["part", "rows"], rows)

    def _error(self) -> str:
        return f"shares of labels with 20 or more rows differ by at most {self.largest_error:.4f}"

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {count:,} rows" for name, count in self.rows.items())
        return f"Split({rows}; {self._error()})"


def checked_shares(test: float, validation: float | None) -> dict[str, float]:
    """Return the shares of the parts other than the training part, by their names."""
    given = {TEST: test} if validation is None else {TEST: test, VALIDATION: validation}
    shares = {name: limits.checked(name, share, limits.TEST_SHARE) for name, share in given.items()}
    if sum(shares.values()) > 1 - 1e-9:
        shown = " and ".join(f"{share:g}" for share in shares.values())
        what = f"the shares {shown} leave no rows to train on"
        raise InputError(what, hint="lower {test}")
    return shares


def text_keys(texts: Iterable[str]) -> Keys:
    """Return a key per text, equal for texts that differ only in case and whitespace; 0 for a blank one."""
    digests = (
        blake2b(tidy.encode(errors="surrogatepass"), digest_size=8).digest() if tidy else bytes(8)
        for text in texts
        for tidy in (" ".join(text.casefold().split()),)
    )
    return np.frombuffer(b"".join(digests), np.dtype("<u8")).astype(np.uint64)


def row_keys(X: sparse.csr_matrix, *, by_value: bool = True) -> Keys:
    """Return a key per row, equal for equal rows or rows of the same features; 0 for a row without any."""
    keys = _mixed(X.indices)
    if by_value:
        keys = _mixed(keys ^ X.data.astype(np.float32, copy=False).view(np.uint32))
    return _sums(X.indptr, keys)


def split_rows(Y: sparse.csr_matrix, keys: Keys, shares: Sequence[float], seed: int = 0) -> NDArray[np.int8]:
    """Return the part of each row, numbered from 0, with about the same share of each label in each part.

    `shares` are those of the parts but the first, which has the rest. Rows with the same key are put into the
    same part; 0 is the key of a row on its own. The order of the rows and of the labels does not matter.
    Labels that are too rare for one row in each part keep their share together, those with the same number of
    rows as one label. Rows without labels count as a label.
    """
    n_rows = Y.shape[0]
    keys, single = keys.copy(), np.flatnonzero(keys == 0)
    keys[single] = _mixed(~single.astype(np.uint64))
    units, unit = np.unique(keys, return_inverse=True)
    if len(units) <= len(shares):
        what = f"{n_rows:,} row{'s' * (n_rows != 1)} with {len(units):,} different texts"
        raise InputError(f"{what} cannot be split into {len(shares) + 1} parts", hint="use more data")
    sizes = np.bincount(unit)
    # The rows are mixed in: splitting a part again with the same seed must not repeat choices.
    mixed = _mixed(_mixed(units).sum(keepdims=True) ^ _mixed([seed]))
    flags = sparse.csr_matrix((np.ones(Y.nnz, np.int64), Y.indices, Y.indptr), shape=Y.shape)
    unlabeled = sparse.csr_matrix((np.diff(Y.indptr) == 0).astype(np.int64)[:, None])
    gather = sparse.csr_matrix((np.ones(n_rows, np.int64), (unit, np.arange(n_rows))))
    marks = sparse.csr_matrix(gather @ sparse.hstack([flags, unlabeled], format="csr"))
    counts = np.asarray(marks.sum(axis=0)).ravel()
    columns = marks.tocsc()
    labels = _mixed(_sums(columns.indptr, _mixed(units[columns.indices])) ^ mixed)
    rank = np.empty(len(counts), np.int64)
    rank[np.lexsort((labels, counts))] = np.arange(len(counts))
    # Units with the same rarest label follow one another.
    rarest = np.minimum.reduceat(rank[marks.indices], marks.indptr[:-1])
    order = np.lexsort((_mixed(units ^ mixed), rarest))
    group = np.where(counts * min(shares) < 1, len(counts) + counts, np.arange(len(counts)))
    joined = sparse.csr_matrix((np.ones(len(counts), np.int64), (np.arange(len(counts)), group)))
    marks, counts, sizes = (marks @ joined)[order], np.bincount(group, counts), sizes[order]
    parts = np.zeros(len(order), np.int8)
    rest, used = np.arange(len(order)), 0.0
    for number, share in enumerate(shares, 1):
        n_wanted = max(1, round(share * n_rows))
        chosen = _chosen(marks[rest], sizes[rest], counts, share / (1 - used), share * counts, n_wanted)
        # A unit is left for each of the other parts.
        missing = len(shares) - number + 1 - np.count_nonzero(~chosen)
        if missing > 0 or not chosen.any():
            smallest = np.argsort(np.where(chosen == (missing > 0), sizes[rest], n_rows + 1), kind="stable")
            chosen[smallest[: max(missing, 1)]] = missing <= 0
        parts[rest[chosen]] = number
        rest, used = rest[~chosen], used + share
    placed = np.empty_like(parts)
    placed[order] = parts
    return placed[unit]


def _chosen(
    marks: sparse.csr_matrix, sizes: _Array, counts: _Array, share: float, wanted: _Array, n_wanted: int
) -> NDArray[np.bool_]:
    """Choose units of rows with about the wanted number of each label, and exactly so many rows if possible.

    Every n-th unit is chosen, then units change sides while that lowers the squared error of the labels, each
    divided by the rows of the label.
    """
    places = np.floor(np.arange(len(sizes) + 1) * share + 0.5)
    chosen = np.diff(places) > 0
    weight = 1 / np.maximum(counts, 1.0)
    size_weight = max(1 / counts.sum(), _SIZE_COST)
    excess = marks.T @ chosen.astype(np.float64) - wanted
    errors, weights = excess.tolist(), weight.tolist()
    rows = int(sizes[chosen].sum()) - n_wanted
    sides = chosen.tolist()
    for _ in range(_PASSES):
        before = sides.copy()
        for first in range(0, len(sides), _BLOCK):
            block = marks[first : first + _BLOCK]
            labels, numbers, ptr = block.indices.tolist(), block.data.tolist(), block.indptr.tolist()
            for at, size in enumerate(sizes[first : first + _BLOCK].tolist()):
                sign = -2 if sides[first + at] else 2
                change = size_weight * size * (size + sign * rows)
                entries = range(ptr[at], ptr[at + 1])
                for entry in entries:
                    label, number = labels[entry], numbers[entry]
                    change += weights[label] * number * (number + sign * errors[label])
                if change < -1e-9:
                    sides[first + at] = sign > 0
                    rows += sign // 2 * size
                    for entry in entries:
                        errors[labels[entry]] += sign // 2 * numbers[entry]
        if sides == before:
            break
    chosen = np.array(sides)
    # Rows that are still too many or too few: those whose change costs least.
    sign = -1 if rows > 0 else 1
    cost = (marks.multiply(marks) + 2 * sign * marks.multiply(np.array(errors))) @ weight
    movable = np.flatnonzero(chosen == (rows > 0))
    for at in movable[np.argsort(cost[movable].round(9), kind="stable")]:
        if sizes[at] <= abs(rows):
            chosen[at], rows = not chosen[at], rows + sign * int(sizes[at])
        if not rows:
            break
    return chosen


def labels_and_keys(
    source: Source, threads: int | None = None, progress: Progress | None = None
) -> tuple[sparse.csr_matrix, Keys, Dataset | None, tuple[str, ...] | None]:
    """Read the labels and the keys of all rows, for `split_rows`, the dataset if not text, and the names."""
    if source.documents is None:
        dataset = source.dataset(threads=threads, progress=progress)
        return dataset.Y, row_keys(dataset.X), dataset, dataset.label_names
    numbers = LabelNumbers()
    keys = text_keys(numbers.collect(source.documents(progress), skip=False))
    names, Y = numbers.matrix()
    return (Y, keys, None, names) if source.flags is None else (source.flags[0], keys, None, source.flags[1])


def held_out(
    source: Source,
    share: float,
    seed: int,
    settings: TextSettings | None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Dataset, Dataset]:
    """Read data as training rows and a share of rows that are held out, with the same features.

    Those of documents are learned from the training rows alone.
    """
    shares = [limits.checked("holdout", share, limits.VALIDATION_SHARE)]
    Y, keys, dataset, _ = labels_and_keys(source, threads, progress)
    is_out = split_rows(Y, keys, shares, seed) == 1
    if dataset is None:
        train = source.dataset(settings, rows=~is_out, threads=threads)
        return train, source.dataset(like=train, rows=is_out, threads=threads)
    return dataset.take(np.flatnonzero(~is_out)), dataset.take(np.flatnonzero(is_out))


def share_error(Y: sparse.csr_matrix, parts: NDArray[np.int8], shares: Sequence[float]) -> tuple[float, int]:
    """Return how far the share of a label in a part is from that of the part at most, and of how many labels.

    Labels with fewer than `COMPARED_ROWS` rows are left out.
    """
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    compared = counts >= COMPARED_ROWS
    numbers = np.repeat(parts, np.diff(Y.indptr)) * np.int64(Y.shape[1]) + Y.indices
    found = np.bincount(numbers, minlength=(len(shares) + 1) * Y.shape[1]).reshape(-1, Y.shape[1])
    off = found[1:, compared] / counts[compared] - np.array(shares)[:, None]
    return float(np.abs(off).max(initial=0)), int(compared.sum())


def _mixed(values: Any) -> Keys:
    """Return a hash of each value."""
    return splitmix64(np.asarray(values).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


def splitmix64(x: Keys) -> Keys:
    """Hash each number (the finalizer of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _sums(ptr: NDArray[Any], values: Keys) -> Keys:
    """Return the sum of the values of each row, modulo 2**64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: Keys = total[ptr[1:]] - total[ptr[:-1]]
    return sums
