"""The blocks of a tree: each node's features and weights, as stored in a model directory."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.codec import (
    FEATURE_TYPE,
    SPARSE,
    WEIGHT_TYPE,
    Layout,
    Panels,
    decode_sparse,
    is_scaled,
    n_segments,
)
from labeltree.errors import InputError
from labeltree.journal import sync_path
from labeltree.manifest import RESTORE
from labeltree.store import ArrayFile, ModelWriter
from labeltree.tree import LabelTree, pointers

NO_FLOATS = np.zeros(0, np.float32)
# Bytes of blocks that are checked at a time.
_CHECKED_BYTES = 32 << 20


class BlockFiles(NamedTuple):
    """The two large files of a tree that is being written: descriptor, and start of the data."""

    feature_file: int
    feature_start: int
    weight_file: int
    weight_start: int

    def checksum(self, layout: Layout, node: int) -> int:
        """Read a dense block and return its CRC-32C."""
        crc = 0
        for file, start, ptr, dtype in (
            (self.feature_file, self.feature_start, layout.feature_ptr, FEATURE_TYPE[layout.codec]),
            (self.weight_file, self.weight_start, layout.weight_ptr, WEIGHT_TYPE[layout.codec]),
        ):
            at, end = (start + int(ptr[n]) * np.dtype(dtype).itemsize for n in (node, node + 1))
            for piece in _pieces(file, at, end):
                crc = _native.crc32c(np.frombuffer(piece, np.uint8), crc)
        return crc


class TrainedBlocks(NamedTuple):
    """The blocks of a tree whose files are still open, as `_native.held_out_rankings` takes them."""

    codec: str
    feature_ptr: NDArray[np.int64]
    weight_ptr: NDArray[np.int64]
    scales: NDArray[np.float32]
    biases: NDArray[np.float32]
    files: BlockFiles

    @classmethod
    def of(cls, codec: str, written: _native.WrittenArrays, files: BlockFiles) -> TrainedBlocks:
        """Find the blocks from what was written."""
        _, segment_rows, n_bytes, _, scales, biases = written
        weight_ptr = pointers(n_bytes // np.dtype(WEIGHT_TYPE[codec]).itemsize)
        return cls(codec, pointers(segment_rows), weight_ptr, scales, biases, files)


@dataclass(frozen=True, eq=False, repr=False)
class TreeBlocks:
    """One tree of a model and its blocks, mapped from disk.

    Attributes
    ----------
    tree : LabelTree
    codec : {"float32", "float16", "int8", "sparse"}
        How the weights are stored; docs/model-format.md describes each.
    n_features : int
        Features of the data; the constant feature of the bias has this number.
    has_bias : bool
    feature_ptr : ndarray of int64
        Start of each block's features, and the end of the last; for sparse blocks, of each segment's.
    features : ndarray of int32 or uint16
        The features of each block, sorted. With float32 weights, the constant feature comes last.
    weight_ptr : ndarray of int64
        Start of each block of weights, and the end of the last.
    weights : ndarray
        Blocks of features x children, or the bytes of sparse blocks.
    scales, biases : ndarray of float32
        Of each child, unless weights are float32; then both are empty.
    checksums : ndarray of uint32
        CRC-32C of each block's features and weights.
    """

    tree: LabelTree
    codec: str
    n_features: int
    has_bias: bool
    feature_ptr: NDArray[np.int64]
    features: NDArray[Any]
    weight_ptr: NDArray[np.int64]
    weights: NDArray[Any]
    scales: NDArray[np.float32]
    biases: NDArray[np.float32]
    checksums: NDArray[np.uint32]

    def __repr__(self) -> str:
        return f"TreeBlocks({self.tree!r}, codec={self.codec!r}, n_weights={self.weights.size})"

    @property
    def arrays(self) -> _native.TreeArrays:
        """The tree and its blocks as the search takes them."""
        return (
            self.codec,
            self.tree.child_ptr,
            self.tree.children,
            self.feature_ptr,
            self.features,
            self.weight_ptr,
            self.weights.view(np.uint8),
            self.scales,
            self.biases,
        )

    @cached_property
    def panels(self) -> Panels:
        """The nodes of the blocks."""
        return Panels.of(self.tree, self.codec)

    @cached_property
    def _list_ptr(self) -> NDArray[np.int64]:
        """Start of the features of each block, and the end of the last."""
        return np.ascontiguousarray(self.feature_ptr[:: n_segments(self.codec, self.n_features)])

    @cached_property
    def used_features(self) -> NDArray[np.int64]:
        """Number of features that each node uses, without the bias."""
        rows = np.diff(self._list_ptr)
        counts = np.zeros(self.tree.n_nodes, np.int64)
        np.add.at(counts, self.panels.node, rows)
        for u in np.flatnonzero(np.diff(self.panels.ptr) > 1):  # panels of a node share features
            counts[u] = self._features(int(u)).size
        return counts - (self.has_bias and not is_scaled(self.codec))

    @cached_property
    def node_bytes(self) -> NDArray[np.int64]:
        """Bytes of each node in all files of the tree, without headers."""
        of_block = np.diff(self._list_ptr) * self.features.itemsize
        of_block += np.diff(self.weight_ptr) * self.weights.itemsize
        of_block += 8 * n_segments(self.codec, self.n_features) + 4 + 8 * (self.codec == SPARSE)
        total = 8 + (12 if is_scaled(self.codec) else 4) * self.tree.child_count
        np.add.at(total, self.panels.node, of_block)
        return total

    def features_of(self, node: int) -> NDArray[np.int32]:
        """Return the features of a node, sorted, without the bias."""
        features = self._features(node)
        return features[: features.size - (self.has_bias and not is_scaled(self.codec))]

    def block(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the features of a node, and its weights, features x children.

        With a bias, the last feature is the constant one.
        """
        if not is_scaled(self.codec):
            return self._features(node), self._dense(node)
        features = self._features(node)
        if self.has_bias:
            features = np.append(features, np.int32(self.n_features))
        return features, self.rows(node, features)

    def rows(self, node: int, features: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the weights of some features in a node, features x children; 0 where a feature is not used.

        The constant feature of the bias has the number ``n_features``.
        """
        first = self.tree.child_ptr[node]
        out = np.zeros((features.size, self.tree.child_count[node]), np.float32)
        for b in range(self.panels.ptr[node], self.panels.ptr[node + 1]):
            start = (b - self.panels.ptr[node]) * _native.PANEL_CHILDREN
            columns = slice(start, start + self.panels.width[b])
            found, rows = _find(self._block_features(b), features)
            scales = self.scales[first + start : first + columns.stop] if is_scaled(self.codec) else 1
            out[found, columns] = self._stored(b, rows).astype(np.float32) * scales
        if self.has_bias and is_scaled(self.codec):
            out[features == self.n_features] = self.biases[first : self.tree.child_ptr[node + 1]]
        return out

    def child_weights(self, node: int, child: int, features: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the weights of some features for one child of a node; 0 where a feature is not used."""
        if self.codec != SPARSE:
            found, rows = _find(self._features(node), features)
            out = np.zeros(features.size, np.float32)
            stored = self._dense(node)[rows, child].astype(np.float32)
            scale = self.scales[self.tree.child_ptr[node] + child] if is_scaled(self.codec) else 1
            out[found] = stored * scale
            if self.has_bias and is_scaled(self.codec):
                out[features == self.n_features] = self.biases[self.tree.child_ptr[node] + child]
            return out
        first = self.tree.child_ptr[node]
        block = int(self.panels.ptr[node]) + child // _native.PANEL_CHILDREN
        found, rows = _find(self._block_features(block), features)
        column = self._stored(block, rows)[:, child % _native.PANEL_CHILDREN]
        out = np.zeros(features.size, np.float32)
        out[found] = column.astype(np.float32) * self.scales[first + child]
        if self.has_bias:
            out[features == self.n_features] = self.biases[first + child]
        return out

    def damaged_nodes(self, threads: int) -> tuple[NDArray[np.int64], tuple[int, str] | None]:
        """Read every block and check it.

        Returns
        -------
        damaged : ndarray of int64
            The nodes whose checksum is wrong.
        fault : tuple of int and str, or None
            The first node with contents that no writer stores, and what is wrong with it.
        """
        damaged: list[NDArray[np.int64]] = []
        fault = None
        for first, last in self._runs(_CHECKED_BYTES):
            found, wrong = self._check(first, last, threads)
            damaged.append(found)
            if self.codec == SPARSE and not found.size:
                wrong = self._sparse_fault(first, last, threads)
            fault = fault or wrong
            self._release_pages()
        all_damaged = np.concatenate(damaged)
        if self.codec == SPARSE and all_damaged.size:
            fault = None
        return np.unique(self.panels.node[all_damaged]), fault

    def _check(self, first: int, last: int, threads: int) -> tuple[NDArray[np.int64], tuple[int, str] | None]:
        """Return which of some successive blocks are damaged, and the first fault of dense ones."""
        (features, feature_ptr), (weights, weight_ptr) = (
            (values[ptr[first] : ptr[last]].view(np.uint8), ptr[first : last + 1] - ptr[first])
            for values, ptr in ((self.features, self._list_ptr), (self.weights, self.weight_ptr))
        )
        checksums, whole = self.checksums[first:last], None
        if weights.nbytes > _CHECKED_BYTES and self.codec != SPARSE:
            # One block that is too large for memory. Without its weights, the kernel checks its features.
            whole = self._read_in_pieces(features, weights)
            weights, weight_ptr = weights[:0], 0 * weight_ptr
        found, wrong = _native.damaged_blocks(
            self.codec,
            feature_ptr,
            features,
            weight_ptr,
            weights,
            checksums,
            self.n_features,
            self.has_bias,
            threads,
        )
        if whole is not None:
            found = np.flatnonzero(checksums != whole[0])
            wrong = wrong if whole[1] else (0, "a weight is not finite")
        return found + first, (wrong[0] + first, wrong[1]) if wrong else None

    def _read_in_pieces(self, features: NDArray[np.uint8], weights: NDArray[np.uint8]) -> tuple[int, bool]:
        """Return the checksum of a dense block, and whether all its weights are finite."""
        crc, finite = _native.crc32c(features), True
        for at in range(0, weights.size, _CHECKED_BYTES):
            piece = weights[at : at + _CHECKED_BYTES]
            crc = _native.crc32c(piece, crc)
            finite &= bool(np.isfinite(piece.view(self.weights.dtype)).all())
            self._release_pages()
        return crc, finite

    def _sparse_fault(self, first: int, last: int, threads: int) -> tuple[int, str] | None:
        """Return the first node with a fault in some successive blocks, and what is wrong with it."""
        node, segments = int(self.panels.node[first]), n_segments(self.codec, self.n_features)
        start = int(self.tree.child_ptr[node] + (first - self.panels.ptr[node]) * _native.PANEL_CHILDREN)
        child_ptr = pointers(self.panels.width[first:last])
        children = slice(start, start + int(child_ptr[-1]))
        feature_ptr = self.feature_ptr[first * segments : last * segments + 1]
        weight_ptr = self.weight_ptr[first : last + 1]
        fault = _native.sparse_fault(
            child_ptr,
            self.tree.children[children],
            feature_ptr - feature_ptr[0],
            self.features[feature_ptr[0] : feature_ptr[-1]],
            weight_ptr - weight_ptr[0],
            self.weights[weight_ptr[0] : weight_ptr[-1]].view(np.uint8),
            self.scales[children],
            self.biases[children],
            self.n_features,
            threads,
        )
        return (int(self.panels.node[first + fault[0]]), fault[1]) if fault else None

    def _release_pages(self) -> None:
        _release_pages(self.features)
        _release_pages(self.weights)

    def _runs(self, n_bytes: int) -> list[tuple[int, int]]:
        """Return ranges of successive blocks, each of this many bytes, or of one block that is larger."""
        ends = self._list_ptr[1:] * self.features.itemsize + self.weight_ptr[1:] * self.weights.itemsize
        runs: list[tuple[int, int]] = []
        first = start = 0
        while first < ends.size:
            last = max(first + 1, int(np.searchsorted(ends, start + n_bytes, "right")))
            runs.append((first, last))
            first, start = last, int(ends[last - 1])
        return runs

    def _features(self, node: int) -> NDArray[np.int32]:
        """Return the sorted features of all blocks of a node."""
        lists = [self._block_features(b) for b in range(self.panels.ptr[node], self.panels.ptr[node + 1])]
        return lists[0] if len(lists) == 1 else np.unique(np.concatenate([np.zeros(0, np.int32), *lists]))

    def _block_features(self, block: int) -> NDArray[np.int32]:
        stored = self.features[self._list_ptr[block] : self._list_ptr[block + 1]]
        if self.codec != SPARSE:
            return stored
        segments = n_segments(self.codec, self.n_features)
        counts = np.diff(self.feature_ptr[block * segments : (block + 1) * segments + 1])
        upper = np.arange(segments, dtype=np.int32) * np.int32(2**16)
        return np.repeat(upper, counts) + stored.astype(np.int32)

    def _dense(self, node: int) -> NDArray[Any]:
        weights = self.weights[self.weight_ptr[node] : self.weight_ptr[node + 1]]
        return weights.reshape(-1, self.tree.child_count[node])

    def _stored(self, block: int, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows of a block without scales."""
        if self.codec != SPARSE:
            return self._dense(block)[rows]
        content = self.weights[self.weight_ptr[block] : self.weight_ptr[block + 1]]
        n_rows = int(self._list_ptr[block + 1] - self._list_ptr[block])
        try:
            return decode_sparse(content, n_rows, int(self.panels.width[block]), rows)
        except (IndexError, ValueError):  # possible only if the model was not verified
            what = f"the block of node {self.panels.node[block]} is damaged"
            raise InputError(what, hint=RESTORE) from None


def _find(
    used: NDArray[np.int32], features: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the features that are used, and their rows."""
    rows = np.searchsorted(used, features)
    found = np.flatnonzero(rows < used.size)
    found = found[used[rows[found]] == features[found]]
    return found, rows[found]


@contextmanager
def reserve_blocks(writer: ModelWriter, folder: str, layout: Layout) -> Iterator[BlockFiles]:
    """Open two files for the blocks of a tree, to be filled in any order.

    Those of dense blocks are the files of the model. Sparse blocks have gaps between them until `pack_blocks`
    moves them.
    """
    files = layout.files()
    with ExitStack() as stack:
        found: list[tuple[int, int]] = []
        for name in ("features.npy", "weights.npy"):
            if layout.codec == SPARSE:
                handle = os.open(writer.place(f"{folder}/{name}{_LOOSE}"), os.O_RDWR | os.O_CREAT, 0o666)
                stack.callback(os.close, handle)
                found.append((handle, 0))
            else:
                found.append(stack.enter_context(writer.reserve(f"{folder}/{name}", files[name])))
        yield BlockFiles(*found[0], *found[1])


@contextmanager
def pack_blocks(
    writer: ModelWriter, folder: str, layout: Layout, written: _native.WrittenArrays, files: BlockFiles
) -> Iterator[BlockFiles]:
    """Write sparse blocks next to each other into the files of the model; return these, open.

    The space of blocks that are moved is released meanwhile, so that the disk holds few of them twice. After
    an interruption, it continues where it was.
    """
    if layout.codec != SPARSE:
        yield files
        return
    _, segment_rows, n_bytes, *_ = written
    n_ids = segment_rows.reshape(n_bytes.size, -1).sum(axis=1)
    with ExitStack() as stack:
        found: list[tuple[int, int]] = []
        for name, handle, ptr, sizes in (
            ("features.npy", files.feature_file, 2 * layout.feature_ptr, 2 * n_ids),
            ("weights.npy", files.weight_file, layout.weight_ptr, n_bytes),
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


_LOOSE, _PACKED = ".loose", ".packed"


# When so many bytes are moved, they are released where they were.
_RELEASED_AT_ONCE = 64 << 20


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
            to += _write(target, piece, to)
            moved += len(piece)
        if moved >= _RELEASED_AT_ONCE:
            os.fdatasync(target)
            temporary = mark.with_suffix(".new")
            temporary.write_text(str(block + 1))
            sync_path(temporary)
            temporary.replace(mark)
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


def _write(file: int, content: bytes, at: int) -> int:
    """Write all of some bytes; return their number."""
    written = 0
    while written < len(content):
        written += os.pwrite(file, content[written:], at + written)
    return written


def write_small(
    writer: ModelWriter, folder: str, tree: LabelTree, codec: str, written: _native.WrittenArrays
) -> None:
    """Write the small arrays of a tree, next to its features and weights."""
    checksums, segment_rows, n_bytes, _, scales, biases = written
    writer.write(f"{folder}/child_ptr.npy", tree.child_ptr)
    writer.write(f"{folder}/children.npy", tree.children)
    writer.write(f"{folder}/feature_ptr.npy", pointers(segment_rows))
    writer.write(f"{folder}/checksums.npy", checksums)
    if codec == SPARSE:
        writer.write(f"{folder}/weight_ptr.npy", pointers(n_bytes))
    if is_scaled(codec):
        writer.write(f"{folder}/scales.npy", scales)
        writer.write(f"{folder}/biases.npy", biases)


def copy_blocks(writer: ModelWriter, folder: str, part: TreeBlocks) -> None:
    """Write a tree as it is."""
    for name, array in (("features", part.features), ("weights", part.weights)):
        with writer.grow(f"{folder}/{name}.npy", array.dtype.str) as stream:
            stream.write(np.ascontiguousarray(array).data)
    n_bytes = np.diff(part.weight_ptr) * part.weights.itemsize
    lists = part.checksums, np.diff(part.feature_ptr), n_bytes
    write_small(writer, folder, part.tree, part.codec, (*lists, n_bytes, part.scales, part.biases))


def _release_pages(values: NDArray[Any]) -> None:
    """Let the pages of a mapped array go, which count as memory of the process; they can be read again."""
    mapping = getattr(values.base, "obj", None)
    if isinstance(mapping, mmap.mmap):
        mapping.madvise(mmap.MADV_DONTNEED)
