"""Strips: the parts of a tree that are trained on their own, and the journal of those that are trained.

A strip is recorded when its weights are on disk, so the journal never claims more than the disk holds. Every
process appends to a file of its own. An entry is its length and CRC-32C, the number of the tree, and the
record; an entry that was cut off ends the file.
"""

from __future__ import annotations

import heapq
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.model.directory import sync_path
from labeltree.model.layout import SPARSE, is_scaled, n_segments
from labeltree.model.pack import BlockFiles, WrittenBlocks
from labeltree.training.plan import STRIP_BYTES, TreePlan

_HEAD = struct.Struct("<II")
_TREE = struct.Struct("<q")
# Strips are recorded about this often, in seconds. A run that is killed loses at most the work of this time,
# and of the time that it takes to write the strips to disk.
INTERVAL = 0.2


@dataclass(frozen=True, eq=False)
class TreeStrips:
    """The strips of a tree: runs of a node's children that are trained together.

    Attributes
    ----------
    part : TreePlan
    strip_bytes : int
        A strip has at most so many bytes of weights, or 32 children.
    node, first_child, n_children : ndarray of int64
        Of each strip.
    """

    part: TreePlan
    strip_bytes: int
    node: NDArray[np.int64]
    first_child: NDArray[np.int64]
    n_children: NDArray[np.int64]

    @classmethod
    def of(cls, part: TreePlan) -> TreeStrips:
        """List the strips of a planned tree."""
        ranges = _native.list_strips(part.tree.native, part.codec, part.layout.feature_ptr, STRIP_BYTES)
        return cls(part, STRIP_BYTES, *ranges)

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

    def gather(self, records: Mapping[int, bytes], files: BlockFiles) -> tuple[WrittenBlocks, int]:
        """Join the records of all strips.

        Parameters
        ----------
        records : mapping of int to bytes
            By strip.
        files : BlockFiles
            The files that the blocks are in. Blocks that were written in strips are read for their checksums.

        Returns
        -------
        written : WrittenBlocks
        n_not_converged : int
        """
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
        files.add_checksums(self.part.layout, written)
        return written, int(heads["not_converged"].sum())


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


def read_journals(directory: Path) -> dict[int, dict[int, bytes]]:
    """Read all journals; return the records by tree and strip."""
    found: dict[int, dict[int, bytes]] = {}
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        for tree, record in _entries(path.read_bytes()):
            found.setdefault(tree, {})[strip_of(record)] = record
    return found


def strip_of(record: bytes) -> int:
    """Return the number of the strip that a record is about."""
    return int.from_bytes(record[:8], "little", signed=True)


def _entries(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, at)
        body = content[at + _HEAD.size : at + _HEAD.size + length]
        if len(body) < length or length < _TREE.size + 8 or _crc(body) != checksum:
            return
        yield _TREE.unpack_from(body)[0], body[_TREE.size :]
        at += _HEAD.size + length


def _crc(content: bytes) -> int:
    return _native.crc32c(np.frombuffer(content, np.uint8))


class Journal:
    """A journal that one process appends to.

    Parameters
    ----------
    directory : Path
        Where the journals of all processes are.
    sync : bool
        Wait until data is on disk. Without it, a power failure may lose what was recorded.
    """

    def __init__(self, directory: Path, sync: bool) -> None:
        directory.mkdir(exist_ok=True)
        name = f"{time.time_ns():x}-{socket.gethostname()}-{os.getpid()}"
        self._file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._size = 0  # up to the last complete entry
        self._sync = sync
        if sync:
            sync_path(directory)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @contextmanager
    def recording(
        self, tree: int, finished: _native.FinishedStrips, files: Sequence[int], records: dict[int, bytes]
    ) -> Iterator[Callable[[], None]]:
        """Record strips while they are finished, in a thread.

        If the journal cannot be written, it is tried again until the end. If data cannot be written to disk,
        what was finished since the last entry may be lost, and nothing more is recorded.

        Parameters
        ----------
        tree : int
            Number of the tree.
        finished : FinishedStrips
            Gives the records of strips.
        files : sequence of int
            Descriptors of the files that hold the strips' data.
        records : dict of int to bytes
            The records by strip, to which new ones are added.

        Yields
        ------
        callable
            Raises the error, if data could not be written to disk.
        """
        stop, failure, pending = threading.Event(), list[OSError](), list[bytes]()

        def check() -> None:
            if failure:
                raise failure[0]

        def record() -> None:
            check()
            if taken := finished.take():
                try:
                    if self._sync:
                        for file in files:
                            os.fdatasync(file)
                except OSError as error:
                    failure.append(error)
                    raise
                pending.extend(taken)
            if pending:
                self._append(tree, pending)
                records.update((strip_of(entry), entry) for entry in pending)
                pending.clear()

        def run() -> None:
            while not stop.wait(INTERVAL):
                with suppress(OSError):
                    record()

        thread = threading.Thread(target=run, name="labeltree-journal", daemon=True)
        thread.start()
        try:
            yield check
        finally:
            stop.set()
            thread.join()
            record()

    def _append(self, tree: int, records: Sequence[bytes]) -> None:
        content = bytearray()
        for record in records:
            body = _TREE.pack(tree) + record
            content += _HEAD.pack(len(body), _crc(body)) + body
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(self._file, content[written:], self._size + written)
            if self._sync:
                os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(content)
