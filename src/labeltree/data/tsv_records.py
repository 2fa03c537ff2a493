"""Parse tab-separated documents, and plain lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from labeltree.data.formats import Record
from labeltree.data.lines import Lines
from labeltree.data.rules import Rules
from labeltree.errors import InputError

_ID = "id"  # what the first of three columns is called


def parse_tsv(rules: Rules, lines: Lines) -> Iterator[Record]:
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
        if not columns and len(fields) >= least:
            columns = len(fields)
        check_columns(len(fields), columns, least, rules.name, number)
        labels = split(fields[-2]) if columns > 1 else None
        yield rules.check(Record(fields[-1], labels, fields[0] if named else ""), number)


def parse_txt(rules: Rules, lines: Lines) -> Iterator[Record]:
    """Take each line as a text without labels."""
    return (rules.check(Record(line, None), number) for number, line in enumerate(lines, 1))


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
