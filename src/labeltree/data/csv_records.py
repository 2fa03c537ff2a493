"""Parse documents in CSV records, whose columns a header names."""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections.abc import Iterator

from labeltree.data.formats import Columns, Record
from labeltree.data.lines import Lines
from labeltree.data.rules import ID, KINDS, LABELS, TEXT, ColumnField, Rules, some_names
from labeltree.errors import InputError

_LONGEST_FIELD = 2**31 - 1  # the default limit of Python is 128 kB
_DELIMITERS = (",", ";", "\t", "|")
_PUNCTUATION = re.compile(r"[^\w\s.-]|\t")
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}


def parse_csv(rules: Rules, lines: Lines) -> Iterator[Record]:
    """Parse records; the header sets the columns, and unless it is given, the delimiter."""
    name, columns = rules.name, rules.columns
    with _long_fields():
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
        first = 1
        try:
            header = [column.strip() for column in next(records, [])]
            texts = [_column(name, header, column, TEXT, delimiter) for column in columns.texts]
            labelled = rules.require_labels or columns.labels in header
            labels_at = _column(name, header, columns.labels, LABELS, delimiter) if labelled else -1
            id_at = None if columns.id is None else _column(name, header, columns.id, ID, delimiter)
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


def _column(name: str, header: list[str], wanted: str, field: ColumnField, delimiter: str) -> int:
    """Return the position of a column."""
    if (count := header.count(wanted)) > 1:
        what = f"the header has {count} columns named {wanted!r}"
        raise InputError(what, file=name, line=1, hint="rename all but one of them")
    if wanted in header:
        return header.index(wanted)
    separated = "" if delimiter == "," else f" separated by {delimiter!r}"
    hint = f"set the name of the {KINDS[field]} column ({{columns}})"
    if len(header) == 1 and _PUNCTUATION.search(header[0]):  # perhaps several columns
        hint += ", or the character between columns ({delimiter})"
    raise InputError(
        f"the header has no column {wanted!r}{separated}, only {some_names(header)}",
        file=name,
        line=1,
        hint=hint,
        parameters={"columns": field, "delimiter": None},
    )
