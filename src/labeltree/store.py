"""The model directory: which files, of which sizes; written whole or not at all, checked before use."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.errors import InputError
from labeltree.system import umask

if TYPE_CHECKING:
    from labeltree.text.tfidf import TextFeatures

FORMAT = "labeltree model"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ArrayFile:
    """A one-dimensional array in a ``.npy`` file: its type and length, and so its size to the byte."""

    dtype: str
    length: int

    @property
    def header(self) -> bytes:
        """What NumPy writes before the first element."""
        buffer = io.BytesIO()
        description = {"descr": self.dtype, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(buffer, description)
        return buffer.getvalue()

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return len(self.header) + self.length * np.dtype(self.dtype).itemsize


def names_bytes(label_names: tuple[str, ...]) -> bytes:
    """The content of ``label_names.json``."""
    return json.dumps(label_names, ensure_ascii=False, indent=0).encode()


def manifest_checksum(manifest: Mapping[str, Any]) -> int:
    """CRC-32C of a manifest without its own checksum: as JSON without spaces, keys sorted."""
    kept = {key: value for key, value in manifest.items() if key != "crc32c"}
    content = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    return _native.crc32c(np.frombuffer(content, np.uint8))


class ModelWriter:
    """A model directory in the making, under a temporary name beside its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, dict[str, int]] = {}

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Write a small array, with its checksum."""
        target = self._place(name)
        np.save(target, array, allow_pickle=False)
        self._record(name)

    def write_text(self, name: str, content: bytes) -> None:
        """Write a file that is not an array, with its checksum."""
        self._place(name).write_bytes(content)
        self._record(name)

    def write_facts(
        self, label_counts: NDArray[np.int64], label_names: tuple[str, ...] | None, text: TextFeatures | None
    ) -> None:
        """Write what a model knows beside its trees: labels, and how text becomes features."""
        self.write("label_counts.npy", label_counts)
        if label_names is not None:
            self.write_text("label_names.json", names_bytes(label_names))
        for name, content in (text.contents if text else {}).items():
            self.write_text(name, content)

    @contextmanager
    def reserve(self, name: str, spec: ArrayFile) -> Iterator[tuple[int, int]]:
        """Open an array of known size to be filled in any order: file descriptor, and where its data begins.

        The disk space is taken at once, so that a full disk is known before training and not after.
        """
        header = spec.header
        with open(self._place(name), "wb+") as stream:
            stream.write(header)
            stream.flush()
            stream.truncate(spec.bytes)
            if hasattr(os, "posix_fallocate") and spec.bytes:
                os.posix_fallocate(stream.fileno(), 0, spec.bytes)
            yield stream.fileno(), len(header)
        self._files[name] = {"bytes": spec.bytes}

    @contextmanager
    def grow(self, name: str, dtype: str) -> Iterator[BinaryIO]:
        """Open an array whose length is not known yet: a file that its elements are appended to."""
        start = len(ArrayFile(dtype, 0).header)
        with open(self._place(name), "wb") as stream:
            stream.seek(start)
            yield stream
            spec = ArrayFile(dtype, (stream.tell() - start) // np.dtype(dtype).itemsize)
            stream.seek(0)
            stream.write(spec.header)  # NumPy pads it: of every length up to 2**63 it takes the same room
        self._files[name] = {"bytes": spec.bytes}

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest: the directory is complete."""
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, **manifest, "files": self._files}
        content["crc32c"] = manifest_checksum(content)
        (self.path / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def _place(self, name: str) -> Path:
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        return target

    def _record(self, name: str) -> None:
        content = np.fromfile(self.path / name, np.uint8)
        self._files[name] = {"bytes": content.size, "crc32c": _native.crc32c(content)}


def directory_bytes(path: Path) -> int:
    """Size of a model directory without its manifest, as the disk has it."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and file != path / MANIFEST)


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse to write over anything that is there, unless it is a model and may be replaced."""
    if not path.exists() and not path.is_symlink():
        if not path.parent.is_dir():
            raise InputError(f"{path}: the folder {path.parent} does not exist; make it first.")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise InputError(f"{path}: no right to write in {path.parent}; give another place.")
        return
    if not overwrite:
        raise InputError(f"{path} exists already; give another name, or --overwrite to replace it.")
    if path.is_symlink() or not path.is_dir() or (any(path.iterdir()) and not (path / MANIFEST).is_file()):
        raise InputError(f"{path} is not a model directory, so it is not replaced; give another name.")


@contextmanager
def new_model(path: Path, overwrite: bool) -> Iterator[ModelWriter]:
    """Write a model directory that appears under its name when it is complete, or leaves nothing behind."""
    path = Path(os.path.abspath(path))
    check_target(path, overwrite)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        work.chmod(0o777 & ~umask())
        writer = ModelWriter(work)
        yield writer
        check_target(path, overwrite)  # it may have appeared meanwhile
        if path.exists():
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
        else:
            os.replace(work, path)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and check ``manifest.json``: is this a model, and one that this version can read?"""
    if not path.exists():
        raise InputError(f"{path}: no such model directory.")
    if not path.is_dir():
        raise InputError(f"{path} is a file, but a model is a directory.")
    if not (path / MANIFEST).is_file():
        raise InputError(f"{path} is not a model directory: it has no {MANIFEST}.")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(
            f"{path / MANIFEST} cannot be read ({error}); copy or train the model again."
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path / MANIFEST} is not the manifest of a labeltree model.")
    version = manifest.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION or version < 1:
        raise InputError(
            f"{path} has format version {version}, but this labeltree reads up to {FORMAT_VERSION}; "
            "install a newer labeltree."
        )
    if manifest.get("crc32c") != manifest_checksum(manifest):
        raise InputError(
            f"{path / MANIFEST} has a wrong checksum: it is damaged; copy or train the model again."
        )
    return manifest


class ModelReader:
    """The files of a complete model directory, each checked when it is asked for."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self._files: Mapping[str, Mapping[str, int]] = manifest["files"]
        if not all(isinstance(entry["bytes"], int) for entry in self._files.values()):
            raise TypeError("a file's size is not a number")

    def _checked(self, name: str) -> Path:
        target = self.path / name
        expected = self._files.get(name)
        if expected is None:
            raise InputError(f"{self.path / MANIFEST} does not list {name}; copy or train the model again.")
        if not target.is_file():
            raise InputError(f"{self.path} lacks its file {name}; copy or train the model again.")
        size = target.stat().st_size
        if size != expected["bytes"]:
            raise InputError(
                f"{target} has {size:,} bytes, but its manifest says {expected['bytes']:,}; "
                "it was cut short or changed: copy or train the model again."
            )
        if "crc32c" in expected and _native.crc32c(np.fromfile(target, np.uint8)) != expected["crc32c"]:
            raise InputError(f"{target} has a wrong checksum: it is damaged; copy or train the model again.")
        return target

    def array(self, name: str, dtype: str, length: int, *, mapped: bool = False) -> NDArray[Any]:
        """Read, or map, an array that must have this type and length."""
        target = self._checked(name)
        try:
            array = np.load(target, mmap_mode="r" if mapped and length else None, allow_pickle=False)
        except Exception as error:  # NumPy parses the header as Python: many kinds of errors come out
            raise InputError(f"{target} is not an array ({error}); copy or train the model again.") from None
        if isinstance(array, np.memmap) and array.offset + array.nbytes != target.stat().st_size:
            raise InputError(f"{target} has a damaged header; copy or train the model again.")
        if array.dtype != np.dtype(dtype) or array.shape != (length,):
            raise InputError(
                f"{target} holds {array.dtype}{list(array.shape)}, but the model needs "
                f"{np.dtype(dtype)}[{length}]; copy or train the model again."
            )
        return np.asarray(array)

    def text(self, name: str) -> bytes:
        """Read a file that is not an array."""
        return self._checked(name).read_bytes()
