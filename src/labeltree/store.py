"""The model directory: its files and their sizes, written completely or not at all, checked when read."""

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
from typing import Any, BinaryIO, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree._version import __version__
from labeltree.data import TextSource
from labeltree.errors import InputError
from labeltree.files import REPLACE
from labeltree.settings import StorageSettings
from labeltree.system import umask

FORMAT = "labeltree model"
# The newest version. A model has the lowest version that describes it: 1 if its weights are float32.
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
# What to do about a model whose files are damaged.
RESTORE = "restore the model from a copy, or train it again"


class FileEntry(TypedDict, total=False):
    """What a manifest records about a file; large files have checksums per block instead of ``crc32c``."""

    bytes: int
    crc32c: int


class TreeEntry(TypedDict):
    """What a manifest records about a tree."""

    nodes: int
    depth: int


class ScoreEntry(TypedDict):
    """What a manifest records about scores: the fields of `ScoreSettings`."""

    function: str
    scale: float


class PrunedEntry(TypedDict, total=False):
    """What a manifest records about pruning: of a sparse model only the threshold.

    The other entries are those of pruned float32 models, which earlier versions wrote.
    """

    threshold: float
    bytes_before: int
    weights: int
    nonzeros_before: int
    nonzeros_after: int


class EstimatorEntry(TypedDict, total=False):
    """What a manifest records about the scikit-learn estimator that was saved."""

    parameters: dict[str, Any]
    classes: str | None
    single: bool
    feature_names: list[str] | None
    given_tree: bool


class StorageEntries(TypedDict, total=False):
    """What a manifest records about how the weights are stored."""

    codec: str
    pruned: PrunedEntry


class _Optional(StorageEntries, total=False):
    one_based: bool | None
    not_converged: int
    notes: dict[str, Any]
    score: ScoreEntry
    estimator: EstimatorEntry


class Description(_Optional):
    """What a manifest says about the model itself, which a copy of the model keeps.

    ``settings`` are the fields of `SolverSettings`; ``notes`` are the caller's.
    """

    instances: int
    features: int
    labels: int
    trees: list[TreeEntry]
    weights: int
    settings: dict[str, Any]


class Manifest(Description):
    """The content of ``manifest.json``; docs/model-format.md describes every key."""

    format: str
    format_version: int
    labeltree_version: str
    files: dict[str, FileEntry]
    crc32c: int


