"""Read the documents of a TSV, CSV, JSONL or text file, one at a time."""

from __future__ import annotations

import codecs
import contextlib
import csv
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from labeltree.base.files import display_name, read_pieces
from labeltree.data.columns import (
    KINDS,
    Columns,
    Document,
    Rules,
    cell_labels,
    check_format,
    checked_columns,
    kind_of,
    some_names,
)
from labeltree.errors import InputError


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
        Reject a document without text, and with `require_labels` one without labels or with a null among
        them. Otherwise, a text or labels that are null or missing in JSONL are empty.
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
    return parse(Lines(path, progress), format, columns, require_labels=require_labels, strict=strict)


def parse(
    lines: Lines,
    format: str | None,
    columns: Columns | None,
    *,
    require_labels: bool,
    strict: bool,
    numbers: list[int] | None = None,
) -> Iterator[Document]:
    """Return the documents in the lines of a file, as `read_text` does; append their lines to `numbers`."""
    format = check_format(lines.path, format, require_labels)
    columns = checked_columns(columns, Columns())
    rules = Rules(display_name(lines.path), columns, require_labels, strict, numbers)
    return _PARSERS[format](rules, lines)


_PIECE_BYTES = 1 << 20


class Lines:
    """The lines of a file of documents, without their line ends.

    Parameters
    ----------
    path, progress
        As in :func:`labeltree.read_text`.
    eager : bool, default False
        Take from a pipe what it has to give, without waiting for more.

    Attributes
    ----------
    waiting : bool
        Whether the next line with a document has still to be read from the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], progress: Callable[[float], None] | None, *, eager: bool = False
    ) -> None:
        self.path, self.waiting = path, True
        self._progress, self._eager = progress, eager

    def __iter__(self) -> Iterator[str]:
        number = 1
        begun: list[bytes] = []  # parts of a line that has not ended
        read = read_pieces(self.path, _PIECE_BYTES, self._progress, eager=self._eager)
        with contextlib.closing(read) as pieces:
            for piece, last in pieces:
                content = piece.tobytes()
                cut = content.rfind(b"\n") + 1
                if not (cut or last):
                    begun.append(content)
                    continue
                ended = b"".join([*begun, content if last else content[:cut]])
                begun = [] if last else [content[cut:]]
                lines, error = self._decoded(ended, number)
                filled = max((i for i in range(len(lines) - 1, -1, -1) if lines[i].strip()), default=0)
                for i, line in enumerate(lines):
                    self.waiting = i >= filled  # the rest is blank lines
                    yield line
                if error is not None:
                    raise error
                number += len(lines)

    def _decoded(self, content: bytes, number: int) -> tuple[list[str], InputError | None]:
        """Decode whole lines, of which the first has this number, up to one that is not in UTF-8."""
        error = None
        if number == 1:
            content = content.removeprefix(codecs.BOM_UTF8)
        try:
            text = content.decode()
        except UnicodeDecodeError as invalid:
            start = content.rfind(b"\n", 0, invalid.start) + 1
            error = InputError(
                f"the byte 0x{content[invalid.start]:02x} is not UTF-8",
                file=display_name(self.path),
                line=number + content.count(b"\n", 0, start),
                hint="convert the file to UTF-8 (for example with iconv -f latin1 -t utf-8)",
            )
            text = content[:start].decode()
        lines = text.split("\n")
        if not lines[-1]:  # after the last line end
            lines.pop()
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines, error


_ID = "id"  # what the first of three columns is called


def parse_tsv(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Split lines; the first one sets the number of columns, and further tabs belong to the text."""
    split, named = rules.columns.split(" "), rules.columns.id is not None
    if named and rules.columns.id != _ID:
        raise InputError(
            f"the ID column is {rules.columns.id!r}, but the columns of a TSV file have no names",
            file=rules.name,
            hint=f"use {_ID!r} for the first of three columns",
        )
    least, columns = 3 if named else 2 if rules.require_labels else 1, 0
    for number, line in enumerate(lines, 1):
        if not line and columns != 1:
            continue
        fields = line.split("\t", columns - 1 if columns else 2)
        if len(fields) != columns:
            columns = columns or (len(fields) if len(fields) >= least else 0)
            if len(fields) < max(columns, least):
                either = "labels and text, or id, labels and text,"
                wanted = {1: "text", 2: "labels and text", 3: "id, labels and text"}.get(columns, either)
                got = f"{len(fields)} column{'s' * (len(fields) != 1)}"
                raise InputError(
                    f"expected {wanted} separated by tabs, got {got}",
                    file=rules.name,
                    line=number,
                    hint="correct the line, or set another {format}",
                    parameters={"format": None},
                )
        labels = split(fields[-2]) if columns > 1 else []
        document = Document(fields[-1], labels, fields[0] if named else "")
        yield rules.check(document, number) if rules.strict or rules.lines is not None else document


