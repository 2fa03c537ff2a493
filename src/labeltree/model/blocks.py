"""The blocks of a tree: each node's features and weights, as stored in a model directory."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.errors import InputError
from labeltree.model.layout import SPARSE, Blocks, Layout, decode_sparse, is_scaled, n_segments
from labeltree.model.manifest import RESTORE
from labeltree.trees.tree import LabelTree, pointers

NO_FLOATS = np.zeros(0, np.float32)
_CHECKED_BYTES = 32 << 20  # of blocks, at a time


@dataclass(frozen=True, eq=False, repr=False)
class TreeBlocks:
    """One tree of a model and its blocks, mapped from disk; docs/model-format.md describes each codec."""

    tree: LabelTree
    codec: str
    n_features: int  # of the data; the constant feature of the bias has this number
    has_bias: bool
    # Start of each block's features, and the end of the last; for sparse blocks, of each segment's.
    feature_ptr: NDArray[np.int64]
    features: NDArray[Any]  # of each block, sorted; with float32 weights, the constant feature comes last
    weight_ptr: NDArray[np.int64]  # start of each block of weights, and the end of the last
    weights: NDArray[Any]  # blocks of features x children, or the bytes of sparse blocks
    scales: NDArray[np.float32]  # of each child, as the biases, unless weights are float32; then empty
    biases: NDArray[np.float32]
    checksums: NDArray[np.uint32]  # CRC-32C of each block's features and weights

    def __repr__(self) -> str:
        return f"TreeBlocks({self.tree!r}, codec={self.codec!r}, n_weights={self.weights.size})"

    @property
    def native(self) -> _native.TreeBlocks:
        """The tree and its blocks as kernels take them."""
        return _native.TreeBlocks(
            self.codec,
            child_ptr=self.tree.child_ptr,
            children=self.tree.children,
            feature_ptr=self.feature_ptr,
            features=self.features,
            weight_ptr=self.weight_ptr,
            weights=self.weights.view(np.uint8),
            scales=self.scales,
            biases=self.biases,
        )

    @cached_property
    def blocks(self) -> Blocks:
        """The nodes of the blocks."""
        return Blocks.of(self.tree, self.codec)

    @cached_property
    def _list_ptr(self) -> NDArray[np.int64]:
        """Start of the features of each block, and the end of the last."""
        return np.ascontiguousarray(self.feature_ptr[:: n_segments(self.codec, self.n_features)])

    @cached_property
    def used_features(self) -> NDArray[np.int64]:
        """Number of features that each node uses, without the bias."""
        rows = np.diff(self._list_ptr)
        counts = np.zeros(self.tree.n_nodes, np.int64)
        np.add.at(counts, self.blocks.node, rows)
        for u in np.flatnonzero(np.diff(self.blocks.ptr) > 1):  # blocks of a node share features
            counts[u] = self._features(int(u)).size
        return counts - (self.has_bias and not is_scaled(self.codec))

    @cached_property
    def node_bytes(self) -> NDArray[np.int64]:
        """Bytes of each node in all files of the tree, without headers."""
        segments = n_segments(self.codec, self.n_features)
        return Layout(self.tree, self.codec, segments, self._list_ptr, self.weight_ptr).node_bytes()

    def features_of(self, node: int) -> NDArray[np.int32]:
        """Return the features of a node, sorted, without the bias."""
        features = self._features(node)
        return features[: features.size - (self.has_bias and not is_scaled(self.codec))]

    def block(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the features of a node, the constant one last, and its weights, features x children."""
        if not is_scaled(self.codec):
            return self._features(node), self._dense(node)
        features = self._features(node)
        if self.has_bias:
            features = np.append(features, np.int32(self.n_features))
        return features, self.rows(node, features)

    def rows(self, node: int, features: NDArray[np.int32], child: int | None = None) -> NDArray[np.float32]:
        """Return the weights of some features in a node, features x children; 0 where a feature is not used.

        With `child`, only the column of this child. The constant feature of the bias has the number
        ``n_features``.
        """
        first, last = self.tree.child_ptr[node : node + 2].tolist()
        if child is not None:
            first, last = first + child, first + child + 1
        out = np.zeros((features.size, last - first), np.float32)
        at = int(self.tree.child_ptr[node])
        for b in range(self.blocks.ptr[node], self.blocks.ptr[node + 1]):
            start, at = at, at + int(self.blocks.width[b])
            low, high = max(start, first), min(at, last)
            if low >= high:
                continue
            used = self._block_features(b)
            places = np.searchsorted(used, features)
            found = np.flatnonzero(places < used.size)
            found = found[used[places[found]] == features[found]]
            stored = self._stored(b, places[found], slice(low - start, high - start)).astype(np.float32)
            scales = self.scales[low:high] if is_scaled(self.codec) else 1
            out[found, low - first : high - first] = stored * scales
        if self.has_bias and is_scaled(self.codec):
            out[features == self.n_features] = self.biases[first:last]
        return out

    def verify(self, folder: str, threads: int) -> None:
        """Read every block, compare it with its checksum, and check its contents; see `Model.verify`."""
        damaged: list[NDArray[np.int64]] = []
        fault = None
        for first, last in self._runs(_CHECKED_BYTES):
            found, wrong = self._check(first, last, threads)
            damaged.append(found)
            if self.codec == SPARSE and not found.size:
                wrong = self._sparse_fault(first, last, threads)
            fault = fault or wrong
            for values in (self.features, self.weights):
                _release_pages(values)
        what = fault and f"the block of node {fault[0]} is damaged: {fault[1]}"
        if (nodes := np.unique(self.blocks.node[np.concatenate(damaged)])).size:
            what = (
                f"checksum mismatch in {nodes.size} of {self.tree.n_nodes} blocks, the first is node "
                f"{nodes[0]}: the model is damaged"
            )
        if what:
            raise InputError(what, file=folder, hint=RESTORE)

    def _check(self, first: int, last: int, threads: int) -> tuple[NDArray[np.int64], tuple[int, str] | None]:
        """Return which of some successive blocks are damaged, and the first fault of dense ones."""
        (features, feature_ptr), (weights, weight_ptr) = (
            (values[ptr[first] : ptr[last]].view(np.uint8), ptr[first : last + 1] - ptr[first])
            for values, ptr in ((self.features, self._list_ptr), (self.weights, self.weight_ptr))
        )
        found, wrong = _native.damaged_blocks(
            self.codec,
            feature_ptr=feature_ptr,
            features=features,
            weight_ptr=weight_ptr,
            weights=weights,
            checksums=self.checksums[first:last],
            n_features=self.n_features,
            has_bias=self.has_bias,
            threads=threads,
        )
        return found + first, (wrong[0] + first, wrong[1]) if wrong else None

    def _sparse_fault(self, first: int, last: int, threads: int) -> tuple[int, str] | None:
        """Return the first node with a fault in some successive blocks, and what is wrong with it."""
        node, segments = int(self.blocks.node[first]), n_segments(self.codec, self.n_features)
        start = int(self.tree.child_ptr[node] + (first - self.blocks.ptr[node]) * _native.BLOCK_CHILDREN)
        child_ptr = pointers(self.blocks.width[first:last])
        children = slice(start, start + int(child_ptr[-1]))
        feature_ptr = self.feature_ptr[first * segments : last * segments + 1]
        weight_ptr = self.weight_ptr[first : last + 1]
        blocks = _native.TreeBlocks(
            SPARSE,
            child_ptr=child_ptr,
            children=self.tree.children[children],
            feature_ptr=feature_ptr - feature_ptr[0],
            features=self.features[feature_ptr[0] : feature_ptr[-1]],
            weight_ptr=weight_ptr - weight_ptr[0],
            weights=self.weights[weight_ptr[0] : weight_ptr[-1]].view(np.uint8),
            scales=self.scales[children],
            biases=self.biases[children],
        )
        fault = _native.sparse_fault(blocks, self.n_features, threads)
        return (int(self.blocks.node[first + fault[0]]), fault[1]) if fault else None

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
        lists = [self._block_features(b) for b in range(self.blocks.ptr[node], self.blocks.ptr[node + 1])]
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

    def _stored(self, block: int, rows: NDArray[np.int64], columns: slice) -> NDArray[Any]:
        """Return rows of some children of a block without scales."""
        if self.codec != SPARSE:
            return self._dense(block)[rows, columns]
        content = self.weights[self.weight_ptr[block] : self.weight_ptr[block + 1]]
        n_rows = int(self._list_ptr[block + 1] - self._list_ptr[block])
        try:
            return decode_sparse(content, n_rows, int(self.blocks.width[block]), rows)[:, columns]
        except (IndexError, ValueError):  # possible only if the model was not verified
            what = f"the block of node {self.blocks.node[block]} is damaged"
            raise InputError(what, hint=RESTORE) from None


def _release_pages(values: NDArray[Any]) -> None:
    """Let the pages of a mapped array go, which count as memory of the process; they can be read again."""
    mapping = getattr(values.base, "obj", None)
    if isinstance(mapping, mmap.mmap):
        mapping.madvise(mmap.MADV_DONTNEED)
