"""Results of an experiment: tables, figures, and claims of the paper checked against the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Name of a dataset -> whether a claim holds there (None if inconclusive), and the numbers that show it.
Findings: TypeAlias = dict[str, tuple[bool | None, str]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether it holds on the data.

    Attributes
    ----------
    sentence : str
        The claim, with the numbers that support or contradict it.
    holds : bool or None
        None if the data is inconclusive.
    partly : bool
        True if the claim holds on some datasets, but not on all.
    """

    sentence: str
    holds: bool | None
    partly: bool = False

    @classmethod
    def from_findings(cls, statement: str, findings: Mapping[str, tuple[bool | None, str]]) -> Claim:
        """Return a claim that is checked on several datasets.

        Parameters
        ----------
        statement : str
            The claim as a complete sentence.
        findings : mapping of str to tuple
            Name of a dataset -> whether the claim holds there, and the numbers that show it.

        Returns
        -------
        Claim
            It holds if it holds on every dataset that is not inconclusive.

        Examples
        --------
        >>> Claim.from_findings("It is small.", {"a": (True, "2%"), "b": (False, "70%")})
        Claim(sentence='It is small. Yes on a (2%). No on b (70%).', holds=False, partly=True)
        """
        sentences = [statement]
        for verdict, words in ((True, "Yes on"), (False, "No on"), (None, "Inconclusive on")):
            names = [f"{name} ({why})" for name, (holds, why) in findings.items() if holds is verdict]
            if names:
                sentences.append(f"{words} {', '.join(names)}.")
        conclusive = [holds for holds, _ in findings.values() if holds is not None]
        return cls(
            " ".join(sentences),
            all(conclusive) if conclusive else None,
            any(conclusive) and not all(conclusive),
        )


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
    takeaway : str
        What the numbers show, in one sentence.
    shown : bool
        Show the table in the report. A long table is only linked.
    """

    name: str
    caption: str
    columns: dict[str, str]
    rows: Sequence[Mapping[str, Any]]
    takeaway: str = ""
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
    takeaway : str
        What the numbers show, in one sentence.
    """

    name: str
    caption: str
    figure: Figure
    takeaway: str = ""


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
    introduction : str
        What is measured and why, in a paragraph.
    settings : dict
        What the experiment was run with.
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
