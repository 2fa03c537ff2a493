"""Files that contain a label tree (docs/trees.md). The form is detected from the content.

- nested lists of labels in JSON;
- a hierarchy: a table with the columns `label` and `parent`, separated by tabs, commas or semicolons;
- clusters: one per line, the labels separated by tabs, or by commas, or by spaces.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from labeltree.base.files import display_name, read_pieces
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.trees.given import (
    Row,
    label_numbers,
    make_tree,
    nest_parents,
    number_clusters,
    number_labels,
    shorten,
)
from labeltree.trees.tree import LabelTree

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class TreeFile:
    """A tree that was read from a file, before the labels of the data are known.

    Attributes
    ----------
    name : str
        Name of the file.
    form : str
        "nested lists", "parents" or "clusters".
    add_missing : bool
        Put labels that are not in the file under a separate child of the root; otherwise they are an error.
    """

    name: str
    form: str
    # From the number of each label to nested lists of label numbers.
    _nest: Callable[[Mapping[str, int]], list[Any]]
    add_missing: bool = False

    def to_tree(self, dataset: Dataset) -> LabelTree:
        """Build the tree for the labels of a dataset.

        Labels without instances need not be in the file: as in ``build_tree``, they become a separate child
        of the root. Such labels are, for example, numbers that the data skips.
        """
        numbers = label_numbers(dataset.n_labels if dataset.label_names is None else dataset.label_names)
        unused = np.diff(dataset.by_label[0]) == 0
        try:
            nested = self._nest(numbers)
            return make_tree(nested, numbers, add_missing=self.add_missing, unused=unused)
        except InputError as error:
            raise error.replace(file=self.name) from None

    def notes(self) -> dict[str, Any]:
        """Return what a model's manifest keeps about where the tree came from."""
        return {"tree": self.name, "tree_form": self.form}


def read_tree(path: str | os.PathLike[str], *, add_missing: bool = False) -> TreeFile:
    """Read a tree from a file, plain or compressed.

    Parameters
    ----------
    path : path-like
        Nested lists in JSON, a table with the columns label and parent, or clusters of labels, one per line.
    add_missing : bool, default False
        Put labels that are not in the file under a separate child of the root; otherwise they are an error.

    Returns
    -------
    TreeFile
        Its ``to_tree`` builds the tree for a dataset.

    Raises
    ------
    InputError
        If the file cannot be read. Its labels are compared with those of the data by ``to_tree``.
    """
    name = display_name(path)
    content = b"".join(piece.tobytes() for piece, _ in read_pieces(path, _PIECE_BYTES))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("not valid UTF-8", file=name, line=line, hint="convert the file to UTF-8") from None
    header = text.lstrip().split("\n", 1)[0]
    if not header:
        raise InputError("the file is empty, expected a tree", file=name)
    ending = os.path.splitext(name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz"))[1].lower()
    if ending == ".json" or header.startswith("["):
        nested = _parse_json(name, text)
        return TreeFile(name, "nested lists", partial(number_labels, nested), add_missing)
    separator = next((s for s in "\t,;" if {"label", "parent"} <= set(_columns(header, s))), None)
    if separator is not None:
        rows = _read_table(name, text, separator)
        return TreeFile(name, "parents", partial(nest_parents, rows), add_missing)
    if ending in (".csv", ".tsv"):
        what = f"the header is {shorten(header)}, expected the columns label and parent"
        raise InputError(what, file=name, line=1, hint="add a header, or rename a file of clusters to .txt")
    return TreeFile(name, "clusters", partial(number_clusters, _split_clusters(text)), add_missing)


def _parse_json(name: str, text: str) -> list[Any]:
    try:
        nested = json.loads(text)
    except json.JSONDecodeError as error:
        what = f"not a tree in JSON ({error.msg} at column {error.colno})"
        raise InputError(what, file=name, line=error.lineno) from None
    except (ValueError, RecursionError) as error:  # a huge integer, or lists that are nested too deeply
        raise InputError(f"not a tree in JSON ({error})", file=name) from None
    if not isinstance(nested, list):
        what = f"expected nested lists of labels in JSON, got {shorten(text.strip())}"
        raise InputError(what, file=name)
    return nested


def _columns(header: str, separator: str) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in header.split(separator)]


def _read_table(name: str, text: str, separator: str) -> list[Row]:
    """Read a table of labels and parents. Quotes have a meaning only if tabs do not separate the cells."""
    lines = io.StringIO(text, newline="")
    if separator == "\t":
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, delimiter=separator)
    header: list[str] = []
    rows: list[Row] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not header:
                header = [cell.strip('"').lower() for cell in cells]
                continue
            named = dict(zip(header, cells, strict=False))
            if not named.get("label"):
                raise InputError("the row has no label", file=name, line=reader.line_num)
            line = reader.line_num
            rows.append(Row(named["label"], named.get("parent") or None, f"line {line}", line))
    except csv.Error as error:
        raise InputError(f"not a table ({error})", file=name, line=reader.line_num) from None
    return rows


def _split_clusters(text: str) -> list[tuple[int, list[str]]]:
    """Split lines into labels at the first of tab, comma and space that occurs; with their line numbers."""
    separator = next((s for s in "\t," if s in text), None)
    lines = ((n, line.split(separator)) for n, line in enumerate(text.split("\n"), 1))
    stripped = ((n, [cell.strip() for cell in cells if cell.strip()]) for n, cells in lines)
    return [(n, cells) for n, cells in stripped if cells]
