"""Publishing: a model directory appears under its name when it is complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeltree.errors import InputError
from labeltree.files import REPLACE
from labeltree.manifest import MANIFEST
from labeltree.store import ModelWriter
from labeltree.system import umask


def directory_bytes(path: Path) -> int:
    """Return the size of a model directory on disk, without its manifest."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and file != path / MANIFEST)


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse to write a model where something exists, unless it is a model that may be replaced."""
    if not path.parent.is_dir():
        raise InputError("no such directory", file=path.parent, hint="create it first")
    exists = path.exists() or path.is_symlink()
    if (overwrite or not exists) and not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError("no write permission", file=path.parent, hint="choose another directory")
    if not exists:
        return
    if not overwrite:
        raise InputError("already exists", file=path, hint=REPLACE, parameters={"overwrite": True})
    if path.is_symlink() or not path.is_dir() or (any(path.iterdir()) and not (path / MANIFEST).is_file()):
        raise InputError(
            "not a model directory, so it is not replaced", file=path, hint="choose another name"
        )


@contextmanager
def temporary_directory(path: Path) -> Iterator[Path]:
    """Make a directory next to a model that is to be written; at the end it is removed with its contents."""
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(work: Path, path: Path, overwrite: bool) -> None:
    """Move a complete model directory to its place, where it may replace another model."""
    check_target(path, overwrite)  # it may have appeared in the meantime
    work.chmod(0o777 & ~umask())
    if not path.exists():
        os.replace(work, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    try:
        os.replace(path, old / path.name)
        os.replace(work, path)
    except BaseException:
        if not path.exists():
            os.replace(old / path.name, path)
        raise
    finally:
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def new_model(path: Path, overwrite: bool) -> Iterator[ModelWriter]:
    """Write a model directory that appears once it is complete; after an error nothing is left of it."""
    path = Path(os.path.abspath(path))
    check_target(path, overwrite)
    with temporary_directory(path) as work:
        yield ModelWriter(work)
        publish(work, path, overwrite)
