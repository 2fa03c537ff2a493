"""The files of a model directory: their sizes, and how they are written and read."""

from __future__ import annotations

import errno
import json
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree._version import __version__
from labeltree.base.system import human_bytes
from labeltree.data.tfidf import TextFeatures
from labeltree.errors import InputError, ResourceError
from labeltree.model.directory import (
    ModelDirectory,
    check_target,
    publish,
    read_manifest,
    temporary_directory,
)
from labeltree.model.layout import LABEL_COUNTS, LABEL_NAMES, MANIFEST, THRESHOLDS, ArrayFile
from labeltree.model.manifest import (
    FORMAT,
    FORMAT_VERSION,
    RESTORE,
    Manifest,
    carried_over,
    manifest_checksum,
)

# Of the data of an array in its file, in all versions of NumPy.
_ALIGNMENT = 16
# The header of a one-dimensional array after its length: what NumPy writes, padded with spaces.
_HEADER = re.compile(
    rb"\{'descr': '([<|][iuf][1248])', 'fortran_order': False, 'shape': \(([0-9]{1,18}),\), \} *\n"
)


def names_bytes(label_names: tuple[str, ...]) -> bytes:
    """Return the content of the file of label names."""
    return json.dumps(label_names, ensure_ascii=False, indent=0).encode()


