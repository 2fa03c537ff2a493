"""What an experiment gives: rows, figures, and the sentences that they support."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Name of a data set -> whether a claim holds there (None if it cannot be told), and the numbers that show it.
Found: TypeAlias = dict[str, tuple[bool | None, str]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and a sentence computed from the data that says whether it holds here.

    Attributes
    ----------
    sentence : str
        With the numbers that it rests on.
    holds : bool or None
        None if this data cannot tell.
    partly : bool
        Whether it holds on some of the data sets, where it does not hold on all.
    """

    sentence: str
    holds: bool | None
    partly: bool = False

    @classmethod
    def of_data(cls, statement: str, found: Mapping[str, tuple[bool | None, str]]) -> Claim:
        """Judge a statement by what was found on each data set.

        Parameters
        ----------
        statement : str
            A whole sentence.
        found : mapping of str to tuple
            Name of a data set -> whether it holds there, and the numbers that show it.

        Returns
        -------
        Claim
            Holds if it holds wherever the data can tell.

        Examples
        --------
        >>> Claim.of_data("It is small.", {"a": (True, "2%"), "b": (False, "70%")})
        Claim(sentence='It is small. Yes on a (2%). No on b (70%).', holds=False, partly=True)
        """
        said = [statement]
        for verdict, words in ((True, "Yes on"), (False, "No on"), (None, "Cannot be told on")):
            names = [f"{name} ({why})" for name, (holds, why) in found.items() if holds is verdict]
            if names:
                said.append(f"{words} {', '.join(names)}.")
        told = [holds for holds, _ in found.values() if holds is not None]
        return cls(" ".join(said), all(told) if told else None, any(told) and not all(told))


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
