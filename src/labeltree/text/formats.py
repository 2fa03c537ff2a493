"""Read files of documents with labels, one document at a time.

| format | a document is | labels are separated by |
|---|---|---|
| tsv | a line: id (optional), labels and text, separated by tabs; no header, no quotes | white space |
| csv | a record; a header names the columns, and fields may be quoted | commas |
| jsonl | a line with a JSON object; its labels are a list, or a string as in csv | commas |
| txt | a line of text, without labels | |
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from labeltree.errors import InputError
from labeltree.files import display_name, read_pieces

FORMATS = ("tsv", "csv", "jsonl", "txt")

_ENDINGS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".svm": "svm",
    ".libsvm": "svm",
}
_COMPRESSED = (".gz", ".bz2", ".xz")
_PIECE_BYTES = 1 << 20
_LONGEST_FIELD = 2**31 - 1  # in a CSV file; the default limit of Python is 128 kB

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
        Strings that separate labels; a space stands for any white space. Default: white space in TSV, a comma
        in other formats. White space around a label is removed, and white space within it becomes a single
        space.
    """

    text: str = "text"
    labels: str = "labels"
    separators: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.separators is not None and not all(self.separators):
            raise InputError("got an empty label separator, expected characters; give some, such as ';'")

    def split(self, default: str) -> Split:
        """Return a function that splits a string of labels."""
        separators = (default,) if self.separators is None else self.separators
        if all(separator.isspace() for separator in separators):
            return str.split
        if len(separators) == 1:
            (one,) = separators
            return lambda labels: [label for part in labels.split(one) if (label := _tidy(part))]
        pattern = re.compile("|".join(r"\s+" if s.isspace() else re.escape(s) for s in separators))
        return lambda labels: [label for part in pattern.split(labels) if (label := _tidy(part))]


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format of a data file, detected from the end of its name.

    Parameters
    ----------
    path : str or path-like
        Endings of compressed files, such as .gz, are ignored.

    Returns
    -------
    str or None
        One of FORMATS, or "svm"; None if the name does not show it.

    Examples
    --------
    >>> format_of("train.tsv.bz2"), format_of("train.svm"), format_of("train.txt")
    ('tsv', 'svm', None)
    """
    name = PurePath(path)
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return _ENDINGS.get(name.suffix.lower())


def read_text(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    require_labels: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Document]:
    """Read documents one after the other, with only one in memory at a time.

    Parameters
    ----------
    path : str or path-like
        The file, in UTF-8, plain or compressed; "-" for standard input.
    format : {"tsv", "csv", "jsonl", "txt"}, optional
        Default: detected from the end of the name.
    columns : Columns, optional
        Names of the columns and separators of labels.
    require_labels : bool, default True
        Refuse a file that has no column for labels.
    progress : callable, optional
        Called from time to time with the fraction of the file read so far, if its length is known.

    Yields
    ------
    Document

    Raises
    ------
    InputError
        If the file cannot be read. The message names the first invalid line.
    """
    name = display_name(path)
    format = format or format_of(path)
    if format not in FORMATS:
        got = "a name that does not show the format" if format is None else f"the format {format!r}"
        raise InputError(f"{name}: got {got}, expected one of {', '.join(FORMATS)}; choose one")
    if format == "txt" and require_labels:
        raise InputError(
            f"{name}: got plain lines of text (txt), expected documents with labels; pass TSV, CSV or "
            "JSONL, or choose the format (--data-format)"
        )
    lines = _lines(path, name, progress)
    columns = columns or Columns()
    if format == "tsv":
        return _tsv(name, lines, columns.split(" "), require_labels)
    if format == "csv":
        return _csv(name, lines, columns, require_labels)
    if format == "jsonl":
        return _jsonl(name, lines, columns, require_labels)
    return (Document(line, []) for line in lines)


def _lines(
    path: str | os.PathLike[str], name: str, progress: Callable[[float], None] | None
) -> Iterator[str]:
    """Yield the lines without their line ends."""
    number, rest = 1, b""
    with contextlib.closing(read_pieces(path, _PIECE_BYTES, progress)) as pieces:
        for piece, last in pieces:
            parts = (rest + piece.tobytes()).split(b"\n")
            rest = parts.pop()
            if last and rest:
                parts.append(rest)
            for raw in parts:
                yield _decoded(raw, name, number)
                number += 1


def _decoded(raw: bytes, name: str, number: int) -> str:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise InputError(
            f"{name}:{number}: got the byte 0x{wrong:02x}, which is not UTF-8, expected UTF-8; "
            "convert the file (iconv -f latin1 -t utf-8)"
        ) from None
    return text.removesuffix("\r")


def _tsv(name: str, lines: Iterable[str], split: Split, require_labels: bool) -> Iterator[Document]:
    """Split lines; the first one sets the number of columns, and further tabs belong to the text."""
    least, columns = 2 if require_labels else 1, 0
    for number, line in enumerate(lines, 1):
        if not line and columns != 1:
            continue
        fields = line.split("\t", columns - 1 if columns else 2)
        if not columns and len(fields) >= least:
            columns = len(fields)
        if len(fields) < max(columns, least):
            wanted = {1: "text", 2: "labels and text", 3: "id, labels and text"}[columns or 3]
            raise InputError(
                f"{name}:{number}: got {len(fields)} column{'s' * (len(fields) != 1)}, expected {wanted} "
                "separated by tabs; correct the line, or choose another format (--data-format)"
            )
        yield Document(fields[-1], split(fields[-2]) if columns > 1 else [])


def _csv(name: str, lines: Iterable[str], columns: Columns, require_labels: bool) -> Iterator[Document]:
    with _long_fields():
        records = csv.reader((line + "\n" for line in lines), strict=True)
        first = 1
        try:
            header = [column.strip() for column in next(records, [])]
            text_at = _column(name, header, columns.text, "text")
            labelled = require_labels or columns.labels in header
            labels_at = _column(name, header, columns.labels, "label") if labelled else -1
            split = columns.split(",")
            first = records.line_num + 1
            for record in records:
                if record and len(record) != len(header):
                    raise InputError(
                        f"{name}:{first}: got {len(record)} fields, expected {len(header)} as in the header; "
                        "correct the record, or quote fields that contain commas"
                    )
                if record:  # not a blank line
                    yield Document(record[text_at], split(record[labels_at]) if labelled else [])
                first = records.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{name}:{first}: got a record that is not CSV ({error}), expected fields in double quotes, "
                "with quotes inside them doubled; correct it"
            ) from None


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _column(name: str, header: list[str], wanted: str, what: str) -> int:
    """Return the position of a column."""
    if header.count(wanted) > 1:
        raise InputError(f"{name}:1: got the column {wanted!r} twice, expected it once; rename one of them")
    if wanted in header:
        return header.index(wanted)
    there = ", ".join(map(repr, header[:20])) or "nothing"
    raise InputError(
        f"{name}:1: got a header with {there}, expected the {what} column {wanted!r}; "
        f"name the one to use with --{what}-column"
    )


def _jsonl(name: str, lines: Iterable[str], columns: Columns, require_labels: bool) -> Iterator[Document]:
    split = columns.split(",")
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        where = f"{name}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{where}: got a line that is not JSON ({error}), expected one object per line; correct it"
            ) from None
        if not isinstance(record, dict):
            raise InputError(
                f"{where}: got {_kind(record)}, expected a JSON object on each line, such as "
                f'{{"{columns.text}": "...", "{columns.labels}": ["a", "b"]}}; write one object per line'
            )
        text = _member(where, record, columns.text, "text")
        if not isinstance(text, str):
            raise InputError(f"{where}: got {_kind(text)} as {columns.text!r}, expected a string; correct it")
        labels: Any = []
        if require_labels or columns.labels in record:
            labels = _member(where, record, columns.labels, "label")
        document = Document(text, _json_labels(where, labels, columns.labels, split))
        if "\\u" in line:
            _check_surrogates(where, document)
        yield document


def _member(where: str, record: dict[str, Any], key: str, what: str) -> Any:
    if key not in record:
        there = ", ".join(map(repr, list(record)[:20])) or "nothing"
        raise InputError(
            f"{where}: got an object with {there}, expected the {what} column {key!r}; "
            f"add it, or name the one to use with --{what}-column"
        )
    return record[key]


def _json_labels(where: str, labels: Any, key: str, split: Split) -> Labels:
    if labels is None:
        return []
    if isinstance(labels, str):
        return split(labels)
    names = labels if isinstance(labels, list) else [labels]
    for label in names:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(
                f"{where}: got {_kind(label)} in {key!r}, expected a list of labels, each a string or a "
                "whole number, or one string; correct it"
            )
    return [text for label in names if (text := _tidy(str(label)))]


def _tidy(label: str) -> str:
    """Replace white space in a label by single spaces: a tab or a newline would break files of labels."""
    return " ".join(label.split())


def _check_surrogates(where: str, document: Document) -> None:
    try:
        "".join([document.text, *document.labels]).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: got half of a surrogate pair (\\ud800 ...), expected whole characters; correct it"
        ) from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
