"""Why a model predicts what it does: the paths of the labels through the trees, and the words along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labeltree import _native
from labeltree.base.limits import WORDS, Whole, checked
from labeltree.data.dataset import canonical_csr
from labeltree.errors import InputError
from labeltree.explain.parts import Child, Word, label_name, largest, path_to
from labeltree.model.queries import (
    Queries,
    Score,
    check_options,
    check_queries,
    score_of,
    unit_queries,
)
from labeltree.settings import DEFAULT_BEAM, DEFAULT_TOP, DEFAULT_WORDS, ScoreSettings

if TYPE_CHECKING:
    from labeltree.model.model import Model


@dataclass(frozen=True)
class Step:
    """One step down a path: a node, and the child that the path continues with.

    The products of `supporting` and `opposing`, `bias` and `rest` add up to `margin`.

    Attributes
    ----------
    node, depth : int
        The node and its depth; the root is node 0 at depth 0.
    child : Child
    margin : float
        w'x of the child.
    factor : float
        g(margin), by which the step multiplies the score.
    score : float
        The product of the factors so far.
    supporting, opposing : tuple of Word
        The words of the row with the largest positive and negative products, largest first.
    bias : float
        What the constant feature adds to the margin.
    rest : float
        What all other words of the row add together.
    others : int
        The number of these other words.
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
    """The path to a label through one tree.

    Attributes
    ----------
    tree : int
    reached : bool
        Whether the beam reached the label. If not, the tree added nothing to the label's score.
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
        As in ``Model.predict``: the mean over the trees; a tree that did not reach the label counts as 0.
    paths : tuple of Path
        One path per tree.
    """

    label: int
    name: str
    score: float
    paths: tuple[Path, ...]


def explain_prediction(
    model: Model,
    row: Any,
    *,
    top: int = DEFAULT_TOP,
    beam: int = DEFAULT_BEAM,
    score: str | None = None,
    score_scale: float | None = None,
    words: int = DEFAULT_WORDS,
) -> list[Explanation]:
    """Explain the labels predicted for one row: their paths, and the words for and against each step.

    Parameters
    ----------
    model : Model
    row : sparse matrix or array of one row; or str
        As accepted by ``Model.predict``, or an array with one dimension; or a document, if the model was
        trained on text.
    top, beam, score, score_scale
        As in ``Model.predict``.
    words : int, default 5
        Maximum number of words for and against each step.

    Returns
    -------
    list of Explanation
        One for each label that ``Model.predict`` returns, best first, with its path through each tree.
    """
    words = checked("words", words, WORDS)
    row = _as_row(model, row)
    check_options(top, beam, None)
    queries = _one_query(model, row)
    settings = model.score.replace(score, score_scale)
    labels, scores = model.predict(row, top=top, beam=beam, score=score, score_scale=score_scale, threads=1)
    query = _Query(model, queries, score_of(settings), words)
    predicted = [(j, float(s)) for j, s in zip(labels[0].tolist(), scores[0], strict=True) if j >= 0]
    reached = [_reached_labels(model, t, queries, beam, settings) for t in range(len(model.trees))]
    return [
        Explanation(
            label,
            label_name(model, label),
            value,
            tuple(query.path(t, label, label in reached[t]) for t in range(len(model.trees))),
        )
        for label, value in predicted
    ]


def explain_labels(
    model: Model,
    row: Any,
    labels: Sequence[int],
    *,
    beam: int = DEFAULT_BEAM,
    words: int = DEFAULT_WORDS,
) -> list[Explanation]:
    """Explain the scores of given labels for one row, predicted or not.

    Parameters
    ----------
    model : Model
    row, beam, words
        As in `explain_prediction`.
    labels : sequence of int

    Returns
    -------
    list of Explanation
        One for each label, in the same order. The score is 0 if the beam does not reach the label.
    """
    words = checked("words", words, WORDS)
    queries = _one_query(model, _as_row(model, row))
    query = _Query(model, queries, score_of(model.score), words)
    found = []
    reached = [_search_tree(model, t, queries, beam, model.score) for t in range(len(model.trees))]
    for label in labels:
        label = checked("label", label, Whole(0, model.n_labels - 1))
        paths = tuple(query.path(t, label, label in reached[t]) for t in range(len(model.trees)))
        score = sum(path.score for path in paths if path.reached) / len(paths)
        found.append(Explanation(label, label_name(model, label), score, paths))
    return found


