"""Nested lists of labels: the form that every given tree takes on its way to a `LabelTree`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import InputError
from labeltree.trees.tree import LabelTree, label_number


def label_numbers(label_names: Sequence[str] | int) -> dict[str, int]:
    """Return the number of each label by its name; a count means labels that are named by their numbers."""
    names = map(str, range(label_names)) if isinstance(label_names, int) else label_names
    return {name: label for label, name in enumerate(names)}


def number_labels(nested: list[Any], numbers: Mapping[str, int]) -> list[Any]:
    """Copy nested lists, with label numbers instead of names."""
    root: list[Any] = []
    queue: list[tuple[list[Any], list[Any]]] = [(nested, root)]
    for original, copy in queue:  # the queue gets longer during the loop
        if not original:
            raise InputError("a node of the tree has no children", hint="remove its empty list")
        for child in original:
            if isinstance(child, list):
                copy.append([])
                queue.append((child, copy[-1]))
            else:
                copy.append(label_number(child, numbers))
    return root


def make_tree(
    nested: list[Any],
    numbers: Mapping[str, int],
    *,
    add_missing: bool,
    unused: NDArray[np.bool_] | None = None,
    file: str | None = None,
) -> LabelTree:
    """Make a tree from nested lists of label numbers.

    A node with one child is replaced by the child, since its classifier could not distinguish anything.

    Parameters
    ----------
    nested : list
        The root. It is changed.
    numbers : mapping of str to int
        All labels, by name, in the order of their numbers.
    add_missing : bool
        Add labels that are missing as a separate child of the root; otherwise they are an error.
    unused : ndarray of bool, optional
        Labels without instances, which are added in any case.
    file : str, optional
        The file of the tree, for messages.

    Returns
    -------
    LabelTree
    """
    nodes = [nested]
    for node in nodes:  # the list gets longer during the loop
        nodes.extend(child for child in node if isinstance(child, list))
    count = np.zeros(len(numbers), np.int64)
    np.add.at(count, [child for node in nodes for child in node if not isinstance(child, list)], 1)
    if (count > 1).any():
        repeated = _examples(numbers, np.flatnonzero(count > 1))
        raise InputError(
            f"the tree contains {repeated} more than once", file=file, hint="keep each label once"
        )
    missing = np.flatnonzero(count == 0)
    required = missing if unused is None else missing[~unused[missing]]
    if required.size:
        are = "is" if required.size == 1 else "are"
        missing_labels = f"{required.size:,} of the {len(numbers):,} labels {are} missing from the tree"
        examples = _examples(numbers, required)
        if not add_missing:
            raise InputError(
                f"{missing_labels} ({examples})",
                file=file,
                hint="add them, or use {add_missing} to put them under a separate node",
                parameters={"add_missing": True},
            )
        where = "" if file is None else f" in {file}"
        warnings.warn(
            f"{missing_labels}{where} ({examples}); they are put under a separate child of the root.",
            stacklevel=3,
        )
    if missing.size:
        nested.append(missing.tolist())
    for node in reversed(nodes):  # children before their parents
        node[:] = [_without_single_child(child) for child in node]
    while len(nested) == 1 and isinstance(nested[0], list):
        nested = nested[0]
    return LabelTree.from_nested([_without_single_child(child) for child in nested])


def _without_single_child(child: Any) -> Any:
    return child[0] if isinstance(child, list) and len(child) == 1 else child


def _examples(numbers: Mapping[str, int], labels: Iterable[int]) -> str:
    """Name the first few of some labels."""
    chosen = list(labels)
    names = list(numbers)
    return ", ".join([repr(names[label]) for label in chosen[:3]] + ["..."] * (len(chosen) > 3))


def shorten(text: str) -> str:
    """Quote a string, or its beginning."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
