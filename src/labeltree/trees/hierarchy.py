"""Trees that the user gives: nested lists, parents or clusters, joined to the labels of the data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import InputError
from labeltree.tree import LabelTree, label_number

# Parents that have no place of their own: the root is the last place, as Python counts.
_ROOT, _UNSAID = -1, -2
_REMEDY = "pass rest=True (--tree-rest) to give them a child of the root of their own"


def from_parents(
    names: Sequence[str],
    parents: Sequence[str | None],
    label_names: Sequence[str] | int,
    *,
    rest: bool = False,
) -> LabelTree:
    """Make a tree from a hierarchy: the parent of each label and of each group of labels.

    A label that is a parent becomes a leaf child of its own node. A node with one child is replaced by that
    child. Names that are not labels and have no labels below them are left out, with a warning.

    Parameters
    ----------
    names : sequence of str
        Labels and groups. A parent that is not among them is a group under the root.
    parents : sequence of str or None
        The parent of each; None or "" for the root.
    label_names : sequence of str or int
        Names of the labels 0, 1, ...; or the number of labels, if labels are numbers.
    rest : bool, default False
        Put labels that the hierarchy lacks under a separate child of the root; otherwise they are an error.

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
        raise InputError(f"got {len(names)} names and {len(parents)} parents, expected one parent per name")
    numbers = label_numbers(label_names)
    children = [str(name) for name in names]
    uppers = ["" if parent is None else str(parent) for parent in parents]
    where = [f"names[{i}]" for i in range(len(children))]
    return grow(nested_parents(children, uppers, where, numbers), numbers, rest)


def from_clusters(
    clusters: Sequence[Sequence[Any]], label_names: Sequence[str] | int, *, rest: bool = False
) -> LabelTree:
    """Make a tree of depth 2 from clusters: each is a child of the root, and its labels are leaves.

    Parameters
    ----------
    clusters : sequence of sequences
        Labels, by name or number. A cluster of one label is that label.
    label_names, rest
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
    return grow(numbered([list(cluster) for cluster in clusters], numbers), numbers, rest)


def label_numbers(label_names: Sequence[str] | int) -> dict[str, int]:
    """The number of each label by its name; labels without names go by their numbers."""
    names = map(str, range(label_names)) if isinstance(label_names, int) else label_names
    return {name: label for label, name in enumerate(names)}


def grow(
    nested: list[Any],
    numbers: Mapping[str, int],
    rest: bool,
    idle: NDArray[np.bool_] | None = None,
    where: str = "",
) -> LabelTree:
    """Make a tree of nested lists of numbers: add the labels they lack, and spare nodes with one child."""
    nodes = [nested]
    for node in nodes:  # grows while it is walked
        nodes.extend(child for child in node if isinstance(child, list))
    count = np.zeros(len(numbers), np.int64)
    np.add.at(count, [child for node in nodes for child in node if not isinstance(child, list)], 1)
    if (count > 1).any():
        twice = _few(numbers, np.flatnonzero(count > 1))
        raise InputError(f"{where}the tree holds {twice} twice, expected each label once; remove the others")
    lacking = np.flatnonzero(count == 0)
    wanted = lacking if idle is None else lacking[~idle[lacking]]
    if wanted.size and not rest:
        raise InputError(
            f"{where}the tree lacks {wanted.size:,} of the {len(numbers):,} labels "
            f"({_few(numbers, wanted)}), expected each once; add them, or {_REMEDY}"
        )
    if wanted.size:
        warnings.warn(
            f"{where}the tree lacks {wanted.size:,} of the {len(numbers):,} labels "
            f"({_few(numbers, wanted)}): they get a child of the root of their own.",
            stacklevel=4,
        )
    if lacking.size:
        nested.append(lacking.tolist())
    for node in reversed(nodes):  # children come after their parents
        node[:] = [_only(child) for child in node]
    while len(nested) == 1 and isinstance(nested[0], list):
        nested = nested[0]
    return LabelTree.from_nested([_only(child) for child in nested])


def _only(child: Any) -> Any:
    """Spare a node that has one child: its classifier would tell nothing apart."""
    return child[0] if isinstance(child, list) and len(child) == 1 else child


def numbered(nested: list[Any], numbers: Mapping[str, int]) -> list[Any]:
    """Copy nested lists with the labels' numbers in place of their names."""
    root: list[Any] = []
    queue: list[tuple[list[Any], list[Any]]] = [(nested, root)]
    for given, made in queue:
        if not given:
            raise InputError("A node of the given tree has no children; remove its empty list.")
        for child in given:
            if isinstance(child, list):
                made.append([])
                queue.append((child, made[-1]))
            else:
                made.append(label_number(child, numbers))
    return root


