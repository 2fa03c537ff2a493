"""Read files of documents with labels, one document at a time."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from labeltree import limits
from labeltree.errors import InputError
from labeltree.files import display_name, read_pieces
from labeltree.text.formats import (
    Columns,
    Document,
    Labels,
    Record,
    Split,
    checked_columns,
    format_of,
    tidy_label,
)

_PIECE_BYTES = 1 << 20
_LONGEST_FIELD = 2**31 - 1  # in a CSV file; the default limit of Python is 128 kB
_DELIMITERS = (",", ";", "\t", "|")
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
TSV_ID = "id"  # what the first of three columns is called


def read_text(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    require_labels: bool = True,
    strict: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Document]:
    """Read documents one at a time; only one is in memory.

    Parameters
    ----------
    path : str or path-like
        The file, in UTF-8, plain or compressed; "-" for standard input.
    format : {"tsv", "csv", "jsonl", "txt"}, optional
        Default: detected from the extension of the file name.
    columns : Columns, optional
        Names of the columns and separators of labels.
    require_labels : bool, default True
        Reject a file that has no column for labels.
    strict : bool, default False
        Reject a document without text, and with `require_labels` one without labels. Otherwise, a text or
        labels that are null or missing in JSONL are empty.
    progress : callable, optional
        Called periodically with the fraction of the file read so far, if its length is known.

    Yields
    ------
    Document

    Raises
    ------
    InputError
        If the file cannot be read. The message names the first invalid line.
    """
    rows = Records(path, format, columns, require_labels=require_labels, strict=strict, progress=progress)
    return (Document(text or "", labels or []) for text, labels, _ in rows)


class Records:
    """The documents of a file, one at a time, as the file has them.

    Parameters
    ----------
    path, format, columns, require_labels, strict, progress
        As in :func:`read_text`.
    eager : bool, default False
        Take from a pipe what it has to give, without waiting for more.

    Attributes
    ----------
    waiting : bool
        Whether the next document has still to be read from the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        columns: Columns | None = None,
        *,
        require_labels: bool = True,
        strict: bool = False,
        progress: Callable[[float], None] | None = None,
        eager: bool = False,
    ) -> None:
        self.waiting = True
        self._path, self._progress, self._eager = path, progress, eager
        format = check_format(path, format, require_labels)
        self._rules = _Rules(display_name(path), checked_columns(columns, Columns()), require_labels, strict)
        self._parse = {"tsv": _tsv, "csv": _csv, "jsonl": self._jsonl, "txt": _txt}[format]

    def __iter__(self) -> Iterator[Record]:
        return self._parse(self._rules, self._lines())

    def _jsonl(self, rules: _Rules, lines: Iterator[str]) -> Iterator[Record]:
        """Parse lines; the first ones, as many as were read at once, have all columns between them."""
        missing = rules.wanted()
        first, members = 0, dict[str, None]()
        begun: list[tuple[Record, int]] = []  # until all columns were seen, so that their names are correct
        for number, line in enumerate(lines, 1):
            if not line or line.isspace():
                continue
            record, found = _json_record(line, rules, number)
            if not missing:
                yield rules.check(record, number)
                continue
            first = first or number
            members.update(dict.fromkeys(found))
            begun.append((record, number))
            missing = [(key, kind) for key, kind in missing if key not in found]
            if missing and self.waiting:
                break
            if not missing:
                yield from (rules.check(*each) for each in begun)
                begun = []
        if missing and begun:
            key, kind = missing[0]
            raise InputError(
                f"the object has no {key!r}, only {_some(list(members))}",
                file=rules.name,
                line=first,
                hint=f"add it, or set the name of the {kind} column ({{columns}})",
                parameters={"columns": None},
            )

    def _lines(self) -> Iterator[str]:
        """Yield the lines without their line ends."""
        number = 1
        begun: list[bytes] = []  # parts of a line that has not ended
        read = read_pieces(self._path, _PIECE_BYTES, self._progress, eager=self._eager)
        with contextlib.closing(read) as pieces:
            for piece, last in pieces:
                *ended, rest = piece.tobytes().split(b"\n")
                if ended:
                    ended[0] = b"".join([*begun, ended[0]])
                    begun = []
                if rest:
                    begun.append(rest)
                if last and begun:
                    ended.append(b"".join(begun))
                filled = max((i for i in range(len(ended) - 1, -1, -1) if ended[i].strip()), default=0)
                for i, raw in enumerate(ended):
                    self.waiting = i >= filled  # the rest is blank lines
                    yield decode_line(raw, self._rules.name, number)
                    number += 1


