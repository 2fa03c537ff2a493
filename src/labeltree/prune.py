"""Pruning: write the trees of a model without their small weights and unused features."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypedDict

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.blocks import TreeBlocks, write_shape
from labeltree.errors import InputError
from labeltree.plan import PAPER_WEIGHT_BYTES
from labeltree.progress import Progress
from labeltree.store import RESTORE, ModelWriter, PrunedEntry
from labeltree.tree import pointers

# Weights that are in memory at the same time: a one-vs-rest model is a single block.
STRIP_WEIGHTS = 1 << 22


@dataclass
class PruningCounts:
    """Weights before and after pruning, including the bias."""

    weights: int = 0
    nonzeros_before: int = 0
    nonzeros_after: int = 0


class PruningReport(TypedDict):
    """What pruning removed from a model, as ``labeltree prune --json`` prints it.

    ``weights``, ``nonzeros_before`` and ``nonzeros_after`` include the bias. ``pruned_of_nonzeros`` and
    ``pruned_of_all`` are the shares of weights that were set to zero. ``bytes_before`` and ``bytes_after``
    are sizes on disk, ``paper_bytes_before`` and ``paper_bytes_after`` the paper's 12 bytes per non-zero.
    """

    threshold: float
    weights: int
    nonzeros_before: int
    nonzeros_after: int
    pruned_of_nonzeros: float
    pruned_of_all: float
    bytes_before: int
    bytes_after: int
    paper_bytes_before: int
    paper_bytes_after: int


def write_pruned(
    writer: ModelWriter,
    trees: Sequence[TreeBlocks],
    threshold: float,
    *,
    bias: bool,
    source: str,
    progress: Progress | None = None,
) -> tuple[PruningCounts, int]:
    """Write trees without the weights whose absolute value is below a threshold.

    Parameters
    ----------
    writer : ModelWriter
    trees : sequence of TreeBlocks
    threshold : float
    bias : bool
        Whether the last row of each block belongs to the bias.
    source : str
        What messages call the model that is read.
    progress : callable, optional

    Returns
    -------
    counts : PruningCounts
    n_weights : int
        Weights that are stored, as the paper counts them, without bias.
    """
    limit = _float32_limit(threshold)
    total = max(1, sum(int(part.weight_ptr[-1]) for part in trees))
    counts, n_weights = PruningCounts(), 0
    for t, part in enumerate(trees):
        folder = f"tree-{t}"
        kept = np.zeros(part.tree.n_nodes, np.int64)
        checksums = np.zeros(part.tree.n_nodes, np.uint32)
        with ExitStack() as stack:
            features = stack.enter_context(writer.grow(f"{folder}/features.npy", "<i4"))
            weights = stack.enter_context(writer.grow(f"{folder}/weights.npy", "<f4"))
            for u in range(part.tree.n_nodes):
                block = _Block(part, u, limit, bias)
                if block.find_kept(counts) != part.checksums[u]:
                    what = f"checksum mismatch in the block of node {u}: the model is damaged"
                    raise InputError(what, file=os.path.join(source, folder), hint=RESTORE)
                kept[u], checksums[u] = block.kept.sum(), block.write(features, weights)
                if progress is not None:
                    progress(counts.weights / total)
        feature_ptr = pointers(kept)
        n_weights += int(part.tree.weight_ptr(feature_ptr)[-1]) - int(part.tree.child_count.sum()) * bias
        write_shape(writer, folder, part.tree, feature_ptr, checksums)
    return counts, n_weights


def pruning_report(pruned: PrunedEntry, bytes_after: int) -> PruningReport:
    """Return what pruning removed, from what the manifest of the pruned model records."""
    before, after = pruned["nonzeros_before"], pruned["nonzeros_after"]
    return {
        "threshold": pruned["threshold"],
        "weights": pruned["weights"],
        "nonzeros_before": before,
        "nonzeros_after": after,
        "pruned_of_nonzeros": (before - after) / max(before, 1),
        "pruned_of_all": (before - after) / max(pruned["weights"], 1),
        "bytes_before": pruned["bytes_before"],
        "bytes_after": bytes_after,
        "paper_bytes_before": PAPER_WEIGHT_BYTES * before,
        "paper_bytes_after": PAPER_WEIGHT_BYTES * after,
    }


def check_apart(model: Path, target: Path) -> None:
    """Refuse to write a model over itself, into itself, or over a directory that contains it."""
    source, goal = Path(os.path.realpath(model)), Path(os.path.realpath(target))
    if source == goal:
        what = "the output is the same directory as the input model"
        raise InputError(what, file=target, hint="choose another name")
    if source in goal.parents:
        what = f"the output directory is inside the model {model}"
        raise InputError(what, file=target, hint="choose another directory")
    if goal in source.parents:
        what = f"the output directory contains the model {model}"
        raise InputError(what, file=target, hint="choose another directory")


class _Block:
    """A node's block, read in strips: once to find the rows that are kept, and again to write them."""

    def __init__(self, part: TreeBlocks, node: int, limit: np.float32, bias: bool) -> None:
        self._features, self._weights = part.block(node)
        self._limit = limit
        self.kept = np.zeros(self._features.size, bool)
        # The format requires the row of the bias in every block, even if it is zero.
        if bias:
            self.kept[-1:] = True

    def _strips(self) -> Iterator[slice]:
        rows, columns = self._weights.shape
        step = max(1, STRIP_WEIGHTS // columns)
        return (slice(first, first + step) for first in range(0, rows, step))

    def find_kept(self, counts: PruningCounts) -> int:
        """Mark the rows that keep a weight, count, and return the checksum of the block as it is."""
        checksum = _crc32c(self._features)
        for rows in self._strips():
            weights = self._weights[rows]
            stay = ~(np.abs(weights) < self._limit)
            self.kept[rows] |= stay.any(axis=1)
            checksum = _crc32c(weights, checksum)
            counts.weights += weights.size
            counts.nonzeros_before += int(np.count_nonzero(weights))
            counts.nonzeros_after += int(np.count_nonzero(stay))
        return checksum

    def write(self, features: BinaryIO, weights: BinaryIO) -> int:
        """Append what is kept to the two files, and return its checksum."""
        kept = np.ascontiguousarray(self._features[self.kept])
        features.write(kept.data)
        checksum = _crc32c(kept)
        for rows in self._strips():
            strip = np.ascontiguousarray(self._weights[rows][self.kept[rows]])
            strip[np.abs(strip) < self._limit] = 0
            weights.write(strip.data)
            checksum = _crc32c(strip, checksum)
        return checksum


def _crc32c(array: NDArray[np.int32] | NDArray[np.float32], before: int = 0) -> int:
    return _native.crc32c(np.ascontiguousarray(array).reshape(-1).view(np.uint8), before)


def _float32_limit(threshold: float) -> np.float32:
    """Return the smallest float32 that is at least the threshold."""
    with np.errstate(over="ignore"):
        limit = np.float32(threshold)
    return limit if float(limit) >= threshold else np.nextafter(limit, np.float32(np.inf))
