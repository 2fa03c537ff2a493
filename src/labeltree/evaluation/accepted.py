"""Accepted labels: which of the ranked labels a decision accepts, and how good they are on labeled rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation import metrics

_Floats = NDArray[np.float64]

DECISION_LIMITS: dict[str, limits.Limit] = {
    "threshold": limits.THRESHOLD,
    "metric": limits.DECISION_METRIC,
    "target": limits.Optional(limits.TARGET),
    "rows": limits.DECISION_ROWS,
    "held_out": limits.FLAG,
}


@dataclass(frozen=True, eq=False)
class Decision:
    """The scores at which labels are accepted.

    Attributes
    ----------
    threshold : float
        The minimum score of an accepted label.
    metric : {"micro_f1", "macro_f1", "row_f1", "precision", "recall"}
        What the threshold was chosen by: the largest F1, or a target of precision or recall.
    target : float or None
        The precision or recall that was to be reached.
    rows : int
        Number of rows that it was chosen on.
    held_out : bool
        True for training rows, each scored as if the model had been trained without it; False for other
        data.
    thresholds : ndarray of float32 or None
        A minimum score for each label, instead of ``threshold``.
    """

    threshold: float
    metric: str = "micro_f1"
    target: float | None = None
    rows: int = 0
    held_out: bool = False
    thresholds: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        limits.check_fields(self, DECISION_LIMITS)

    @classmethod
    def stored(
        cls, entry: Mapping[str, Any] | None, thresholds: NDArray[np.float32] | None
    ) -> Decision | None:
        """Return what an entry of a manifest describes, with the thresholds of labels."""
        if entry is None:
            return None
        fields = {name: value for name, value in entry.items() if name in DECISION_LIMITS}
        return cls(**fields, thresholds=thresholds)

    def entry(self) -> dict[str, Any]:
        """Return what a manifest records, without the thresholds of labels."""
        return {name: value for name, value in asdict(self).items() if name in DECISION_LIMITS}

    def __str__(self) -> str:
        """Describe the threshold and what it was chosen by."""
        goal = f"{self.metric} of {self.target:g}" if self.target is not None else self.metric
        goal = goal.replace("_f1", " F1")
        where = "training rows, each as if held out" if self.held_out else "rows of validation data"
        kept = f"{self.threshold:.4g}"
        if self.thresholds is not None:
            own = int((self.thresholds != np.float32(self.threshold)).sum())
            kept += f", {own:,} labels have their own"
        return f"{kept}; chosen by {goal} on {self.rows:,} {where}"

    def accept(
        self, labels: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return ranked labels and their scores with -1 and 0 in place of what is not accepted.

        With thresholds per label, accepted labels can follow others in a row.
        """
        minimum = np.float32(self.threshold) if self.thresholds is None else self.thresholds[labels]
        kept = (scores >= minimum) & (labels >= 0)
        return np.where(kept, labels, np.int32(-1)), np.where(kept, scores, np.float32(0))


