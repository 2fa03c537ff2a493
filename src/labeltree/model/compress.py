"""Compact copies of a float32 model: its blocks with another codec, and how large they would be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base.progress import Progress, part_of
from labeltree.errors import InputError
from labeltree.model.block_writing import pack_blocks, remove_loose, reserve_blocks, write_small
from labeltree.model.blocks import TreeBlocks
from labeltree.model.files import ArrayFile, ModelWriter
from labeltree.model.layout import SPARSE, Layout, float32_threshold, is_scaled
from labeltree.settings import StorageSettings


def check_source(path: Path | None, trees: Sequence[TreeBlocks]) -> None:
    """Refuse a model whose weights are not float32 any more."""
    codec = trees[0].codec
    if is_scaled(codec):
        what = f"the model is already compact: its weights are {'pruned' if codec == SPARSE else codec}"
        raise InputError(what, file=path, hint="compress the float32 model that it was made from")


def write_compact(
    writer: ModelWriter,
    trees: Sequence[TreeBlocks],
    storage: StorageSettings,
    threads: int,
    progress: Progress | None = None,
) -> int:
    """Write the trees of a float32 model with another codec; return the non-zero weights, if pruned.

    Memory does not grow with the model.
    """
    n_nonzeros = 0
    for t, part in enumerate(trees):
        layout = _layout(part, storage.codec)
        with reserve_blocks(writer, f"tree-{t}", layout) as files, _refusals():
            written = _native.compress_blocks(
                _source(part),
                part.n_features,
                part.has_bias,
                storage.codec,
                float32_threshold(storage.prune or 0.0),
                layout.feature_ptr,
                layout.weight_ptr,
                *files,
                threads,
                part_of(progress, t, len(trees)),
            )
            with pack_blocks(writer, f"tree-{t}", layout, written, files):
                pass
        n_nonzeros += int(written[3].sum())
        write_small(writer, f"tree-{t}", part.tree, storage.codec, written)
    remove_loose(writer.path)
    return n_nonzeros


def dense_bytes(trees: Sequence[TreeBlocks], codec: str) -> int:
    """Return the bytes of all files of the trees with a dense codec."""
    return sum(file.bytes for part in trees for file in _layout(part, codec).files().values())


def sparse_bytes(
    trees: Sequence[TreeBlocks], thresholds: NDArray[np.float64], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bytes of all files of the trees, and the non-zero weights, if pruned at each threshold."""
    limits = np.array([float32_threshold(t) for t in thresholds], np.float32)
    n_bytes, n_nonzeros = np.zeros((2, limits.size), np.int64)
    for part in trees:
        with _refusals():
            large, stored = _native.sparse_sizes(
                _source(part), part.n_features, part.has_bias, limits, threads
            )
        files = _layout(part, SPARSE).files()
        small = sum(
            ArrayFile(file.dtype, 0).bytes if name in ("features.npy", "weights.npy") else file.bytes
            for name, file in files.items()
        )
        n_bytes += large + small
        n_nonzeros += stored
    return n_bytes, n_nonzeros


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


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what a kernel refuses into an error for the user: weights that are not finite, or too many."""
    try:
        yield
    except ValueError as error:
        hint = "train the model again, or do not prune it"
        raise InputError(str(error), hint=hint) from None


def _layout(part: TreeBlocks, codec: str) -> Layout:
    return Layout.of(part.tree, codec, part.used_features, part.has_bias, part.n_features)


def _source(part: TreeBlocks) -> _native.FloatArrays:
    shape = part.tree.child_ptr, part.tree.children
    return *shape, part.feature_ptr, part.features, part.weight_ptr, part.weights.view(np.uint8)
