"""Why a model predicts what it does: the paths of the labels through the trees, and the words along them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labeltree import _native
from labeltree.base.limits import WORDS, checked
from labeltree.data.dataset import canonical_csr
from labeltree.errors import InputError
from labeltree.explain.label import Child, Paths, Word, find_label, label_name, path_to, strongest_words
from labeltree.model.ranker import Queries, check_options, check_queries, score_factor, unit_queries
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
        g(margin).
    score : float
        The factor times the score of the step before to the power of the model's path weight.
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
class TreePath:
    """The path to a label through one tree.

    Attributes
    ----------
    tree : int
    reached : bool
        Whether the beam reached the label. If not, the tree added nothing to the label's score.
    score : float
        That of the last step.
    steps : tuple of Step
        From the root down to the label.
    """

    tree: int
    reached: bool
    score: float
    steps: tuple[Step, ...]


@dataclass(frozen=True, repr=False)
class Explanation(Paths):
    """Why a label was predicted.

    Attributes
    ----------
    label : int
    name : str
        Its name, or its number.
    score : float
        As in ``Model.predict``: a probability if the model is calibrated, otherwise the mean of the paths'
        scores; a tree that did not reach the label counts as 0.
    uncalibrated : float or None
        That mean, if the score is a probability.
    paths : tuple of TreePath
        One path per tree.
    """

    label: int
    name: str
    score: float
    uncalibrated: float | None
    paths: tuple[TreePath, ...]

    def _shown(self) -> tuple[str, list[Sequence[Any]]]:
        return f"{self.name!r}, score={self.score:.4f}", [path.steps for path in self.paths]


def explain_prediction(
    model: Model,
    row: Any,
    *,
    labels: Sequence[str | int] | None = None,
    top: int = DEFAULT_TOP,
    beam: int = DEFAULT_BEAM,
    score: str | None = None,
    score_scale: float | None = None,
    words: int = DEFAULT_WORDS,
) -> list[Explanation]:
    """Explain the labels predicted for a row of features or a document; see `labeltree.Model.explain`."""
    words = checked("words", words, WORDS)
    check_options(top, beam, None)
    if isinstance(row, str):
        if model.text is None:
            what = "the row is a document, but the model was not trained on text"
            raise InputError(what, hint="pass a row of feature values")
        row = model.text.transform([row])
    elif not sp.issparse(row):
        if not isinstance(row, np.ndarray | list | tuple) or any(isinstance(value, str) for value in row):
            expected = "" if model.text is None else "a document (one string) or "
            raise InputError(f"the row is of type {type(row).__name__}, expected {expected}feature values")
        row = row[None] if isinstance(row, np.ndarray) and row.ndim == 1 else row
    queries = check_queries(row)
    if queries.n_rows != 1:
        raise InputError(f"expected 1 row, got {queries.n_rows}", hint="explain one row at a time")
    queries = unit_queries(queries, model.n_features) if model.normalized else queries
    settings = model.score.replace(score, score_scale)
    predicted: dict[int, float] = {}
    if labels is None:
        options: dict[str, Any] = {"beam": beam, "score": score, "score_scale": score_scale}
        best, scores = model.predict(row, top=top, calibrated=False, threads=1, **options)
        predicted = {j: float(s) for j, s in zip(best[0].tolist(), scores[0], strict=True) if j >= 0}
    elif isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError(f"labels is {reprlib.repr(labels)}, expected a list of names or numbers")
    numbers = list(predicted) if labels is None else [find_label(model, label) for label in labels]
    calibration = model.calibration if settings == model.score else None
    paths = _Paths(model, queries, beam, settings, words)
    found = []
    for label in numbers:
        each = tuple(paths.to(tree, label) for tree in range(len(model.trees)))
        mean = sum(path.score for path in each if path.reached) / len(each)
        before = predicted.get(label, mean)
        after = before if calibration is None else float(calibration.apply(np.array([before], np.float32))[0])
        name, uncalibrated = label_name(model, label), None if calibration is None else before
        found.append(Explanation(label, name, after, uncalibrated, each))
    return found


def _reached_labels(model: Model, tree: int, queries: Queries, beam: int, score: ScoreSettings) -> set[int]:
    """Return the labels that the beam reaches in one tree."""
    if model.text is not None and not queries.arrays[1].size:
        return set()  # no label is predicted for a document without known words
    search = _native.BeamSearch([model.trees[tree].native], model.n_features, model.n_labels, model.bias)
    labels, _ = search.search(*queries.arrays, beam, model.n_labels, *score.values, 1)
    return set(labels[labels >= 0].tolist())


class _Paths:
    """The paths of one row through the trees. Only the rows of its features are read from the blocks."""

    def __init__(self, model: Model, queries: Queries, beam: int, score: ScoreSettings, n_words: int) -> None:
        self.model, self.score, self.n_words = model, score, n_words
        _, indices, values = queries.arrays
        given = sp.csr_matrix((values, indices, [0, indices.size]), shape=(1, max(queries.n_features, 1)))
        row = canonical_csr(given, "X")
        known = row.indices < model.n_features
        # The bias comes last.
        self.features = np.append(row.indices[known], model.n_features).astype(np.int32)
        self.values = np.append(row.data[known], model.bias).astype(np.float64)
        self.reached = [_reached_labels(model, t, queries, beam, score) for t in range(len(model.trees))]
        self._steps: dict[tuple[int, int, int], Step] = {}

    def to(self, tree: int, label: int) -> TreePath:
        """Return the path to a label through one tree."""
        steps: list[Step] = []
        total = 1.0
        for depth, (node, column) in enumerate(path_to(self.model.trees[tree].tree, label)):
            key = (tree, node, column)  # labels share the steps near the root
            if key not in self._steps:
                self._steps[key] = self._step(tree, node, column, depth, total)
            steps.append(self._steps[key])
            total = steps[-1].score
        return TreePath(tree, label in self.reached[tree], total, tuple(steps))

    def _step(self, tree: int, node: int, column: int, depth: int, parent_score: float) -> Step:
        weights = self.model.trees[tree].rows(node, self.features, column)[:, 0].astype(np.float64)
        products = self.values * weights
        margin = float(products.sum())
        factor = float(score_factor(self.score, margin))
        features, values = self.features[:-1], self.values[:-1]
        supporting, opposing = strongest_words(self.model, features, weights[:-1], self.n_words, values)
        named = [word.feature for word in supporting + opposing]
        others = products[:-1][~np.isin(features, named)]
        return Step(
            node,
            depth,
            Child.make(self.model, tree, node, column),
            margin,
            factor,
            parent_score**self.score.path_weight * factor,
            supporting,
            opposing,
            float(products[-1]),
            float(others.sum()),
            int(np.count_nonzero(others)),
        )
