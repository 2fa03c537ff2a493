"""The layout of a model: the names of its files, how weights are encoded, and the bytes that they take."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.trees.tree import LabelTree, pointers

MANIFEST = "manifest.json"
LABEL_COUNTS = "label_counts.npy"
LABEL_NAMES = "label_names.json"
THRESHOLDS = "thresholds.npy"
TEXT_FILES = ("text/settings.json", "text/terms.json", "text/idf.npy")
# What labeltree writes about a model into its directory: no part of the model, and gone with it.
PRECISION, FRONTIER = "precision.csv", "frontier.csv"
REPORTS = (FRONTIER, "frontier.png", "frontier.svg", PRECISION, "page.html")
CARD = "README.md"
# The last line of a card. A card without it was edited, and is kept when the model is replaced.
CARD_MARK = "<!-- Written by labeltree and rewritten with each model. Remove this line to keep the card. -->"

CODECS: tuple[str, ...] = tuple(_native.CODECS)
SPARSE = "sparse"


@dataclass(frozen=True)
class TreeFile:
    """An array of a stored tree."""

    name: str
    dtypes: Mapping[str, str]  # for each codec that has the array
    per: str  # what it has an element for
    is_pointer: bool = False  # one more element, the end
    is_large: bool = False  # its checksums are those of the blocks


def is_scaled(codec: str) -> bool:
    """Return whether each child has a scale, and its bias is stored outside the block."""
    return codec != "float32"


_SCALE_TYPES = {codec: "<f4" for codec in CODECS if is_scaled(codec)}
_WEIGHT_TYPES = {"float32": "<f4", "float16": "<f2", "int8": "|i1", SPARSE: "|u1"}
TREE_FILES = (
    TreeFile("child_ptr.npy", dict.fromkeys(CODECS, "<i8"), "node", is_pointer=True),
    TreeFile("children.npy", dict.fromkeys(CODECS, "<i4"), "child"),
    TreeFile("feature_ptr.npy", dict.fromkeys(CODECS, "<i8"), "segment", is_pointer=True),
    TreeFile("features.npy", {**dict.fromkeys(CODECS, "<i4"), SPARSE: "<u2"}, "feature", is_large=True),
    TreeFile("weight_ptr.npy", {SPARSE: "<i8"}, "block", is_pointer=True),
    TreeFile("weights.npy", _WEIGHT_TYPES, "weight", is_large=True),
    TreeFile("scales.npy", _SCALE_TYPES, "child"),
    TreeFile("biases.npy", _SCALE_TYPES, "child"),
    TreeFile("checksums.npy", dict.fromkeys(CODECS, "<u4"), "block"),
)
FEATURES, WEIGHTS = (file for file in TREE_FILES if file.is_large)
_TREE_FILE = re.compile(rf"tree-[0-9]+/(?:{'|'.join(re.escape(file.name) for file in TREE_FILES)})")


def tree_folder(number: int) -> str:
    """Return the directory of a tree in a model directory."""
    return f"tree-{number}"


def tree_files(codec: str) -> tuple[TreeFile, ...]:
    """Return the arrays of a tree that is stored with a codec."""
    return tuple(file for file in TREE_FILES if codec in file.dtypes)


def is_model_file(name: str) -> bool:
    """Return whether a model can have a file of this name."""
    others = (MANIFEST, LABEL_COUNTS, LABEL_NAMES, THRESHOLDS, *TEXT_FILES)
    return name in others or _TREE_FILE.fullmatch(name) is not None


@dataclass(frozen=True)
class ArrayFile:
    """A one-dimensional array in a ``.npy`` file: its type and length, and therefore its exact size."""

    dtype: str
    length: int

    @property
    def header(self) -> bytes:
        """The header that NumPy writes before the first element."""
        buffer = io.BytesIO()
        description = {"descr": self.dtype, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(buffer, description)
        return buffer.getvalue()

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return len(self.header) + self.length * np.dtype(self.dtype).itemsize


def n_segments(codec: str, n_features: int) -> int:
    """Return how many lists the features of a block are in: one per value of the bits above the 16th."""
    return max(1, -(-n_features // 2**16)) if codec == SPARSE else 1


def float32_threshold(threshold: float) -> float:
    """Return the smallest float32 that is at least the threshold."""
    with np.errstate(over="ignore"):
        limit = np.float32(threshold)
    return float(limit if float(limit) >= threshold else np.nextafter(limit, np.float32(np.inf)))


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a tree: one per node, or for sparse blocks one per 256 children of a node."""

    node: NDArray[np.int64]  # of each block
    width: NDArray[np.int64]  # the number of children of each block
    ptr: NDArray[np.int64]  # the first block of each node, and the end of the last

    @classmethod
    def of(cls, tree: LabelTree, codec: str) -> Blocks:
        """Divide the nodes of a tree into blocks."""
        counts = tree.child_count
        if codec != SPARSE:
            return cls(np.arange(tree.n_nodes), counts, np.arange(tree.n_nodes + 1))
        ptr = pointers(-(-counts // _native.BLOCK_CHILDREN))
        node = np.repeat(np.arange(tree.n_nodes), np.diff(ptr))
        first_child = (np.arange(node.size) - ptr[node]) * _native.BLOCK_CHILDREN
        return cls(node, np.minimum(counts[node] - first_child, _native.BLOCK_CHILDREN), ptr)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the blocks of a tree are in its two large files: exact, or a bound if blocks are sparse.

    The pointers are the start of each block in elements of a file, and the end of the last.
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
        blocks = Blocks.of(tree, codec)
        rows = used_features[blocks.node] + (bias and not is_scaled(codec))
        size = rows * blocks.width
        if codec == SPARSE:
            size += _native.SPARSE_HEADER_BYTES + 4 * -(-rows // _native.SPARSE_GROUP) + rows
        return cls(tree, codec, n_segments(codec, n_features), pointers(rows), pointers(size))

    def files(self) -> dict[str, ArrayFile]:
        """Return the arrays of the stored tree; the two large ones are bounds if blocks are sparse."""
        counts = self._counts()
        return {
            file.name: ArrayFile(file.dtypes[self.codec], int(counts[file.per].sum()) + file.is_pointer)
            for file in tree_files(self.codec)
        }

    def node_bytes(self) -> NDArray[np.int64]:
        """Return the bytes that each node adds to the files, in addition to headers and final pointers."""
        counts, sizes = self._counts(), np.zeros(self.tree.n_nodes, np.int64)
        for file in tree_files(self.codec):
            sizes += np.dtype(file.dtypes[self.codec]).itemsize * counts[file.per]
        return sizes

    def _counts(self) -> dict[str, NDArray[np.int64]]:
        """Return how many elements each node has, by what a file has an element for."""
        ptr = Blocks.of(self.tree, self.codec).ptr
        blocks = np.diff(ptr)
        return {
            "node": np.ones_like(blocks),
            "child": self.tree.child_count,
            "block": blocks,
            "segment": blocks * self.n_segments,
            "feature": np.diff(self.feature_ptr[ptr]),
            "weight": np.diff(self.weight_ptr[ptr]),
        }


def decode_sparse(
    block: NDArray[np.uint8], n_rows: int, n_children: int, rows: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Return some rows of a sparse block of so many rows and children as stored integers, rows x children."""
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
