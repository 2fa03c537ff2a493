"""The journal of a work directory: which strips are trained, and what is recorded about each.

A strip is recorded when its weights are on disk, so the journal never claims more than the disk holds. Every
process appends to a file of its own. An entry is its length and CRC-32C, the number of the tree, and the
record; an entry that was cut off ends the file.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from labeltree import _native
from labeltree.model.directory import sync_path, write_at

_HEAD = struct.Struct("<II")
_TREE = struct.Struct("<q")
# Strips are recorded about this often, in seconds. A run that is killed loses at most the work of this time,
# and of the time that it takes to write the strips to disk.
INTERVAL = 0.2


def read_journals(directory: Path) -> dict[int, dict[int, bytes]]:
    """Read all journals; return the records by tree and strip."""
    found: dict[int, dict[int, bytes]] = {}
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        for tree, record in _entries(path.read_bytes()):
            found.setdefault(tree, {})[strip_of(record)] = record
    return found


def seconds_of(directory: Path) -> float:
    """Return the time from the start of each process to its last entry, in sum."""
    total = 0.0
    for file in directory.iterdir() if directory.is_dir() else ():
        started = int(file.name.split("-")[0], 16) / 1e9
        total += max(0.0, file.stat().st_mtime - started)
    return total


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
    """A journal that one process appends to, in the directory of the journals of all processes.

    Without ``sync``, a power failure may lose what was recorded.
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
        """Record the strips of a tree in a thread while they are finished, and add them to ``records``.

        ``files`` are descriptors of the files that hold their data. If the journal cannot be written, it is
        tried again until the end. If data cannot be written to disk, what was finished since the last entry
        may be lost, and nothing more is recorded: the callable that is yielded raises the error.
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
            write_at(self._file, content, self._size)
            if self._sync:
                os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(content)
