"""Pruning: writes a model again with its small weights at zero, and without the features that this idles."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree._version import __version__
from labeltree.errors import InputError
from labeltree.model import Model, TreeBlocks, load
from labeltree.plan import weight_pointers
from labeltree.progress import Progress
from labeltree.store import new_model
from labeltree.tree import pointers

# Weights that are in memory at once: a one-vs-rest model is a single block.
STRIP_WEIGHTS = 1 << 22


@dataclass
class PruningCounts:
    """What pruning found and left, the bias counted like every other weight."""

    weights: int = 0
    nonzeros_before: int = 0
    nonzeros_after: int = 0


def prune_model(
    model: Model,
    threshold: float,
    path: Path | str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Write a model again without its small weights: what ``Model.prune`` does, and says."""
    threshold, path = _check_threshold(threshold), Path(path)
    limit = _float32_limit(threshold)
    if model.path is not None:
        _check_apart(model.path, path)
    earlier = model.manifest.get("pruned", {})  # pruned again, the report is of all that was pruned
    origin = {key: earlier[key] for key in ("bytes_before", "nonzeros_before", "weights") if key in earlier}
    total = sum(int(part.weight_ptr[-1]) for part in model.trees)
    counts, kept_weights = PruningCounts(), 0
    with new_model(path, overwrite) as writer:
        writer.write_facts(model.label_counts, model.label_names, model.text)
        for t, part in enumerate(model.trees):
            folder = f"tree-{t}"
            kept = np.zeros(part.tree.n_nodes, np.int64)
            checksums = np.zeros(part.tree.n_nodes, np.uint32)
            with ExitStack() as stack:
                features = stack.enter_context(writer.grow(f"{folder}/features.npy", "<i4"))
                weights = stack.enter_context(writer.grow(f"{folder}/weights.npy", "<f4"))
                for u in range(part.tree.n_nodes):
                    block = _Block(model, part, u, limit)
                    if block.find_kept(counts) != part.checksums[u]:
                        raise InputError(
                            f"{model.file(folder)} has a wrong checksum in the block of node {u}: it is "
                            "damaged, so it is not pruned; copy or train the model again."
                        )
                    kept[u], checksums[u] = block.kept.sum(), block.write(features, weights)
                    if progress is not None:
                        progress(counts.weights / max(total, 1))
            feature_ptr = pointers(kept)
            biases = int(part.tree.child_count.sum()) if model.bias else 0
            kept_weights += int(weight_pointers(part.tree, feature_ptr)[-1]) - biases
            writer.write(f"{folder}/child_ptr.npy", part.tree.child_ptr)
            writer.write(f"{folder}/children.npy", part.tree.children)
            writer.write(f"{folder}/feature_ptr.npy", feature_ptr)
            writer.write(f"{folder}/checksums.npy", checksums)
        writer.finish(
            {
                **{key: value for key, value in model.manifest.items() if key not in ("files", "crc32c")},
                "labeltree_version": __version__,
                "weights": kept_weights,
                "pruned": {
                    "threshold": max(threshold, earlier.get("threshold", 0.0)),
                    "bytes_before": model.bytes,
                    **vars(counts),
                    **origin,
                },
            }
        )
    return load(path, verify=False)


def pruning_report(model: Model) -> dict[str, float | int]:
    """What pruning took from a model, from what its manifest keeps of it.

    Parameters
    ----------
    model : Model
        One that ``Model.prune`` wrote.

    Returns
    -------
    dict
        ``threshold``; ``weights``, ``nonzeros_before``, ``nonzeros_after``, the bias counted like every other
        weight; the share that was set to zero, ``pruned_of_nonzeros`` and ``pruned_of_all``;
        ``bytes_before`` and ``bytes_after`` as stored; ``paper_bytes_before`` and ``paper_bytes_after``, the
        paper's 12 bytes a non-zero.
    """
    kept = model.manifest.get("pruned")
    if kept is None:
        raise InputError(
            f"{model.path or 'The model'} was not pruned, so there is nothing to report; prune it first."
        )
    before, after = kept["nonzeros_before"], kept["nonzeros_after"]
    return {
        "threshold": kept["threshold"],
        "weights": kept["weights"],
        "nonzeros_before": before,
        "nonzeros_after": after,
        "pruned_of_nonzeros": (before - after) / max(before, 1),
        "pruned_of_all": (before - after) / max(kept["weights"], 1),
        "bytes_before": kept["bytes_before"],
        "bytes_after": model.bytes,
        "paper_bytes_before": 12 * before,
        "paper_bytes_after": 12 * after,
    }


class _Block:
    """A node's block: read strip by strip, once to see which rows are kept, and again to write them."""

    def __init__(self, model: Model, part: TreeBlocks, node: int, limit: np.float32) -> None:
        self._features = part.features[part.feature_ptr[node] : part.feature_ptr[node + 1]]
        self._weights = part.weights[part.weight_ptr[node] : part.weight_ptr[node + 1]].reshape(
            self._features.size, part.tree.child_count[node]
        )
        self._limit = limit
        self.kept = np.zeros(self._features.size, bool)
        # The format wants the row of the bias in every block, be it zero.
        if model.bias:
            self.kept[-1:] = True

    def _strips(self) -> Iterator[slice]:
        rows, columns = self._weights.shape
        step = max(1, STRIP_WEIGHTS // columns)
        return (slice(first, first + step) for first in range(0, rows, step))

    def find_kept(self, counts: PruningCounts) -> int:
        """Mark the rows with a weight that stays, count, and return the checksum of the block as it is."""
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
        """Append what stays to the two files, and return its checksum."""
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


def _check_threshold(threshold: float) -> float:
    """Refuse what is no threshold."""
    try:
        given = float(threshold)
    except (OverflowError, TypeError, ValueError):
        given = math.nan
    if not (math.isfinite(given) and given > 0):
        raise InputError(f"threshold must be a finite number greater than 0, but got {threshold!r}.")
    return given


def _float32_limit(threshold: float) -> np.float32:
    """The smallest float32 that is not below the threshold: no float32 lies between them."""
    with np.errstate(over="ignore"):
        limit = np.float32(threshold)
    return limit if float(limit) >= threshold else np.nextafter(limit, np.float32(np.inf))


def _check_apart(model: Path, target: Path) -> None:
    """Refuse to write a model over itself, into itself, or over a folder that it lies in."""
    source, goal = Path(os.path.realpath(model)), Path(os.path.realpath(target))
    if source == goal:
        raise InputError(f"{target} is the model that is to be pruned itself; give another name.")
    if source in goal.parents or goal in source.parents:
        raise InputError(f"{target} and the model {model} lie one within the other; give another place.")
