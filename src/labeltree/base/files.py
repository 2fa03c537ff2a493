"""Files, plain or compressed, and directories: read in pieces, written completely or not at all."""

from __future__ import annotations

import bz2
import contextlib
import fcntl
import glob
import gzip
import io
import lzma
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.system import umask
from labeltree.errors import InputError

# The end of temporary names.
_PARTIAL = ".partial"

# What to do about output that exists.
REPLACE = "choose another name, or use {overwrite} to replace it"

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte order marks

_TAIL_BYTES = 1 << 16  # of a piece, in which its last line break usually is

_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def read_pieces(
    path: str | os.PathLike[str],
    piece_bytes: int,
    progress: Callable[[float], None] | None = None,
    *,
    eager: bool = False,
) -> Generator[tuple[NDArray[np.uint8], bool], None, None]:
    """Read a text file in pieces; compressed files are detected from their first bytes and decompressed.

    Each piece but the last has `piece_bytes`, is yielded with whether it is the last, which may be empty, and
    is valid until the next one is requested. The path "-" is standard input. `progress` is called with the
    fraction of the file that has been read, unless it is a pipe. If `eager`, shorter pieces have what a pipe
    or a terminal has to give at once.
    """
    name = display_name(path)
    with contextlib.ExitStack() as stack:
        try:
            standard = os.fspath(path) == "-"
            raw = stack.enter_context(open(0 if standard else path, "rb", closefd=not standard))
            file = stack.enter_context(_decompressed(raw))
        except OSError as error:
            raise unusable(name, error) from None
        # Pipes and terminals are read by this thread, so that Ctrl-C can interrupt; files are read ahead.
        status = os.fstat(raw.fileno())
        regular = stat.S_ISREG(status.st_mode)
        first = True
        try:
            read_on = _ahead if regular else _as_available if eager else _in_turn
            pieces = read_on(file, piece_bytes)
            for piece in _limited(pieces, name, status.st_size if regular and file is not raw else None):
                if first and piece[0][:2].tobytes() in _UTF16_MARKS:
                    hint = "convert it, for example with iconv -f utf-16 -t utf-8"
                    raise InputError("the file is in UTF-16, expected UTF-8", file=name, hint=hint)
                first = False
                # Not raw.tell(), which would interfere with the thread that reads ahead.
                read = os.lseek(raw.fileno(), 0, os.SEEK_CUR) if regular else 0
                yield piece
                if progress is not None and regular and not piece[1]:
                    progress(read / status.st_size)
        except _DAMAGED as error:
            if file is raw and isinstance(error, OSError):
                raise unusable(name, error) from None
            what = f"the compressed data is truncated or damaged ({error})"
            raise InputError(what, file=name, hint="download or compress the file again") from None


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[io.BufferedIOBase]:
    """Open a file for writing that appears under its name once it is complete.

    It is compressed if its name ends in .gz, .bz2 or .xz. An existing file is replaced at the end, a symbolic
    link is followed, and a pipe or device such as /dev/null is written to directly.
    """
    given = Path(path)
    check_place(given)
    special = given.exists() and not given.is_file()
    target = given if special else Path(os.path.realpath(given))
    place: int | Path = target
    partial = None
    try:
        if not special:
            # A new file with an unpredictable name, so that no link is followed.
            place, partial = tempfile.mkstemp(_PARTIAL, f".{target.name}.", target.parent)
        with open(place, "wb") as raw, _compressed(raw, given.suffix) as file:
            yield file
        if partial is not None:
            os.chmod(partial, 0o666 & ~umask())  # a temporary file can be read by its owner only
            os.replace(partial, target)
            partial = None
    except OSError as error:
        raise unusable(os.fspath(path), error) from None
    finally:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a path that no file can be written to, before any work is lost."""
    if path.is_dir():
        raise InputError("is a directory, not a file", file=path)
    if not path.parent.is_dir():
        raise InputError("no such directory", file=path.parent, hint="create it first")


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse a path that no file can be written to, or a file that exists unless it may be replaced."""
    check_place(path)
    broken_link = path.is_symlink() and not path.exists()
    if (path.is_file() or broken_link) and not overwrite:
        raise InputError("already exists", file=path, hint=REPLACE, parameters={"overwrite": True})