class ModelWriter:
    """A model directory that is being written, under a temporary name next to its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, dict[str, int]] = {}

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Write a small array and record its checksum."""
        np.save(self.place(name), array, allow_pickle=False)
        self._record(name)

    def write_text(self, name: str, content: bytes) -> None:
        """Write a file that is not an array and record its checksum."""
        self.place(name).write_bytes(content)
        self._record(name)

    def write_common(
        self,
        label_counts: NDArray[np.int64],
        label_names: tuple[str, ...] | None,
        text: TextFeatures | None,
        thresholds: NDArray[np.float32] | None = None,
    ) -> None:
        """Write what the trees share: the labels, how text becomes features, and the labels' thresholds."""
        self.write(LABEL_COUNTS, label_counts)
        if label_names is not None:
            self.write_text(LABEL_NAMES, names_bytes(label_names))
        for name, content in sorted(text.contents.items() if text else ()):
            self.write_text(name, content)
        if thresholds is not None:
            self.write(THRESHOLDS, thresholds)

    def adopt(self, name: str, entry: dict[str, int]) -> None:
        """Record a file that is in its place, with its size and checksum as another manifest has them."""
        self._files[name] = entry

    def adopt_common(self) -> None:
        """Record what `write_common` wrote earlier, perhaps in another process."""
        first = [name for name in (LABEL_COUNTS, LABEL_NAMES) if (self.path / name).is_file()]
        texts = (file.relative_to(self.path) for file in self.path.glob("text/*"))
        for name in (*first, *sorted(map(str, texts))):
            self._record(name)

    @contextmanager
    def reserve(self, name: str, spec: ArrayFile) -> Iterator[tuple[int, int]]:
        """Open an array to be filled in any order: file descriptor, and start of its data.

        The disk space is allocated at once, so that a full disk is reported before training. What a file
        contains already is kept.
        """
        with open(self.place(name), "ab"):  # "r+b" needs a file that exists
            pass
        with open(self.place(name), "r+b") as stream:
            stream.write(spec.header)
            stream.truncate(spec.bytes)
            if hasattr(os, "posix_fallocate") and spec.bytes:
                os.posix_fallocate(stream.fileno(), 0, spec.bytes)
            yield stream.fileno(), len(spec.header)
        self._files[name] = {"bytes": spec.bytes}

    @contextmanager
    def grow(self, name: str, dtype: str) -> Iterator[BinaryIO]:
        """Open an array whose length is not known yet, to append its elements to."""
        start = len(ArrayFile(dtype, 0).header)
        with open(self.place(name), "wb") as stream:
            stream.seek(start)
            yield stream
            spec = ArrayFile(dtype, (stream.tell() - start) // np.dtype(dtype).itemsize)
            stream.seek(0)
            stream.write(spec.header)  # NumPy pads it to the same size for every length
        self._files[name] = {"bytes": spec.bytes}

    def finish(self, description: Mapping[str, Any]) -> None:
        """Write the manifest, which completes the directory."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "labeltree_version": __version__,
            **description,
            "files": dict(sorted(self._files.items())),
        }
        content["crc32c"] = manifest_checksum(content)
        temporary = self.path / f"{MANIFEST}.new"
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.path / MANIFEST)

    def place(self, name: str) -> Path:
        """Return the path of a file; its directory exists."""
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        return target

    def _record(self, name: str) -> None:
        content = np.fromfile(self.path / name, np.uint8)
        self._files[name] = {"bytes": content.size, "crc32c": _native.crc32c(content)}


@contextmanager
def new_model(path: Path, overwrite: bool, *, sync: bool = True) -> Iterator[ModelWriter]:
    """Write a model directory that appears once it is complete; after an error nothing is left of it."""
    path = Path(os.path.abspath(path))
    check_target(path, overwrite)
    with temporary_directory(path) as work:
        yield ModelWriter(work)
        publish(work, path, overwrite, sync=sync)


def amend_model(
    path: Path,
    manifest: Manifest,
    changes: Mapping[str, Any],
    thresholds: NDArray[np.float32] | None,
) -> None:
    """Replace a model directory by one with the same files and other entries in its manifest.

    The files are linked, or copied where the file system has no links.

    Parameters
    ----------
    path : Path
        The model directory.
    manifest : Manifest
        What it contained when it was opened; a model that is not the same any more is not replaced.
    changes : mapping
        Entries to set; None removes one.
    thresholds : ndarray of float32 or None
        The thresholds of labels that belong to the entry ``decision``.
    """
    place = Path(os.path.realpath(path))
    check_target(place, overwrite=True)
    kept = {name: value for name, value in carried_over(manifest).items() if name not in changes}
    described = {**kept, **{name: value for name, value in changes.items() if value is not None}}
    with temporary_directory(place) as work:
        writer = ModelWriter(work)
        for name, entry in manifest["files"].items():
            if name == THRESHOLDS:
                continue
            _link(place / name, writer.place(name))
            writer.adopt(name, entry)
        if thresholds is not None:
            writer.write(THRESHOLDS, thresholds)
        writer.finish(described)
        if read_manifest(place)["crc32c"] != manifest["crc32c"]:
            what = "the model was replaced while its thresholds were chosen, so nothing was stored"
            raise InputError(what, file=path, hint="run the command again")
        publish(work, place, overwrite=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # no links here, or not to files of others
        shutil.copyfile(source, target)


class ModelReader:
    """The files of a complete model directory, each checked when it is read."""

    def __init__(self, directory: ModelDirectory, manifest: Manifest) -> None:
        self.path = directory.path
        self._directory = directory
        self._files = manifest["files"]

    @contextmanager
    def _checked(self, name: str) -> Iterator[BinaryIO]:
        """Open a file that has the size and the checksum of the manifest."""
        target, expected = self.path / name, self._files[name]
        try:
            with self._directory.open(name) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size != expected["bytes"]:
                    raise InputError(
                        f"the file has {size:,} bytes, but the manifest records {expected['bytes']:,}",
                        file=target,
                        hint=RESTORE,
                    )
                if (
                    "crc32c" in expected
                    and _native.crc32c(np.fromfile(stream, np.uint8)) != expected["crc32c"]
                ):
                    raise InputError("checksum mismatch: the file is damaged", file=target, hint=RESTORE)
                stream.seek(0)
                yield stream
        except FileNotFoundError:
            raise InputError("the file is missing from the model", file=target, hint=RESTORE) from None
        except (MemoryError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENOMEM:
                raise InputError(f"cannot be read ({error.strerror or error})", file=target) from None
            what = f"not enough memory to open the file of {human_bytes(expected['bytes'])}"
            hint = "raise the memory limit of the process, or use a machine with more memory"
            raise ResourceError(what, file=target, hint=hint) from None

    def array(self, name: str, dtype: str, length: int, *, mapped: bool = False) -> NDArray[Any]:
        """Read, or map, an array that must have this type and length."""
        with self._checked(name) as stream:
            start = _data_start(stream, self.path / name, ArrayFile(dtype, length))
            if not mapped or not length:
                stream.seek(start)
                return np.fromfile(stream, dtype, length)
            mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            # Through a memory view: joblib would send an array on a map to other processes as the name of its
            # file, which may be another model by then, or none.
            return np.frombuffer(memoryview(mapping), dtype, length, start)

    def text(self, name: str) -> bytes:
        """Read a file that is not an array."""
        with self._checked(name) as stream:
            return stream.read()


def _data_start(stream: BinaryIO, target: Path, expected: ArrayFile) -> int:
    """Read the header of an array, which must be the expected one, and return where its data begins.

    Only the padding may differ. The header is not parsed as NumPy does it, which evaluates it as Python.
    """
    head = stream.read(10)
    rest = stream.read(int.from_bytes(head[8:], "little")) if head[:8] == b"\x93NUMPY\x01\x00" else b""
    found = _HEADER.fullmatch(rest)
    if not found:
        raise InputError("not a NumPy array of one dimension", file=target, hint=RESTORE)
    dtype, length = found[1].decode(), int(found[2])
    if (dtype, length) != (expected.dtype, expected.length):
        wanted = f"{_type_name(expected.dtype)}[{expected.length}]"
        what = f"the array is {_type_name(dtype)}[{length}], expected {wanted}"
        raise InputError(what, file=target, hint=RESTORE)
    start = len(head) + len(rest)
    n_bytes = start + length * np.dtype(dtype).itemsize
    if n_bytes != os.fstat(stream.fileno()).st_size or start % _ALIGNMENT:
        raise InputError("the header is damaged", file=target, hint=RESTORE)
    return start


def _type_name(dtype: str) -> str:
    """Return the name of a type in a header: int64 for <i8."""
    try:
        return str(np.dtype(dtype))
    except TypeError:
        return dtype
