"""The manifest of a model directory: every entry with its limit, and whether this version can read it."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from labeltree import _native
from labeltree.base import limits
from labeltree.base.json import parse_json
from labeltree.base.limits import OneOf, Optional, Value, Whole, checked
from labeltree.errors import InputError
from labeltree.evaluation.accepted import DECISION_LIMITS
from labeltree.evaluation.calibration import CALIBRATION_LIMITS, Calibration
from labeltree.evaluation.sketch import SKETCH_LIMITS
from labeltree.model import layout
from labeltree.settings import SCORE_LIMITS, SOLVER_LIMITS, StorageSettings

FORMAT = "labeltree model"
FORMAT_VERSION = 1
# What to do about a model whose files are damaged.
RESTORE = "restore the model from a copy, or train it again"


class VersionError(InputError):
    """The model has a format version that this version of labeltree cannot read."""


# The content of ``manifest.json``; `_MANIFEST` declares every entry, docs/model-format.md describes it.
Manifest: TypeAlias = dict[str, Any]


def _typed(kind: type, expected: str) -> Value:
    return Value(expected, lambda value: value if type(value) is kind else None)


def _strings(value: Any) -> Any:
    return value if type(value) is list and all(type(item) is str for item in value) else None


def _array_type(value: Any) -> Any:
    """Return the type of an array as NumPy writes it, or None if it is not one."""
    pattern = r"O|\|[biu]1|[<>][iufUM][0-9]{1,9}(\[[a-z]+\])?"
    return value if type(value) is str and re.fullmatch(pattern, value) else None


@dataclass(frozen=True)
class _Entries:
    """An object with these entries, of which the optional ones may be missing."""

    required: Mapping[str, Any] = field(default_factory=dict)
    optional: Mapping[str, Any] = field(default_factory=dict)
    is_closed: bool = True  # no others


_OBJECT = _typed(dict, "an object")
_LIST = _typed(list, "a list")
_COUNT = Whole(1, limits.LARGEST_COUNT)
_TOTAL = Whole(0, 2**63 - 1)
_TREE = _Entries({"nodes": _COUNT, "depth": limits.TREE_DEPTH}, is_closed=False)
_LARGE_FILE = _Entries({"bytes": _TOTAL})
_SMALL_FILE = _Entries({"bytes": _TOTAL, "crc32c": Whole(0, 2**32 - 1)})
_ESTIMATOR = {
    "parameters": _OBJECT,
    "classes": Optional(Value("the type of an array such as '<i8'", _array_type)),
    "single": limits.FLAG,
    "feature_names": Optional(Value("a list of strings", _strings)),
    "given_tree": limits.FLAG,
}
# Older models do not have these.
_LATER = ("hard_negatives", "foreign_cost", "path_weight")


def _entries(all_limits: Mapping[str, Any], is_closed: bool = True) -> _Entries:
    later = {name: limit for name, limit in all_limits.items() if name in _LATER}
    return _Entries({n: limit for n, limit in all_limits.items() if n not in later}, later, is_closed)


# Further entries, which `Model.save` can add, may contain anything.
_MANIFEST = _Entries(
    {
        "labeltree_version": _typed(str, "a string"),
        "instances": _COUNT,
        "features": Whole(0, limits.LARGEST_COUNT),
        "labels": _COUNT,
        "one_based": Optional(limits.FLAG),
        "normalized": limits.FLAG,
        "codec": OneOf(layout.CODECS),
        "trees": _LIST,
        "weights": _TOTAL,
        "settings": _entries({**SOLVER_LIMITS, "cost": limits.COST}, is_closed=False),
        "score": _entries(SCORE_LIMITS),
        "not_converged": _TOTAL,
        "notes": _OBJECT,
        "files": _OBJECT,
    },
    {
        "pruned": _Entries({"threshold": limits.PRUNE}),
        "decision": _Entries(DECISION_LIMITS),
        "calibration": _Entries(CALIBRATION_LIMITS),
        "row_sketch": _Entries(SKETCH_LIMITS),
        "estimator": _Entries(optional=_ESTIMATOR, is_closed=False),
    },
    is_closed=False,
)


def _check_entries(manifest: Manifest) -> None:
    """Check every entry of a manifest, except its checksum; errors do not name the file."""
    _check("", manifest, _MANIFEST)
    for number, tree in enumerate(manifest["trees"]):
        _check(f"trees[{number}]", tree, _TREE)
    checked("the number of trees", len(manifest["trees"]), limits.TREES)
    Calibration.stored(manifest.get("calibration"))
    if ("pruned" in manifest) != (manifest["codec"] == layout.SPARSE):
        raise InputError("sparse models have the entry pruned, and only these")
    names = manifest.get("estimator", {}).get("feature_names")
    if names is not None and len(names) != manifest["features"]:
        raise InputError(f"there are {len(names):,} feature names for {manifest['features']:,} features")
    # The files of a model and no others, so that no name leads elsewhere.
    files, codec = manifest["files"], manifest["codec"]
    folders = [layout.tree_folder(t) for t in range(len(manifest["trees"]))]
    is_large = {
        f"{folder}/{file.name}": file.is_large for folder in folders for file in layout.tree_files(codec)
    }
    required = [layout.LABEL_COUNTS, *is_large]
    if not files.keys().isdisjoint(layout.TEXT_FILES):
        required += layout.TEXT_FILES
    for name in required:
        if name not in files:
            raise InputError(f"{name} is not listed")
    unknown = files.keys() - set(required) - {layout.LABEL_NAMES, layout.THRESHOLDS}
    if unknown:
        raise InputError(f"{min(unknown)!r} is listed, which is not a file of a model")
    if layout.THRESHOLDS in files and "decision" not in manifest:
        raise InputError(f"{layout.THRESHOLDS} is listed, but there is no decision")
    for name, entry in files.items():
        _check(f"files[{name!r}]", entry, _LARGE_FILE if is_large.get(name) else _SMALL_FILE)


def _check(name: str, value: Any, declared: Any) -> None:
    """Check a value and all that it contains."""
    if isinstance(declared, _Entries):
        found = checked(name, value, _OBJECT)
        prefix = f"{name}." if name else ""
        for key, limit in {**declared.required, **declared.optional}.items():
            if key in found:
                _check(prefix + key, found[key], limit)
            elif key in declared.required:
                raise InputError(f"{prefix}{key} is missing")
        unknown = found.keys() - declared.required.keys() - declared.optional.keys()
        if declared.is_closed and unknown:
            raise InputError(f"{prefix}{min(unknown)!r} is not known")
    else:
        checked(name, value, declared)


def stored_as(storage: StorageSettings) -> dict[str, Any]:
    """Return what a manifest records about how weights are stored."""
    pruned = {} if storage.prune is None else {"pruned": {"threshold": storage.prune}}
    return {"codec": storage.codec, **pruned}


def storage_of(manifest: Manifest) -> StorageSettings:
    """Return the settings that a model's weights are stored with."""
    if manifest["codec"] == layout.SPARSE:
        return StorageSettings(prune=manifest["pruned"]["threshold"])
    return StorageSettings(None if manifest["codec"] == "float32" else manifest["codec"])


