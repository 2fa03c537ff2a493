"""Select, group and average the rows of a result, and list what was found on each dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Return the rows that have these values.

    Examples
    --------
    >>> where([{"data": "a", "seed": 0}, {"data": "a", "seed": 1}], data="a", seed=1)
    [{'data': 'a', 'seed': 1}]
    """
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def group(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values of some keys, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def distinct(rows: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    """Return the different values of a key, in the order of first appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def listed(name: str, values: Sequence[Any]) -> str:
    """Begin a message about values that cannot be used.

    Examples
    --------
    >>> listed("seeds", [1, 1])
    'the seeds are 1, 1'
    """
    return f"the {name} are {', '.join(map(str, values))}" if values else f"there are no {name}"


def mean(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """Return the mean of a key."""
    return float(sum(row[key] for row in rows) / len(rows))


def count(number: int, noun: str) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> count(1, "seed"), count(1200, "seed")
    ('1 seed', '1,200 seeds')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def percent(ratio: float) -> str:
    """Write a ratio in percent, with three digits.

    Examples
    --------
    >>> percent(0.25173), percent(0.01234)
    ('25.2%', '1.23%')
    """
    return f"{100 * ratio:.3g}%"