def display_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for messages."""
    return "standard input" if os.fspath(path) == "-" else os.fspath(path)


def _in_turn(file: io.BufferedIOBase, piece_bytes: int) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    buffer = np.empty(piece_bytes, dtype=np.uint8)
    while (size := _fill(file, buffer)) == piece_bytes:
        yield buffer, False
    yield buffer[:size], True


def _as_available(file: io.BufferedIOBase, piece_bytes: int) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    while content := file.read1(piece_bytes):
        yield np.frombuffer(content, dtype=np.uint8), False
    yield np.empty(0, dtype=np.uint8), True


def _ahead(file: io.BufferedIOBase, piece_bytes: int) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    """Read the next piece while this one is in use: reading and decompressing release the GIL."""
    buffer, other = (np.empty(piece_bytes, dtype=np.uint8) for _ in range(2))
    pool = ThreadPoolExecutor(1)
    try:
        coming = pool.submit(_fill, file, buffer)
        while (size := coming.result()) == piece_bytes:
            buffer, other = other, buffer
            coming = pool.submit(_fill, file, buffer)
            yield other, False
        yield buffer[:size], True
    finally:
        # Without waiting: the garbage collector may close this generator in any thread, even in one that is
        # just starting, where joining another thread would wait forever.
        pool.shutdown(wait=False)


def _fill(file: io.BufferedIOBase, buffer: NDArray[np.uint8]) -> int:
    """Read until the buffer is full or the file ends, and return the number of bytes read."""
    filled = 0
    while filled < len(buffer) and (count := file.readinto(buffer[filled:].data)):
        filled += count
    return filled


def _limited(
    pieces: Iterator[tuple[NDArray[np.uint8], bool]], name: str, packed_bytes: int | None
) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    """Yield pieces of a file until one of its lines is too long, or too much is compressed in it."""
    line_bytes = unpacked = 0
    for piece, last in pieces:
        tail = piece[-_TAIL_BYTES:].tobytes()
        if b"\n" not in tail:  # only then is the whole piece copied
            tail = piece.tobytes()
        newline = tail.rfind(b"\n")
        line_bytes = len(tail) - newline - 1 if newline >= 0 else line_bytes + len(piece)
        if line_bytes > limits.LONGEST_LINE:
            what = f"a line is longer than {limits.LONGEST_LINE:,} bytes"
            raise InputError(what, file=name, hint="check that this is the right file")
        unpacked += len(piece)
        if packed_bytes and unpacked > max(limits.UNPACKED_BYTES, limits.UNPACKED_RATIO * packed_bytes):
            what = f"{packed_bytes:,} compressed bytes expand to more than {(unpacked - 1) // 10**6:,} MB"
            raise InputError(what, file=name, hint="if this is intended, decompress the file first")
        yield piece, last


def _decompressed(raw: io.BufferedReader) -> io.BufferedIOBase:
    head = raw.peek(10)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if head.startswith(b"BZh") and head[3:4].isdigit() and b"1AY&SY".startswith(head[4:10]):
        return bz2.BZ2File(raw)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(raw)
    return raw


def _compressed(raw: io.BufferedWriter, suffix: str) -> io.BufferedIOBase:
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", fileobj=raw, mtime=0)  # no name, no time: the same bytes
    if suffix == ".bz2":
        return bz2.BZ2File(raw, "wb")
    if suffix == ".xz":
        return lzma.LZMAFile(raw, "wb")
    return raw


def unusable(name: str, error: OSError) -> InputError:
    """Return what is wrong with a file that cannot be opened, read or written."""
    if isinstance(error, FileNotFoundError):
        return InputError("no such file", file=name)
    if isinstance(error, IsADirectoryError):
        return InputError("is a directory, not a file", file=name)
    return InputError(
        f"cannot be read or written ({error.strerror or error})",
        file=name,
        hint="check permissions and free space",
    )


@contextlib.contextmanager
def temporary_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a directory whose name begins with `prefix`, and remove it with its contents at the end.

    If this process is killed before, the next that makes a directory with the same prefix removes it: the
    lock of its owner is then free.
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
        work = Path(tempfile.mkdtemp(prefix=prefix, suffix=_PARTIAL, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # taken for a leftover before it was locked
            lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):  # a file system without locks keeps its leftovers
                fcntl.flock(lock, fcntl.LOCK_EX)
            if work.exists():
                return work, lock
            os.close(lock)


def remove_leftovers(parent: Path, prefix: str) -> None:
    """Remove temporary directories of processes of this user that were killed."""
    for name in glob.glob(f"{glob.escape(os.path.join(parent, prefix))}*{_PARTIAL}"):
        with contextlib.suppress(OSError):
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(name, ignore_errors=True)
            finally:
                os.close(handle)


def remove_directory(path: Path) -> None:
    """Remove a directory with its contents: it is renamed first, so that no part of it can be found."""
    removed = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_PARTIAL, dir=path.parent)
    os.replace(path, removed)
    shutil.rmtree(removed, ignore_errors=True)
