"""Results of experiments: tables of rows with a figure each, and means over the seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Table:
    """A table of an experiment, written as a CSV file, and as PNG and SVG files if it has a figure.

    Attributes
    ----------
    name : str
        Name of the files, without their extensions.
    caption : str
        What the table lists.
    columns : mapping of str to str
        Keys of the columns that the report shows, and their headings, in order.
    rows : sequence of dict
        One per measurement, or per mean of several. The CSV file contains all their keys.
    shown : bool
        Show the table in the report. A long table is only linked.
    figure : matplotlib.figure.Figure, optional
    """

    name: str
    caption: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    shown: bool = True
    figure: Figure | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """The results of one experiment.

    Attributes
    ----------
    name : str
        As in ``labeltree reproduce NAME``.
    title : str
    source : str
        The part of the paper that it reproduces, such as "Figure 4".
    settings : dict
        The options of the experiment, and the seeds.
    tables : sequence of Table
    """

    name: str
    title: str
    source: str
    settings: dict[str, Any]
    tables: Sequence[Table]

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table by its name."""
        return next(one.rows for one in self.tables if one.name == table)


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


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """Return the different values of a key, in the order of first appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def means(rows: Iterable[Row], *keys: str) -> list[Row]:
    """Return the means over the seeds of rows that have the same values of some keys.

    Means of integers are rounded, and missing values are left out.

    Examples
    --------
    >>> rows = [{"K": 9, "seed": 0, "nodes": 4, "ratio": None}, {"K": 9, "seed": 1, "nodes": 7, "ratio": 0.5}]
    >>> means(rows, "K")
    [{'K': 9, 'seeds': 2, 'nodes': 6, 'ratio': 0.5}]
    """
    found = []
    for values, mine in group(rows, *keys).items():
        mean: Row = {**dict(zip(keys, values, strict=True)), "seeds": len(mine)}
        for key in mine[0]:
            if key not in (*keys, "seed"):
                numbers = [row[key] for row in mine if row[key] is not None]
                average = sum(numbers) / len(numbers) if numbers else None
                whole = bool(numbers) and isinstance(numbers[0], int)
                mean[key] = round(average) if whole and average is not None else average
        found.append(mean)
    return found


def listed(name: str, values: Sequence[Any]) -> str:
    """Begin a message about values that cannot be used.

    Examples
    --------
    >>> listed("seeds", [1, 1])
    'the seeds are 1, 1'
    """
    return f"the {name} are {', '.join(map(str, values))}" if values else f"there are no {name}"
