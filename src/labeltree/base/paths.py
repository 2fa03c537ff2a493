"""The files that data is in: one, several or those that match a pattern, and their format."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import PurePath
from typing import Any

from labeltree.base.files import display_name, unusable
from labeltree.errors import InputError

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]

_EXTENSIONS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".svm": "svm",
    ".libsvm": "svm",
    ".npz": "npz",
}
_COMPRESSED = (".gz", ".bz2", ".xz")
BINARY = ("parquet", "arrow", "npz")  # not read in lines

_SAVE, _UNPACK = "save it as CSV", "unpack it, and pass the files in it"
# What the bytes at a position show a file to be, whatever its name, and what to do.
_MAGIC = {
    (0, b"PK\x03\x04"): ("a ZIP archive or a spreadsheet", f"{_UNPACK}, or {_SAVE}"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"): ("an Excel workbook", _SAVE),
    (257, b"ustar"): ("a tar archive", _UNPACK),
    (0, b"PAR1"): ("a Parquet file", "set {format} to parquet"),
    (0, b"ARROW1"): ("an Arrow file", "set {format} to arrow"),
}


def data_files(data: Any) -> tuple[str, ...]:
    """Return the files of one dataset: a path, several, or a pattern.

    A name with ``*``, ``?`` or ``[`` that is no file stands for all files that match, in sorted order.
    """
    given = data if isinstance(data, list | tuple) else [data]
    for path in given:
        if not isinstance(path, str | os.PathLike):
            what = f"the data is of type {type(path).__name__}, expected a path or a Dataset"
            raise InputError(what, hint="make a Dataset with labeltree.Dataset.from_matrices(X, Y)")
    if not given:
        raise InputError("the list of files is empty", hint="pass at least one")
    found: list[str] = []
    for path in map(os.fspath, given):
        matches = sorted(glob.glob(path, recursive=True)) if is_pattern(path) else [path]
        if not matches:
            raise InputError("no file matches this pattern", file=path)
        found += matches
    return tuple(found)


def is_pattern(path: str) -> bool:
    """Return whether a path stands for all files that match it."""
    return any(mark in path for mark in "*?[") and not os.path.exists(path)


def shown_files(files: Sequence[str]) -> str:
    """Return how messages call the files."""
    return display_name(files[0]) if len(files) == 1 else f"{len(files)} files"


def shares(
    files: Sequence[str], progress: Callable[[float], None] | None
) -> Iterator[tuple[str, Callable[[float], None] | None]]:
    """Yield each file with a function that reports the progress within it as that of all files."""
    sizes = [os.path.getsize(file) if os.path.isfile(file) else 0 for file in files]
    total = sum(sizes) or 1
    for file, size, end in zip(files, sizes, accumulate(sizes), strict=True):

        def report(part: float, size: int = size, start: int = end - size) -> None:
            if progress is not None:
                progress((start + part * size) / total)

        yield file, None if progress is None else report


def format_of(path: PathLike) -> str | None:
    """Return the format that the name of a data file shows, compressed or not; None if it shows none.

    Examples
    --------
    >>> format_of("train.tsv.bz2"), format_of("train.svm"), format_of("train.txt")
    ('tsv', 'svm', None)
    """
    name = PurePath(path)
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return _EXTENSIONS.get(name.suffix.lower())


def detected_format(files: Sequence[str], format: str | None) -> str | None:
    """Return the format of all files, given or detected from their names; None if these show none.

    Files in other formats, and archives, are refused.
    """
    for file in files:
        found, first = format or format_of(file), format or format_of(files[0])
        if found != first:
            what = f"the format is {found or 'unknown'}, but that of {files[0]} is {first or 'unknown'}"
            hint = "pass files of one format, or set {format}"
            raise InputError(what, file=file, hint=hint)
        if foreign := _foreign(file, found):
            what, hint = f"the file is {foreign[0]}, which cannot be read", foreign[1]
            raise InputError(what, file=display_name(file), hint=hint)
    return format or format_of(files[0])


def _foreign(file: str, format: str | None) -> tuple[str, str] | None:
    """Return what a file is that cannot be read in a format, and what to do; None if it may be readable."""
    is_pipe = file == "-" or (os.path.exists(file) and not os.path.isfile(file) and not os.path.isdir(file))
    if format in BINARY and (is_pipe or PurePath(file).suffix.lower() in _COMPRESSED):
        return "compressed or from a pipe", f"pass a plain .{format} file"
    if is_pipe:
        return None
    try:
        with open(file, "rb") as stream:
            head = b"" if format in BINARY else stream.read(512)
    except OSError as error:
        raise unusable(file, error) from None
    return next((what for (at, magic), what in _MAGIC.items() if head.startswith(magic, at)), None)
