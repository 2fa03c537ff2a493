"""A model directory: read as a whole, and put in its place when it is complete, or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from labeltree.base import files
from labeltree.base.system import umask
from labeltree.errors import InputError
from labeltree.model.layout import CARD, CARD_MARK, MANIFEST, REPORTS, is_model_file
from labeltree.model.manifest import FORMAT, RESTORE, Manifest, parse_manifest

_N_TRIES = 10
# The subdirectories of a model, and how a damaged manifest is recognized.
_FOLDER = re.compile(r"tree-[0-9]+|text")
_FORMAT_ENTRY = re.compile(rb'"format"\s*:\s*"' + FORMAT.encode() + rb'"')
# Of renameat2 in Linux.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

T = TypeVar("T")


class ModelDirectory:
    """A model directory as it is read: all files from the same one, even if another takes its name."""

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
            hint = "pass the directory of a model"
            raise InputError("is a file, not a directory", file=path, hint=hint) from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be opened ({error})", file=path) from None

    def __enter__(self) -> ModelDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._handle)

    def open(self, name: str) -> BinaryIO:
        """Open a regular file for reading; for anything else, raise FileNotFoundError."""
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

    Files of the old model can be read until they are removed. If that happens too early, `read` is called
    again with the directory of the new one.
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
        if path.suffix == ".work":
            what, hint = "an unfinished run, not a model", "train again with {resume} to complete the model"
            raise InputError(what, file=path, hint=hint, parameters={"resume": True}) from None
        raise InputError(f"not a model directory: it has no {MANIFEST}", file=path) from None
    except OSError as error:
        what = f"the manifest cannot be read ({error})"
        raise InputError(what, file=path / MANIFEST, hint=RESTORE) from None
    return parse_manifest(content, path)


def directory_bytes(path: Path) -> int:
    """Return the size of a model directory on disk, without its manifest."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and file != path / MANIFEST)


def check_target(path: Path, overwrite: bool, kept: Collection[str] = ()) -> None:
    """Refuse to write a model where something exists, unless it is a model that may be replaced.

    What a process that was killed left there is removed first. A directory is replaced only if it is empty,
    or has the manifest of a model and no file besides those of a model, what labeltree wrote about it, and
    those that are to be kept.
    """
    parent = Path(os.path.abspath(path)).parent
    if not parent.is_dir():
        raise InputError("no such directory", file=parent, hint="create it first")
    clean_up(Path(os.path.abspath(path)))
    exists = path.exists() or path.is_symlink()
    if exists and path.is_dir() and (_contains_current_directory(path) or os.path.ismount(path)):
        what = "is the current directory, contains it or is a mount point, so it cannot be replaced"
        raise InputError(what, file=path, hint="choose another name")
    if (overwrite or not exists) and not os.access(parent, os.W_OK | os.X_OK):
        raise InputError("no write permission", file=parent, hint="choose another directory")
    if not exists:
        return
    if not overwrite:
        raise InputError("already exists", file=path, hint=files.REPLACE, parameters={"overwrite": True})
    is_folder = path.is_dir() and not path.is_symlink()
    present = sorted(_entries(path)) if is_folder else []
    if not is_folder or (present and not _is_manifest(path / MANIFEST)):
        what, hint = "not a model directory, so it is not replaced", "choose another name"
        raise InputError(what, file=path, hint=hint)
    for name in present:
        if not (is_model_file(name) or name in kept or _is_report(path / name)):
            what = f"contains {name}, which is not part of the model, so it is not replaced"
            raise InputError(what, file=path, hint="move that file, or choose another name")


def check_apart(model: Path, target: Path) -> None:
    """Refuse to write a model over itself, into itself, or over a directory that contains it."""
    source, goal = Path(os.path.realpath(model)), Path(os.path.realpath(target))
    relations = {
        "the same directory as": goal == source,
        "inside": source in goal.parents,
        "a directory that contains": goal in source.parents,
    }
    for relation, holds in relations.items():
        if holds:
            what = f"the output is {relation} the model {model}"
            raise InputError(what, file=target, hint="choose another directory")


def _contains_current_directory(path: Path) -> bool:
    try:
        current = Path.cwd()
    except FileNotFoundError:  # it was removed
        return False
    return any(path.samefile(place) for place in (current, *current.parents))


def _entries(path: Path, folder: str = "") -> Iterator[str]:
    """Yield the files below a directory; of a subdirectory that models do not have, only its name."""
    with os.scandir(path) as entries:
        for entry in entries:
            name, is_folder = folder + entry.name, entry.is_dir(follow_symlinks=False)
            if is_folder and not folder and _FOLDER.fullmatch(name):
                yield from _entries(path / entry.name, f"{name}/")
            elif is_folder:
                yield f"{name}/"
            else:
                yield name if entry.is_file(follow_symlinks=False) else f"{name} (a special file)"