def nested_parents(
    names: Sequence[str], parents: Sequence[str], where: Sequence[str], numbers: Mapping[str, int]
) -> list[Any]:
    """Nest a hierarchy. A label that has children becomes the first child of its own node."""
    place: dict[str, int] = {}  # of a name, in the order of appearance
    parent: list[int] = []  # place of the parent, or one of the two above
    said: list[str] = []

    def item(name: str) -> int:
        if name not in place:
            place[name] = len(parent)
            parent.append(_UNSAID)
            said.append("")
        return place[name]

    for name, upper, here in zip(names, parents, where, strict=True):
        me, above = item(name), item(upper) if upper else _ROOT
        if parent[me] not in (_UNSAID, above):
            first = "the root" if parent[me] == _ROOT else list(place)[parent[me]]
            raise InputError(
                f"{here}: got a second parent {upper or 'the root'!r} of {name!r}, which has {first!r} at "
                f"{said[me]}, expected one parent each; remove one of the two"
            )
        parent[me], said[me] = above, here
    below: list[list[int]] = [[] for _ in range(len(parent) + 1)]  # the last are the root's
    for me, above in enumerate(parent):
        below[max(above, _ROOT)].append(me)
    order = list(below[-1])
    for me in order:
        order.extend(below[me])
    named = list(place)
    if len(order) < len(parent):
        _raise_cycle(named, parent, said, set(order))
    content: list[list[Any]] = [[] for _ in below]
    empty = 0
    for me in reversed(order):  # children before their parents, the last first
        label = numbers.get(named[me])
        own = ([] if label is None else [label]) + content[me][::-1]
        if own:
            content[max(parent[me], _ROOT)].append(own)
        empty += not own
    if not content[-1]:
        raise InputError(
            f"{where[0] if where else 'names'}: no name of the hierarchy is a label of the data "
            f"({shortened(', '.join(named[:3]))}), expected the labels' own names; check which names it holds"
        )
    if empty:
        warnings.warn(
            f"{empty:,} of the {len(named):,} names of the hierarchy are no labels of the data and have none "
            "below: they are left out.",
            stacklevel=4,
        )
    return content[-1][::-1]


def _raise_cycle(named: list[str], parent: list[int], said: list[str], fine: set[int]) -> NoReturn:
    me = next(k for k in range(len(named)) if k not in fine)
    seen: dict[int, None] = {}  # in the order of the way up
    while me not in seen:
        seen[me] = None
        me = parent[me]
    way = list(seen)
    cycle = [named[k] for k in way[way.index(me) :]]
    shown = " below ".join(cycle[:3] + ["..."] * (len(cycle) > 3) + cycle[:1])
    raise InputError(f"{said[me]}: got a cycle, {shown}, expected parents that lead to the root; cut it")


def nested_clusters(name: str, lines: list[tuple[int, list[str]]], numbers: Mapping[str, int]) -> list[Any]:
    """Number the labels of clusters."""
    seen: dict[int, int] = {}
    nested = []
    for line, labels in lines:
        for text in labels:
            if text not in numbers:
                raise InputError(
                    f"{name}:{line}: got {shortened(text)}, expected labels of the data, one cluster a line "
                    "(a table of parents begins with the line `label,parent`); correct or remove it"
                )
            label = numbers[text]
            if label in seen:
                raise InputError(
                    f"{name}:{line}: got the label {text!r} again, which is on line {seen[label]}, expected "
                    "each label once; remove one of them"
                )
            seen[label] = line
        nested.append([numbers[text] for text in labels])
    return nested


def _few(numbers: Mapping[str, int], labels: Iterable[int]) -> str:
    """Name a few labels."""
    chosen = list(labels)
    by_number = list(numbers)  # in the order of the numbers
    return ", ".join([repr(by_number[label]) for label in chosen[:3]] + ["..."] * (len(chosen) > 3))


def shortened(text: str) -> str:
    """Quote a text, or its beginning."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
