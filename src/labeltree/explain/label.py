"""What a model has learned: a label's place and words in it, and the shape of its trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.model import Model
    from labeltree.tree import LabelTree

# Labels that are named where a child stands for many.
NAMED = 3


@dataclass(frozen=True)
class Word:
    """A feature, and what it weighs for a child.

    Attributes
    ----------
    feature : int
        Its column in X, from 0.
    name : str
        The word, where the model knows its words; else the number that the user's files have for it.
    weight : float
    value : float or None
        Of the feature in the row that is explained; None where no row is.
    product : float or None
        value * weight: how much it moved the margin.
    """

    feature: int
    name: str
    weight: float
    value: float | None = None
    product: float | None = None


@dataclass(frozen=True)
class Child:
    """Where a step leads.

    Attributes
    ----------
    node : int or None
        Number of the node; None where the child is the label itself.
    labels : int
        Labels below it; 1 for a label.
    frequent : tuple of str
        Names of the most frequent of them in the training data, at most three.
    """

    node: int | None
    labels: int
    frequent: tuple[str, ...]


@dataclass(frozen=True)
class Fork:
    """A node on the way to a label, and what tells the label's side from the others there.

    Attributes
    ----------
    node, depth : int
    child : Child
        Where the way goes on.
    siblings : int
        Other children of the node.
    sibling_labels : tuple of str
        Those of them that are labels, the most frequent first, some of them.
    supporting, opposing : tuple of Word
        The words with the largest positive and negative weights, largest first.
    bias : float
        Weight of the constant feature times its value: the margin of a row without words.
    """

    node: int
    depth: int
    child: Child
    siblings: int
    sibling_labels: tuple[str, ...]
    supporting: tuple[Word, ...]
    opposing: tuple[Word, ...]
    bias: float


@dataclass(frozen=True)
class LabelProfile:
    """A label's place in a model.

    Attributes
    ----------
    label : int
    name : str
    instances : int
        Training instances that have it.
    paths : tuple of tuple of Fork
        One a tree, from the root down.
    """

    label: int
    name: str
    instances: int
    paths: tuple[tuple[Fork, ...], ...]


def label_name(model: Model, label: int) -> str:
    """Name of a label, or its number where labels have no names."""
    return str(label) if model.label_names is None else model.label_names[label]


def feature_name(model: Model, feature: int) -> str:
    """Name of a feature: a word where the model knows its words, else its number in the user's files."""
    if feature == model.n_features:
        return "bias"
    names = None if model.text is None else model.text.names
    return str(feature + bool(model.one_based)) if names is None else str(names[feature])


def find_label(model: Model, name: str) -> int:
    """Number of a label, by its name (or number, where labels have no names)."""
    if model.label_names is None:
        if name.isascii() and name.isdigit() and int(name) < model.n_labels:
            return int(name)
        raise InputError(
            f"{model.path} has no label {name!r}, expected a number from 0 to {model.n_labels - 1}."
        )
    if name in model.label_names:
        return model.label_names.index(name)
    alike = [other for other in model.label_names if name.casefold() in other.casefold()][:NAMED]
    hint = f"did you mean {' or '.join(map(repr, alike))}?" if alike else "check its spelling."
    raise InputError(f"{model.path} has no label {name!r} among its {model.n_labels:,}; {hint}")


def path_down(tree: LabelTree, label: int) -> list[tuple[int, int]]:
    """The steps from the root to a label: nodes, and which of the node's children is next."""
    steps = []
    child = ~label
    while True:
        at = int(np.flatnonzero(tree.children == child)[0])
        node = int(np.searchsorted(tree.child_ptr, at, side="right")) - 1
        steps.append((node, at - int(tree.child_ptr[node])))
        if node == 0:
            return steps[::-1]
        child = node


def child_of(model: Model, tree: int, node: int, column: int) -> Child:
    """Describe a child of a node."""
    shape = model.trees[tree].tree
    child = int(shape.children[shape.child_ptr[node] + column])
    if child < 0:
        return Child(None, 1, (label_name(model, ~child),))
    below = shape.labels[shape.first[child] : shape.last[child]]
    return Child(child, below.size, frequent_labels(model, below, NAMED))


