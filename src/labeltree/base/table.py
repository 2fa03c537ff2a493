"""Tables: results with many rows, as named columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from labeltree.base.display import escaped, html_table, text_table
from labeltree.base.extras import optional

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN = 10


def named(items: Mapping[str, Any], name: str, kind: str) -> Any:
    """Return an item; if there is none with this name, the error lists those that there are."""
    if name not in items:
        raise KeyError(f"no {kind} {name!r}, only {', '.join(items)}")
    return items[name]


class Table:
    """Named columns of the same length: lists or NumPy arrays.

    ``table["name"]`` is a column, ``table[0]`` a row as a dictionary, and ``table[:10]`` a table of ten rows.
    ``len(table)`` is the number of rows; iteration yields them.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = dict(columns)

    def __getitem__(self, item: str | SupportsIndex | slice) -> Any:
        if isinstance(item, slice):
            return Table({name: column[item] for name, column in self.columns.items()})
        if isinstance(item, SupportsIndex):
            at = range(len(self))[item]
            return next(iter(self[at : at + 1]))
        return named(self.columns, item, "column")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (
            dict(zip(self.columns, row, strict=True)) for row in zip(*self.to_dict().values(), strict=True)
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists of Python values."""
        return {name: getattr(c, "tolist", c.copy)() for name, c in self.columns.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas frame."""
        return optional("pandas").DataFrame(self.columns)

    def to_polars(self) -> polars.DataFrame:
        """Return a polars frame."""
        frame: polars.DataFrame = optional("polars").DataFrame(self.columns)
        return frame

    def _shown(self) -> tuple[str, list[str], list[list[str]]]:
        title = f"{len(self):,} row{'s' * (len(self) != 1)}" + f", the first {_SHOWN}" * (len(self) > _SHOWN)
        return title, list(self.columns), [[_cell(value) for value in row.values()] for row in self[:_SHOWN]]

    def __repr__(self) -> str:
        title, head, rows = self._shown()
        return "\n".join([title, *text_table(head, rows, left=len(head))])

    def _repr_html_(self) -> str:
        return html_table(*self._shown())


class Facts(Mapping[str, Any]):
    """Named facts: numbers, strings and lists, under a title."""

    def __init__(self, title: str, facts: Mapping[str, Any]) -> None:
        self.title, self._facts = title, dict(facts)

    def __getitem__(self, name: str) -> Any:
        return named(self._facts, name, "fact")

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def to_dict(self) -> dict[str, Any]:
        """Return all facts."""
        return self._facts

    def _shown(self) -> list[list[str]]:
        """Return the facts that are short, and have a value."""
        short = {n: v for n, v in self._facts.items() if v is not None and not isinstance(v, list | dict)}
        return [[name.replace("_", " "), _cell(value)] for name, value in short.items()]

    def __repr__(self) -> str:
        rows = self._shown()
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join([self.title, *(f"{name:{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str:
        return html_table(self.title, ["", ""], self._shown())


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escaped(str(value))
