"""The settings file: arguments of `labeltree train` as JSON, written by `labeltree tune` or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labeltree.base import limits
from labeltree.base.json import parse_json
from labeltree.errors import InputError
from labeltree.settings import TEXT_LIMITS, TRAINING_LIMITS


def _strings(value: Any) -> str | list[str] | None:
    if isinstance(value, str):
        return value
    return value if isinstance(value, list) and value and all(isinstance(v, str) for v in value) else None


_STRING = limits.Value("a string", lambda value: value if isinstance(value, str) else None)
_STRINGS = limits.Value("a string or a list of strings", _strings)
# How data is read.
READING: dict[str, limits.Limit] = {
    "text": _STRINGS,
    "labels": _STRING,
    "separator": _STRINGS,
    "delimiter": _STRING,
    "format": limits.DATA_FORMAT,
    "one_based": limits.FLAG,
    "strict": limits.FLAG,
    "min_label_count": limits.Whole(1),
}
_UNSET = (("strict", False), ("min_label_count", 1))
# Everything that a settings file may contain. The names are those of the library, as in
# ``labeltree.train(data, **settings)``. A tree is given as a file of its own.
KEYS: dict[str, limits.Limit] = {
    **READING,
    **{name: limit for name, limit in TRAINING_LIMITS.items() if name != "tree"},
    "normalize": limits.FLAG,
    "max_size": limits.Optional(limits.MAX_SIZE),
    "score": limits.STORED_SCORE,
    "score_scale": limits.Optional(limits.SCORE_SCALE),
    **TEXT_LIMITS,
    "stop_words": limits.OneOf(("english",)),
}


def reading_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return how data is read as settings: what was given, lists of one string as this string.

    Examples
    --------
    >>> reading_settings({"text": ["title"], "separator": None, "strict": False, "one_based": False})
    {'text': 'title', 'one_based': False}
    """
    found = {}
    for name in READING:
        value = given.get(name)
        if isinstance(value, list | tuple):
            value = value[0] if len(value) == 1 else list(value)
        if value is not None and (name, value) not in _UNSET:
            found[name] = value
    return found


def read_settings(path: Path | str) -> dict[str, Any]:
    """Read a settings file; every value is checked as the option of the same name is.

    Values are plain objects by the names of the library. What the file leaves out, or gives as null, is not
    among them.
    """
    try:
        content = parse_json(Path(path).read_bytes())
    except FileNotFoundError:
        raise InputError("no such file", file=path) from None
    except ValueError as error:
        hint = 'write an object such as {"clusters": 50, "cost": 2}'
        raise InputError(f"the settings are not valid JSON ({error})", file=path, hint=hint) from None
    if not isinstance(content, dict):
        raise InputError("the settings are not a JSON object", file=path, hint="write the names and values")
    found = {}
    for name, value in content.items():
        if name not in KEYS:
            what, hint = f"there is no setting named {name!r}", f"use only {', '.join(sorted(KEYS))}"
            raise InputError(what, file=path, hint=hint)
        if value is None:
            continue
        try:
            found[name] = limits.checked(name, value, KEYS[name])
        except InputError as error:
            raise error.replace(file=str(path)) from None
    return found
