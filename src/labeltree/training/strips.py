"""Panels: the parts of a tree that are trained on their own, and what is recorded about each."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.model.layout import SPARSE, is_scaled, n_segments
from labeltree.training.plan import PANEL_BYTES, TreePlan

# The numbers of a record before the rows of its segments: panel, problems that did not converge, checksum,
# bytes and non-zeros of the block.
_N_FIRST = 5


@dataclass(frozen=True, eq=False)
class TreePanels:
    """The panels of a tree: runs of a node's children that are trained together.

    Attributes
    ----------
    part : TreePlan
    panel_bytes : int
        A panel has at most so many bytes of weights, or 32 children.
    node, first_child, n_children : ndarray of int64
        Of each panel.
    """

    part: TreePlan
    panel_bytes: int
    node: NDArray[np.int64]
    first_child: NDArray[np.int64]
    n_children: NDArray[np.int64]

    @classmethod
    def of(cls, part: TreePlan) -> TreePanels:
        """List the panels of a planned tree."""
        ranges = _native.list_panels(part.tree.native, part.codec, part.layout.feature_ptr, PANEL_BYTES)
        return cls(part, PANEL_BYTES, *ranges)

    def __len__(self) -> int:
        return self.node.size

    @property
    def work(self) -> NDArray[np.int64]:
        """Multiply-adds of one pass over the instances of each panel."""
        work: NDArray[np.int64] = (self.part.nonzeros[self.node] + 64) * self.n_children
        return work

    def record_bytes(self, number: int) -> int:
        """Return the length of a panel's record."""
        floats = 2 * int(self.n_children[number]) if is_scaled(self.part.codec) else 0
        return 8 * (_N_FIRST + n_segments(self.part.codec, self.part.n_features)) + 4 * floats

    def gather(self, records: Mapping[int, bytes], block_files: Any) -> tuple[_native.WrittenArrays, int]:
        """Join the records of all panels.

        Parameters
        ----------
        records : mapping of int to bytes
            By panel.
        block_files : BlockFiles
            The files that the blocks are in. Blocks that were written in pieces are read for their checksums.

        Returns
        -------
        written : tuple of ndarray
            What was written: checksums, rows of segments, bytes and non-zeros of blocks; scales and biases.
        n_not_converged : int
        """
        tree, codec = self.part.tree, self.part.codec
        segments = n_segments(codec, self.part.n_features)
        n_blocks = len(self) if codec == SPARSE else tree.n_nodes
        checksums, n_bytes, n_nonzeros = np.zeros((3, n_blocks), np.int64)
        rows = np.zeros((n_blocks, segments), np.int64)
        scales, biases = np.zeros((2, tree.children.size if is_scaled(codec) else 0), np.float32)
        panels = np.fromiter(records, np.int64, len(records))
        head_bytes = 8 * (_N_FIRST + segments)
        heads = b"".join(record[:head_bytes] for record in records.values())
        numbers = np.frombuffer(heads, np.int64).reshape(panels.size, -1)
        first = slice(None) if codec == SPARSE else self.first_child[panels] == 0
        blocks = panels if codec == SPARSE else self.node[panels[first]]
        checksums[blocks], n_bytes[blocks], n_nonzeros[blocks] = numbers[first, 2:_N_FIRST].T
        rows[blocks] = numbers[first, _N_FIRST:]
        if is_scaled(codec):
            starts = tree.child_ptr[self.node] + self.first_child
            for number, record in records.items():
                children = slice(starts[number], starts[number] + self.n_children[number])
                values = np.frombuffer(record, np.float32, offset=head_bytes)
                scales[children], biases[children] = values.reshape(2, -1)
        if codec != SPARSE:
            for node in np.unique(self.node[self.first_child > 0]).tolist():
                checksums[node] = block_files.checksum(self.part.layout, node)
        written = checksums.astype(np.uint32), rows.ravel(), n_bytes, n_nonzeros, scales, biases
        return written, int(numbers[:, 1].sum())


def shares(work: NDArray[np.int64], n_parts: int) -> NDArray[np.int64]:
    """Divide pieces of work into parts of about equal work, the same way every time.

    Parameters
    ----------
    work : ndarray of int64
        Of each piece.
    n_parts : int

    Returns
    -------
    ndarray of int64
        The part of each piece, from 0.
    """
    part = np.zeros(work.size, np.int64)
    if n_parts == 1:
        return part
    loads = [(0, p) for p in range(n_parts)]
    for piece in np.argsort(-work, kind="stable").tolist():
        load, p = loads[0]
        part[piece] = p
        heapq.heapreplace(loads, (load + int(work[piece]), p))
    return part
