"""The blocks of a tree: each node's features and weights, as stored in a model directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.errors import InputError
from labeltree.store import RESTORE, ModelReader, ModelWriter
from labeltree.tree import LabelTree


class BlockFiles(NamedTuple):
    """The two large files of a tree that is being trained: descriptor, and start of the data."""

    features: tuple[int, int]
    weights: tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class TreeBlocks:
    """One tree of a model and its blocks, mapped from disk.

    Attributes
    ----------
    tree : LabelTree
    feature_ptr : ndarray of int64, n_nodes + 1
        Start of each node's features, and the end of the last.
    features : ndarray of int32
        The features of each node, sorted; with a bias, the constant feature comes last.
    weight_ptr : ndarray of int64, n_nodes + 1
        Start of each node's block of weights, and the end of the last.
    weights : ndarray of float32
        Blocks of features x children.
    checksums : ndarray of uint32
        CRC-32C of each node's features and weights.
    """

    tree: LabelTree
    feature_ptr: NDArray[np.int64]
    features: NDArray[np.int32]
    weight_ptr: NDArray[np.int64]
    weights: NDArray[np.float32]
    checksums: NDArray[np.uint32]

    def __repr__(self) -> str:
        return f"TreeBlocks({self.tree!r}, n_weights={self.weights.size})"

    @property
    def arrays(self) -> _native.TreeArrays:
        """The tree and its blocks as the search takes them."""
        shape = self.tree.child_ptr, self.tree.children
        return *shape, self.feature_ptr, self.features, self.weight_ptr, self.weights

    def block(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the features of a node, and its weights, features x children."""
        features = self.features[self.feature_ptr[node] : self.feature_ptr[node + 1]]
        weights = self.weights[self.weight_ptr[node] : self.weight_ptr[node + 1]]
        return features, weights.reshape(features.size, self.tree.child_count[node])

    def damaged_nodes(self, threads: int) -> NDArray[np.int64]:
        """Read every block and return the nodes whose checksum is wrong."""
        return _native.damaged_blocks(
            self.feature_ptr, self.features, self.weight_ptr, self.weights, self.checksums, threads
        )


def read_blocks(reader: ModelReader, folder: str, n_nodes: int, n_labels: int) -> TreeBlocks:
    """Open a tree of a model directory: small arrays are read, blocks are mapped."""
    child_ptr = reader.array(f"{folder}/child_ptr.npy", "<i8", n_nodes + 1)
    children = reader.array(f"{folder}/children.npy", "<i4", n_nodes - 1 + n_labels)
    feature_ptr = reader.array(f"{folder}/feature_ptr.npy", "<i8", n_nodes + 1)
    checksums = reader.array(f"{folder}/checksums.npy", "<u4", n_nodes)
    tree = LabelTree(child_ptr, children)
    if child_ptr[-1] != children.size or (np.diff(child_ptr) < 0).any() or (np.diff(feature_ptr) < 0).any():
        raise InputError("the pointers of the tree are damaged", file=reader.path / folder, hint=RESTORE)
    weight_ptr = tree.weight_ptr(feature_ptr)
    features = reader.array(f"{folder}/features.npy", "<i4", int(feature_ptr[-1]), mapped=True)
    weights = reader.array(f"{folder}/weights.npy", "<f4", int(weight_ptr[-1]), mapped=True)
    return TreeBlocks(tree, feature_ptr, features, weight_ptr, weights, checksums)


def write_shape(
    writer: ModelWriter,
    folder: str,
    tree: LabelTree,
    feature_ptr: NDArray[np.int64],
    checksums: NDArray[np.uint32],
) -> None:
    """Write the small arrays of a tree, next to its features and weights."""
    writer.write(f"{folder}/child_ptr.npy", tree.child_ptr)
    writer.write(f"{folder}/children.npy", tree.children)
    writer.write(f"{folder}/feature_ptr.npy", feature_ptr)
    writer.write(f"{folder}/checksums.npy", checksums)
