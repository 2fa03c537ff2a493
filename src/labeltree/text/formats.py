"""The formats of files of documents: how one is detected, and where a document has its text and labels.

| format | a document is | labels are separated by |
|---|---|---|
| tsv | a line: id (optional), labels and text, separated by tabs; no header, no quotes | whitespace |
| csv | a record; a header names the columns, and fields may be quoted | commas |
| jsonl | a line with a JSON object; its labels are a list, or a string as in csv | commas |
| txt | a line of text, without labels | |
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from labeltree.errors import InputError

_EXTENSIONS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".svm": "svm",
    ".libsvm": "svm",
}
_COMPRESSED = (".gz", ".bz2", ".xz")

Labels = list[str]
Split = Callable[[str], Labels]


class Document(NamedTuple):
    """A text and its labels."""

    text: str
    labels: Labels


@dataclass(frozen=True)
class Columns:
    """Where to find the text and the labels of a document.

    Parameters
    ----------
    text, labels : str
        Names of the two columns, in CSV and JSONL.
    separators : tuple of str, optional
        Strings that separate labels; a space stands for any whitespace. Default: whitespace in TSV, a comma
        in other formats. Whitespace around a label is removed, and whitespace within it becomes a single
        space.
    """

    text: str = "text"
    labels: str = "labels"
    separators: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.separators is not None and not all(self.separators):
            raise InputError("a label separator is empty", hint="use one or more characters, such as ';'")

    def split(self, default: str) -> Split:
        """Return a function that splits a string of labels."""
        separators = (default,) if self.separators is None else self.separators
        if all(separator.isspace() for separator in separators):
            return str.split
        if len(separators) == 1:
            (one,) = separators
            return lambda labels: [label for part in labels.split(one) if (label := tidy_label(part))]
        pattern = re.compile("|".join(r"\s+" if s.isspace() else re.escape(s) for s in separators))
        return lambda labels: [label for part in pattern.split(labels) if (label := tidy_label(part))]


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format of a data file, detected from the extension of its name.

    Parameters
    ----------
    path : str or path-like
        Extensions of compressed files, such as .gz, are ignored.

    Returns
    -------
    str or None
        "tsv", "csv", "jsonl" or "svm"; None for any other extension.

    Examples
    --------
    >>> format_of("train.tsv.bz2"), format_of("train.svm"), format_of("train.txt")
    ('tsv', 'svm', None)
    """
    name = PurePath(path)
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return _EXTENSIONS.get(name.suffix.lower())


def tidy_label(label: str) -> str:
    """Replace whitespace in a label by single spaces: a tab or a newline would break files of labels."""
    return " ".join(label.split())