def carried_over(manifest: Manifest) -> Manifest:
    """Return what a copy of a model keeps of its manifest: everything that is not about the files."""
    about_files = ("format", "format_version", "labeltree_version", "files", "crc32c")
    return {key: value for key, value in manifest.items() if key not in about_files}


def manifest_checksum(manifest: Mapping[str, Any]) -> int:
    """Return the CRC-32C of a manifest without its own checksum: as JSON with sorted keys, no spaces."""
    kept = {key: value for key, value in manifest.items() if key != "crc32c"}
    content = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    return _native.crc32c(np.frombuffer(content, np.uint8))


def parse_manifest(content: bytes, path: Path) -> Manifest:
    """Check the content of ``manifest.json``: whether this is a model, and one that this version can read.

    `path` is the model directory, for messages.
    """
    file = path / layout.MANIFEST
    try:
        manifest = parse_json(content)
        checksum = manifest_checksum(manifest) if isinstance(manifest, dict) else 0
    except (ValueError, RecursionError) as error:
        raise InputError(f"the manifest cannot be read ({error})", file=file, hint=RESTORE) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError("not the manifest of a labeltree model", file=file)
    version = manifest.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        what = f"the model has format version {reprlib.repr(version)}, but only version {FORMAT_VERSION} is"
        raise VersionError(f"{what} supported", file=path, hint="install a newer version of labeltree")
    if type(manifest.get("crc32c")) is not int or manifest["crc32c"] != checksum:
        raise InputError("checksum mismatch: the file is damaged", file=file, hint=RESTORE)
    try:
        _check_entries(manifest)
    except InputError as error:
        raise error.replace(file=file, hint=RESTORE) from None
    return manifest
