"""Files that hold a tree, told by their content (docs/trees.md).

- nested lists of labels in JSON;
- a hierarchy: a table with the columns `label` and `parent`, separated by tabs, commas or semicolons;
- clusters: one a line, the labels separated by tabs, else by commas, else by blanks.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.files import display_name, read_pieces
from labeltree.tree import LabelTree
from labeltree.trees.hierarchy import (
    grow,
    label_numbers,
    nested_clusters,
    nested_parents,
    numbered,
    shortened,
)

_PIECE_BYTES = 1 << 20

Nest = Callable[[Mapping[str, int]], list[Any]]


@dataclass(frozen=True, eq=False)
class GivenTree:
    """A tree as a file gives it, before the labels of the data are known.

    Attributes
    ----------
    name : str
        The file.
    form : str
        "nested lists", "parents" or "clusters".
    """

    name: str
    form: str
    _nest: Nest

    def join(self, dataset: Dataset, *, rest: bool = False) -> LabelTree:
        """Make the tree of the labels of a data set.

        Labels without instances that the file lacks get a child of the root of their own, as in
        ``build_tree``: numbers that the data skips are such labels.

        Parameters
        ----------
        dataset : Dataset
        rest : bool, default False
            Whether other labels that the file lacks go there too; else they are an error.

        Returns
        -------
        LabelTree
        """
        names = dataset.n_labels if dataset.label_names is None else dataset.label_names
        idle = np.diff(dataset.by_label[0]) == 0
        numbers = label_numbers(names)
        return grow(self._nest(numbers), numbers, rest, idle, f"{self.name}: ")


def read_tree(path: str | os.PathLike[str]) -> GivenTree:
    """Read a tree from a file, plain or compressed.

    Parameters
    ----------
    path : path-like
        Nested lists in JSON, a table with the columns label and parent, or clusters of labels, one a line.

    Returns
    -------
    GivenTree
        To be joined to the data's labels.

    Raises
    ------
    InputError
        If the file cannot be read. Which labels it must hold is checked when it is joined to the data.
    """
    name = display_name(path)
    content = b"".join(piece.tobytes() for piece, _ in read_pieces(path, _PIECE_BYTES))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: got bytes that are not UTF-8, expected text; convert it") from None
    first = text.lstrip().split("\n", 1)[0]
    if not first:
        raise InputError(f"{name}: the file is empty, expected a tree (see docs/trees.md); check the path")
    plain = os.path.splitext(name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz"))[1].lower()
    if plain == ".json" or first.startswith("["):
        nested = _parsed_json(name, text)
        return GivenTree(name, "nested lists", lambda numbers: _from_lists(name, nested, numbers))
    separator = next((s for s in "\t,;" if {"label", "parent"} <= set(_head(first, s))), None)
    if separator is not None:
        rows = _table(name, text, separator)
        return GivenTree(name, "parents", lambda numbers: nested_parents(*rows, numbers))
    if plain in (".csv", ".tsv"):
        raise InputError(
            f"{name}:1: got {shortened(first)}, expected the names of the columns, label and parent among "
            "them; add that line, or rename a file of clusters to .txt"
        )
    lines = _clusters(text)
    return GivenTree(name, "clusters", lambda numbers: nested_clusters(name, lines, numbers))


def _parsed_json(name: str, text: str) -> list[Any]:
    try:
        nested = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not a tree in JSON ({error}), expected nested lists of labels") from None
    if not isinstance(nested, list):
        raise InputError(f"{name}: got {type(nested).__name__} in JSON, expected nested lists of labels")
    return nested


def _from_lists(name: str, nested: list[Any], numbers: Mapping[str, int]) -> list[Any]:
    try:
        return numbered(nested, numbers)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _head(line: str, separator: str) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in line.split(separator)]


def _table(name: str, text: str, separator: str) -> tuple[list[str], list[str], list[str]]:
    """Names, parents, and where each stands; quotes mean something only where tabs do not separate."""
    lines = io.StringIO(text, newline="")
    if separator == "\t":
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, delimiter=separator)
    columns: tuple[int, int] | None = None
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if columns is None:
                head = [cell.strip('"').lower() for cell in cells]
                columns = head.index("label"), head.index("parent")
                continue
            label, parent = (cells[c] if c < len(cells) else "" for c in columns)
            if not label:
                raise InputError(
                    f"{name}:{reader.line_num}: got a row without a label, expected a label and its parent; "
                    "complete or remove it"
                )
            for part, value in zip(found, (label, parent, f"{name}:{reader.line_num}"), strict=True):
                part.append(value)
    except csv.Error as error:
        raise InputError(f"{name}:{reader.line_num}: not a table ({error}); correct that line") from None
    return found


def _clusters(text: str) -> list[tuple[int, list[str]]]:
    """Lines with labels, and their numbers. The first of tab, comma and blank that occurs separates."""
    separator = next((s for s in "\t," if s in text), None)
    lines = ((n, line.split(separator)) for n, line in enumerate(text.split("\n"), 1))
    stripped = ((n, [cell.strip() for cell in cells if cell.strip()]) for n, cells in lines)
    return [(n, cells) for n, cells in stripped if cells]
