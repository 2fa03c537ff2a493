"""A model directory as it is read: all files from the same one, even if another model takes its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeVar

from labeltree.errors import InputError
from labeltree.model.layout import MANIFEST
from labeltree.model.manifest import RESTORE, Manifest, parse_manifest

_N_TRIES = 10

T = TypeVar("T")


class ModelDirectory:
    """A directory handle, relative to which files are opened.

    Parameters
    ----------
    path : Path
        The directory; it must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            try:
                self._handle = _open_directory(path)
            except FileNotFoundError:  # perhaps it is being replaced
                self._handle = _open_directory(old_place(path))
        except FileNotFoundError:
            hint = "check the path, or train a model first"
            raise InputError("no such model directory", file=path, hint=hint) from None
        except NotADirectoryError:
            raise InputError("is a file, not a directory", file=path) from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be opened ({error})", file=path) from None

    def __enter__(self) -> ModelDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading.

        Raises
        ------
        FileNotFoundError
            If there is no such file, or it is not a regular one.
        """
        return open(name, "rb", opener=self._open)

    def _open(self, name: str, flags: int) -> int:
        try:
            # Without waiting for the other end of a pipe.
            handle = os.open(name, flags | os.O_NONBLOCK, dir_fd=self._handle)
        except NotADirectoryError:
            raise FileNotFoundError(name) from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError(name)
        return handle

    def is_replaced(self) -> bool:
        """Return whether the path leads to another directory now, or to none."""
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self._handle))
        except OSError:
            return True


def old_place(path: Path) -> Path:
    """Return where a model is while another takes its place, if the system cannot exchange them."""
    path = Path(os.path.abspath(path))
    return path.with_name(f".{path.name}.labeltree-old")


def _open_directory(path: Path) -> int:
    # For search only, where there is such a handle: it needs no permission to list the directory.
    return os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)


def read_whole(path: Path, read: Callable[[ModelDirectory], T]) -> T:
    """Read a model that may be replaced meanwhile: wholly the old one or wholly the new one.

    Files of the old model can be read until they are removed. If that happens too early, the new model is
    read instead.

    Parameters
    ----------
    path : Path
        The model directory.
    read : callable
        Reads the files of an open directory; called again with another one if it fails and the model has been
        replaced.

    Returns
    -------
    object
        What `read` returns.
    """
    for _ in range(_N_TRIES - 1):
        with ModelDirectory(path) as directory:
            try:
                return read(directory)
            except InputError:
                if not directory.is_replaced():
                    raise
    with ModelDirectory(path) as directory:
        return read(directory)


def read_manifest(path: Path, directory: ModelDirectory | None = None) -> Manifest:
    """Read and check ``manifest.json``: whether this is a model, and one that this version can read.

    It is read from `directory`, the open directory of this path, if given.
    """
    if directory is None:
        with ModelDirectory(path) as current:
            return read_manifest(path, current)
    try:
        with directory.open(MANIFEST) as stream:
            content = stream.read()
    except FileNotFoundError:
        raise InputError(f"not a model directory: it has no {MANIFEST}", file=path) from None
    except OSError as error:
        raise InputError(
            f"the manifest cannot be read ({error})", file=path / MANIFEST, hint=RESTORE
        ) from None
    return parse_manifest(content, path)