def reports(path: Path) -> list[str]:
    """Return the files of a model directory that are about the model: reports, and a card, edited or not."""
    return [name for name in (*REPORTS, CARD) if (path / name).is_file() and not (path / name).is_symlink()]


def _is_report(file: Path) -> bool:
    """Return whether labeltree wrote a file about a model, and nobody edited it."""
    return file.name in REPORTS or (file.name == CARD and CARD_MARK.encode() in file.read_bytes())


def _is_manifest(file: Path) -> bool:
    """Return whether a file is the manifest of a model, perhaps a damaged one."""
    try:
        return stat.S_ISREG(file.lstat().st_mode) and bool(_FORMAT_ENTRY.search(file.read_bytes()))
    except OSError:
        return False


def temporary_directory(path: Path) -> AbstractContextManager[Path]:
    """Make a directory next to a model that is to be written; at the end it is removed with its contents."""
    return files.temporary_directory(path.parent, f".{path.name}.")


def publish(new: Path, path: Path, overwrite: bool, *, sync: bool = True, record: Path | None = None) -> None:
    """Move a complete model directory to its place, where it may replace another model.

    At every moment the name leads to a whole model, where the system can exchange two directories (Linux).
    Elsewhere, the old model has another name for a moment, under which it is still found. `new` is on the
    same file system; if the process is killed, it may be the old model. With `sync`, a power failure leaves
    one of them, too: the new model is on disk before it takes its place. `record` is a file to write before
    the move, from which `is_published` recognizes the new model.
    """
    check_target(path, overwrite, reports(new))  # it may have appeared in the meantime
    new.chmod(0o777 & ~umask())
    if sync:
        sync_directory(new)
    identity = new.stat()
    if record is not None:
        content = f"{read_manifest(new)['crc32c']} {identity.st_ino}"
        write_durably(record, content.encode(), sync)
    try:
        old = _replace(new, path)
        if sync:
            sync_path(path.parent)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
    except KeyboardInterrupt:
        if path.exists() and os.path.samestat(path.stat(), identity):
            raise KeyboardInterrupt("stopped, but the new model is complete") from None
        raise


def is_published(record: Path, new: Path, path: Path) -> bool:
    """Return whether the model that was at `new` has its place, by the record that `publish` wrote.

    If so, the process that published it was killed before it cleaned up.
    """
    recorded = _recorded(record)
    if recorded is None or _checksum(path) != recorded[0]:
        return False
    # The old model may have the same manifest, and other blocks if it is damaged.
    return path.stat().st_ino == recorded[1] or _checksum(new) != recorded[0]


def is_publishable(record: Path, new: Path) -> bool:
    """Return whether a directory is a complete model, and not an old one that `publish` has replaced."""
    recorded, checksum = _recorded(record), _checksum(new)
    return checksum is not None and (recorded is None or checksum == recorded[0])


def _recorded(record: Path) -> tuple[int, int] | None:
    try:
        checksum, inode = record.read_text().split()
        return int(checksum), int(inode)
    except (OSError, ValueError):
        return None


def _checksum(path: Path) -> int | None:
    """Return the checksum of a model's manifest, or None if there is no model."""
    try:
        return int(read_manifest(path)["crc32c"])
    except (OSError, InputError):
        return None


def write_durably(path: Path, content: bytes, sync: bool = True) -> None:
    """Write a file that is there completely or not at all."""
    # Processes on several machines may write it at once.
    temporary = path.with_name(f"{path.name}.{socket.gethostname()}-{os.getpid()}.new")
    temporary.write_bytes(content)
    if sync:
        sync_path(temporary)
    temporary.replace(path)
    if sync:
        sync_path(path.parent)


def write_at(file: int, content: bytes | bytearray, at: int) -> int:
    """Write bytes completely at a place of an open file; return their number."""
    written = 0
    while written < len(content):
        written += os.pwrite(file, content[written:], at + written)
    return written


def sync_path(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the entries of a directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot do this for directories.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Wait until all files and directories below a directory, and itself, are on the disk."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            sync_path(os.path.join(folder, name))
        sync_path(folder)


def _replace(new: Path, path: Path) -> Path | None:
    """Give a directory its name; return where the directory is now that had the name."""
    if not path.exists():
        os.replace(new, path)
        return None
    if _exchange(new, path):
        return new
    old = old_place(path)
    os.replace(path, old)
    try:
        os.replace(new, path)
    except BaseException:
        clean_up(path)
        raise
    return old


def clean_up(path: Path) -> None:
    """Remove what a process that was killed left next to a model; restore the model if it had no name."""
    old = old_place(path)
    if old.is_dir() and not path.exists():
        with suppress(OSError):  # a new model took the name at this moment
            os.replace(old, path)
    if old.is_dir() and path.exists():
        shutil.rmtree(old, ignore_errors=True)
    files.remove_leftovers(path.parent, f".{path.name}.")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two directories in one step; return False if the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))
