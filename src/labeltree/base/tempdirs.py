"""Temporary directories that the next process removes, if this one is killed."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX = ".partial"
# A directory without a lock that is younger, in seconds, may be about to get one.
_LEAST_AGE = 60.0


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
    work = Path(tempfile.mkdtemp(prefix=prefix, suffix=SUFFIX, dir=parent))
    lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without locks keeps its leftovers
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(lock)


def remove_leftovers(parent: Path, prefix: str) -> None:
    """Remove temporary directories of processes of this user that were killed."""
    for name in glob.glob(f"{glob.escape(os.path.join(parent, prefix))}*{SUFFIX}"):
        with suppress(OSError):
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                if found.st_uid == os.getuid() and time.time() - found.st_mtime > _LEAST_AGE:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(name, ignore_errors=True)
            finally:
                os.close(handle)