def frequent_labels(model: Model, labels: NDArray[np.int32], most: int) -> tuple[str, ...]:
    """Names of those labels that have the most instances."""
    ranked = labels[np.lexsort((labels, -model.label_counts[labels]))][:most]
    return tuple(label_name(model, label) for label in ranked.tolist())


def describe_label(model: Model, label: int, *, words: int = 5, siblings: int = 10) -> LabelProfile:
    """Show a label's path through each tree, its siblings, and the words that speak for and against it.

    Parameters
    ----------
    model : Model
    label : int
    words : int, default 5
        Words to name for and against a step, at most.
    siblings : int, default 10
        Sibling labels to name, at most.

    Returns
    -------
    LabelProfile
    """
    if not 0 <= label < model.n_labels:
        raise InputError(f"The model has labels 0 to {model.n_labels - 1}, but got {label}.")
    for name, value in (("words", words), ("siblings", siblings)):
        if value < 0:
            raise InputError(f"{name} must be 0 or greater, but got {value}.")
    paths = tuple(
        tuple(
            _fork(model, t, node, column, depth, words, siblings)
            for depth, (node, column) in enumerate(path_down(part.tree, label))
        )
        for t, part in enumerate(model.trees)
    )
    return LabelProfile(label, label_name(model, label), int(model.label_counts[label]), paths)


def _fork(model: Model, tree: int, node: int, column: int, depth: int, words: int, siblings: int) -> Fork:
    shape = model.trees[tree].tree
    row = shape.children[shape.child_ptr[node] : shape.child_ptr[node + 1]]
    beside = np.delete(row, column)
    features, block = model.block(node, tree)
    constant = model.bias != 0  # then the last row is the constant feature's
    weights = np.array(block[: features.size - constant, column], np.float64)
    order = np.argsort(weights, kind="stable")

    def told(chosen: Any) -> tuple[Word, ...]:
        return tuple(
            Word(int(features[k]), feature_name(model, int(features[k])), float(weights[k])) for k in chosen
        )

    return Fork(
        node,
        depth,
        child_of(model, tree, node, column),
        beside.size,
        frequent_labels(model, ~beside[beside < 0], siblings),
        told(k for k in order[::-1][:words] if weights[k] > 0),
        told(k for k in order[:words] if weights[k] < 0),
        float(block[-1, column]) * model.bias if constant else 0.0,
    )


def tree_shape(model: Model, tree: int = 0) -> list[dict[str, Any]]:
    """Describe a tree depth by depth, with labels, instances and bytes.

    Parameters
    ----------
    model : Model
    tree : int, default 0

    Returns
    -------
    list of dict
        What :meth:`Model.depths` tells of the nodes of each depth, and: ``labels``, their children that are
        labels; ``label_instances``, the training instances of these labels, an instance counted once for
        each of its labels there; ``bytes`` on disk of their blocks and of what describes the nodes. The
        bytes of all depths are the model's, but for the files' headers, the labels' counts and names, and
        the words of a model of texts.
    """
    part = model.trees[tree]
    depth_of_child = np.repeat(part.tree.node_depth, part.tree.child_count)
    leaf = part.tree.children < 0
    depths = part.tree.depth
    labels = np.bincount(depth_of_child[leaf], minlength=depths)
    counts = model.label_counts[~part.tree.children[leaf]]
    instances = np.zeros(depths, np.int64)
    np.add.at(instances, depth_of_child[leaf], counts)
    # A node: features and weights, two pointers of 8 bytes, a checksum of 4. A child: its number, 4.
    size = 4 * (np.diff(part.feature_ptr) + np.diff(part.weight_ptr)) + 20 + 4 * part.tree.child_count
    sizes = np.zeros(depths, np.int64)
    np.add.at(sizes, part.tree.node_depth, size)
    return [
        {
            **row,
            "labels": int(labels[d]),
            "label_instances": int(instances[d]),
            "bytes": int(sizes[d]),
        }
        for d, row in enumerate(model.depths(tree))
    ]
