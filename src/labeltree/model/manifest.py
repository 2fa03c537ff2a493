"""The manifest of a model directory: every entry with its limit, and whether this version can read it."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from labeltree import _native
from labeltree.base import limits
from labeltree.base.json import parse_json
from labeltree.base.limits import Limit, OneOf, Optional, Whole, checked
from labeltree.errors import InputError
from labeltree.model.layout import (
    CODECS,
    LABEL_COUNTS,
    LABEL_NAMES,
    MANIFEST,
    SPARSE,
    TEXT_FILES,
    THRESHOLDS,
    tree_files,
    tree_folder,
)
from labeltree.settings import SOLVER_LIMITS, StorageSettings

FORMAT = "labeltree model"
FORMAT_VERSION = 1
# What to do about a model whose files are damaged.
RESTORE = "restore the model from a copy, or train it again"


class VersionError(InputError):
    """The model has a format version that this version of labeltree cannot read."""


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


class PrunedEntry(TypedDict):
    """What a manifest records about pruning."""

    threshold: float


class DecisionEntry(TypedDict, total=False):
    """What a manifest records about the labels to accept: the fields of `labeltree.decisions.Decision`.

    Thresholds of labels are in a file of their own.
    """

    threshold: float
    metric: str
    target: float | None
    rows: int
    held_out: bool


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


class _Optional(TypedDict, total=False):
    pruned: PrunedEntry
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
    one_based: bool | None
    normalized: bool
    codec: str
    trees: list[TreeEntry]
    weights: int
    settings: dict[str, Any]
    score: ScoreEntry
    not_converged: int
    notes: dict[str, Any]


class Manifest(Description):
    """The content of ``manifest.json``; docs/model-format.md describes every key."""

    format: str
    format_version: int
    labeltree_version: str
    files: dict[str, FileEntry]
    crc32c: int


@dataclass(frozen=True)
class _Typed:
    """Any value of a JSON type."""

    kind: type
    expected: str

    def plain(self, value: Any) -> Any:
        return value if type(value) is self.kind else None


@dataclass(frozen=True)
class _Strings:
    """A list of strings."""

    expected: str = "a list of strings"

    def plain(self, value: Any) -> list[str] | None:
        return value if type(value) is list and all(type(item) is str for item in value) else None


@dataclass(frozen=True)
class _ArrayType:
    """The type of an array of classes, as NumPy writes it."""

    expected: str = "the type of an array such as '<i8'"

    def plain(self, value: Any) -> str | None:
        known = type(value) is str and re.fullmatch(r"O|\|[biu]1|[<>][iufUM][0-9]{1,9}(\[[a-z]+\])?", value)
        return value if known else None


_TEXT = _Typed(str, "a string")
_OBJECT = _Typed(dict, "an object")
_LIST = _Typed(list, "a list")
_COUNT = Whole(1, limits.LARGEST_COUNT)
_TOTAL = Whole(0, 2**63 - 1)
_CHECKSUM = Whole(0, 2**32 - 1)

_ENTRIES: dict[str, Limit] = {
    "labeltree_version": _TEXT,
    "instances": _COUNT,
    "features": Whole(0, limits.LARGEST_COUNT),
    "labels": _COUNT,
    "one_based": Optional(limits.FLAG),
    "normalized": limits.FLAG,
    "codec": OneOf(CODECS),
    "trees": _LIST,
    "weights": _TOTAL,
    "settings": _OBJECT,
    "score": _OBJECT,
    "not_converged": _TOTAL,
    "notes": _OBJECT,
    "files": _OBJECT,
}
_OPTIONAL: dict[str, Limit] = dict.fromkeys(("pruned", "decision", "calibration", "estimator"), _OBJECT)
_TREE: dict[str, Limit] = {"nodes": _COUNT, "depth": limits.TREE_DEPTH}
_SETTINGS: dict[str, Limit] = {**SOLVER_LIMITS, "bias": limits.BIAS, "cost": limits.COST}
_SCORE: dict[str, Limit] = {"function": limits.SCORE, "scale": limits.SCORE_SCALE}
# The fields of `Decision`.
_DECISION: dict[str, Limit] = {
    "threshold": limits.THRESHOLD,
    "metric": limits.DECISION_METRIC,
    "target": Optional(limits.TARGET),
    "rows": limits.DECISION_ROWS,
    "held_out": limits.FLAG,
}
_PRUNED: dict[str, Limit] = {"threshold": limits.PRUNE}
_ESTIMATOR: dict[str, Limit] = {
    "parameters": _OBJECT,
    "classes": Optional(_ArrayType()),
    "single": limits.FLAG,
    "feature_names": Optional(_Strings()),
    "given_tree": limits.FLAG,
}


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Check every entry of a manifest, except its checksum.

    Further entries, which `Model.save` can add, may contain anything.

    Raises
    ------
    InputError
        If an entry is missing, or not what labeltree writes. The error does not name the file.
    """
    _check(manifest, "", _ENTRIES, _OPTIONAL)
    checked("the number of trees", len(manifest["trees"]), limits.TREES)
    for t, tree in enumerate(manifest["trees"]):
        _check(_object(f"trees[{t}]", tree), f"trees[{t}].", _TREE, {})
    _check(manifest["settings"], "settings.", _SETTINGS, {})
    _check(manifest["score"], "score.", _SCORE, {}, closed=True)
    if "decision" in manifest:
        _check(manifest["decision"], "decision.", _DECISION, {}, closed=True)
    if "calibration" in manifest:
        calibration = manifest["calibration"]
        _check(calibration, "calibration.", limits.CALIBRATION, {}, closed=True)
        limits.check_calibration(calibration["scores"], calibration["probabilities"])
    if ("pruned" in manifest) != (manifest["codec"] == SPARSE):
        raise InputError("sparse models have the entry pruned, and only these")
    if "pruned" in manifest:
        _check(manifest["pruned"], "pruned.", _PRUNED, {}, closed=True)
    about = manifest.get("estimator", {})
    _check(about, "estimator.", {}, _ESTIMATOR)
    names = about.get("feature_names")
    if names is not None and len(names) != manifest["features"]:
        raise InputError(f"there are {len(names):,} feature names for {manifest['features']:,} features")
    _check_files(manifest)


