"""One tree of a plan: what its nodes use, where their blocks are, and the strips that are trained."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.model.layout import SPARSE, Layout, is_scaled, n_segments
from labeltree.model.pack import WrittenBlocks
from labeltree.trees.tree import LabelTree

# A thread holds at most this many bytes of a node's weights in memory; wider nodes are trained in strips.
STRIP_BYTES = 128 << 20
# The score and the threshold are chosen with tiles of a node's weights, and as many sums: each has at most
# this many bytes, or eight columns.
TILE_BYTES = 16 << 20


@dataclass(frozen=True, eq=False, repr=False)
class TreePlan:
    """What the nodes of one tree use, and therefore where their blocks are in the files.

    Attributes
    ----------
    tree : LabelTree
    instances : ndarray of int64
        Instances that each node trains on: those with one of its labels; all instances at the root.
    nonzeros : ndarray of int64
        Non-zero feature values of those instances.
    used_features : ndarray of int64
        Features that occur in those instances (F_u), without the bias.
    bias : bool
        Whether there is a weight for the bias.
    codec : str
        How the weights are stored.
    n_features : int
        Features of the data.
    """

    tree: LabelTree
    instances: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    used_features: NDArray[np.int64]
    bias: bool
    codec: str
    n_features: int

    def __repr__(self) -> str:
        return f"TreePlan({self.tree!r}, n_weights={self.n_weights})"

    @property
    def n_weights(self) -> int:
        """Weights as the paper counts them, without bias (its equation 18)."""
        return int(self.used_features @ self.tree.child_count)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one pass of the solver over all nodes, without the bias.

        Each feature value of a node's instances meets the weights of each child twice: in the margin, and in
        the update.
        """
        return 2 * int(self.nonzeros @ self.tree.child_count)

    def foreign_multiply_adds(self, hard_negatives: int) -> int:
        """Return how many more each pass may need with hard negatives.

        A node has no more rows than the root, and a level no more than so many times all of them.
        """
        total = 0
        for nodes in itertools.starmap(slice, itertools.pairwise(self.tree.level_ptr[1:].tolist())):
            children = self.tree.child_count[nodes]
            at_most = (self.nonzeros[0] - self.nonzeros[nodes]) @ children
            total += min(int(at_most), hard_negatives * int(self.nonzeros[0] * children.max()))
        return 2 * total

    @cached_property
    def layout(self) -> Layout:
        """Where the blocks will be in the files of the tree."""
        return Layout.of(self.tree, self.codec, self.used_features, self.bias, self.n_features)

    @cached_property
    def strips(self) -> TreeStrips:
        """What is trained together."""
        ranges = _native.list_strips(self.tree.native, self.codec, self.layout.feature_ptr, STRIP_BYTES)
        return TreeStrips(self, STRIP_BYTES, *ranges)

    def clip(self, max_depth: int) -> TreePlan:
        """Return the plan of the tree cut at a depth (d_max); the remaining nodes use the same instances."""
        tree = self.tree.clip(max_depth)
        left = slice(tree.n_nodes)
        counts = self.instances[left], self.nonzeros[left], self.used_features[left]
        return TreePlan(tree, *counts, self.bias, self.codec, self.n_features)

    def training_bytes(self, threads: int, precise: bool, hard_negatives: int = 0) -> int:
        """Return an upper bound on the memory that the solver needs in addition to the data."""
        children, instances, codec = self.tree.child_count, self.instances, self.codec
        features, nonzeros = self.used_features + 1, self.nonzeros
        if hard_negatives:  # which rows are routed to a node is not known yet
            instances, nonzeros = np.full_like(instances, instances[0]), np.full_like(nonzeros, nonzeros[0])
        copied = nonzeros * 8
        copied[0] = 0  # the root trains on the data as it is
        whole = features * children * 4
        if codec == SPARSE:  # a block as bytes, and the same encoded, which is copied once
            strip = 3 * features * (np.minimum(children, _native.BLOCK_CHILDREN) + 12)
            n_strips = -(-children // _native.BLOCK_CHILDREN)
        else:
            strip = np.minimum(whole, np.maximum(STRIP_BYTES, features * _native.LINE_BYTES))
            n_strips = -(-whole // strip)
        # Per instance: its number, a pointer, norm, squares of its own features, cost and the marks of its
        # siblings. Per feature: its number, its place in the solver and its sum.
        rows = features.copy()
        rows[0] = self.n_features + 1  # the root does not renumber its features
        held = copied + strip + instances * 28 + features * 8 + rows * 4
        held = np.repeat(held, np.minimum(n_strips, threads))  # strips of one node at the same time
        solver = (rows + instances) * _native.LINE_BYTES * (1 + precise) + instances * 4
        solver += rows * _native.NEWTON_FEATURE_BYTES + instances * _native.NEWTON_INSTANCE_BYTES
        numbers = 4 * max(int(instances[0]), self.n_features) + (int(instances[0]) + self.n_features) // 8
        groups = -(-children // _native.SIBLINGS)
        solver = np.repeat(solver, np.minimum(groups, threads))  # a thread solves a group at a time
        training = int(np.sort(held)[-threads:].sum() + np.sort(solver)[-threads:].sum()) + threads * numbers
        if not is_scaled(codec):  # the trial of score functions takes less
            return training
        tile = np.minimum(features * (children + 7) * 4, np.maximum(TILE_BYTES, features * 32))
        trial = 2 * tile + features * 16
        return max(training, int(np.sort(trial)[-threads:].sum()) + threads * 3 * numbers)

    def visits(self, hard_negatives: int) -> list[int]:
        """Return how many rows visit the nodes of each level below the root, at most."""
        n_rows = int(self.instances[0])
        levels = itertools.pairwise(self.tree.level_ptr[1:].tolist()) if hard_negatives else ()
        return [
            int(self.instances[first:last].sum()) + min(hard_negatives, last - first) * n_rows
            for first, last in levels
        ]

    def routing_bytes(self, hard_negatives: int) -> int:
        """Return an upper bound on the memory of the rows that are routed to nodes."""
        visits = self.visits(hard_negatives)
        # A level: what the kernel finds, and its arrays. All levels: the foreign rows. A row: its best nodes.
        widest = min(hard_negatives, int(np.diff(self.tree.level_ptr).max()))
        lists = (16 * widest + 24) * int(self.instances[0])
        return 40 * max(visits) + 8 * sum(visits) + lists if visits else 0

    def building_bytes(self, threads: int) -> int:
        """Return an upper bound on the memory for building the tree, in addition to the data.

        Before it is built, any node may have all features. Now it is known how many they have.
        """
        at_once = min(threads, _native.MOST_MATRICES)
        # The root is clustered alone; below it, nodes share the memory of centroids.
        below = np.sort(self.used_features[1:])[-at_once:]
        held = max(int(self.used_features[0]), int(below.sum()))
        not_held = self.tree.centroid_bytes * max(0, at_once * self.n_features - held)
        return max(self.tree.build_bytes - not_held, self.tree.centroid_bytes * held)


@dataclass(frozen=True, eq=False)
class TreeStrips:
    """The strips of a tree: runs of a node's children that are trained together.

    A strip has at most ``strip_bytes`` of weights, or 32 children. The arrays have one entry per strip.
    """

    part: TreePlan
    strip_bytes: int
    node: NDArray[np.int64]
    first_child: NDArray[np.int64]
    n_children: NDArray[np.int64]

    def __len__(self) -> int:
        return self.node.size

    @property
    def work(self) -> NDArray[np.int64]:
        """Multiply-adds of one pass over the instances of each strip."""
        work: NDArray[np.int64] = (self.part.nonzeros[self.node] + 64) * self.n_children
        return work

    def record_dtype(self, n_scales: int = 0) -> np.dtype[np.void]:
        """Return what a record has: about the block that the strip begins, then scales of its children."""
        numbers = ("strip", "not_converged", "checksum", "n_bytes", "n_nonzeros")
        segments = n_segments(self.part.codec, self.part.n_features)
        fields = [(name, "<i8", ()) for name in numbers] + [("segment_rows", "<i8", (segments,))]
        return np.dtype(fields + [(name, "<f4", (n_scales,)) for name in ("scales", "biases")])

    def gather(self, records: Mapping[int, bytes]) -> tuple[WrittenBlocks, int]:
        """Join the records of strips; return what is written, and how many problems did not converge."""
        tree, codec, dtype = self.part.tree, self.part.codec, self.record_dtype()
        heads = np.frombuffer(b"".join(record[: dtype.itemsize] for record in records.values()), dtype)
        first = heads if codec == SPARSE else heads[self.first_child[heads["strip"]] == 0]
        blocks = first["strip"] if codec == SPARSE else self.node[first["strip"]]
        n_blocks = len(self) if codec == SPARSE else tree.n_nodes
        checksums = np.zeros(n_blocks, np.uint32)
        n_bytes, n_nonzeros = np.zeros((2, n_blocks), np.int64)
        rows = np.zeros((n_blocks, n_segments(codec, self.part.n_features)), np.int64)
        checksums[blocks], n_bytes[blocks] = first["checksum"], first["n_bytes"]
        n_nonzeros[blocks], rows[blocks] = first["n_nonzeros"], first["segment_rows"]
        scales, biases = np.zeros((2, tree.children.size if is_scaled(codec) else 0), np.float32)
        if is_scaled(codec):
            starts = tree.child_ptr[self.node] + self.first_child
            for number, content in records.items():
                children = slice(starts[number], starts[number] + self.n_children[number])
                record = np.frombuffer(content, self.record_dtype(int(self.n_children[number])))[0]
                scales[children], biases[children] = record["scales"], record["biases"]
        written = WrittenBlocks(checksums, rows.ravel(), n_bytes, n_nonzeros, scales, biases)
        return written, int(heads["not_converged"].sum())


def shares(work: NDArray[np.int64], n_parts: int) -> NDArray[np.int64]:
    """Return the part, from 0, of each piece of work: parts of about equal work, the same every time."""
    part = np.zeros(work.size, np.int64)
    if n_parts == 1:
        return part
    loads = [(0, p) for p in range(n_parts)]
    for piece in np.argsort(-work, kind="stable").tolist():
        load, p = loads[0]
        part[piece] = p
        heapq.heapreplace(loads, (load + int(work[piece]), p))
    return part
