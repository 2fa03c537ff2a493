"""Codecs: the ways to store the weights of a tree, their files and sizes, and how to read them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.model.files import ArrayFile
from labeltree.trees.tree import LabelTree, pointers

SPARSE = "sparse"
# The types of the two large files of each codec: features and weights.
FEATURE_TYPE = {"float32": "<i4", "float16": "<i4", "int8": "<i4", SPARSE: "<u2"}
WEIGHT_TYPE = {"float32": "<f4", "float16": "<f2", "int8": "|i1", SPARSE: "|u1"}


def is_scaled(codec: str) -> bool:
    """Return whether each child has a scale, and its bias is stored outside the block."""
    return codec != "float32"


def n_segments(codec: str, n_features: int) -> int:
    """Return how many lists the features of a block are in: one per value of the bits above the 16th."""
    return max(1, -(-n_features // 2**16)) if codec == SPARSE else 1


def float32_threshold(threshold: float) -> float:
    """Return the smallest float32 that is at least the threshold."""
    with np.errstate(over="ignore"):
        limit = np.float32(threshold)
    return float(limit if float(limit) >= threshold else np.nextafter(limit, np.float32(np.inf)))


@dataclass(frozen=True, eq=False)
class Panels:
    """The blocks of a tree: one per node, or for sparse blocks one per 256 children of a node.

    Attributes
    ----------
    node : ndarray of int64
        The node of each block.
    width : ndarray of int64
        Number of children of each block.
    ptr : ndarray of int64, n_nodes + 1
        The first block of each node, and the end of the last.
    """

    node: NDArray[np.int64]
    width: NDArray[np.int64]
    ptr: NDArray[np.int64]

    @classmethod
    def of(cls, tree: LabelTree, codec: str) -> Panels:
        """Divide the nodes of a tree into blocks."""
        counts = tree.child_count
        if codec != SPARSE:
            return cls(np.arange(tree.n_nodes), counts, np.arange(tree.n_nodes + 1))
        ptr = pointers(-(-counts // _native.PANEL_CHILDREN))
        node = np.repeat(np.arange(tree.n_nodes), np.diff(ptr))
        first_child = (np.arange(node.size) - ptr[node]) * _native.PANEL_CHILDREN
        return cls(node, np.minimum(counts[node] - first_child, _native.PANEL_CHILDREN), ptr)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the blocks of a tree are in its two large files: exact, or a bound if blocks are sparse.

    Attributes
    ----------
    tree : LabelTree
    codec : str
    n_segments : int
    feature_ptr, weight_ptr : ndarray of int64
        Start of each block's features and weights in elements of the two files, and the end of the last.
    """

    tree: LabelTree
    codec: str
    n_segments: int
    feature_ptr: NDArray[np.int64]
    weight_ptr: NDArray[np.int64]

    @classmethod
    def of(
        cls, tree: LabelTree, codec: str, used_features: NDArray[np.int64], bias: bool, n_features: int
    ) -> Layout:
        """Lay out the blocks of nodes with these numbers of used features, without the bias."""
        panels = Panels.of(tree, codec)
        rows = used_features[panels.node] + (bias and not is_scaled(codec))
        size = rows * panels.width
        if codec == SPARSE:
            size += _native.SPARSE_HEADER_BYTES + 4 * -(-rows // _native.SPARSE_GROUP) + rows
        return cls(tree, codec, n_segments(codec, n_features), pointers(rows), pointers(size))

    def files(self) -> dict[str, ArrayFile]:
        """Return the arrays of the stored tree; the two large ones are bounds if blocks are sparse."""
        n_blocks, n_children = self.weight_ptr.size - 1, self.tree.children.size
        files = {
            "child_ptr.npy": ArrayFile("<i8", self.tree.n_nodes + 1),
            "children.npy": ArrayFile("<i4", n_children),
            "feature_ptr.npy": ArrayFile("<i8", n_blocks * self.n_segments + 1),
            "features.npy": ArrayFile(FEATURE_TYPE[self.codec], int(self.feature_ptr[-1])),
            "weights.npy": ArrayFile(WEIGHT_TYPE[self.codec], int(self.weight_ptr[-1])),
            "checksums.npy": ArrayFile("<u4", n_blocks),
        }
        if self.codec == SPARSE:
            files["weight_ptr.npy"] = ArrayFile("<i8", n_blocks + 1)
        if is_scaled(self.codec):
            files["scales.npy"] = ArrayFile("<f4", n_children)
            files["biases.npy"] = ArrayFile("<f4", n_children)
        return files

    def node_bytes(self) -> NDArray[np.int64]:
        """Return the bytes that each node adds to the files, in addition to headers and final pointers."""
        ptr = Panels.of(self.tree, self.codec).ptr
        blocks, children = np.diff(ptr), self.tree.child_count
        sizes: NDArray[np.int64] = np.dtype(FEATURE_TYPE[self.codec]).itemsize * np.diff(
            self.feature_ptr[ptr]
        )
        sizes += np.dtype(WEIGHT_TYPE[self.codec]).itemsize * np.diff(self.weight_ptr[ptr])
        per_block = 8 * self.n_segments + 4 + 8 * (self.codec == SPARSE)
        per_child = 4 + 8 * is_scaled(self.codec)
        sizes += 8 + per_block * blocks + per_child * children
        return sizes


def decode_sparse(
    block: NDArray[np.uint8], n_rows: int, n_children: int, rows: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Return some rows of a sparse block as stored integers, rows x children.

    Parameters
    ----------
    block : ndarray of uint8
    n_rows, n_children : int
        Rows of the block, and children of its panel.
    rows : ndarray of int64
        The rows to return.
    """
    group = np.arange(n_rows) // _native.SPARSE_GROUP  # each begins with four bytes
    places = _native.SPARSE_HEADER_BYTES + 4 * (group + 1) + np.arange(n_rows)
    sizes = block[places].astype(np.int64) + 1
    starts = (block.size - sizes.sum() + np.cumsum(sizes) - sizes)[rows]
    sizes = sizes[rows]
    out = np.zeros((rows.size, n_children), np.int8)
    n_bits = -(-n_children // 8)
    full = sizes == n_children
    bits = ~full & (sizes >= 2 * n_bits)
    out[full] = block[starts[full, None] + np.arange(n_children)].view(np.int8)
    used = np.unpackbits(block[starts[bits, None] + np.arange(n_bits)], axis=1, bitorder="little")
    row, child = np.nonzero(used[:, :n_children])
    counts = np.where(bits, sizes - n_bits, 0)
    out[np.flatnonzero(bits)[row], child] = block[_ranges(starts + n_bits, counts)].view(np.int8)
    counts = np.where(full | bits, 0, sizes // 2)
    place = _ranges(starts, counts, 2)
    out[np.repeat(np.arange(rows.size), counts), block[place]] = block[place + 1].view(np.int8)
    return out


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64], step: int = 1) -> NDArray[np.int64]:
    """Return start, start + step, ... for each start, as many as its count."""
    before = np.cumsum(counts) - counts
    numbers: NDArray[np.int64] = np.repeat(starts - step * before, counts) + step * np.arange(counts.sum())
    return numbers
