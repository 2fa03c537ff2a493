"""Writing the files of a model directory, which appears once it is complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree._version import __version__
from labeltree.data.tfidf import TextFeatures
from labeltree.errors import InputError
from labeltree.evaluation.accepted import Decision
from labeltree.evaluation.calibration import Calibration
from labeltree.model.directory import check_target, publish, read_manifest, reports, temporary_directory
from labeltree.model.layout import LABEL_COUNTS, LABEL_NAMES, MANIFEST, THRESHOLDS, ArrayFile
from labeltree.model.manifest import FORMAT, FORMAT_VERSION, Manifest, carried_over, manifest_checksum


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
    path: Path, manifest: Manifest, decision: Decision | None, calibration: Calibration | None
) -> None:
    """Replace a model directory by one with the same files, and another decision and calibration.

    Reports and the card are kept. The files are linked, or copied where the file system has no links. A model
    that has another manifest by now is not replaced.
    """
    place = Path(os.path.realpath(path))
    kept = reports(place)
    check_target(place, True, kept)
    described = decided(carried_over(manifest), decision, calibration)
    with temporary_directory(place) as work:
        writer = ModelWriter(work)
        for name, entry in manifest["files"].items():
            if name != THRESHOLDS:
                _link(place / name, writer.place(name))
                writer.adopt(name, entry)
        for name in kept:
            _link(place / name, work / name)
        if decision is not None and decision.thresholds is not None:
            writer.write(THRESHOLDS, decision.thresholds)
        writer.finish(described)
        if read_manifest(place)["crc32c"] != manifest["crc32c"]:
            what = "the model was replaced while its thresholds were chosen, so nothing was stored"
            raise InputError(what, file=path, hint="run the command again")
        publish(work, place, overwrite=True)


def decided(manifest: Manifest, decision: Decision | None, calibration: Calibration | None) -> Manifest:
    """Return a manifest with another decision and calibration."""
    own = None if decision is None else decision.thresholds
    if own is not None and own.shape != (manifest["labels"],):
        what = f"there are thresholds of shape {own.shape}"
        raise InputError(f"{what} for {manifest['labels']:,} labels")
    entries = {"decision": decision, "calibration": calibration}
    kept = {key: value for key, value in manifest.items() if key not in entries}
    return {**kept, **{key: value.entry() for key, value in entries.items() if value is not None}}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # no links here, or not to files of others
        shutil.copyfile(source, target)