def _as_row(model: Model, row: Any) -> Any:
    if not isinstance(row, str):
        return row[None] if isinstance(row, np.ndarray) and row.ndim == 1 else row
    if model.text is None:
        what = "the row is a document, but the model was not trained on text"
        raise InputError(what, hint="pass a row of feature values")
    return model.text.transform([row])


def _one_query(model: Model, row: Any) -> Queries:
    queries = check_queries(row)
    if queries.n_rows != 1:
        raise InputError(f"expected 1 row, got {queries.n_rows}", hint="explain one row at a time")
    return unit_queries(queries, model.n_features) if model.normalized else queries


def _reached_labels(model: Model, tree: int, queries: Queries, beam: int, score: ScoreSettings) -> Any:
    """Return the labels that the beam reaches in one tree."""
    if len(model.trees) == 1:
        return range(model.n_labels)  # a predicted label was reached by the only tree
    return _search_tree(model, tree, queries, beam, score)


def _search_tree(model: Model, tree: int, queries: Queries, beam: int, score: ScoreSettings) -> set[int]:
    if model.text is not None and not queries.arrays[1].size:
        return set()  # no label is predicted for a document without known words
    search = _native.BeamSearch([model.trees[tree].arrays], model.n_features, model.n_labels, model.bias)
    labels, _ = search.search(*queries.arrays, beam, model.n_labels, score.function, score.scale, 1)
    return set(labels[labels >= 0].tolist())


class _Query:
    """One row and its paths through the trees. Only the rows of its features are read from the blocks."""

    def __init__(self, model: Model, queries: Queries, score: Score, n_words: int) -> None:
        self.model, self.score, self.n_words = model, score, n_words
        _, indices, values = queries.arrays
        given = sp.csr_matrix((values, indices, [0, indices.size]), shape=(1, max(queries.n_features, 1)))
        row = canonical_csr(given, "X")
        known = row.indices < model.n_features
        self.features = np.append(row.indices[known], model.n_features).astype(np.int32)
        self.values = np.append(row.data[known], model.bias).astype(np.float64)
        self._steps: dict[tuple[int, int, int], Step] = {}

    def path(self, tree: int, label: int, reached: bool) -> Path:
        """Return the path to a label through one tree."""
        steps: list[Step] = []
        total = 1.0
        for depth, (node, column) in enumerate(path_to(self.model.trees[tree].tree, label)):
            key = (tree, node, column)  # labels share the steps near the root
            if key not in self._steps:
                self._steps[key] = self._step(tree, node, column, depth, total)
            steps.append(self._steps[key])
            total = steps[-1].score
        return Path(tree, reached, total, tuple(steps))

    def _step(self, tree: int, node: int, column: int, depth: int, parent_score: float) -> Step:
        features, values = self.features, self.values
        weights = self.model.trees[tree].child_weights(node, column, features).astype(np.float64)
        products = values * weights
        margin = float(products.sum())
        factor = float(self.score.function(margin))
        is_bias = features == self.model.n_features
        chosen = largest(np.where(is_bias, 0, products), self.n_words)
        others = ~is_bias & (products != 0)
        others[chosen[0] + chosen[1]] = False
        supporting, opposing = (
            tuple(
                Word.make(self.model, int(features[k]), float(weights[k]), float(values[k]))
                for k in positions
            )
            for positions in chosen
        )
        return Step(
            node,
            depth,
            Child.make(self.model, tree, node, column),
            margin,
            factor,
            parent_score * factor,
            supporting,
            opposing,
            float(products[is_bias].sum()),
            float(products[others].sum()),
            int(others.sum()),
        )
