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


def parse(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each parameter in a section of projects.cfg or projects.toml, checked."""
    found = dict(DEFAULTS)
    for name, limit in LIMITS.items():
        value = given.get(name)
        if value not in (None, ""):
            found[name] = limits.checked(name, limits.from_text(value, limit), limit)
    StorageSettings(found["weights"], found["prune"])  # checks that they go together
    return found


def misspelled(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that are almost the name of a parameter, each with that name."""
    close = {name: difflib.get_close_matches(name, LIMITS, 1, 0.8) for name in given if name not in LIMITS}
    return {name: found[0] for name, found in close.items() if found}
