"""Where documents have their text and labels: formats of files, columns, and what must be present.

| format | a document is | labels are separated by |
|---|---|---|
| tsv | a line: id (optional), labels and text, separated by tabs; no header, no quotes | whitespace |
| csv | a record; a header names the columns, and fields may be quoted | commas |
| jsonl | a line with a JSON object; its labels are a list, or a string as in csv | commas |
| parquet, arrow | a row; its labels are a list, or a string as in csv | commas |
| txt | a line of text, without labels | |
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from labeltree.errors import InputError

# The columns in which Annif has labels, and what separates them there.
_OF_ANNIF = {"subject_uris": " ", "subjects": ","}
_URI = re.compile(r"<\w[\w+.-]*:[^\s<>]+>|\w[\w+.-]*://[^\s<>,]+")  # as a word of several
_BRACKETED_URI = re.compile(r"<\w[\w+.-]*:[^\s<>]+>")

Labels = list[str]
Split = Callable[[str], Labels]


class Document(NamedTuple):
    """A text and its labels, empty where they are missing, and what identifies it, if anything does."""

    text: str
    labels: Labels
    id: str = ""


@dataclass(frozen=True)
class Columns:
    """Where to find the text and the labels of a document: names of columns, in TSV numbers from 1.

    The texts of several columns are joined by a space. `separators` are strings that separate labels; a space
    stands for any whitespace. Default: whitespace in TSV, a comma in other formats. Whitespace around a label
    is removed, and whitespace within it becomes a single space. `id` is a column that identifies a document;
    in TSV, "id" is the first of three. `delimiter` separates the fields of a CSV file. Default: detected from
    the header, one of comma, semicolon, tab and ``|``.
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
        """Return what a model keeps, as keyword arguments; without what only some files need."""
        kept = asdict(self)
        return {key: value for key, value in kept.items() if key not in ("id", "delimiter") or value}

    def label_columns(self) -> dict[str, Split]:
        """Return how to split labels, by the column that they may be in: those of Annif come last."""
        others = _OF_ANNIF if self.labels == "labels" else {}
        return {name: self.split(default) for name, default in {self.labels: ",", **others}.items()}

    def split(self, default: str) -> Split:
        """Return a function that splits a string of labels."""
        separators = (default,) if self.separators is None else tuple(self.separators)
        if all(separator.isspace() for separator in separators):
            return _words
        if self.separators is None:
            return _words_or_parts
        if len(separators) == 1:
            (one,) = separators
            return lambda labels: _parts(labels, one)
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


def tidy_label(label: str) -> str:
    """Replace whitespace in a label by single spaces, since a tab would break files of labels; bare URIs."""
    tidy = " ".join(label.split())
    return tidy[1:-1] if tidy[:1] == "<" and _BRACKETED_URI.fullmatch(tidy) else tidy


def _words(labels: str) -> Labels:
    return labels.split() if "<" not in labels else [tidy_label(label) for label in labels.split()]


def _parts(labels: str, separator: str) -> Labels:
    return [label for part in labels.split(separator) if (label := tidy_label(part))]


def _words_or_parts(labels: str) -> Labels:
    """Split labels at commas; URIs, which contain no spaces, at these."""
    is_uris = ":" in labels and all(map(_URI.fullmatch, labels.split()))
    return _words(labels) if is_uris else _parts(labels, ",")


def is_missing(cell: Any) -> bool:
    """Return whether a cell of a table is empty: None, NaN, or the NA or NaT of pandas."""
    is_nan = isinstance(cell, float) and cell != cell
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")


def cell_labels(cell: Any, split: Split, name: str = "labels", *, strict: bool = False) -> Labels:
    """Return the labels in a cell of a table or a member of a JSON object; errors do not name the line.

    A cell is a string, which is split; an integer; a list, tuple, set or array of strings, integers and
    objects with a ``uri``, as Annif writes them; or nothing (None, NaN or NA). A float may stand for an
    integer. If `strict`, a list must not contain nothing, which is otherwise left out.

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
    single = not isinstance(cell, list | tuple | set | frozenset)
    if single and is_missing(cell):
        return []
    labels: Labels = []
    for item in (cell,) if single else cell:
        if isinstance(item, str):  # most are
            if label := tidy_label(item):
                labels.append(label)
            continue
        value = item["uri"] if isinstance(item, dict) and "uri" in item else item
        value = value.item() if isinstance(value, np.generic) else value
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        if is_missing(value):
            if strict:
                hint = "correct it, or remove {strict}"
                raise InputError(f"{name!r} contains null", hint=hint)
        elif isinstance(value, bool) or not isinstance(value, str | int):
            expected = "a string, an integer or a list of them" if single else "only strings and integers"
            what = f"{name!r} {'is' if single else 'contains'} {kind_of(item)}, expected {expected}"
            raise InputError(what)
        elif label := tidy_label(str(value)):
            labels.append(label)
    return labels


def kind_of(value: Any) -> str:
    """Return what a value is, for messages, in the words of JSON."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    other = "a number" if isinstance(value, int | float) else f"a value of type {type(value).__name__}"
    return names.get(type(value), other)


KINDS = {"text": "text", "labels": "label", "id": "ID"}


@dataclass
class Rules:
    """What a document must have, and what was found in the file with this name so far.

    The first lines of documents are appended to `starts`, if it is a list.
    """

    name: str
    columns: Columns
    require_labels: bool
    strict: bool
    learns: bool = False
    starts: list[int] | None = None
    layout: Any = None
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.splits = self.columns.label_columns()

    def label_column(self, names: Container[str]) -> str:
        """Return the name of the column with the labels, if it is among these."""
        return next((name for name in self.splits if name in names), self.columns.labels)

    def check(self, document: Document, line: int) -> Document:
        """Return a document; refuse one without text or labels if nothing may be missing."""
        if self.starts is not None:
            self.starts.append(line)
        if self.strict:
            no_text = not document.text.strip()
            if no_text or (self.require_labels and not document.labels):
                what = f"the document has no {'text' if no_text else 'labels'}"
                raise InputError(what, file=self.name, line=line, hint="correct it, or remove {strict}")
        return document

    def document(self, cells: Mapping[str, Any]) -> Document:
        """Return the document of a row or an object; errors do not name the file and the line."""
        label_column = self.label_column(cells)
        texts: list[str] = []
        for name in self.columns.texts:
            if isinstance(cell := cells.get(name), str):
                texts.append(cell)
            elif not is_missing(cell):
                raise InputError(f"{name!r} is {kind_of(cell)}, expected a string")
        strict = self.strict and self.require_labels
        labels = cell_labels(cells.get(label_column), self.splits[label_column], label_column, strict=strict)
        identity: Any = None if self.columns.id is None else cells.get(self.columns.id)
        if isinstance(identity, dict | list | bool):
            raise InputError(f"{self.columns.id!r} is {kind_of(identity)}, expected a string or a number")
        return Document(" ".join(texts), labels, "" if identity is None else str(identity))


def no_column(data: str, name: str, names: Sequence[str], field: str) -> InputError:
    """Return the error for data without a column; `field` is the parameter that names the column."""
    what = f"{data} has no column {name!r}, {f'only {some_names(names)}' if names else 'nor any other'}"
    return InputError(what, hint=f"set the name of the {KINDS[field]} column ({{{field}}})")


def some_names(names: Sequence[str]) -> str:
    """Return names for a message, not too many and not too long."""
    return ", ".join(map(reprlib.repr, names[:20]))
