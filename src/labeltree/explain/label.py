"""What a model has learned about a label: its place in the trees, its siblings and its words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from labeltree.base.limits import WORDS, Whole, checked
from labeltree.errors import InputError, alternatives
from labeltree.explain.parts import (
    N_NAMED,
    Child,
    Word,
    frequent_labels,
    label_name,
    largest,
    path_to,
)
from labeltree.settings import DEFAULT_WORDS

if TYPE_CHECKING:
    from labeltree.model.model import Model

SIBLINGS = Whole(0)
# Characters of an unknown name in a message.
_SHOWN = 100


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


@dataclass(frozen=True)
class LabelProfile:
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


def find_label(model: Model, name: str) -> int:
    """Find a label by its name, or by its number if labels have no names.

    Parameters
    ----------
    model : Model
    name : str

    Returns
    -------
    int
        The label's number.
    """
    shown = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."
    if model.label_names is None:
        if name.isascii() and name.isdigit() and len(name) < 10 and int(name) < model.n_labels:
            return int(name)
        expected = f"a number from 0 to {model.n_labels - 1}"
        raise InputError(f"no label {shown}, expected {expected}", file=model.path)
    if name in model.label_names:
        return model.label_names.index(name)
    folded = name.casefold()
    similar = list(islice((other for other in model.label_names if folded in other.casefold()), N_NAMED))
    hint = f"did you mean {alternatives(list(map(repr, similar)))}?" if similar else "check the spelling"
    raise InputError(f"no label {shown} among the {model.n_labels:,} labels", file=model.path, hint=hint)


def describe_label(
    model: Model, label: int, *, words: int = DEFAULT_WORDS, siblings: int = 10
) -> LabelProfile:
    """Describe a label's path through each tree, its siblings, and the words for and against it.

    Parameters
    ----------
    model : Model
    label : int
    words : int, default 5
        Maximum number of words for and against each step.
    siblings : int, default 10
        Maximum number of sibling labels to name.

    Returns
    -------
    LabelProfile
    """
    if not 0 <= label < model.n_labels:
        raise InputError(f"label is {label}, expected 0 to {model.n_labels - 1}")
    words, siblings = checked("words", words, WORDS), checked("siblings", siblings, SIBLINGS)
    paths = tuple(
        tuple(
            _describe_step(model, t, node, column, depth, words, siblings)
            for depth, (node, column) in enumerate(path_to(part.tree, label))
        )
        for t, part in enumerate(model.trees)
    )
    return LabelProfile(label, label_name(model, label), int(model.label_counts[label]), paths)


def _describe_step(
    model: Model, tree: int, node: int, column: int, depth: int, n_words: int, n_siblings: int
) -> LabelStep:
    shape = model.trees[tree].tree
    siblings = np.delete(shape.children[shape.child_ptr[node] : shape.child_ptr[node + 1]], column)
    part = model.trees[tree]
    features = part.features_of(node)
    weights = part.child_weights(node, column, features).astype(np.float64)
    bias = part.child_weights(node, column, np.array([model.n_features], np.int32))[0]
    supporting, opposing = (
        tuple(Word.make(model, int(features[k]), float(weights[k])) for k in chosen)
        for chosen in largest(weights, n_words)
    )
    return LabelStep(
        node,
        depth,
        Child.make(model, tree, node, column),
        siblings.size,
        frequent_labels(model, ~siblings[siblings < 0], n_siblings),
        supporting,
        opposing,
        float(bias) * model.bias,
    )
