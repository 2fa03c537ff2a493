"""Results of an experiment: tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
