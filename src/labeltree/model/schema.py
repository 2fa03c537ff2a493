"""The schema of a manifest: the type and range of every entry, and the files that it must list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labeltree import _native
from labeltree.base import limits
from labeltree.base.limits import Limit, OneOf, Optional, Whole, checked
from labeltree.errors import InputError
from labeltree.settings import SOLVER_LIMITS

# The files of each tree, and those that depend on the codec. The first two are large: they have a checksum
# per block instead of one in the manifest.
_LARGE_FILES = ("features.npy", "weights.npy")
_TREE_FILES = (*_LARGE_FILES, "child_ptr.npy", "children.npy", "feature_ptr.npy", "checksums.npy")
_SCALED_FILES = ("scales.npy", "biases.npy")
_TEXT_FILES = ("text/settings.json", "text/terms.json", "text/idf.npy")


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

_REQUIRED: dict[str, Limit] = {
    "labeltree_version": _TEXT,
    "instances": _COUNT,
    "features": Whole(0, limits.LARGEST_COUNT),
    "labels": _COUNT,
    "trees": _LIST,
    "weights": _TOTAL,
    "settings": _OBJECT,
    "files": _OBJECT,
}
_OPTIONAL: dict[str, Limit] = {
    "one_based": Optional(limits.FLAG),
    "normalized": limits.FLAG,
    "codec": OneOf(tuple(_native.CODECS)),
    "score": _OBJECT,
    "decision": _OBJECT,
    "calibration": _OBJECT,
    "not_converged": _TOTAL,
    "notes": _OBJECT,
    "pruned": _OBJECT,
    "estimator": _OBJECT,
}
_TREE: dict[str, Limit] = {"nodes": _COUNT, "depth": limits.TREE_DEPTH}
_SCORE: dict[str, Limit] = {"function": limits.SCORE, "scale": limits.SCORE_SCALE}
# The fields of `labeltree.decisions.Decision`.
_DECISION: dict[str, Limit] = {"threshold": limits.THRESHOLD, "metric": limits.DECISION_METRIC}
_MORE_OF_DECISION: dict[str, Limit] = {
    "target": Optional(limits.TARGET),
    "rows": limits.DECISION_ROWS,
    "held_out": limits.FLAG,
    "thresholds": _OBJECT,
}
_PRUNED: dict[str, Limit] = dict.fromkeys(
    ("bytes_before", "weights", "nonzeros_before", "nonzeros_after"), _TOTAL
)
_ESTIMATOR: dict[str, Limit] = {
    "parameters": _OBJECT,
    "classes": Optional(_ArrayType()),
    "single": limits.FLAG,
    "feature_names": Optional(_Strings()),
    "given_tree": limits.FLAG,
}


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Check every entry of a manifest of a known format version, except its checksum.

    Further entries, which `Model.save` can add, may contain anything.

    Raises
    ------
    InputError
        If an entry is missing, or not what labeltree writes. The error does not name the file.
    """
    _check(manifest, "", _REQUIRED, _OPTIONAL)
    codec = manifest.get("codec", "float32")
    version, normalized = manifest["format_version"], manifest.get("normalized", False)
    if (version == 3) != normalized:
        scaled = "scaled rows" if normalized else "rows that are not scaled"
        raise InputError(f"format version {version} does not have {scaled}")
    if version < 3 and (version == 1) != (codec == "float32"):
        raise InputError(f"format version {version} does not have {codec} weights")
    checked("the number of trees", len(manifest["trees"]), limits.TREES)
    for t, tree in enumerate(manifest["trees"]):
        _check(_object(f"trees[{t}]", tree), f"trees[{t}].", _TREE, {})
    solver = {name: limit for name, limit in SOLVER_LIMITS.items() if name != "bias"}
    _check(manifest["settings"], "settings.", {"bias": limits.BIAS}, {**solver, "cost": limits.COST})
    _check(manifest.get("score", {}), "score.", {}, _SCORE, closed=True)
    _check_decision(manifest)
    if "pruned" in manifest or codec == "sparse":
        entry = _object("pruned", manifest.get("pruned"))
        _check(entry, "pruned.", {"threshold": limits.PRUNE}, _PRUNED, closed=True)
    _check_estimator(manifest)
    _check_files(manifest["files"], len(manifest["trees"]), codec)


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


def _check_decision(manifest: Mapping[str, Any]) -> None:
    if "decision" in manifest:
        decision = manifest["decision"]
        _check(decision, "decision.", _DECISION, _MORE_OF_DECISION, closed=True)
        if "thresholds" in decision:
            fields: dict[str, Limit] = {"bytes": _TOTAL, "crc32c": _CHECKSUM}
            _check(decision["thresholds"], "decision.thresholds.", fields, {}, closed=True)
    if "calibration" in manifest:
        calibration = manifest["calibration"]
        _check(calibration, "calibration.", limits.CALIBRATION, {}, closed=True)
        limits.check_calibration(calibration["scores"], calibration["probabilities"])


def _check_estimator(manifest: Mapping[str, Any]) -> None:
    about = manifest.get("estimator", {})
    _check(about, "estimator.", {}, _ESTIMATOR)
    names = about.get("feature_names")
    if names is not None and len(names) != manifest["features"]:
        raise InputError(f"there are {len(names):,} feature names for {manifest['features']:,} features")


def _check_files(files: Mapping[str, Any], n_trees: int, codec: str) -> None:
    """Check that a manifest lists the files of a model and no others, so that no name leads elsewhere."""
    of_tree = [*_TREE_FILES, *(_SCALED_FILES if codec != "float32" else ())]
    of_tree += ["weight_ptr.npy"] if codec == "sparse" else []
    required = ["label_counts.npy", *(f"tree-{t}/{name}" for t in range(n_trees) for name in of_tree)]
    if not files.keys().isdisjoint(_TEXT_FILES):
        required += _TEXT_FILES
    for name in required:
        if name not in files:
            raise InputError(f"{name} is not listed")
    unknown = files.keys() - set(required) - {"label_names.json"}
    if unknown:
        raise InputError(f"{min(unknown)!r} is listed, which is not a file of a model")
    for name, entry in files.items():
        large = name.endswith(_LARGE_FILES) and name.startswith("tree-")
        fields: dict[str, Limit] = {"bytes": _TOTAL} if large else {"bytes": _TOTAL, "crc32c": _CHECKSUM}
        _check(_object(f"files[{name!r}]", entry), f"files[{name!r}].", fields, {}, closed=True)
