"""Printing: results as aligned lines or JSON on standard output, notes on standard error."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from labeltree.strict_json import to_json

# Characters that a terminal obeys instead of showing them: controls, line and paragraph separators, and marks
# that change the direction of the text; and halves of characters, which stand for bytes in file names.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return a name, path or term as it can be shown: characters that a terminal would obey are escaped.

    Examples
    --------
    >>> escaped("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output, one key per line."""
    lines = (f"  {json.dumps(key)}: {to_json(value)}" for key, value in content.items())
    print("{", ",\n".join(lines), "}", sep="\n")


def note(message: str) -> None:
    """Print a note on standard error: something to know that is not an error."""
    print("note:", escaped(message), file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print warnings of the library as notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)


def human_seconds(seconds: float) -> str:
    """Return a duration with units.

    Examples
    --------
    >>> human_seconds(0.0123), human_seconds(75), human_seconds(7265)
    ('0.01 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def facts(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines with a name and a text each, the texts aligned."""
    pairs = [(escaped(name), text) for name, text in pairs]
    width = max(len(name) for name, _ in pairs)
    return [f"{name:<{width}}  {escaped(text)}" for name, text in pairs]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 0) -> list[str]:
    """Return the lines of a table with the first `left` columns left-aligned, the others right-aligned."""
    cells = [[escaped(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            f"{cell:<{width}}" if i < left else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: 1 tree, 3 trees."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def shape(figures: Mapping[str, Any]) -> str:
    """Describe data: instances, features and labels, and whether the labels have names."""
    label = "named label" if figures.get("named_labels") else "label"
    names = {"instances": "instance", "features": "feature", "labels": label}
    return ", ".join(plural(figures[key], name) for key, name in names.items())


def forest(figures: Mapping[str, Any]) -> str:
    """Describe trees: how many, their nodes and their depth."""
    return f"{plural(figures['trees'], 'tree')}, {plural(figures['nodes'], 'node')}, depth {figures['depth']}"
