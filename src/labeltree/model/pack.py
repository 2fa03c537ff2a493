"""Writing the blocks of trees: files that are filled in any order, and packed when all are known.

Those of a float32 model are written again with another codec.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base.display import Progress, part_of
from labeltree.errors import InputError
from labeltree.model.blocks import TreeBlocks
from labeltree.model.directory import write_at, write_durably
from labeltree.model.layout import (
    FEATURES,
    SPARSE,
    WEIGHTS,
    ArrayFile,
    Layout,
    float32_threshold,
    is_scaled,
    tree_files,
    tree_folder,
)
from labeltree.model.manifest import carried_over, stored_as
from labeltree.model.writer import ModelWriter
from labeltree.settings import StorageSettings
from labeltree.trees.tree import LabelTree, pointers

if TYPE_CHECKING:
    from labeltree.model.stored import StoredModel

_LOOSE, _PACKED = ".loose", ".packed"
_RELEASED_AT_ONCE = 64 << 20  # bytes that were moved


class WrittenBlocks(NamedTuple):
    """What was written of a tree: of each block, unless noted."""

    checksums: NDArray[np.uint32]  # 0 if a dense block was written in strips
    segment_rows: NDArray[np.int64]  # of each segment of each block
    n_bytes: NDArray[np.int64]  # of the weights
    n_nonzeros: NDArray[np.int64]
    scales: NDArray[np.float32]  # of each child, as the biases
    biases: NDArray[np.float32]


class BlockFiles(NamedTuple):
    """The two large files of a tree that is being written: descriptor, and start of the data."""

    feature_file: int
    feature_start: int
    weight_file: int
    weight_start: int

    def native(
        self, codec: str, feature_ptr: NDArray[np.int64], weight_ptr: NDArray[np.int64]
    ) -> _native.BlockFiles:
        """Return the files and the places of the blocks in them as kernels take them."""
        return _native.BlockFiles(codec, feature_ptr=feature_ptr, weight_ptr=weight_ptr, **self._asdict())

    def add_checksums(self, layout: Layout, written: WrittenBlocks) -> None:
        """Read the dense blocks that were written in strips, and set their CRC-32C."""
        if layout.codec == SPARSE:
            return
        large = (
            (self.feature_file, self.feature_start, layout.feature_ptr, FEATURES.dtypes[layout.codec]),
            (self.weight_file, self.weight_start, layout.weight_ptr, WEIGHTS.dtypes[layout.codec]),
        )
        for node in np.flatnonzero(written.checksums == 0):
            crc = 0
            for file, start, ptr, dtype in large:
                at, end = (start + int(ptr[n]) * np.dtype(dtype).itemsize for n in (node, node + 1))
                for piece in _pieces(file, at, end):
                    crc = _native.crc32c(np.frombuffer(piece, np.uint8), crc)
            written.checksums[node] = crc


class TrainedBlocks(NamedTuple):
    """The blocks of a tree whose files are still open."""

    files: _native.BlockFiles
    scales: NDArray[np.float32]
    biases: NDArray[np.float32]

    @classmethod
    def of(cls, codec: str, written: WrittenBlocks, files: BlockFiles) -> TrainedBlocks:
        """Find the blocks from what was written."""
        weight_ptr = pointers(written.n_bytes // np.dtype(WEIGHTS.dtypes[codec]).itemsize)
        places = files.native(codec, pointers(written.segment_rows), weight_ptr)
        return cls(places, written.scales, written.biases)


@contextmanager
def reserve_blocks(writer: ModelWriter, folder: str, layout: Layout) -> Iterator[BlockFiles]:
    """Open two files for the blocks of a tree, to be filled in any order.

    Those of dense blocks are the files of the model. Sparse blocks have gaps between them until `pack_blocks`
    moves them.
    """
    files = layout.files()
    with ExitStack() as stack:
        found: list[tuple[int, int]] = []
        for name in (FEATURES.name, WEIGHTS.name):
            if layout.codec == SPARSE:
                handle = os.open(writer.place(f"{folder}/{name}{_LOOSE}"), os.O_RDWR | os.O_CREAT, 0o666)
                stack.callback(os.close, handle)
                found.append((handle, 0))
            else:
                found.append(stack.enter_context(writer.reserve(f"{folder}/{name}", files[name])))
        yield BlockFiles(*found[0], *found[1])


@contextmanager
def readable_blocks(
    folder: Path, layout: Layout, written: WrittenBlocks, files: BlockFiles
) -> Iterator[TrainedBlocks]:
    """Give access to the blocks that are written so far; sparse ones are copied to temporary files."""
    if layout.codec != SPARSE:
        places = files.native(layout.codec, layout.feature_ptr, layout.weight_ptr)
        yield TrainedBlocks(places, written.scales, written.biases)
        return
    n_ids = written.segment_rows.reshape(written.n_bytes.size, -1).sum(axis=1)
    with ExitStack() as stack:
        copies: list[int] = []
        for handle, ptr, sizes in (
            (files.feature_file, 2 * layout.feature_ptr, 2 * n_ids),
            (files.weight_file, layout.weight_ptr, written.n_bytes),
        ):
            copy = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            for block in np.flatnonzero(sizes):
                for piece in _pieces(handle, int(ptr[block]), int(ptr[block] + sizes[block])):
                    copy.write(piece)
            copy.flush()
            copies.append(copy.fileno())
        yield TrainedBlocks.of(SPARSE, written, BlockFiles(copies[0], 0, copies[1], 0))


@contextmanager
def pack_blocks(
    writer: ModelWriter, folder: str, layout: Layout, written: WrittenBlocks, files: BlockFiles
) -> Iterator[BlockFiles]:
    """Write sparse blocks next to each other into the files of the model; return these, open.

    The space of blocks that are moved is released meanwhile, so that the disk holds few of them twice. After
    an interruption, it continues where it was.
    """
    if layout.codec != SPARSE:
        yield files
        return
    n_ids = written.segment_rows.reshape(written.n_bytes.size, -1).sum(axis=1)
    with ExitStack() as stack:
        found: list[tuple[int, int]] = []
        for name, handle, ptr, sizes in (
            (FEATURES.name, files.feature_file, 2 * layout.feature_ptr, 2 * n_ids),
            (WEIGHTS.name, files.weight_file, layout.weight_ptr, written.n_bytes),
        ):
            dtype = layout.files()[name].dtype
            spec = ArrayFile(dtype, int(sizes.sum()) // np.dtype(dtype).itemsize)
            target, start = stack.enter_context(writer.reserve(f"{folder}/{name}", spec))
            _move(handle, target, start, ptr, sizes, writer.place(f"{folder}/{name}{_PACKED}"))
            found.append((target, start))
        yield BlockFiles(*found[0], *found[1])


def remove_loose(model: Path) -> None:
    """Remove the files of sparse blocks that `pack_blocks` has moved."""
    for suffix in (_LOOSE, _PACKED):
        for file in model.glob(f"tree-*/*{suffix}"):
            file.unlink()


def _move(
    source: int, target: int, start: int, ptr: NDArray[np.int64], sizes: NDArray[np.int64], mark: Path
) -> None:
    """Copy blocks from their places to the target, in order and without gaps.

    The mark is a file that says how many blocks are on disk at the target, and may be released at the source.
    """
    done = int(mark.read_text()) if mark.is_file() else 0
    to, released, moved = start + int(sizes[:done].sum()), int(ptr[done]), 0
    for block in range(done, sizes.size):
        at = int(ptr[block])
        for piece in _pieces(source, at, at + int(sizes[block])):
            to += write_at(target, piece, to)
            moved += len(piece)
        if moved >= _RELEASED_AT_ONCE:
            os.fdatasync(target)
            write_durably(mark, str(block + 1).encode())
            _native.release_range(source, released, int(ptr[block + 1]))
            released, moved = int(ptr[block + 1]), 0


def _pieces(file: int, at: int, end: int) -> Iterator[bytes]:
    """Read a range of bytes, a piece at a time."""
    while at < end:
        piece = os.pread(file, min(end - at, 1 << 20), at)
        if not piece:
            raise OSError(errno.EIO, "the file is shorter than expected")
        yield piece
        at += len(piece)


def write_small(
    writer: ModelWriter, folder: str, tree: LabelTree, codec: str, written: WrittenBlocks
) -> None:
    """Write the small arrays of a tree, next to its features and weights."""
    arrays: dict[str, NDArray[Any]] = {
        "child_ptr.npy": tree.child_ptr,
        "children.npy": tree.children,
        "feature_ptr.npy": pointers(written.segment_rows),
        "weight_ptr.npy": pointers(written.n_bytes),
        "scales.npy": written.scales,
        "biases.npy": written.biases,
        "checksums.npy": written.checksums,
    }
    for file in tree_files(codec):
        if not file.is_large:
            writer.write(f"{folder}/{file.name}", arrays[file.name])


def copy_blocks(writer: ModelWriter, folder: str, part: TreeBlocks) -> None:
    """Write a tree as it is."""
    for name, array in ((FEATURES.name, part.features), (WEIGHTS.name, part.weights)):
        with writer.grow(f"{folder}/{name}", array.dtype.str) as stream:
            stream.write(np.ascontiguousarray(array).data)
    n_bytes = np.diff(part.weight_ptr) * part.weights.itemsize
    lists = part.checksums, np.diff(part.feature_ptr), n_bytes, n_bytes
    written = WrittenBlocks(*lists, part.scales, part.biases)
    write_small(writer, folder, part.tree, part.codec, written)


def check_source(path: Path | None, trees: Sequence[TreeBlocks]) -> None:
    """Refuse a model that is already compact."""
    codec = trees[0].codec
    if is_scaled(codec):
        what = f"the model is already compact: its weights are {'pruned' if codec == SPARSE else codec}"
        raise InputError(what, file=path, hint="compress the float32 model that it was made from")


def write_model(
    writer: ModelWriter,
    model: StoredModel,
    storage: StorageSettings,
    threads: int = 1,
    progress: Progress | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write a model as it is if `storage` is float32, the default; or a float32 model with another codec.

    `extra` are more entries for the manifest.
    """
    own = None if model.decision is None else model.decision.thresholds
    writer.write_common(model.label_counts, model.label_names, model.text, own)
    described = carried_over(model.manifest)
    if storage.codec == "float32":
        for t, part in enumerate(model.trees):
            copy_blocks(writer, tree_folder(t), part)
    else:
        stored = write_compact(writer, model.trees, storage, threads, progress)
        described |= stored_as(storage) | ({} if storage.prune is None else {"weights": stored})
    writer.finish({**described, **(extra or {})})


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
        folder, layout = tree_folder(t), _layout(part, storage.codec)
        with reserve_blocks(writer, folder, layout) as files, _refusals():
            arrays = _native.compress_blocks(
                part.native,
                files.native(storage.codec, layout.feature_ptr, layout.weight_ptr),
                n_features=part.n_features,
                has_bias=part.has_bias,
                threshold=float32_threshold(storage.prune or 0.0),
                threads=threads,
                progress=part_of(progress, t, len(trees)),
            )
            written = WrittenBlocks(**arrays)
            files.add_checksums(layout, written)
            with pack_blocks(writer, folder, layout, written, files):
                pass
        n_nonzeros += int(written.n_nonzeros.sum())
        write_small(writer, folder, part.tree, storage.codec, written)
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
            large, stored = _native.sparse_sizes(part.native, part.n_features, part.has_bias, limits, threads)
        files = _layout(part, SPARSE).files()
        small = sum(
            ArrayFile(file.dtype, 0).bytes if name in (FEATURES.name, WEIGHTS.name) else file.bytes
            for name, file in files.items()
        )
        n_bytes += large + small
        n_nonzeros += stored
    return n_bytes, n_nonzeros


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what a kernel refuses into an error for the user: weights that are not finite, or too many."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        hint = "train the model again, or do not prune it"
        raise InputError(str(error), hint=hint) from None


def _layout(part: TreeBlocks, codec: str) -> Layout:
    return Layout.of(part.tree, codec, part.used_features, part.has_bias, part.n_features)