@dataclass(frozen=True)
class _Rules:
    """What a document must have."""

    name: str
    columns: Columns
    require_labels: bool
    strict: bool

    def wanted(self) -> list[tuple[str, str]]:
        """Return the columns that must exist, and what they contain."""
        texts = [(key, "text") for key in self.columns.texts]
        return [*texts, (self.columns.labels, "label")] if self.require_labels else texts

    def check(self, record: Record, line: int) -> Record:
        """Return a document; refuse one without text or labels if nothing may be missing."""
        if self.strict:
            no_text = not (record.text and record.text.strip())
            if no_text or (self.require_labels and not record.labels):
                raise InputError(
                    f"the document has no {'text' if no_text else 'labels'}",
                    file=self.name,
                    line=line,
                    hint="correct it, or remove {strict}",
                    parameters={"strict": None},
                )
        return record


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


def decode_line(raw: bytes, name: str, number: int) -> str:
    """Decode a line and remove its line end."""
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise InputError(
            f"the byte 0x{wrong:02x} is not UTF-8",
            file=name,
            line=number,
            hint="convert the file to UTF-8 (for example with iconv -f latin1 -t utf-8)",
        ) from None
    return text.removesuffix("\r")


def _txt(rules: _Rules, lines: Iterator[str]) -> Iterator[Record]:
    return (rules.check(Record(line, None), number) for number, line in enumerate(lines, 1))


def _tsv(rules: _Rules, lines: Iterator[str]) -> Iterator[Record]:
    """Split lines; the first one sets the number of columns, and further tabs belong to the text."""
    split, named = rules.columns.split(" "), rules.columns.id is not None
    if named and rules.columns.id != TSV_ID:
        raise InputError(
            f"the ID column is {rules.columns.id!r}, but the columns of a TSV file have no names",
            file=rules.name,
            hint=f"use {TSV_ID!r} for the first of three columns",
        )
    least, columns = 3 if named else 2 if rules.require_labels else 1, 0
    for number, line in enumerate(lines, 1):
        if not line and columns != 1:
            continue
        fields = line.split("\t", columns - 1 if columns else 2)
        if not columns and len(fields) >= least:
            columns = len(fields)
        check_columns(len(fields), columns, least, rules.name, number)
        labels = split(fields[-2]) if columns > 1 else None
        yield rules.check(Record(fields[-1], labels, fields[0] if named else ""), number)


def check_columns(n_fields: int, columns: int, least: int, name: str, line: int) -> None:
    """Refuse a line with fewer fields than the columns of the file (0: not known), or than the least."""
    if n_fields >= max(columns, least):
        return
    wanted = {1: "text", 2: "labels and text", 3: "id, labels and text"}.get(
        columns, "labels and text, or id, labels and text,"
    )
    raise InputError(
        f"expected {wanted} separated by tabs, got {n_fields} column{'s' * (n_fields != 1)}",
        file=name,
        line=line,
        hint="correct the line, or set another {format}",
        parameters={"format": None},
    )