def _check(
    found: Mapping[str, Any],
    prefix: str,
    required: Mapping[str, Limit],
    optional: Mapping[str, Limit],
    *,
    closed: bool = False,
) -> None:
    """Check the entries of an object; if it is closed, it may not have others."""
    for name, limit in required.items():
        if name not in found:
            raise InputError(f"{prefix}{name} is missing")
        checked(prefix + name, found[name], limit)
    for name, limit in optional.items():
        if name in found:
            checked(prefix + name, found[name], limit)
    unknown = found.keys() - required.keys() - optional.keys()
    if closed and unknown:
        raise InputError(f"{prefix}{min(unknown)!r} is not known")


def _object(name: str, value: Any) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = checked(name, value, _OBJECT)
    return entry


def _check_files(manifest: Mapping[str, Any]) -> None:
    """Check that a manifest lists the files of a model and no others, so that no name leads elsewhere."""
    files, codec = manifest["files"], manifest["codec"]
    folders = [tree_folder(t) for t in range(len(manifest["trees"]))]
    is_large = {f"{folder}/{file.name}": file.is_large for folder in folders for file in tree_files(codec)}
    required = [LABEL_COUNTS, *is_large]
    if not files.keys().isdisjoint(TEXT_FILES):
        required += TEXT_FILES
    for name in required:
        if name not in files:
            raise InputError(f"{name} is not listed")
    unknown = files.keys() - set(required) - {LABEL_NAMES, THRESHOLDS}
    if unknown:
        raise InputError(f"{min(unknown)!r} is listed, which is not a file of a model")
    if THRESHOLDS in files and "decision" not in manifest:
        raise InputError(f"{THRESHOLDS} is listed, but there is no decision")
    for name, entry in files.items():
        fields: dict[str, Limit] = {"bytes": _TOTAL, "crc32c": _CHECKSUM}
        if is_large.get(name):
            del fields["crc32c"]
        _check(_object(f"files[{name!r}]", entry), f"files[{name!r}].", fields, {}, closed=True)


def stored_as(storage: StorageSettings) -> dict[str, Any]:
    """Return what a manifest records about how weights are stored."""
    pruned = {} if storage.prune is None else {"pruned": {"threshold": storage.prune}}
    return {"codec": storage.codec, **pruned}


def storage_of(manifest: Manifest) -> StorageSettings:
    """Return the settings that a model's weights are stored with."""
    if manifest["codec"] == SPARSE:
        return StorageSettings(prune=manifest["pruned"]["threshold"])
    return StorageSettings(None if manifest["codec"] == "float32" else manifest["codec"])


def carried_over(manifest: Manifest) -> Description:
    """Return what a copy of a model keeps of its manifest: everything that is not about the files."""
    about_files = ("format", "format_version", "labeltree_version", "files", "crc32c")
    return cast(Description, {k: value for k, value in manifest.items() if k not in about_files})


def manifest_checksum(manifest: Mapping[str, Any]) -> int:
    """Return the CRC-32C of a manifest without its own checksum: as JSON with sorted keys, no spaces."""
    kept = {key: value for key, value in manifest.items() if key != "crc32c"}
    content = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    return _native.crc32c(np.frombuffer(content, np.uint8))


def parse_manifest(content: bytes, path: Path) -> Manifest:
    """Check the content of ``manifest.json``: whether this is a model, and one that this version can read.

    `path` is the model directory, for messages.
    """
    try:
        manifest = parse_json(content)
        checksum = manifest_checksum(manifest) if isinstance(manifest, dict) else 0
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"the manifest cannot be read ({error})", file=path / MANIFEST, hint=RESTORE
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError("not the manifest of a labeltree model", file=path / MANIFEST)
    version = manifest.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        what = f"the model has format version {reprlib.repr(version)}, but only version {FORMAT_VERSION} is"
        raise VersionError(f"{what} supported", file=path, hint="install a newer version of labeltree")
    if type(manifest.get("crc32c")) is not int or manifest["crc32c"] != checksum:
        raise InputError("checksum mismatch: the file is damaged", file=path / MANIFEST, hint=RESTORE)
    try:
        check_manifest(manifest)
    except InputError as error:
        raise error.replace(file=path / MANIFEST, hint=RESTORE) from None
    return cast(Manifest, manifest)
