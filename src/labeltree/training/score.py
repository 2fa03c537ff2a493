"""Choose the score function and the threshold of a model from margins that its training did not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.evaluation.accepted import Candidates, Decision
from labeltree.evaluation.calibration import MIN_DECISION_ROWS, choose_threshold
from labeltree.model.pack import TrainedBlocks
from labeltree.model.ranker import as_matrix
from labeltree.settings import DEFAULT_BEAM, DEFAULT_RANKS, HARD_PATH_WEIGHT, ScoreSettings
from labeltree.training.plan import TRIAL_ROWS, Plan
from labeltree.training.tree_plan import STRIP_BYTES

# The first one is kept unless another ranks clearly better.
CANDIDATES = (
    ScoreSettings(),
    ScoreSettings("sigmoid", 2.0),
    ScoreSettings("sigmoid", 5.0),
    ScoreSettings("hinge2"),
    ScoreSettings("hinge3"),
)
# The same with hard negatives: margins near the leaves then say more than those above them.
HARD_CANDIDATES = tuple(
    ScoreSettings(function, path_weight=weight)
    for function, weights in (
        ("hinge3", (HARD_PATH_WEIGHT, 1.0, 0.5, 0.35, 0.25)),
        ("sigmoid", (HARD_PATH_WEIGHT, 0.5, 0.35)),
    )
    for weight in weights
)
# Rows that are ranked, and how many standard errors a candidate must be better to go on, or to be chosen.
ROUNDS = ((TRIAL_ROWS[0], 2.0), (TRIAL_ROWS[1], 3.0))
# With fewer rows, the choice would be random.
MIN_ROWS = 200
# Instances of a node that are looked at to find out how much it depends on each of them.
MAX_INSTANCES = 500
# Labels of a row that are ranked for the threshold: three times as many as a row has on average, within this
# range. Later ones are hardly ever accepted.
RANKED_LABELS = 20, 50
# For the threshold: rows that are ranked, for the score function, too.
DECISION_ROWS = ROUNDS[0][0]
# With several trees: labels of each tree whose scores are averaged, at least, and rows times trees, to bound
# memory.
POOLED_LABELS = 20
MAX_POOLS = 100_000

# The best labels of each row, rows x ranks, padded with -1, and their scores.
_Ranked = tuple[NDArray[np.int32], NDArray[np.float32]]


class HeldOut:
    """Training rows, ranked as if each had been held out of training.

    Labels are ranked by margins without the effect of the row itself: if the row is removed from the training
    data of a node, one step of Newton's method, with the diagonal of the Hessian, changes its margins there.

    Its ``rows`` are those with labels in random order, as many as can be ranked with these trees.
    ``trainings`` is how each tree was trained.
    """

    def __init__(
        self,
        dataset: Dataset,
        plan: Plan,
        blocks: Sequence[TrainedBlocks],
        trainings: Sequence[_native.Training],
    ) -> None:
        self.plan = plan
        self._dataset, self._blocks, self._trainings = dataset, blocks, trainings
        rows = np.flatnonzero(np.diff(dataset.Y.indptr)).astype(np.int32)
        order = np.random.default_rng(plan.settings.seed).permutation(rows)
        self.rows = order[: MAX_POOLS // len(plan.trees)]
        per_row = dataset.Y.nnz / max(1, rows.size)
        self._n_ranked = int(np.clip(np.ceil(3 * per_row), *RANKED_LABELS))
        self._ranked: dict[tuple[int, ScoreSettings], _Ranked] = {}

    def truth(self, n_rows: int) -> sp.csr_matrix:
        """Return the labels of the first rows, rows x labels."""
        labels = self._dataset.Y[np.sort(self.rows[:n_rows])]
        self._dataset.release_pages()
        return labels

    def ranked(self, n_rows: int, functions: Sequence[ScoreSettings]) -> list[_Ranked]:
        """Return the best labels of the first rows and their scores by each function.

        What was ranked before is not ranked again. Of many rows, only the labels that P@k needs are ranked.
        """
        n_rows = min(n_rows, self.rows.size)
        top = self._n_ranked if n_rows <= DECISION_ROWS else max(DEFAULT_RANKS)
        missing = [function for function in functions if (n_rows, function) not in self._ranked]
        if missing:
            found = self._rank(np.sort(self.rows[:n_rows]), missing, top)
            self._ranked.update(zip(((n_rows, function) for function in missing), found, strict=True))
        return [self._ranked[n_rows, function] for function in functions]

    def _rank(self, rows: NDArray[np.int32], functions: Sequence[ScoreSettings], top: int) -> list[_Ranked]:
        """Return the best labels of rows and their scores by each function, averaged over the trees."""
        n_trees = len(self.plan.trees)
        if n_trees == 1:
            return self._rank_in_tree(0, rows, functions, top)
        totals: list[Any] = [0] * len(functions)
        # A label that is not among these counts 0 in a tree: if they were few, scores would be too small.
        n_pooled = max(top, POOLED_LABELS)
        for t in range(n_trees):
            for k, ranked in enumerate(self._rank_in_tree(t, rows, functions, n_pooled)):
                totals[k] += as_matrix(*ranked, self.plan.n_labels)
        found = []
        for total in totals:
            labels = metrics.ranked_labels(total, top)
            at = np.where(labels >= 0, labels, 0)
            scores = total[np.arange(rows.size)[:, None], at].toarray() / n_trees
            found.append((labels.astype(np.int32), np.where(labels >= 0, scores, 0).astype(np.float32)))
        return found

    def _rank_in_tree(
        self, number: int, rows: NDArray[np.int32], functions: Sequence[ScoreSettings], top: int
    ) -> list[_Ranked]:
        blocks = self._blocks[number]
        try:
            labels, scores = _native.held_out_rankings(
                self._trainings[number],
                blocks.files,
                scales=blocks.scales,
                biases=blocks.biases,
                rows=rows,
                functions=[function.values for function in functions],
                beam=DEFAULT_BEAM,
                top=top,
                max_instances=MAX_INSTANCES,
                threads=self.plan.threads,
            )
        except ValueError as error:  # blocks may come from other processes, and are verified only later
            what = f"the trained blocks of tree {number} are damaged ({error})"
            raise InputError(what, hint="remove the work directory, and train again") from None
        shape = len(functions), rows.size, top
        return list(zip(labels.reshape(shape), scores.reshape(shape), strict=True))


def choose_score(held_out: HeldOut) -> ScoreSettings:
    """Return the score function that ranks the labels of held-out rows best.

    The candidate with the largest sum of P@1, P@3 and P@5 is chosen if it is more than three standard errors
    of the paired differences better than sigmoid(3 s), or with hard negatives than hinge3 with the path
    weight 0.75. If none is better by two after the first 1,500 rows, the trial ends.

    The first candidate is kept without a trial if all trees have depth 1 (one-vs-rest: every function ranks
    labels by their margins), if fewer than 200 rows have labels, and with the hinge loss, which has no
    second derivative.
    """
    plan, n_rows = held_out.plan, held_out.rows.size
    if plan.depth == 1:
        return CANDIDATES[0]
    candidates = HARD_CANDIDATES if plan.settings.hard_negatives else CANDIDATES
    if plan.settings.loss == "hinge" or n_rows < MIN_ROWS:
        return candidates[0]
    best = 0
    for size, certainty in ROUNDS if n_rows > ROUNDS[0][0] else ROUNDS[1:]:
        truth = held_out.truth(size)
        gains = np.array([_precision(truth, labels) for labels, _ in held_out.ranked(size, candidates)])
        gains -= gains[0].copy()
        means, errors = metrics.paired_gain(gains)
        best = int(np.argmax(np.where(means > certainty * errors, means, 0)))
        if best == 0:
            break
    return candidates[best]


def is_large_node(plan: Plan) -> bool:
    """Return whether a model is one-vs-rest with more weights than the planned memory holds at a time."""
    return plan.depth == 1 and plan.n_weights * 4 > STRIP_BYTES * len(plan.trees)


def choose_decision(held_out: HeldOut, score: ScoreSettings) -> Decision | None:
    """Choose the threshold with the largest micro F1 on held-out rows, with the score function of the model.

    Returns None if fewer than 50 rows have labels, with the hinge loss, and for a large one-vs-rest model.
    """
    plan, n_rows = held_out.plan, held_out.rows.size
    if plan.settings.loss == "hinge" or n_rows < MIN_DECISION_ROWS or is_large_node(plan):
        return None
    (ranked,) = held_out.ranked(DECISION_ROWS, [score])
    candidates = Candidates.of(held_out.truth(DECISION_ROWS), *ranked)
    return choose_threshold(candidates, held_out=True) if candidates.hits.any() else None


def _precision(truth: sp.csr_matrix, labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return P@1 + P@3 + P@5 of each row."""
    hits = metrics.hits(truth, labels[:, : max(DEFAULT_RANKS)], max(DEFAULT_RANKS))
    weights = [sum(1 / k for k in DEFAULT_RANKS if rank < k) for rank in range(hits.shape[1])]
    found: NDArray[np.float64] = hits @ np.array(weights)
    return found
