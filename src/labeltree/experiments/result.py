"""What an experiment gives: rows, figures, and the sentences that they support."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and a sentence computed from the data that says whether it holds here.

    Attributes
    ----------
    sentence : str
        With the numbers that it rests on.
    holds : bool or None
        None if this data cannot tell.
    """

    sentence: str
    holds: bool | None


@dataclass(frozen=True)
class Table:
    """A table as it is shown: the rows of the CSV, or a digest of them.

    Attributes
    ----------
    name : str
        Of its CSV file, without the ending.
    caption : str
    columns : dict of str to str
        The keys of the rows that are shown, and their headings, in order.
    rows : list of dict
        One a measurement (or a mean, where the caption says so); written to the CSV whole.
    shown : bool
        Whether the report shows it; a long one is only linked.
    """

    name: str
    caption: str
    columns: dict[str, str]
    rows: list[dict[str, Any]]
    shown: bool = True


@dataclass(frozen=True)
class Plot:
    """A figure, written as PNG and SVG under its name."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Result:
    """All that one experiment found.

    Attributes
    ----------
    name : str
        As in ``labeltree reproduce NAME``.
    title : str
    source : str
        What of the paper it reproduces, such as "the ratio of sizes at K = 100 (fig:ratio-fixed-K)".
    introduction : str
        A paragraph for a reader of the report: what is measured and why.
    settings : dict
        What it was run with, for the report.
    tables, plots, claims : list
    """

    name: str
    title: str
    source: str
    introduction: str
    settings: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
