"""Trees from a hierarchy: the parent of each label and of each group of labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from labeltree.errors import InputError
from labeltree.trees.nested import label_numbers, make_tree, shorten
from labeltree.trees.tree import LabelTree

# Positions of parents that are not names. The root's children are kept in the last place, which is -1.
_ROOT, _UNKNOWN = -1, -2


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
    rows = Rows([str(name) for name in names], ["" if parent is None else str(parent) for parent in parents])
    numbers = label_numbers(label_names)
    return make_tree(nest_parents(rows, numbers), numbers, add_missing=add_missing)


@dataclass(frozen=True)
class Rows:
    """The rows of a hierarchy: a name and its parent each, "" for the root; and where they were read."""

    names: list[str]
    parents: list[str]
    file: str | None = None
    lines: list[int] | None = None

    def where(self, row: int) -> dict[str, Any]:
        """Return the fields of an `InputError` that say where a row is."""
        return {"file": self.file, "line": None if self.lines is None or row < 0 else self.lines[row]}

    def place(self, row: int) -> str:
        """Describe where a row is, within a sentence."""
        return f"names[{row}]" if self.lines is None else f"line {self.lines[row]}"


def nest_parents(rows: Rows, numbers: Mapping[str, int]) -> list[Any]:
    """Nest a hierarchy as lists of label numbers. A label with children is the first child of its node."""
    place: dict[str, int] = {}  # of each name, in order of appearance
    parent: list[int] = []  # place of the parent, _ROOT or _UNKNOWN
    row_of: list[int] = []  # where the parent was given

    def find(name: str) -> int:
        if name not in place:
            place[name] = len(parent)
            parent.append(_UNKNOWN)
            row_of.append(-1)
        return place[name]

    for row, (name, upper) in enumerate(zip(rows.names, rows.parents, strict=True)):
        me, above = find(name), find(upper) if upper else _ROOT
        if parent[me] not in (_UNKNOWN, above):
            first = "the root" if parent[me] == _ROOT else repr(list(place)[parent[me]])
            second = repr(upper) if upper else "the root"
            both = f"{first} ({rows.place(row_of[me])}) and {second} ({rows.place(row)})"
            raise InputError(
                f"{name!r} has two parents, {both}", **rows.where(row), hint="remove one of them"
            )
        parent[me], row_of[me] = above, row
    below: list[list[int]] = [[] for _ in range(len(parent) + 1)]  # the last are the root's
    for me, above in enumerate(parent):
        below[max(above, _ROOT)].append(me)
    order = list(below[-1])
    for me in order:  # the list gets longer during the loop
        order.extend(below[me])
    names = list(place)
    if len(order) < len(parent):
        _raise_cycle(rows, names, parent, row_of, set(order))
    content: list[list[Any]] = [[] for _ in below]
    n_empty = 0
    for me in reversed(order):  # children before their parents, the last first
        label = numbers.get(names[me])
        own = ([] if label is None else [label]) + content[me][::-1]
        if own:
            content[max(parent[me], _ROOT)].append(own)
        n_empty += not own
    if not content[-1]:
        shown = f" ({shorten(', '.join(names[:3]))})" if names else ""
        raise InputError(
            f"no name in the hierarchy is a label of the data{shown}",
            **rows.where(0 if names else -1),
            hint="use the names of the labels as they are in the data",
        )
    if n_empty:
        warnings.warn(
            f"{n_empty:,} of the {len(names):,} names in the hierarchy are not labels of the data and have "
            "no labels below them; they are ignored.",
            stacklevel=3,
        )
    return content[-1][::-1]


def _raise_cycle(
    rows: Rows, names: list[str], parent: list[int], row_of: list[int], reached: set[int]
) -> NoReturn:
    me = next(k for k in range(len(names)) if k not in reached)
    seen: dict[int, None] = {}  # in the order of the way up
    while me not in seen:
        seen[me] = None
        me = parent[me]
    way = list(seen)
    cycle = [repr(names[k]) for k in way[way.index(me) :]]
    shown = " below ".join(cycle[:3] + ["..."] * (len(cycle) > 3) + cycle[:1])
    raise InputError(
        f"the hierarchy has a cycle: {shown}", **rows.where(row_of[me]), hint="change one of these parents"
    )
