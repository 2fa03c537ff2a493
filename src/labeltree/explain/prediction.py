"""Why a model predicts what it does: the paths of labels through its trees, and the words along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from labeltree import _native
from labeltree.errors import InputError
from labeltree.explain.label import Child, Word, child_of, feature_name, label_name, path_down
from labeltree.predict import Queries, check_queries

if TYPE_CHECKING:
    from labeltree.model import Model


@dataclass(frozen=True)
class Step:
    """One step down a path: a node, and the child that the path goes to.

    The products of `supporting` and `opposing`, `bias` and `rest` add up to `margin`.

    Attributes
    ----------
    node, depth : int
        The node, and its depth; the root is node 0 at depth 0.
    child : Child
    margin : float
        w'x, by which the child is judged.
    factor : float
        g(margin), what the step multiplies the score by.
    score : float
        The product of the factors so far.
    supporting, opposing : tuple of Word
        The words of the row with the largest positive and negative products, largest first.
    bias : float
        What the constant feature adds to the margin.
    rest : float
        What all other words of the row add together.
    others : int
        How many these are.
    """

    node: int
    depth: int
    child: Child
    margin: float
    factor: float
    score: float
    supporting: tuple[Word, ...]
    opposing: tuple[Word, ...]
    bias: float
    rest: float
    others: int


@dataclass(frozen=True)
class Path:
    """The way to a label through one tree.

    Attributes
    ----------
    tree : int
    reached : bool
        Whether the beam came there. Where it did not, the tree added nothing to the label's score.
    score : float
        The product of the steps' factors.
    steps : tuple of Step
        From the root down to the label.
    """

    tree: int
    reached: bool
    score: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a label was predicted.

    Attributes
    ----------
    label : int
    name : str
        Its name, or its number.
    score : float
        As ``Model.predict`` has it: the mean over the trees, those that did not reach the label counting 0.
    paths : tuple of Path
        One a tree.
    """

    label: int
    name: str
    score: float
    paths: tuple[Path, ...]


def explain_prediction(
    model: Model, row: Any, *, top: int = 5, beam: int = 10, score: str = "sigmoid", words: int = 5
) -> list[Explanation]:
    """Explain the labels predicted for one row: their paths, and the words for and against each step.

    Parameters
    ----------
    model : Model
    row : sparse matrix or array of one row; or str
        As ``Model.predict`` takes it; or a document, if the model was trained on text.
    top, beam, score
        As in ``Model.predict``.
    words : int, default 5
        Maximum number of words for and against each step.

    Returns
    -------
    list of Explanation
        One for each label that ``Model.predict`` returns, best first, with its path through each tree.
    """
    if words < 0:
        raise InputError(f"words must be 0 or greater, but got {words}.")
    text = model.text
    if isinstance(row, str):
        if text is None:
            raise InputError(
                "got a text, but the model was trained on rows of features; pass a row of numbers."
            )
        row = text.transform([row])
    queries = check_queries(row, top=top, beam=beam, score=score, threads=None)
    if queries.n_rows != 1:
        raise InputError(f"got {queries.n_rows} rows, expected one to explain; pass one at a time.")
    labels, scores = model.predict(row, top=top, beam=beam, score=score, threads=1)
    query = _Query(model, queries, score, words)
    found = [(label, float(s)) for label, s in zip(labels[0].tolist(), scores[0], strict=True) if label >= 0]
    reached = [_reached(model, t, queries, beam, score) for t in range(len(model.trees))]
    return [
        Explanation(
            label,
            label_name(model, label),
            value,
            tuple(query.path(t, label, label in reached[t]) for t in range(len(model.trees))),
        )
        for label, value in found
    ]


def _reached(model: Model, tree: int, queries: Queries, beam: int, score: str) -> Any:
    """Labels that the beam comes to in one tree of a row's search."""
    if len(model.trees) == 1:
        return range(model.n_labels)  # only those that were predicted are asked for
    search = _native.BeamSearch([model.trees[tree].arrays], model.n_features, model.n_labels, model.bias)
    labels, _ = search.search(*queries.arrays, beam, model.n_labels, score, 1)
    return set(labels[labels >= 0].tolist())


class _Query:
    """One row on its way through the trees. Only the rows of its features are read from the blocks."""

    def __init__(self, model: Model, queries: Queries, score: str, words: int) -> None:
        self.model, self.score, self.words = model, score, words
        _, indices, values = queries.arrays
        row = sp.csr_matrix((values, indices, [0, indices.size]), shape=(1, max(queries.n_features, 1)))
        row.sum_duplicates()
        known = (row.indices < model.n_features) & (row.data != 0)
        self.features = np.append(row.indices[known], model.n_features).astype(np.int32)
        self.values = np.append(row.data[known], model.bias).astype(np.float64)
        self._at: dict[tuple[int, int], tuple[NDArray[Any], NDArray[Any]]] = {}
        self._steps: dict[tuple[int, int, int], Step] = {}

    def path(self, tree: int, label: int, reached: bool) -> Path:
        """The way to a label through one tree."""
        steps: list[Step] = []
        total = 1.0
        for depth, (node, column) in enumerate(path_down(self.model.trees[tree].tree, label)):
            key = (tree, node, column)  # labels share the steps near the root
            if key not in self._steps:
                self._steps[key] = self._step(tree, node, column, depth, total)
            steps.append(self._steps[key])
            total = steps[-1].score
        return Path(tree, reached, total, tuple(steps))

    def _step(self, tree: int, node: int, column: int, depth: int, parent: float) -> Step:
        here, rows = self._matches(tree, node)
        weights = self.model.block(node, tree)[1][rows, column].astype(np.float64)
        products = self.values[here] * weights
        margin = float(products.sum())
        factor = g(self.score, margin)
        constant = self.features[here] == self.model.n_features
        spoken = np.where(constant, 0, products)
        order = np.argsort(spoken, kind="stable")
        opposing = [int(k) for k in order[: self.words] if spoken[k] < 0]
        supporting = [int(k) for k in order[::-1][: self.words] if spoken[k] > 0]
        others = ~constant & (products != 0)
        others[supporting + opposing] = False

        def told(chosen: Sequence[int]) -> tuple[Word, ...]:
            return tuple(
                Word(
                    int(self.features[here[k]]),
                    feature_name(self.model, int(self.features[here[k]])),
                    float(weights[k]),
                    float(self.values[here[k]]),
                    float(products[k]),
                )
                for k in chosen
            )

        return Step(
            node,
            depth,
            child_of(self.model, tree, node, column),
            margin,
            factor,
            parent * factor,
            told(supporting),
            told(opposing),
            float(products[constant].sum()),
            float(products[others].sum()),
            int(others.sum()),
        )

    def _matches(self, tree: int, node: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Which of the row's features a node uses, and their rows in its block."""
        if (tree, node) not in self._at:
            used = self.model.block(node, tree)[0]
            rows = np.searchsorted(used, self.features)
            here = np.flatnonzero(rows < used.size)
            here = here[used[rows[here]] == self.features[here]]
            self._at[tree, node] = here, rows[here]
        return self._at[tree, node]


def g(score: str, margin: float) -> float:
    """How a margin becomes a factor of the score, by the names that ``Model.predict`` takes."""
    if score == "sigmoid":
        return float(expit(3 * margin))
    return float(np.exp(-(max(0.0, 1 - margin) ** {"hinge2": 2, "hinge3": 3}[score])))
