"""The manifest of a model directory: what it records, and whether this version can read it."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from labeltree import _native
from labeltree.base.json import parse_json
from labeltree.errors import InputError
from labeltree.model.opened import ModelDirectory
from labeltree.model.schema import check_manifest
from labeltree.settings import StorageSettings

FORMAT = "labeltree model"
# The newest version. A model has the lowest version that describes it.
FORMAT_VERSION = 3
MANIFEST = "manifest.json"
# The thresholds of labels; not among the files, but in the entry "decision".
THRESHOLDS_FILE = "thresholds.npy"
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


class DecisionEntry(TypedDict, total=False):
    """What a manifest records about the labels to accept: the fields of `labeltree.decisions.Decision`.

    The thresholds of labels are in a file of their own.
    """

    threshold: float
    metric: str
    target: float | None
    rows: int
    held_out: bool
    thresholds: FileEntry


class CalibrationEntry(TypedDict):
    """What a manifest records about calibration: the fields of `labeltree.calibration.Calibration`."""

    scores: list[float]
    probabilities: list[float]


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
    normalized: bool
    not_converged: int
    notes: dict[str, Any]
    score: ScoreEntry
    decision: DecisionEntry
    calibration: CalibrationEntry
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


def version_of(description: Mapping[str, Any]) -> int:
    """Return the lowest format version that describes a model: 3 if its queries are scaled to length 1."""
    if description.get("normalized"):
        return 3
    return 1 if description.get("codec", "float32") == "float32" else 2


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


def all_files(manifest: Manifest) -> dict[str, FileEntry]:
    """Return every file of a model with its entry."""
    own = manifest.get("decision", {}).get("thresholds")
    return {**manifest["files"], **({} if own is None else {THRESHOLDS_FILE: own})}


def carried_over(manifest: Manifest) -> Description:
    """Return what a copy of a model keeps of its manifest: everything that is not about the files."""
    about_files = ("format", "format_version", "labeltree_version", "files", "crc32c")
    return cast(Description, {k: value for k, value in manifest.items() if k not in about_files})


def manifest_checksum(manifest: Mapping[str, Any]) -> int:
    """Return the CRC-32C of a manifest without its own checksum: as JSON with sorted keys, no spaces."""
    kept = {key: value for key, value in manifest.items() if key != "crc32c"}
    content = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    return _native.crc32c(np.frombuffer(content, np.uint8))


def read_manifest(path: Path, directory: ModelDirectory | None = None) -> Manifest:
    """Read and check ``manifest.json``: whether this is a model, and one that this version can read.

    It is read from `directory`, the open directory of this path, if given.
    """
    if directory is None:
        with ModelDirectory(path) as opened:
            return read_manifest(path, opened)
    try:
        with directory.open(MANIFEST) as stream:
            manifest = parse_json(stream.read())
        checksum = manifest_checksum(manifest) if isinstance(manifest, dict) else 0
    except FileNotFoundError:
        raise InputError(f"not a model directory: it has no {MANIFEST}", file=path) from None
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(
            f"the manifest cannot be read ({error})", file=path / MANIFEST, hint=RESTORE
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError("not the manifest of a labeltree model", file=path / MANIFEST)
    version = manifest.get("format_version")
    if type(version) is not int or version > FORMAT_VERSION or version < 1:
        raise InputError(
            f"the model has format version {reprlib.repr(version)}, but only versions up to {FORMAT_VERSION} "
            "are supported",
            file=path,
            hint="install a newer version of labeltree",
        )
    if type(manifest.get("crc32c")) is not int or manifest["crc32c"] != checksum:
        raise InputError("checksum mismatch: the file is damaged", file=path / MANIFEST, hint=RESTORE)
    try:
        check_manifest(manifest)
    except InputError as error:
        raise error.replace(file=path / MANIFEST, hint=RESTORE) from None
    return cast(Manifest, manifest)
