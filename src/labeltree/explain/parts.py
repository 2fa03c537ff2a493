"""The parts that explanations are made of: words, children, names, and paths through a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from labeltree.model.model import Model
    from labeltree.trees.tree import LabelTree

# How many labels are named for a child with many labels.
N_NAMED = 3


@dataclass(frozen=True)
class Word:
    """A feature and its weight for a child.

    Attributes
    ----------
    feature : int
        Its column in X, from 0.
    name : str
        The word, if the model was trained on text; otherwise the feature's number in the user's files.
    weight : float
    value : float or None
        Value of the feature in the row that is explained, scaled if the model is normalized; None without a
        row.
    product : float or None
        value * weight: what the feature adds to the margin.
    """

    feature: int
    name: str
    weight: float
    value: float | None = None
    product: float | None = None

    @classmethod
    def make(cls, model: Model, feature: int, weight: float, value: float | None = None) -> Word:
        """Name a feature, and multiply its value by its weight."""
        product = None if value is None else value * weight
        return cls(feature, feature_name(model, feature), weight, value, product)


@dataclass(frozen=True)
class Child:
    """The child of a node that a path continues with.

    Attributes
    ----------
    node : int or None
        Number of the node; None if the child is the label itself.
    labels : int
        Number of labels below it; 1 for a label.
    frequent : tuple of str
        Names of the most frequent of these labels in the training data, at most three.
    """

    node: int | None
    labels: int
    frequent: tuple[str, ...]

    @classmethod
    def make(cls, model: Model, tree: int, node: int, column: int) -> Child:
        """Describe a child of a node."""
        shape = model.trees[tree].tree
        child = int(shape.children[shape.child_ptr[node] + column])
        if child < 0:
            return cls(None, 1, (label_name(model, ~child),))
        below = shape.labels[shape.first[child] : shape.last[child]]
        return cls(child, below.size, frequent_labels(model, below, N_NAMED))


def label_name(model: Model, label: int) -> str:
    """Return the name of a label, or its number if labels have no names."""
    return str(label) if model.label_names is None else model.label_names[label]


def feature_name(model: Model, feature: int) -> str:
    """Return the name of a feature: a word, or its number in the user's files if the model has no words."""
    if feature == model.n_features:
        return "bias"
    names = () if model.text is None else model.text.names
    if 0 <= feature < len(names):
        return str(names[feature])
    return str(feature + bool(model.one_based))  # also of a damaged model that is not verified


def frequent_labels(model: Model, labels: NDArray[np.int32], n_most: int) -> tuple[str, ...]:
    """Return the names of the labels that have the most training instances."""
    if labels.size > n_most > 0:  # leave out most of them before sorting
        counts = model.label_counts[labels]
        labels = labels[counts >= np.partition(counts, -n_most)[-n_most]]
    ranked = labels[np.lexsort((labels, -model.label_counts[labels]))][:n_most]
    return tuple(label_name(model, label) for label in ranked.tolist())


def path_to(tree: LabelTree, label: int) -> list[tuple[int, int]]:
    """Return the path from the root to a label: nodes, and which of the node's children comes next."""
    of_node, of_label = tree.child_place
    steps = []
    at = int(of_label[label])
    while True:
        node = int(np.searchsorted(tree.child_ptr, at, side="right")) - 1
        steps.append((node, at - int(tree.child_ptr[node])))
        if node == 0:
            return steps[::-1]
        at = int(of_node[node])


def largest(values: NDArray[np.float64], n_most: int) -> tuple[list[int], list[int]]:
    """Return the positions of the largest positive and of the most negative values, largest first."""
    order = np.argsort(values, kind="stable").tolist()
    positive = [k for k in order[::-1][:n_most] if values[k] > 0]
    return positive, [k for k in order[:n_most] if values[k] < 0]
