"""Results of an experiment: tables and figures; select, group and average their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """A table of the report, and the CSV file that contains its rows.

    Attributes
    ----------
    name : str
        Name of the CSV file, without its extension.
    caption : str
        What the table lists.
    columns : dict of str to str
        Keys of the columns that the report shows, and their headings, in order.
    rows : sequence of mappings
        One per measurement, or per mean of several. The CSV file contains all their keys.
    shown : bool
        Show the table in the report. A long table is only linked.
    """

    name: str
    caption: str
    columns: dict[str, str]
    rows: Sequence[Mapping[str, Any]]
    shown: bool = True


@dataclass(frozen=True)
class Plot:
    """A figure of the report, written as PNG and SVG under its name.

    Attributes
    ----------
    name : str
        Name of the files, without their extensions.
    caption : str
        What the figure draws.
    figure : matplotlib.figure.Figure
    """

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Result:
    """The results of one experiment.

    Attributes
    ----------
    name : str
        As in ``labeltree reproduce NAME``.
    title : str
    source : str
        The part of the paper that it reproduces, such as "Figure 4 of the paper".
    settings : dict
        What the experiment was run with.
    tables, plots : list
    """

    name: str
    title: str
    source: str
    settings: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)


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
