"""Read files of documents with labels, one document at a time."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from labeltree import limits
from labeltree.errors import InputError
from labeltree.files import display_name, read_pieces
from labeltree.text.formats import Columns, Document, Labels, Split, format_of, tidy_label

_PIECE_BYTES = 1 << 20
_LONGEST_FIELD = 2**31 - 1  # in a CSV file; the default limit of Python is 128 kB


def read_text(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    require_labels: bool = True,
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
    name, format = display_name(path), check_format(path, format, require_labels)
    lines = _lines(path, name, progress)
    columns = columns or Columns()
    if format == "tsv":
        return _tsv(name, lines, columns.split(" "), require_labels)
    if format == "csv":
        return _csv(name, lines, columns, require_labels)
    if format == "jsonl":
        return _jsonl(name, lines, columns, require_labels)
    return (Document(line, []) for line in lines)


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


def _lines(
    path: str | os.PathLike[str], name: str, progress: Callable[[float], None] | None
) -> Iterator[str]:
    """Yield the lines without their line ends."""
    number = 1
    begun: list[bytes] = []  # parts of a line that has not ended
    with contextlib.closing(read_pieces(path, _PIECE_BYTES, progress)) as pieces:
        for piece, last in pieces:
            *ended, rest = piece.tobytes().split(b"\n")
            if ended:
                ended[0] = b"".join([*begun, ended[0]])
                begun = []
            if rest:
                begun.append(rest)
            if last and begun:
                ended.append(b"".join(begun))
            for raw in ended:
                yield decode_line(raw, name, number)
                number += 1


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


def _tsv(name: str, lines: Iterable[str], split: Split, require_labels: bool) -> Iterator[Document]:
    """Split lines; the first one sets the number of columns, and further tabs belong to the text."""
    least, columns = 2 if require_labels else 1, 0
    for number, line in enumerate(lines, 1):
        if not line and columns != 1:
            continue
        fields = line.split("\t", columns - 1 if columns else 2)
        if not columns and len(fields) >= least:
            columns = len(fields)
        check_columns(len(fields), columns, least, name, number)
        yield Document(fields[-1], split(fields[-2]) if columns > 1 else [])


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
                        f"the record has {len(record)} fields, expected {len(header)} as in the header",
                        file=name,
                        line=first,
                        hint="quote fields that contain commas",
                    )
                if record:  # not a blank line
                    yield Document(record[text_at], split(record[labels_at]) if labelled else [])
                first = records.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"not a CSV record ({error})",
                file=name,
                line=first,
                hint="close each quoted field, and double the quotes inside it",
            ) from None


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _column(name: str, header: list[str], wanted: str, kind: str) -> int:
    """Return the position of a column."""
    if (count := header.count(wanted)) > 1:
        what = f"the header has {count} columns named {wanted!r}"
        raise InputError(what, file=name, line=1, hint="rename all but one of them")
    if wanted in header:
        return header.index(wanted)
    raise InputError(
        f"the header has no column {wanted!r}, only {_some(header)}",
        file=name,
        line=1,
        hint=f"set the name of the {kind} column ({{columns}})",
        parameters={"columns": None},
    )


def _jsonl(name: str, lines: Iterable[str], columns: Columns, require_labels: bool) -> Iterator[Document]:
    split = columns.split(",")
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            document = _json_document(line, columns, split, require_labels)
        except InputError as error:
            raise error.replace(file=name, line=number) from None
        yield document


def _json_document(line: str, columns: Columns, split: Split, require_labels: bool) -> Document:
    """Parse a line. Errors do not name the file and the line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", hint="write one JSON object per line") from None
    if not isinstance(record, dict):
        example = f'{{"{columns.text}": "...", "{columns.labels}": ["a", "b"]}}'
        what = f"expected a JSON object, got {_kind(record)}"
        raise InputError(what, hint=f"write one object per line, such as {example}")
    text = _member(record, columns.text, "text")
    if not isinstance(text, str):
        raise InputError(f"{columns.text!r} is {_kind(text)}, expected a string")
    labels: Any = []
    if require_labels or columns.labels in record:
        labels = _member(record, columns.labels, "label")
    document = Document(text, _json_labels(labels, columns.labels, split))
    if "\\u" in line:
        _check_surrogates(document)
    return document


def _member(record: dict[str, Any], key: str, kind: str) -> Any:
    if key not in record:
        raise InputError(
            f"the object has no {key!r}, only {_some(list(record))}",
            hint=f"add it, or set the name of the {kind} column ({{columns}})",
            parameters={"columns": None},
        )
    return record[key]


def _json_labels(labels: Any, key: str, split: Split) -> Labels:
    if labels is None:
        return []
    if isinstance(labels, str):
        return split(labels)
    names = labels if isinstance(labels, list) else [labels]
    for label in names:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(f"{key!r} contains {_kind(label)}, expected only strings and integers")
    return [text for label in names if (text := tidy_label(str(label)))]


def _check_surrogates(document: Document) -> None:
    try:
        "".join([document.text, *document.labels]).encode()
    except UnicodeEncodeError:
        what = "the document contains an unpaired surrogate, such as \\ud800"
        raise InputError(what, hint="use valid Unicode text") from None


def _some(names: list[str]) -> str:
    """Return names for a message, not too many and not too long."""
    return ", ".join(map(reprlib.repr, names[:20])) or "nothing"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