@dataclass(frozen=True, eq=False)
class Candidates:
    """The ranked labels of all rows, sorted by decreasing score, and which of them are correct."""

    truth: sp.csr_matrix  # rows x labels
    n_labels: int  # those of the model, which macro F1 is the mean over; others may follow them
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    scores: NDArray[np.float32]
    hits: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        truth: Any,
        labels: NDArray[np.int32],
        scores: NDArray[np.float32],
        n_labels: int | None = None,
    ) -> Candidates:
        """Compare ranked labels, rows x ranks and padded with -1, with the true labels, rows x labels.

        A true label that is not ranked counts as not accepted at any threshold. All labels are those of the
        model, unless their number is given.
        """
        hits = metrics.hits(truth, labels, labels.shape[1])
        found = np.flatnonzero(labels.ravel() >= 0)
        found = found[np.argsort(-scores.ravel()[found], kind="stable")]
        return cls(
            truth,
            truth.shape[1] if n_labels is None else n_labels,
            found // labels.shape[1],
            labels.ravel()[found].astype(np.int64),
            scores.ravel()[found],
            hits.ravel()[found],
        )

    def of_rows(self, chosen: NDArray[np.bool_]) -> Candidates:
        """Return the candidates of some rows."""
        kept = chosen[self.rows]
        number = np.cumsum(chosen) - 1
        return Candidates(
            self.truth[np.flatnonzero(chosen)],
            self.n_labels,
            number[self.rows[kept]],
            self.labels[kept],
            self.scores[kept],
            self.hits[kept],
        )

    @property
    def random_half(self) -> NDArray[np.bool_]:
        """Whether each row is in a random half of them."""
        half: NDArray[np.bool_] = np.random.default_rng(0).permutation(self.row_true.size) % 2 == 0
        return half

    def halves(self) -> tuple[Candidates, Candidates]:
        """Return the candidates of a random half of the rows, and those of the others."""
        return self.of_rows(self.random_half), self.of_rows(~self.random_half)

    @cached_property
    def row_true(self) -> NDArray[np.int64]:
        """The number of true labels of each row, ranked or not."""
        return np.diff(self.truth.indptr).astype(np.int64)

    @cached_property
    def label_true(self) -> NDArray[np.int64]:
        """The number of true rows of each label, ranked or not."""
        return np.bincount(self.truth.indices, minlength=self.truth.shape[1])

    @property
    def n_true(self) -> int:
        """The number of pairs of a row and a true label."""
        return int(self.row_true.sum())

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """How many candidates each distinct score accepts, from the largest score down."""
        return np.flatnonzero(np.append(self.scores[1:] != self.scores[:-1], True))[: self.scores.size] + 1

    @cached_property
    def correct(self) -> NDArray[np.int64]:
        """How many of the first 0, 1, 2, ... candidates are correct."""
        return np.append(0, np.cumsum(self.hits))

    @cached_property
    def by_label(self) -> _Groups:
        """The candidates of each label."""
        return _Groups.of(self.labels, self.hits, self.label_true, self.n_labels)

    @cached_property
    def by_row(self) -> _Groups:
        """The candidates of each row."""
        return _Groups.of(self.rows, self.hits, self.row_true, int((self.row_true > 0).sum()))

    def count(self, threshold: float) -> int:
        """Return how many candidates a threshold accepts."""
        return int(np.searchsorted(-self.scores, -np.float32(threshold), side="right"))

    def figures(self, accepted: NDArray[np.int64]) -> dict[str, _Floats]:
        """Return every figure if the first `accepted` candidates are accepted, for each of these numbers."""
        n_rows = max(1, self.row_true.size)
        precision = self.correct[accepted] / np.maximum(accepted, 1)
        return {
            "precision": precision,
            "recall": self.correct[accepted] / max(1, self.n_true),
            "micro_f1": 2 * self.correct[accepted] / np.maximum(accepted + self.n_true, 1),
            "macro_f1": self.by_label.mean_f1[accepted],
            "row_f1": self.by_row.mean_f1[accepted],
            "coverage": self.by_label.share_found[accepted],
            "labels_per_row": accepted / n_rows,
            "rows_without": 1 - self.by_row.n_reached[accepted] / n_rows,
        }

    def at(self, thresholds: Any) -> dict[str, _Floats]:
        """Return every figure at each of these thresholds."""
        return self.figures(np.array([self.count(t) for t in np.atleast_1d(thresholds)], np.int64))

    def accepted(self, decision: Decision) -> NDArray[np.bool_]:
        """Return which candidates a decision accepts."""
        common = np.float32(decision.threshold)
        if decision.thresholds is None:
            return self.scores >= common
        minimum = np.append(decision.thresholds, common)
        return self.scores >= minimum[np.minimum(self.labels, minimum.size - 1)]

    def measure(self, decision: Decision) -> dict[str, float]:
        """Return every figure for the labels that a decision accepts."""
        if decision.thresholds is None:
            return {name: float(values[0]) for name, values in self.at(decision.threshold).items()}
        return self.measure_accepted(self.accepted(decision))

    def measure_accepted(self, kept: NDArray[np.bool_]) -> dict[str, float]:
        """Return every figure if some of the candidates are accepted."""
        accepted = replace(
            self,
            rows=self.rows[kept],
            labels=self.labels[kept],
            scores=self.scores[kept],
            hits=self.hits[kept],
        )
        return {name: float(v[0]) for name, v in accepted.figures(np.array([accepted.scores.size])).items()}

    def below(self, accepted: int) -> float:
        """Return a threshold that accepts so many candidates: halfway to the next score."""
        if accepted == 0:
            return 1.0
        last = self.scores[accepted - 1]
        rest = self.scores[accepted] if accepted < self.scores.size else np.float32(0)
        middle = np.float32((np.float64(last) + np.float64(rest)) / 2)
        return float(middle if middle > rest else last)


def labeled_candidates(
    truth: sp.csr_matrix, labels: Any, scores: Any, n_labels: int | None = None
) -> Candidates:
    """Return the candidates of the rows with labels."""
    candidates = Candidates.of(truth, labels, scores, n_labels)
    labeled = candidates.row_true > 0
    return candidates if labeled.all() else candidates.of_rows(labeled)


def check_known(
    truth: sp.csr_matrix, dataset: Dataset, n_labels: int, known_to: str = "known to the model"
) -> None:
    """Refuse validation data of which a model knows less than half of the label occurrences."""
    known = int((truth.indices < n_labels).sum())
    if 2 * known >= truth.nnz:
        return
    what = f"no label of the validation data is {known_to}"
    if known:
        what = f"only {known:,} of {truth.nnz:,} label occurrences in the validation data are {known_to}"
    hint = "use data with the labels of the training data"
    if dataset.text is None:
        raise InputError(what, hint=hint)
    hint = f"check how labels are separated ({{separator}}), or {hint}"
    raise InputError(what, hint=hint)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The candidates of each label or of each row, in the order of their scores."""

    # Of each candidate: its rank in its group from 1, and the correct ones up to it.
    rank: NDArray[np.int64]
    found: NDArray[np.int64]
    # If the first 0, 1, 2, ... candidates are accepted:
    mean_f1: _Floats  # the mean F1 of the groups
    share_found: _Floats  # the share of the groups with true entries that have a correct candidate
    n_reached: NDArray[np.int64]  # the number of groups with any candidate

    @classmethod
    def of(
        cls, group: NDArray[np.int64], hits: NDArray[np.bool_], totals: NDArray[np.int64], n_groups: int
    ) -> _Groups:
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group, minlength=totals.size)
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        summed = np.append(0, np.cumsum(hits[order]))
        rank, found = np.empty((2, group.size), np.int64)
        rank[order] = np.arange(group.size) - starts + 1
        found[order] = summed[1:] - summed[starts]
        total = totals[group]
        f1 = np.where(total > 0, 2 * found / (rank + total), 0.0)
        before = np.where(total > 0, 2 * (found - hits) / (rank - 1 + np.maximum(total, 1)), 0.0)
        n_true = max(1, int((totals > 0).sum()))
        return cls(
            rank,
            found,
            np.append(0.0, np.cumsum(f1 - before)) / max(1, n_groups),
            np.append(0, np.cumsum(hits & (found == 1))) / n_true,
            np.append(0, np.cumsum(rank == 1)),
        )
