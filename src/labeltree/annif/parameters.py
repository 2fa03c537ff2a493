"""The parameters of a project: their names, defaults and limits, and values written as text."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from labeltree.base import limits
from labeltree.settings import (
    DEFAULT_BEAM,
    TRAINING_LIMITS,
    SolverSettings,
    StorageSettings,
    TextSettings,
    TreeSettings,
)

# The settings of `labeltree.train`; a tree cannot be written in a line of a configuration file.
TRAINING = {name: limit for name, limit in TRAINING_LIMITS.items() if name != "tree"}
_DEFAULTS = {**vars(TreeSettings()), **vars(SolverSettings()), **vars(StorageSettings())}
# Those that Annif's other backends have too keep Annif's names.
LIMITS: dict[str, limits.Limit] = {
    "limit": limits.TOP,
    "min_df": limits.MIN_DF,
    "ngram": limits.Whole(1),
    "sublinear": limits.FLAG,
    **TRAINING,
    "beam": limits.BEAM,
}
DEFAULTS: dict[str, Any] = {
    "limit": 100,
    "min_df": TextSettings.min_df,
    "ngram": TextSettings.ngrams[1],
    "sublinear": TextSettings.sublinear,
    **{name: _DEFAULTS[name] for name in TRAINING},
    "beam": DEFAULT_BEAM,
}
_FLAGS = dict.fromkeys(("1", "yes", "true", "on"), True) | dict.fromkeys(("0", "no", "false", "off"), False)


def parse(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters of a project.

    Parameters
    ----------
    given : mapping of str to object
        A section of projects.cfg, whose values are text, or of projects.toml. Other keys are ignored.

    Returns
    -------
    dict of str to object
        A value for each parameter, as in `DEFAULTS`.

    Examples
    --------
    >>> parse({"clusters": "20", "prune": "0.05", "language": "en"})["clusters"]
    20
    """
    found = dict(DEFAULTS)
    for name, limit in LIMITS.items():
        value = given.get(name)
        if isinstance(value, str):
            value = _from_text(value.strip(), limit)
        if value is not None:
            found[name] = limits.checked(name, value, limit)
    StorageSettings(found["weights"], found["prune"])  # checks that they go together
    return found


def misspelled(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that are almost the name of a parameter, each with that name.

    Examples
    --------
    >>> misspelled({"cluster": "20", "language": "en", "beam": "5"})
    {'cluster': 'clusters'}
    """
    close = {name: difflib.get_close_matches(name, LIMITS, 1, 0.8) for name in given if name not in LIMITS}
    return {name: found[0] for name, found in close.items() if found}


def _from_text(text: str, limit: limits.Limit) -> Any:
    """Parse a value; return the text itself if it cannot be parsed, and None if it is empty."""
    if isinstance(limit, limits.Optional):
        limit = limit.limit
    if not text:
        return None
    if limit is limits.FLAG:
        return _FLAGS.get(text.lower(), text)
    if isinstance(limit, limits.PerDepth) and "," in text:
        return tuple(_number(part) for part in text.split(","))
    return text if isinstance(limit, limits.OneOf) else _number(text)


def _number(text: str) -> Any:
    try:
        return float(text) if set(text) & set(".eEnN") else int(text)
    except ValueError:
        return text
