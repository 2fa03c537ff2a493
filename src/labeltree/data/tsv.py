"""Read the documents of a TSV file: which column has the text is seen in its first lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from labeltree.data.columns import Document, Labels, Rules, Split
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.records import Lines

_ID = "id"  # what the first of three columns is called
_LEAST_LINES = 20  # to judge columns by their words
_URIS = re.compile(r"\s*(<?\w[\w+.-]*://[^\s<>]+>?(\s+|$))+")
_NUMBERS = re.compile(r"\s*(\d+\s*)+")
# Labels of PECOS, some of them with relevance, such as 1::0.5,7::1.
_OF_PECOS = re.compile(r"\d+(::[\d.eE+-]+)?(,\d+(::[\d.eE+-]+)?)*")


class _Layout(NamedTuple):
    """The columns of a file, counted from 0."""

    n_columns: int
    texts: tuple[int, ...]
    labels: int | None
    id: int | None


def parse_tsv(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Split lines into the columns of the first one; further tabs belong to the text beside them."""
    numbered = enumerate(lines, 1)
    head = _head(lines, numbered)
    layout, split = _layout(rules, head)
    if rules.layout not in (None, layout):
        what = f"expected {_described(rules.layout)} as in the file before, got {_described(layout)}"
        raise InputError(what, file=rules.name, line=head[0][0], hint="pass files with the same columns")
    rules.layout = layout if head else rules.layout
    n_columns, texts, labels_at, id_at = layout
    text_at = texts[0] if len(texts) == 1 else None
    cut = str.rsplit if text_at == 0 else str.split
    is_plain = not rules.strict and rules.starts is None
    most = n_columns - 1 if text_at in (0, n_columns - 1) else -1
    for number, line in itertools.chain(_again(head, lines), numbered):
        if not line and n_columns != 1:
            continue
        fields = cut(line, "\t", most)
        if len(fields) != n_columns:
            raise _wrong_columns(rules, _described(layout), len(fields), number)
        text = fields[text_at] if text_at is not None else " ".join(fields[at] for at in texts)
        labels = [] if labels_at is None else split(fields[labels_at])
        document = Document(text, labels, "" if id_at is None else fields[id_at])
        yield document if is_plain else rules.check(document, number)


def is_of_pecos(lines: Iterable[str]) -> bool:
    """Return whether the first line has labels of PECOS, a tab and a text, not values of features."""
    try:
        labels, _, text = next(iter(lines), "").partition("\t")
    except InputError:
        return False
    return bool(_OF_PECOS.fullmatch(labels) and re.fullmatch(r"(?!\s*\d+:)[^\t]*\S[^\t]*", text))