def parse_txt(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Take each line as a text without labels."""
    return (rules.check(Document(line, []), number) for number, line in enumerate(lines, 1))


_LONGEST_FIELD = 2**31 - 1  # the default limit of Python is 128 kB
_DELIMITERS = (",", ";", "\t", "|")
_PUNCTUATION = re.compile(r"[^\w\s.-]|\t")
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}


def parse_csv(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Parse records; the header sets the columns, and unless it is given, the delimiter."""
    name, columns, first = rules.name, rules.columns, 1
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        rest = iter(lines)
        start = next(rest, None)
        if not start:
            raise InputError(
                "the file is empty" if start is None else "the first line is empty, expected a header",
                file=name,
                line=None if start is None else 1,
                hint="check that this is the right file",
            )
        delimiter = columns.delimiter or _detected(start, columns)
        again = (line + "\n" for line in itertools.chain([start], rest))
        records = csv.reader(again, strict=True, delimiter=delimiter)
        header = [column.strip() for column in next(records, [])]
        texts = [_column(name, header, column, "text", delimiter) for column in columns.texts]
        labelled = rules.require_labels or columns.labels in header
        labels_at = _column(name, header, columns.labels, "labels", delimiter) if labelled else -1
        id_at = None if columns.id is None else _column(name, header, columns.id, "id", delimiter)
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
                labels = split(record[labels_at]) if labelled else []
                text = " ".join(record[at] for at in texts)
                yield rules.check(Document(text, labels, "" if id_at is None else record[id_at]), first)
            first = records.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"not a CSV record ({error})",
            file=name,
            line=first,
            hint="close each quoted field, and double the quotes inside it",
        ) from None
    finally:
        csv.field_size_limit(before)


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


def _column(name: str, header: list[str], wanted: str, field: str, delimiter: str) -> int:
    """Return the position of a column."""
    if (count := header.count(wanted)) > 1:
        what = f"the header has {count} columns named {wanted!r}"
        raise InputError(what, file=name, line=1, hint="rename all but one of them")
    if wanted in header:
        return header.index(wanted)
    separated = "" if delimiter == "," else f" separated by {delimiter!r}"
    hint = f"set the name of the {KINDS[field]} column ({{{field}}})"
    if len(header) == 1 and _PUNCTUATION.search(header[0]):  # perhaps several columns
        hint += ", or the character between columns ({delimiter})"
    raise InputError(
        f"the header has no column {wanted!r}{separated}, only {some_names(header)}",
        file=name,
        line=1,
        hint=hint,
        parameters={field: None, "delimiter": None},
    )


def parse_jsonl(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Parse lines; the first ones, as many as were read at once, have all columns between them."""
    missing = [(key, "text") for key in rules.columns.texts]
    missing += [(rules.columns.labels, "labels")] * rules.require_labels
    first, members = 0, dict[str, None]()
    begun: list[tuple[Document, int]] = []  # until all columns were seen, so that their names are correct
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            document, found = _json_document(line, rules)
        except InputError as error:
            raise error.replace(file=rules.name, line=number) from None
        if not missing:
            yield rules.check(document, number)
            continue
        first = first or number
        members.update(dict.fromkeys(found))
        begun.append((document, number))
        missing = [(key, field) for key, field in missing if key not in found]
        if missing and lines.waiting:
            break
        if not missing:
            yield from (rules.check(*each) for each in begun)
            begun = []
    if missing and begun:
        key, field = missing[0]
        raise InputError(
            f"the object has no {key!r}" + (f", only {some_names(list(members))}" if members else ""),
            file=rules.name,
            line=first,
            hint=f"add it, or set the name of the {KINDS[field]} column ({{{field}}})",
            parameters={field: None},
        )


def _json_document(line: str, rules: Rules) -> tuple[Document, dict[str, Any]]:
    """Return the document of a line, and its object. Errors do not name the file and the line."""
    columns = rules.columns
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", hint="write one JSON object per line") from None
    if not isinstance(found, dict):
        example = f'{{"{columns.texts[0]}": "...", "{columns.labels}": ["a", "b"]}}'
        what = f"expected a JSON object, got {kind_of(found)}"
        raise InputError(what, hint=f"write one object per line, such as {example}")
    texts = [text for key in columns.texts if (text := found.get(key)) is not None]
    for key in columns.texts:
        if not isinstance(found.get(key), str | None):
            raise InputError(f"{key!r} is {kind_of(found[key])}, expected a string")
    strict = rules.strict and rules.require_labels
    labels = cell_labels(found.get(columns.labels), columns.split(","), columns.labels, strict=strict)
    identity: Any = None if columns.id is None else found.get(columns.id)
    if isinstance(identity, dict | list | bool):
        raise InputError(f"{columns.id!r} is {kind_of(identity)}, expected a string or a number")
    document = Document(" ".join(texts), labels, "" if identity is None else str(identity))
    if "\\u" in line:  # only an escape can stand for half a character
        try:
            "".join([document.text, *labels, document.id]).encode()
        except UnicodeEncodeError:
            what = "the document contains an unpaired surrogate, such as \\ud800"
            raise InputError(what, hint="use valid Unicode text") from None
    return document, found


_PARSERS = {"tsv": parse_tsv, "csv": parse_csv, "jsonl": parse_jsonl, "txt": parse_txt}