def _csv(rules: _Rules, lines: Iterator[str]) -> Iterator[Record]:
    name, columns = rules.name, rules.columns
    with _long_fields():
        start = next(lines, "")
        delimiter = columns.delimiter or _detected(start, columns)
        again = (line + "\n" for line in itertools.chain([start], lines))
        records = csv.reader(again, strict=True, delimiter=delimiter)
        first = 1
        try:
            header = [column.strip() for column in next(records, [])]
            texts = [_column(name, header, column, "text", delimiter) for column in columns.texts]
            labelled = rules.require_labels or columns.labels in header
            labels_at = _column(name, header, columns.labels, "label", delimiter) if labelled else -1
            id_at = None if columns.id is None else _column(name, header, columns.id, "ID", delimiter)
            split = columns.split(",")
            first = records.line_num + 1
            for record in records:
                if record and len(record) != len(header):
                    raise InputError(
                        f"the record has {len(record)} fields, expected {len(header)} as in the header",
                        file=name,
                        line=first,
                        hint=f"quote fields that contain {_DELIMITER_NAMES.get(delimiter, repr(delimiter))}",
                    )
                if record:  # not a blank line
                    labels = split(record[labels_at]) if labelled else None
                    text = " ".join(record[at] for at in texts)
                    yield rules.check(Record(text, labels, "" if id_at is None else record[id_at]), first)
                first = records.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"not a CSV record ({error})",
                file=name,
                line=first,
                hint="close each quoted field, and double the quotes inside it",
            ) from None


def _detected(header: str, columns: Columns) -> str:
    """Return the delimiter with which the header has most of the columns; a comma if none does."""
    wanted = {*columns.texts, columns.labels, columns.id}

    def found(delimiter: str) -> int:
        try:
            names = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:
            return 0
        return len(wanted & {name.strip() for name in names})

    return max(_DELIMITERS, key=found)


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _column(name: str, header: list[str], wanted: str, kind: str, delimiter: str) -> int:
    """Return the position of a column."""
    if (count := header.count(wanted)) > 1:
        what = f"the header has {count} columns named {wanted!r}"
        raise InputError(what, file=name, line=1, hint="rename all but one of them")
    if wanted in header:
        return header.index(wanted)
    separated = "" if delimiter == "," else f" separated by {delimiter!r}"
    raise InputError(
        f"the header has no column {wanted!r}{separated}, only {_some(header)}",
        file=name,
        line=1,
        hint=f"set the name of the {kind} column ({{columns}})",
        parameters={"columns": None},
    )


def _json_record(line: str, rules: _Rules, number: int) -> tuple[Record, dict[str, Any]]:
    """Parse a line; return the document and the object."""
    try:
        return _parsed(line, rules.columns)
    except InputError as error:
        raise error.replace(file=rules.name, line=number) from None


def _parsed(line: str, columns: Columns) -> tuple[Record, dict[str, Any]]:
    """Parse a line. Errors do not name the file and the line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", hint="write one JSON object per line") from None
    if not isinstance(found, dict):
        example = f'{{"{columns.texts[0]}": "...", "{columns.labels}": ["a", "b"]}}'
        what = f"expected a JSON object, got {_kind(found)}"
        raise InputError(what, hint=f"write one object per line, such as {example}")
    texts = [text for key in columns.texts if (text := found.get(key)) is not None]
    for key in columns.texts:
        if not isinstance(found.get(key), str | None):
            raise InputError(f"{key!r} is {_kind(found[key])}, expected a string")
    labels = _json_labels(found.get(columns.labels), columns.labels, columns.split(","))
    identity: Any = None if columns.id is None else found.get(columns.id)
    if isinstance(identity, dict | list | bool):
        raise InputError(f"{columns.id!r} is {_kind(identity)}, expected a string or a number")
    record = Record(" ".join(texts) if texts else None, labels, "" if identity is None else str(identity))
    if "\\u" in line:
        _check_surrogates(record)
    return record, found


def _json_labels(labels: Any, key: str, split: Split) -> Labels | None:
    if labels is None:
        return None
    if isinstance(labels, str):
        return split(labels)
    names = labels if isinstance(labels, list) else [labels]
    for label in names:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(f"{key!r} contains {_kind(label)}, expected only strings and integers")
    return [text for label in names if (text := tidy_label(str(label)))]


def _check_surrogates(document: Record) -> None:
    try:
        "".join([document.text or "", *(document.labels or ()), document.id]).encode()
    except UnicodeEncodeError:
        what = "the document contains an unpaired surrogate, such as \\ud800"
        raise InputError(what, hint="use valid Unicode text") from None


def _some(names: list[str]) -> str:
    """Return names for a message, not too many and not too long."""
    return ", ".join(map(reprlib.repr, names[:20])) or "nothing"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
