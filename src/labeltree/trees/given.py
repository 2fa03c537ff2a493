"""Trees given by the user: nested lists, a hierarchy, or clusters of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree.base.display import warn
from labeltree.errors import InputError
from labeltree.trees.tree import LabelTree, label_number


def from_parents(
    names: Sequence[str],
    parents: Sequence[str | None],
    label_names: Sequence[str] | int,
    *,
    add_missing: bool = False,
) -> LabelTree:
    """Build a tree from a hierarchy: the parent of each label and of each group of labels.

    A label that is a parent becomes a leaf child of its own node. A node with one child is replaced by that
    child. Names that are not labels and have no labels below them are ignored, with a warning.

    Parameters
    ----------
    names : sequence of str
        Labels and groups. A parent that is not among them is a group under the root.
    parents : sequence of str or None
        The parent of each; None or "" for the root.
    label_names : sequence of str or int
        Names of the labels 0, 1, ...; or the number of labels, if labels are numbers.
    add_missing : bool, default False
        Add labels that are not in the hierarchy as a separate child of the root; otherwise they are an error.

    Returns
    -------
    LabelTree

    Examples
    --------
    >>> tree = from_parents(
    ...     ["cat", "dog", "rose", "persian"], ["animal", "animal", "", "cat"],
    ...     ["cat", "dog", "persian", "rose"],
    ... )
    >>> tree.n_nodes, tree.labels.tolist()  # [[["cat", "persian"], "dog"], "rose"]
    (3, [0, 2, 1, 3])
    """
    if len(names) != len(parents):
        raise InputError(f"expected one parent per name, got {len(names)} names and {len(parents)} parents")
    rows = [
        Row(str(name), None if parent in (None, "") else str(parent), f"names[{number}]")
        for number, (name, parent) in enumerate(zip(names, parents, strict=True))
    ]
    numbers = label_numbers(label_names)
    return make_tree(nest_parents(rows, numbers), numbers, add_missing=add_missing)


class Row(NamedTuple):
    """A row of a hierarchy: a name, its parent (None for the root), and where it was given."""

    name: str
    parent: str | None
    place: str
    line: int | None = None


def nest_parents(rows: Sequence[Row], numbers: Mapping[str, int]) -> list[Any]:
    """Nest a hierarchy as lists of label numbers. A label with children is the first child of its node."""
    given: dict[str, Row | None] = {}  # by name; None if it is only a parent
    for row in rows:
        other = given.get(row.name)
        if other and other.parent != row.parent:
            both = " and ".join(f"{_quoted(one.parent)} ({one.place})" for one in (other, row))
            what, hint = f"{row.name!r} has two parents, {both}", "remove one of them"
            raise InputError(what, line=row.line, hint=hint)
        given[row.name] = row
        if row.parent is not None:
            given.setdefault(row.parent, None)
    parents = {name: row.parent if row else None for name, row in given.items()}
    below: dict[str | None, list[str]] = {name: [] for name in (None, *parents)}
    for name, parent in parents.items():
        below[parent].append(name)
    order = list(below[None])
    for name in order:  # the list gets longer during the loop
        order.extend(below[name])
    if len(order) < len(parents):
        raise _cycle([row for row in given.values() if row], set(order))
    content: dict[str | None, list[Any]] = {name: [] for name in below}
    n_empty = 0
    for name in reversed(order):  # children before their parents, the last first
        own = ([numbers[name]] if name in numbers else []) + content[name][::-1]
        if own:
            content[parents[name]].append(own)
        n_empty += not own
    if not content[None]:
        shown = f" ({shorten(', '.join(list(parents)[:3]))})" if parents else ""
        what = f"no name in the hierarchy is a label of the data{shown}"
        hint = "use the names of the labels as they are in the data"
        raise InputError(what, line=rows[0].line if rows else None, hint=hint)
    if n_empty:
        warn(
            f"{n_empty:,} of the {len(parents):,} names in the hierarchy are not labels of the data and have "
            "no labels below them; they are ignored."
        )
    return content[None][::-1]


def _quoted(parent: str | None) -> str:
    return "the root" if parent is None else repr(parent)


def _cycle(rows: Sequence[Row], reached: set[str]) -> InputError:
    """Return the error for a name that cannot be reached from the root: going up from it leads to a cycle."""
    row_of = {row.name: row for row in rows}
    row = next(row for row in rows if row.name not in reached)
    way: dict[str, Row] = {}
    while row.name not in way:
        way[row.name] = row
        assert row.parent is not None  # the root's children are reached
        row = row_of[row.parent]
    names = list(way)
    cycle = [repr(name) for name in names[names.index(row.name) :]]
    shown = " below ".join(cycle[:3] + ["..."] * (len(cycle) > 3) + cycle[:1])
    hint = "change one of these parents"
    return InputError(f"the hierarchy has a cycle: {shown}", line=row.line, hint=hint)


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


def number_clusters(lines: Sequence[tuple[int, Sequence[str]]], numbers: Mapping[str, int]) -> list[Any]:
    """Replace the names by label numbers in clusters of a file, given with their line numbers."""
    for line, names in lines:
        unknown = next((name for name in names if name not in numbers), None)
        if unknown is not None:
            hint = "write one cluster of labels per line, or a table with the header label,parent"
            raise InputError(f"{shorten(unknown)} is not a label of the data", line=line, hint=hint)
    return [[numbers[name] for name in names] for _, names in lines]


def label_numbers(label_names: Sequence[str] | int) -> dict[str, int]:
    """Return the number of each label by its name; a count means labels that are named by their numbers."""
    names = map(str, range(label_names)) if isinstance(label_names, int) else label_names
    return {name: label for label, name in enumerate(names)}


def number_labels(nested: list[Any], numbers: Mapping[str, int]) -> list[Any]:
    """Copy nested lists, with label numbers instead of names."""
    root: list[Any] = []
    queue: list[tuple[list[Any], list[Any]]] = [(nested, root)]
    for original, copy in queue:  # the queue gets longer during the loop
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
) -> LabelTree:
    """Make a tree from nested lists of label numbers, which it changes.

    ``numbers`` has all labels by name, in order. A node with one child is replaced by the child, since its
    classifier could not distinguish anything. Labels that are missing become a separate child of the root, if
    they are ``unused`` (have no instances) or with ``add_missing``; otherwise they are an error.
    """
    nodes = [nested]
    for node in nodes:  # the list gets longer during the loop
        nodes.extend(child for child in node if isinstance(child, list))
    count = np.zeros(len(numbers), np.int64)
    np.add.at(count, [child for node in nodes for child in node if not isinstance(child, list)], 1)
    if (count > 1).any():
        repeated = _examples(numbers, np.flatnonzero(count > 1))
        raise InputError(f"the tree contains {repeated} more than once", hint="keep each label once")
    missing = np.flatnonzero(count == 0)
    required = missing if unused is None else missing[~unused[missing]]
    if required.size:
        are = "is" if required.size == 1 else "are"
        missing_labels = f"{required.size:,} of the {len(numbers):,} labels {are} missing from the tree"
        examples = _examples(numbers, required)
        if not add_missing:
            hint = "add them, or use {add_missing} to put them under a separate node"
            raise InputError(f"{missing_labels} ({examples})", hint=hint, parameters={"add_missing": True})
        warn(f"{missing_labels} ({examples}); they are put under a separate child of the root.")
    if missing.size:
        nested.append(missing.tolist())
    for node in reversed(nodes):  # children before their parents
        node[:] = [_without_single_child(child) for child in node]
    while len(nested) == 1 and isinstance(nested[0], list):
        nested = nested[0]
    return LabelTree.from_nested([_without_single_child(child) for child in nested])


def _without_single_child(child: Any) -> Any:
    return child[0] if isinstance(child, list) and len(child) == 1 else child


def _examples(numbers: Mapping[str, int], labels: NDArray[np.intp]) -> str:
    """Name the first few of some labels."""
    names = list(numbers)
    return ", ".join([repr(names[label]) for label in labels[:3]] + ["..."] * (labels.size > 3))


def shorten(text: str) -> str:
    """Quote a string, or its beginning."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
