"""What a model has learned about a label: its place in the trees, its siblings and its words."""

from __future__ import annotations

import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from labeltree.base.display import html_table
from labeltree.base.limits import WORDS, Whole, checked, from_text
from labeltree.errors import InputError, alternatives
from labeltree.settings import DEFAULT_WORDS

if TYPE_CHECKING:
    from labeltree.model.model import Model
    from labeltree.trees.tree import LabelTree

# How many labels are named for a child with many labels, or in a message.
N_NAMED = 3
# Characters of an unknown name in a message.
_SHOWN = 100
# Similar names are looked for among so many: among more, it would take seconds.
_MOST_COMPARED = 100_000


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

    def __str__(self) -> str:
        return f"{self.name} {self.weight if self.product is None else self.product:+.3f}"


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


@dataclass(frozen=True)
class LabelStep:
    """A node on the path to a label, and what separates the label's child from the other children.

    Attributes
    ----------
    node, depth : int
    child : Child
        The child that contains the label.
    siblings : int
        Number of other children of the node.
    sibling_labels : tuple of str
        The most frequent labels among these children.
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


class Paths(ABC):
    """What is known about a label and its paths: shown as a line, or in a notebook as a table of steps."""

    @abstractmethod
    def _shown(self) -> tuple[str, list[Sequence[Any]]]:
        """Return a title, and the steps of the path through each tree."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dictionaries, lists and values, as ``--json`` prints it."""
        return asdict(cast("Any", self))

    def __repr__(self) -> str:
        title, paths = self._shown()
        return f"{type(self).__name__}({title}; for: {'; against: '.join(_words(paths[0][-1]))})"

    def _repr_html_(self) -> str:
        title, paths = self._shown()
        found = ((str(tree), step) for tree, steps in enumerate(paths) for step in steps)
        rows = ([tree, ", ".join(step.child.frequent), *_words(step)] for tree, step in found)
        return html_table(title, ["tree", "towards", "for", "against"], rows)


def _words(step: Any) -> list[str]:
    return [", ".join(map(str, words)) for words in (step.supporting, step.opposing)]


@dataclass(frozen=True, repr=False)
class LabelProfile(Paths):
    """What a model has learned about a label.

    Attributes
    ----------
    label : int
    name : str
    instances : int
        Number of training instances with the label.
    paths : tuple of tuple of LabelStep
        One path per tree, from the root down.
    """

    label: int
    name: str
    instances: int
    paths: tuple[tuple[LabelStep, ...], ...]

    def _shown(self) -> tuple[str, list[Sequence[Any]]]:
        return f"{self.name!r}, instances={self.instances}", list(self.paths)


def find_label(model: Model, name: str | int) -> int:
    """Return the number of a label with this name or number. A string is a number only without names."""
    if model.label_names is None or not isinstance(name, str):
        number = Whole(0, model.n_labels - 1)
        if (label := number.plain(from_text(name, number))) is None:
            expected = "" if model.label_names is None else "the name of a label or "
            raise InputError(f"label is {reprlib.repr(name)}, expected {expected}{number}")
        return label
    shown = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."
    if name in model.label_names:
        return model.label_names.index(name)
    words = re.findall(r"\w+", name.casefold()) or [name]
    containing = (other for other in model.label_names if all(map(other.casefold().__contains__, words)))
    similar = nsmallest(N_NAMED, containing, key=len)
    if not similar and len(name) <= _SHOWN and model.n_labels <= _MOST_COMPARED:
        similar = get_close_matches(name, model.label_names, N_NAMED, 0.8)
    hint = f"did you mean {alternatives(list(map(repr, similar)))}?" if similar else "check the spelling"
    raise InputError(f"no label {shown} among the {model.n_labels:,} labels", file=model.path, hint=hint)


def describe_label(
    model: Model, label: str | int, *, words: int = DEFAULT_WORDS, siblings: int = 10
) -> LabelProfile:
    """Describe a label, given by its name or number; see `labeltree.Model.label`."""
    label = find_label(model, label)
    words, siblings = checked("words", words, WORDS), checked("siblings", siblings, Whole(0))
    paths = []
    for number, part in enumerate(model.trees):
        tree, steps = part.tree, []
        for depth, (node, column) in enumerate(path_to(tree, label)):
            others = np.delete(tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]], column)
            features = part.features_of(node)
            weights = part.rows(node, features, column)[:, 0].astype(np.float64)
            bias = part.rows(node, np.array([model.n_features], np.int32), column)[0, 0]
            step = LabelStep(
                node,
                depth,
                Child.make(model, number, node, column),
                others.size,
                frequent_labels(model, ~others[others < 0], siblings),
                *strongest_words(model, features, weights, words),
                float(bias) * model.bias,
            )
            steps.append(step)
        paths.append(tuple(steps))
    return LabelProfile(label, label_name(model, label), int(model.label_counts[label]), tuple(paths))


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


def strongest_words(
    model: Model,
    features: NDArray[np.int32],
    weights: NDArray[np.float64],
    n_most: int,
    values: NDArray[np.float64] | None = None,
) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the words that add most to a margin, and those that take most from it, strongest first.

    Without the values of a row, by their weights.
    """
    products = weights if values is None else values * weights
    order = np.argsort(products, kind="stable").tolist()

    def word(k: int) -> Word:
        feature, weight = int(features[k]), float(weights[k])
        of_row = () if values is None else (float(values[k]), float(products[k]))
        return Word(feature, feature_name(model, feature), weight, *of_row)

    supporting = tuple(word(k) for k in order[::-1][:n_most] if products[k] > 0)
    return supporting, tuple(word(k) for k in order[:n_most] if products[k] < 0)