@dataclass(frozen=True)
class ArrayFile:
    """A one-dimensional array in a ``.npy`` file: its type and length, and therefore its exact size."""

    dtype: str
    length: int

    @property
    def header(self) -> bytes:
        """The header that NumPy writes before the first element."""
        buffer = io.BytesIO()
        description = {"descr": self.dtype, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(buffer, description)
        return buffer.getvalue()

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return len(self.header) + self.length * np.dtype(self.dtype).itemsize


def names_bytes(label_names: tuple[str, ...]) -> bytes:
    """Return the content of ``label_names.json``."""
    return json.dumps(label_names, ensure_ascii=False, indent=0).encode()


def stored_as(storage: StorageSettings) -> StorageEntries:
    """Return what a manifest records about how weights are stored: nothing if they are float32."""
    if storage.codec == "float32":
        return {}
    if storage.prune is None:
        return {"codec": storage.codec}
    return {"codec": storage.codec, "pruned": {"threshold": storage.prune}}


def storage_of(manifest: Manifest) -> StorageSettings:
    """Return the settings that a model's weights are stored with."""
    codec = manifest.get("codec", "float32")
    if codec == "sparse":
        return StorageSettings(prune=manifest["pruned"]["threshold"])
    return StorageSettings(None if codec == "float32" else codec)


def carried_over(manifest: Manifest) -> Description:
    """Return what a copy of a model keeps of its manifest: everything that is not about the files."""
    about_files = ("format", "format_version", "labeltree_version", "files", "crc32c")
    return cast(Description, {k: value for k, value in manifest.items() if k not in about_files})


def manifest_checksum(manifest: Mapping[str, Any]) -> int:
    """Return the CRC-32C of a manifest without its own checksum: as JSON with sorted keys, no spaces."""
    kept = {key: value for key, value in manifest.items() if key != "crc32c"}
    content = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    return _native.crc32c(np.frombuffer(content, np.uint8))


class ModelWriter:
    """A model directory that is being written, under a temporary name next to its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, FileEntry] = {}

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Write a small array and record its checksum."""
        target = self._place(name)
        np.save(target, array, allow_pickle=False)
        self._record(name)

    def write_text(self, name: str, content: bytes) -> None:
        """Write a file that is not an array and record its checksum."""
        self._place(name).write_bytes(content)
        self._record(name)

    def write_common(
        self, label_counts: NDArray[np.int64], label_names: tuple[str, ...] | None, text: TextSource | None
    ) -> None:
        """Write what the trees share: the labels, and how text becomes features."""
        self.write("label_counts.npy", label_counts)
        if label_names is not None:
            self.write_text("label_names.json", names_bytes(label_names))
        for name, content in (text.contents if text else {}).items():
            self.write_text(name, content)

    @contextmanager
    def reserve(self, name: str, spec: ArrayFile, exact: bool = True) -> Iterator[tuple[int, int]]:
        """Open an array to be filled in any order: file descriptor, and start of its data.

        The disk space is allocated at once, so that a full disk is reported before training. If the size is
        not exact but a bound, no space is allocated, and the array ends where the file does when it is
        complete.
        """
        header = spec.header
        with open(self._place(name), "wb+") as stream:
            stream.write(header)
            stream.flush()
            if exact:
                stream.truncate(spec.bytes)
                if hasattr(os, "posix_fallocate") and spec.bytes:
                    os.posix_fallocate(stream.fileno(), 0, spec.bytes)
            yield stream.fileno(), len(header)
            if not exact:
                n_bytes = os.fstat(stream.fileno()).st_size - len(header)
                spec = ArrayFile(spec.dtype, n_bytes // np.dtype(spec.dtype).itemsize)
                stream.seek(0)
                stream.write(spec.header)  # NumPy pads it to the same size for every length
        self._files[name] = {"bytes": spec.bytes}

    @contextmanager
    def grow(self, name: str, dtype: str) -> Iterator[BinaryIO]:
        """Open an array whose length is not known yet, to append its elements to."""
        start = len(ArrayFile(dtype, 0).header)
        with open(self._place(name), "wb") as stream:
            stream.seek(start)
            yield stream
            spec = ArrayFile(dtype, (stream.tell() - start) // np.dtype(dtype).itemsize)
            stream.seek(0)
            stream.write(spec.header)  # NumPy pads it to the same size for every length
        self._files[name] = {"bytes": spec.bytes}

    def finish(self, description: Description) -> None:
        """Write the manifest, which completes the directory."""
        content: Manifest = {
            "format": FORMAT,
            "format_version": 1 if description.get("codec", "float32") == "float32" else 2,
            "labeltree_version": __version__,
            **description,
            "files": self._files,
            "crc32c": 0,
        }
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


def read_manifest(path: Path) -> Manifest:
    """Read and check ``manifest.json``: whether this is a model, and one that this version can read."""
    if not path.exists():
        raise InputError("no such model directory", file=path, hint="check the path, or train a model first")
    if not path.is_dir():
        raise InputError("is a file, not a directory", file=path)
    if not (path / MANIFEST).is_file():
        raise InputError(f"not a model directory: it has no {MANIFEST}", file=path)
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(
            f"the manifest cannot be read ({error})", file=path / MANIFEST, hint=RESTORE
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError("not the manifest of a labeltree model", file=path / MANIFEST)
    version = manifest.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION or version < 1:
        raise InputError(
            f"the model has format version {version}, but only versions up to {FORMAT_VERSION} are supported",
            file=path,
            hint="install a newer version of labeltree",
        )
    if manifest.get("crc32c") != manifest_checksum(manifest):
        raise InputError("checksum mismatch: the file is damaged", file=path / MANIFEST, hint=RESTORE)
    return cast(Manifest, manifest)


class ModelReader:
    """The files of a complete model directory, each checked when it is read."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self._files = manifest["files"]
        if not all(isinstance(entry["bytes"], int) for entry in self._files.values()):
            raise TypeError("the size of a file is not a number")

    def _checked(self, name: str) -> Path:
        target = self.path / name
        expected = self._files.get(name)
        if expected is None:
            raise InputError(f"{name} is not listed", file=self.path / MANIFEST, hint=RESTORE)
        if not target.is_file():
            raise InputError("the file is missing from the model", file=target, hint=RESTORE)
        size = target.stat().st_size
        if size != expected["bytes"]:
            raise InputError(
                f"the file has {size:,} bytes, but the manifest records {expected['bytes']:,}",
                file=target,
                hint=RESTORE,
            )
        if "crc32c" in expected and _native.crc32c(np.fromfile(target, np.uint8)) != expected["crc32c"]:
            raise InputError("checksum mismatch: the file is damaged", file=target, hint=RESTORE)
        return target

    def array(self, name: str, dtype: str, length: int, *, mapped: bool = False) -> NDArray[Any]:
        """Read, or map, an array that must have this type and length."""
        target = self._checked(name)
        try:
            array = np.load(target, mmap_mode="r" if mapped and length else None, allow_pickle=False)
        except Exception as error:  # NumPy parses the header as Python, which can raise nearly anything
            raise InputError(f"not a NumPy array ({error})", file=target, hint=RESTORE) from None
        if isinstance(array, np.memmap) and array.offset + array.nbytes != target.stat().st_size:
            raise InputError("the header is damaged", file=target, hint=RESTORE)
        if array.dtype != np.dtype(dtype) or array.shape != (length,):
            raise InputError(
                f"the array is {array.dtype}{list(array.shape)}, expected {np.dtype(dtype)}[{length}]",
                file=target,
                hint=RESTORE,
            )
        return np.asarray(array)

    def text(self, name: str) -> bytes:
        """Read a file that is not an array."""
        return self._checked(name).read_bytes()
