"""Where documents have their text and labels: formats of files, columns, and what must be present.

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
import reprlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from labeltree.base import limits
from labeltree.base.files import display_name
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
    """A text and its labels, empty where they are missing, and what identifies it, if anything does."""

    text: str
    labels: Labels
    id: str = ""


@dataclass(frozen=True)
class Columns:
    """Where to find the text and the labels of a document.

    Parameters
    ----------
    text : str or tuple of str
        Name of the column with the text, in CSV and JSONL; the texts of several are joined by a space.
    labels : str
        Name of the column with the labels, in CSV and JSONL.
    separators : str or tuple of str, optional
        Strings that separate labels; a space stands for any whitespace. Default: whitespace in TSV, a comma
        in other formats. Whitespace around a label is removed, and whitespace within it becomes a single
        space.
    id : str, optional
        Name of a column that identifies a document, to find it again among predictions. In TSV, it is "id",
        the first of three columns.
    delimiter : str, optional
        The character that separates the fields of a CSV file. Default: detected from the header, one of
        comma, semicolon, tab and ``|``.
    """

    text: str | tuple[str, ...] = "text"
    labels: str = "labels"
    separators: str | tuple[str, ...] | None = None
    id: str | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.separators is not None:
            separators = _strings("separator", self.separators)
            if not all(separators):
                raise InputError("a label separator is empty", hint="use one or more characters, such as ';'")
            object.__setattr__(self, "separators", separators)
        if not isinstance(self.text, str):
            object.__setattr__(self, "text", _strings("text", self.text))
        if not self.texts:
            raise InputError("there is no text column", hint="name at least one")
        for name in ("labels", "id", "delimiter"):
            if not isinstance(value := getattr(self, name), str if name == "labels" else str | None):
                raise InputError(f"{name} is {kind_of(value)}, expected a string")
        one = self.delimiter
        if one is not None and (len(one) != 1 or one in '"\r\n\0' or one == "\ufeff"):
            raise InputError(f"the delimiter is {one!r}, expected one character such as ';'")

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of all columns with text."""
        return (self.text,) if isinstance(self.text, str) else tuple(self.text)

    def stored(self) -> dict[str, Any]:
        """Return what a model keeps, as `restored` takes it; without what only some files need."""
        kept = asdict(self)
        return {key: value for key, value in kept.items() if key not in ("id", "delimiter") or value}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Columns:
        """Return the columns that a model keeps; a ValueError or TypeError if they cannot be."""
        return cls(**stored)

    def split(self, default: str) -> Split:
        """Return a function that splits a string of labels."""
        separators = (default,) if self.separators is None else tuple(self.separators)
        if all(separator.isspace() for separator in separators):
            return str.split
        if len(separators) == 1:
            (one,) = separators
            return lambda labels: [label for part in labels.split(one) if (label := tidy_label(part))]
        pattern = re.compile("|".join(r"\s+" if s.isspace() else re.escape(s) for s in separators))
        return lambda labels: [label for part in pattern.split(labels) if (label := tidy_label(part))]


def _strings(name: str, value: Any) -> tuple[str, ...]:
    """Return a string, or several, as a tuple."""
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, tuple | list):
        raise InputError(f"{name} is {kind_of(value)}, expected a string or several")
    for item in values:
        if not isinstance(item, str):
            raise InputError(f"{name} contains {kind_of(item)}, expected only strings")
    return tuple(values)


def checked_columns(columns: Any, default: Columns) -> Columns:
    """Return the columns, or the default for None; refuse anything else, such as a name."""
    if columns is not None and not isinstance(columns, Columns):
        what = f"columns is of type {type(columns).__name__}, expected Columns"
        raise InputError(what, hint='pass labeltree.Columns(text="...", labels="...")')
    return default if columns is None else columns


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


