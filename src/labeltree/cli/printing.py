"""Printing: results as aligned lines or JSON on standard output, notes on standard error."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from labeltree.base.display import escaped as escaped
from labeltree.base.display import human_seconds as human_seconds
from labeltree.base.json import to_json


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
