"""The result of an evaluation: metrics by name, counts of rows and labels, and a table of the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base.display import html_table
from labeltree.base.table import Table, named
from labeltree.evaluation import metrics
from labeltree.evaluation.accepted import Decision
from labeltree.settings import DEFAULT_RANKS, MAX_ACCEPTED

_COUNTS = ("rows", "rows_without_labels", "skipped_rows", "unknown_labels", "rows_in_training")


@dataclass(frozen=True, eq=False)
class AcceptedLabels:
    """The accepted labels of rows, compared with the true ones, label by label.

    Attributes
    ----------
    truth : csr_matrix, rows x labels
        Rows without labels are left out.
    labels : ndarray of int, rows x ranks
        Padded with -1.
    by : str
        Which labels are accepted.
    """

    truth: sp.csr_matrix
    labels: NDArray[Any]
    by: str

    @classmethod
    def of(
        cls,
        truth: sp.csr_matrix,
        labels: NDArray[Any],
        scores: NDArray[Any] | None,
        decision: Decision | None,
    ) -> AcceptedLabels:
        """Accept what a decision accepts; or without one, the first labels of each row."""
        if decision is None or scores is None:
            top = max(DEFAULT_RANKS)
            return cls(truth, labels[:, :top], f"the first {top} labels of a row")
        kept = decision.accept(labels[:, :MAX_ACCEPTED], scores[:, :MAX_ACCEPTED])[0]
        used = np.flatnonzero((kept >= 0).any(axis=0))
        return cls(truth, kept[:, : used.max(initial=0) + 1], f"labels with a score of {decision}")

    @cached_property
    def _rows(self) -> NDArray[Any]:
        """The accepted labels of the rows with labels."""
        return np.where(np.diff(self.truth.indptr)[:, None] > 0, self.labels, -1)

    @cached_property
    def support(self) -> NDArray[np.int64]:
        """The number of rows that have each label."""
        return np.bincount(self.truth.indices, minlength=self.truth.shape[1])

    @cached_property
    def predicted(self) -> NDArray[np.int64]:
        """The number of rows for which each label is accepted."""
        return np.bincount(self._rows[self._rows >= 0], minlength=self.truth.shape[1])

    @cached_property
    def correct(self) -> NDArray[np.int64]:
        """The number of rows that have it of these."""
        found = metrics.hits(self.truth, self._rows, self._rows.shape[1])
        return np.bincount(self._rows[found], minlength=self.truth.shape[1])

    @property
    def f1(self) -> NDArray[np.float64]:
        """F1 of each label; 0 for a label without true rows."""
        return _shares(2 * self.correct, self.support + self.predicted)

    def figures(self, n_labels: int) -> dict[str, float]:
        """Return F1 over all labels, its mean over those of the model, and the share of rows with any."""
        n_labeled = max(1, np.count_nonzero(np.diff(self.truth.indptr)))
        return {
            "micro_F1": float(2 * self.correct.sum() / max(1, self.support.sum() + self.predicted.sum())),
            "macro_F1": float(self.f1[:n_labels].sum() / n_labels),
            "rows_with_accepted_label": float((self._rows >= 0).any(axis=1).sum() / n_labeled),
        }

    def table(self, names: Sequence[str] | None) -> Table:
        """Return a row per label that is true or accepted for any row."""
        shown = np.flatnonzero(self.support + self.predicted)
        return Table(
            {
                "label": [str(label) if names is None else names[label] for label in shown.tolist()],
                "support": self.support[shown],
                "predicted": self.predicted[shown],
                "correct": self.correct[shown],
                "precision": _shares(self.correct, self.predicted)[shown],
                "recall": _shares(self.correct, self.support)[shown],
                "F1": self.f1[shown],
            }
        )


def _shares(part: NDArray[np.int64], total: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(part, total, out=np.zeros(part.size), where=total > 0)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Mapping[str, float]):
    """How good predicted labels are: a mapping from the names of metrics, such as "P@1", to fractions.

    Attributes
    ----------
    metrics : dict of str to float
        The same as a dictionary.
    rows : int
        Rows of the data.
    rows_without_labels : int
        Those that are left out of every metric.
    skipped_rows : int
        Documents without text, which are not among the rows.
    unknown_labels : int
        Labels of the data that the model does not know; they count as missed.
    rows_in_training : float or None
        The share of the rows that have the same features, such as words, as a training row: estimated, unless
        the training data is small. None if the model does not know, or too few rows are compared.
    accepted : AcceptedLabels
    label_names : sequence of str or None
    """

    metrics: dict[str, float]
    rows: int
    rows_without_labels: int
    skipped_rows: int
    unknown_labels: int
    rows_in_training: float | None
    accepted: AcceptedLabels
    label_names: Sequence[str] | None = None

    def __getitem__(self, name: str) -> float:
        value: float = named(self.metrics, name, "metric")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    @cached_property
    def per_label(self) -> Table:
        """A row per label that is true or accepted for any row.

        Its columns are "label", "support" (the rows that have the label), "predicted" (the rows for which it
        is accepted), "correct" (those of them that have it), "precision", "recall" and "F1". Accepted are the
        labels that reach the threshold of the model, or the first 5 of a row if it has none or if labels
        were given; ``accepted.by`` says which. Rows without labels are left out.
        """
        return self.accepted.table(self.label_names)

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics and counts, as ``labeltree evaluate --json`` prints them."""
        return {**self.metrics, **{name: getattr(self, name) for name in _COUNTS}}

    def ranks(self) -> tuple[list[str], list[list[str]]]:
        """Return the metrics at ranks as a table in percent: its head, and a row per kind of metric."""
        pairs = [name.split("@") for name in self.metrics if "@" in name]
        kinds, ks = dict.fromkeys(kind for kind, _ in pairs), dict.fromkeys(k for _, k in pairs)
        cells = [[kind, *(f"{100 * self.metrics[f'{kind}@{k}']:.2f}" for k in ks)] for kind in kinds]
        return ["%", *(f"@{k}" for k in ks)], cells

    def _counts(self) -> str:
        counts = {name: getattr(self, name) for name in _COUNTS}
        return ", ".join(f"{name}={round(n, 4)}" for name, n in counts.items() if n or name == "rows")

    def __repr__(self) -> str:
        shown = (f"{name}={self[name]:.4f}" for name in self if name.startswith("P@") or name.endswith("F1"))
        return f"Evaluation({', '.join(shown)}, {self._counts()})"

    def _repr_html_(self) -> str:
        head, cells = self.ranks()
        f1 = [[name, f"{100 * self[name]:.2f}"] for name in self if "@" not in name]
        return html_table(self._counts(), head, [*cells, *f1])


@dataclass(frozen=True, eq=False)
class CrossPrediction:
    """Predictions of all rows of training data, each by a model that was trained without the row.

    Attributes
    ----------
    labels : ndarray of int32, rows x top
        The numbers of the best labels of each row, best first, and -1 if there are fewer.
    scores : ndarray of float32, rows x top
    folds : ndarray of int8
        The part of the data that each row belongs to.
    truth : csr_matrix, rows x labels
        The labels of the rows, for the functions of `labeltree.metrics`.
    label_names : tuple of str or None
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    folds: NDArray[np.int8]
    truth: sp.csr_matrix
    label_names: tuple[str, ...] | None

    @property
    def names(self) -> list[list[str]]:
        """The names of the best labels of each row; their numbers, if they have none."""
        named = str if self.label_names is None else self.label_names.__getitem__
        return [[named(label) for label in row if label >= 0] for row in self.labels.tolist()]