def check_format(path: str | os.PathLike[str], format: str | None, require_labels: bool) -> str:
    """Return the format of a file of documents, given or detected; refuse any other file."""
    name = display_name(path)
    format = format or format_of(path)
    choices = ", ".join(limits.TEXT_FORMAT.values)
    if format is None:
        what = "the format cannot be detected from the name of the file"
        hint = f"set {{format}} to one of {choices}"
        raise InputError(what, file=name, hint=hint, parameters={"format": None})
    if format not in limits.TEXT_FORMAT.values:
        raise InputError(f"the format is {format!r}, expected one of {choices}", file=name)
    if format == "txt" and require_labels:
        raise InputError(
            "plain text (txt) has no labels",
            file=name,
            hint="use TSV, CSV or JSONL, or set another {format}",
            parameters={"format": None},
        )
    return format


def tidy_label(label: str) -> str:
    """Replace whitespace in a label by single spaces: a tab or a newline would break files of labels."""
    return " ".join(label.split())


def is_missing(cell: Any) -> bool:
    """Return whether a cell of a table is empty: None, NaN, or the NA or NaT of pandas."""
    is_nan = isinstance(cell, float) and cell != cell
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")


def cell_labels(cell: Any, split: Split, name: str = "labels", *, strict: bool = False) -> Labels:
    """Return the labels in a cell of a table or a member of a JSON object.

    Parameters
    ----------
    cell : object
        A string, which is split; an integer; a list, tuple, set or array of strings, integers and objects
        with a ``uri``, as Annif writes them; or nothing (None, NaN or NA). A float may stand for an integer.
    split : callable
        Splits a string of labels; see `Columns.split`.
    name : str
        Of the column, for messages.
    strict : bool, default False
        Refuse a list that contains nothing instead of leaving that out.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        Without a file and a line.

    Examples
    --------
    >>> split = Columns().split(",")
    >>> cell_labels("a, b", split), cell_labels([7, "a, b", None], split), cell_labels(2.0, split)
    (['a', 'b'], ['7', 'a, b'], ['2'])
    """
    if isinstance(cell, str):
        return split(cell)
    if hasattr(cell, "tolist"):  # a scalar or an array of NumPy
        cell = cell.tolist()
    if is_missing(cell):
        return []
    single = not isinstance(cell, list | tuple | set | frozenset)
    labels: Labels = []
    for item in (cell,) if single else cell:
        value = item["uri"] if isinstance(item, dict) and "uri" in item else item
        value = value.item() if isinstance(value, np.generic) else value
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        if is_missing(value):
            if strict:
                hint = "correct it, or remove {strict}"
                raise InputError(f"{name!r} contains null", hint=hint, parameters={"strict": None})
        elif isinstance(value, bool) or not isinstance(value, str | int):
            expected = "a string, an integer or a list of them" if single else "only strings and integers"
            raise InputError(
                f"{name!r} {'is' if single else 'contains'} {kind_of(item)}, expected {expected}"
            )
        elif label := tidy_label(str(value)):
            labels.append(label)
    return labels


def kind_of(value: Any) -> str:
    """Return what a value is, for messages, in the words of JSON."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    other = "a number" if isinstance(value, int | float) else f"a value of type {type(value).__name__}"
    return names.get(type(value), other)


KINDS = {"text": "text", "labels": "label", "id": "ID"}


@dataclass(frozen=True)
class Rules:
    """What a document must have; `lines` are kept, if it is a list: the first line of each document."""

    name: str
    columns: Columns
    require_labels: bool
    strict: bool
    lines: list[int] | None = None

    def check(self, document: Document, line: int) -> Document:
        """Return a document; refuse one without text or labels if nothing may be missing."""
        if self.lines is not None:
            self.lines.append(line)
        if self.strict:
            no_text = not document.text.strip()
            if no_text or (self.require_labels and not document.labels):
                raise InputError(
                    f"the document has no {'text' if no_text else 'labels'}",
                    file=self.name,
                    line=line,
                    hint="correct it, or remove {strict}",
                    parameters={"strict": None},
                )
        return document


def some_names(names: list[str]) -> str:
    """Return names for a message, not too many and not too long."""
    return ", ".join(map(reprlib.repr, names[:20]))