def _head(lines: Lines, numbered: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Read the first lines, as many as the file gives at once."""
    head: list[tuple[int, str]] = []
    for number, line in numbered:
        if line or head:
            head.append((number, line))
        if head and lines.waiting:
            break
    return head


def _again(head: list[tuple[int, str]], lines: Lines) -> Iterator[tuple[int, str]]:
    """Yield the first lines, after all of which only the next one is waited for."""
    for at, line in enumerate(head, 1):
        lines.waiting = at == len(head)
        yield line


def _layout(rules: Rules, head: list[tuple[int, str]]) -> tuple[_Layout, Split]:
    """Return the columns of a file, from their numbers or its first lines, and how to split its labels."""
    columns, split = rules.columns, rules.columns.split(" ")
    if not head:
        return _Layout(0, (), None, None), split
    number, first = head[0]
    id_at = _place(columns.id)
    if columns.id not in (None, _ID) and id_at is None:
        what = f"the ID column is {columns.id!r}, but the columns of a TSV file have no names"
        hint = f"use its number, or {_ID!r} for the first of three columns"
        raise InputError(what, file=rules.name, hint=hint)
    if all(map(_place, columns.texts)):
        return _numbered(rules, first.count("\t") + 1, number, id_at), split
    n_columns = len(first.split("\t", 2))
    if n_columns < (3 if columns.id == _ID else 2 if rules.require_labels else 1):
        raise _wrong_columns(
            rules, "labels and text, or id, labels and text, separated by tabs", n_columns, number
        )
    labels_at = n_columns - 2 if n_columns > 1 else None
    id_at = id_at - 1 if id_at else 0 if n_columns == 3 else None
    layout = _Layout(n_columns, (n_columns - 1,), labels_at, id_at)
    rows = [fields for _, line in head if len(fields := line.split("\t", n_columns - 1)) == n_columns > 1]
    before, last = ([cell for row in rows if (cell := row[at]).strip()] for at in (-2, -1))
    ends = [end for cell in last if (end := cell.rpartition("\t")[2].strip())]
    if (_all(_URIS, ends) and not _all(_URIS, before)) or (n_columns == 2 and before and not last):
        if n_columns == 3:
            raise _unclear(rules, "the last of three columns has URIs, where text is expected", 2)
        return _Layout(2, (0,), 1, None), split
    if n_columns != 2:
        return layout, split
    if columns.separators is None and _all(_OF_PECOS, before) and (marks := {*"".join(before)} & {*",:"}):
        if ":" in marks:
            rules.notes["The relevance of labels, such as 2.0 in 1::2.0, was dropped."] = None
        return layout, _pecos_labels
    is_clear = not rules.learns or _all(_URIS, before) or _all(_NUMBERS, before)
    if min(len(before), len(last)) >= _LEAST_LINES and not is_clear and _are_texts(before, last):
        raise _unclear(rules, "it is not clear which of the two columns has the labels", 1)
    return layout, split


def _place(name: str | None) -> int | None:
    """Return the number of a column, from 1."""
    return int(name) or None if name and name.isdecimal() else None


def _numbered(rules: Rules, n_columns: int, line: int, id_at: int | None) -> _Layout:
    """Return the layout that the numbers of the columns give."""
    texts, labels_at = [int(name) for name in rules.columns.texts], _place(rules.columns.labels)
    if labels_at is None and n_columns == 2:  # the other one
        labels_at = 3 - texts[0]
    if labels_at is None and rules.require_labels:
        what = "the text column has a number, but not the label column"
        raise InputError(what, file=rules.name, hint="set {labels} to its number, from 1")
    if not rules.require_labels and labels_at is not None and labels_at > n_columns:
        labels_at = None
    for name, at in [*(("text", at) for at in texts), ("labels", labels_at), ("id", id_at)]:
        if at is not None and at > n_columns:
            what = f"there is no column {at}, only {n_columns}"
            raise InputError(what, file=rules.name, line=line, hint=f"correct {{{name}}}")
    labels_at, id_at = (None if at is None else at - 1 for at in (labels_at, id_at))
    return _Layout(n_columns, tuple(at - 1 for at in texts), labels_at, id_at)


def _described(layout: _Layout) -> str:
    names = dict.fromkeys(layout.texts, "text") | {layout.labels: "labels", layout.id: "id"}
    shown = [names[at] for at in range(layout.n_columns) if at in names]
    if len(shown) < layout.n_columns:
        return f"{layout.n_columns} columns separated by tabs"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) + " separated by tabs" * bool(shown)


def _wrong_columns(rules: Rules, expected: str, n_found: int, line: int) -> InputError:
    return InputError(
        f"expected {expected}, got {n_found} column{'s' * (n_found != 1)}",
        file=rules.name,
        line=line,
        hint="correct the line, or set another {format}",
    )


def _unclear(rules: Rules, what: str, text: int) -> InputError:
    """Return the error for columns that cannot be told apart, of which one looks like the text."""
    hint = "number the columns, as in {text} and {labels}"
    return InputError(what, file=rules.name, hint=hint, parameters={"text": text, "labels": text + 1})


def _are_texts(cells: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether cells look like texts rather than the others.

    Texts are longer, have more different words, and are hardly repeated; above all, words are repeated within
    them and have punctuation behind them.
    """

    def measures(cells: Sequence[str]) -> tuple[float, ...]:
        rows = [cell.split() for cell in cells]
        prose = sum(
            len({*words}) < len(words) or any(word[-1] in ".,;:!?)" for word in words) for words in rows
        )
        found = (sum(map(len, cells)), len({word for words in rows for word in words}), len({*cells}), prose)
        return tuple(value / len(cells) for value in found)

    votes = [
        (one > other) - (one < other) if abs(one - other) > 0.05 * max(one, other) else 0
        for one, other in zip(measures(cells), measures(others), strict=True)
    ]
    return sum(votes) + votes[-1] > 0


def _all(pattern: re.Pattern[str], cells: Sequence[str]) -> bool:
    return bool(cells) and all(map(pattern.fullmatch, cells))


def _pecos_labels(labels: str) -> Labels:
    return [label.partition("::")[0] for label in labels.split(",") if label]
