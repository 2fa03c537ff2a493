"""Variants of the default settings: each is a dictionary of what it changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Changes = dict[str, Any]

# What is tried instead of the defaults, one setting at a time.
_FACTORS = (0.5, 2.0)  # of the cost, and of that of positive instances
_CLUSTERS = (32, 250)
_TREES = 3
_TERMS = (([1, 1], 2), ([1, 2], 2), ([1, 2], 5))  # n-grams and min_df


def single_changes(defaults: Changes, n_labels: int, depth: int) -> Iterator[Changes]:
    """Return variants that differ from the defaults in one setting.

    Parameters
    ----------
    defaults : dict
        The settings of all variants; those of terms only if they are searched.
    n_labels : int
    depth : int
        The depth of the tree with the defaults: a smaller maximum makes it wider; 1 is one-vs-rest.
    """
    yield from ({"cost": factor * defaults["cost"]} for factor in _FACTORS)
    yield from ({"positive_cost": factor} for factor in _FACTORS)
    yield from ({"clusters": clusters} for clusters in _CLUSTERS if clusters < n_labels)
    if depth > 1:
        yield {"trees": _TREES}
        yield from ({"max_depth": smaller} for smaller in sorted({1, depth - 1}))
    if "ngrams" in defaults:
        terms = ({"ngrams": ngrams, "min_df": min_df} for ngrams, min_df in _TERMS)
        yield from (change for change in terms if {**defaults, **change} != defaults)


def combined(several: Iterable[Changes]) -> Changes:
    """Return all changes together; the first that changes a setting decides."""
    found: Changes = {}
    for changes in several:
        found = {**changes, **found}
    if found.get("max_depth") == 1:  # one-vs-rest has no clusters, and every tree would be the same
        return {name: value for name, value in found.items() if name not in ("clusters", "trees")}
    return found


def describe(changes: Changes) -> str:
    """Describe a variant.

    Examples
    --------
    >>> describe({"cost": 2.0, "ngrams": [1, 2]}), describe({"max_depth": 1}), describe({})
    ('cost 2, ngrams 1,2', 'one-vs-rest', 'defaults')
    """
    shown = (
        "one-vs-rest"
        if (name, value) == ("max_depth", 1)
        else f"{name} {','.join(map(str, value)) if isinstance(value, list) else f'{value:g}'}"
        for name, value in changes.items()
    )
    return ", ".join(shown) or "defaults"
