"""Trees of depth 2 from clusters of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labeltree.errors import InputError
from labeltree.trees.nested import label_numbers, make_tree, number_labels, shorten
from labeltree.trees.tree import LabelTree


def from_clusters(
    clusters: Sequence[Sequence[Any]], label_names: Sequence[str] | int, *, add_missing: bool = False
) -> LabelTree:
    """Build a tree of depth 2 from clusters: each is a child of the root, and its labels are leaves.

    Parameters
    ----------
    clusters : sequence of sequences
        Labels, by name or number. A cluster with a single label becomes a leaf.
    label_names, add_missing
        As in :func:`from_parents`.

    Returns
    -------
    LabelTree

    Examples
    --------
    >>> from_clusters([[0, 3], [1, 2], [4]], 5).labels.tolist()
    [0, 3, 1, 2, 4]
    """
    numbers = label_numbers(label_names)
    nested = number_labels([list(cluster) for cluster in clusters], numbers)
    return make_tree(nested, numbers, add_missing=add_missing)


def number_clusters(
    file: str, lines: Sequence[tuple[int, Sequence[str]]], numbers: Mapping[str, int]
) -> list[Any]:
    """Replace the names by label numbers in clusters of a file, given with their line numbers."""
    line_of: dict[int, int] = {}
    nested = []
    for line, names in lines:
        for name in names:
            if name not in numbers:
                raise InputError(
                    f"{shorten(name)} is not a label of the data",
                    file=file,
                    line=line,
                    hint="write one cluster of labels per line, or a table with the header label,parent",
                )
            label = numbers[name]
            if label in line_of:
                raise InputError(
                    f"the label {name!r} is also on line {line_of[label]}",
                    file=file,
                    line=line,
                    hint="keep each label once",
                )
            line_of[label] = line
        nested.append([numbers[name] for name in names])
    return nested
