"""Temporary directories that the next process removes, if this one is killed."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX = ".partial"


@contextmanager
def temporary_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a directory that is removed with its contents at the end.

    If this process is killed before, the next that makes a directory with the same prefix removes it: the
    lock of its owner is then free.

    Parameters
    ----------
    parent : Path
        Where to make it.
    prefix : str
        How its name begins.

    Yields
    ------
    Path
    """
    remove_leftovers(parent, prefix)
    work, lock = _locked_directory(parent, prefix)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(lock)


def _locked_directory(parent: Path, prefix: str) -> tuple[Path, int]:
    """Make a directory; return it with the handle of its lock."""
    while True:
        work = Path(tempfile.mkdtemp(prefix=prefix, suffix=SUFFIX, dir=parent))
        with suppress(FileNotFoundError):  # before it was locked, another process took it for a leftover
            lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # a file system without locks keeps its leftovers
                fcntl.flock(lock, fcntl.LOCK_EX)
            if work.exists():
                return work, lock
            os.close(lock)


def remove_leftovers(parent: Path, prefix: str) -> None:
    """Remove temporary directories of processes of this user that were killed."""
    for name in glob.glob(f"{glob.escape(os.path.join(parent, prefix))}*{SUFFIX}"):
        with suppress(OSError):
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(name, ignore_errors=True)
            finally:
                os.close(handle)


def remove_directory(path: Path) -> None:
    """Remove a directory with its contents: it is renamed first, so that no part of it can be found."""
    removed = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=SUFFIX, dir=path.parent)
    os.replace(path, removed)
    shutil.rmtree(removed, ignore_errors=True)
