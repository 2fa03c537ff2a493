"""Evaluating predictions: metrics at ranks, F1 of the accepted labels, and what cannot be predicted."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypedDict

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.data.dataset import Dataset
from labeltree.data.read import Reader, read_data
from labeltree.data.summary import as_arguments, suspicions
from labeltree.evaluation import metrics
from labeltree.evaluation.candidates import rank
from labeltree.evaluation.decisions import Decision
from labeltree.evaluation.labeled import Source, known_occurrences, mostly_known
from labeltree.settings import MAX_ACCEPTED


class OpenModel(Reader, Source, Protocol):
    """A model, as far as reading labeled data for it needs it."""


class Missed(TypedDict):
    """What no prediction can get right."""

    rows_without_labels: int
    skipped_rows: int
    unknown_labels: int


@dataclass(frozen=True, eq=False)
class Labeled:
    """Labeled data, with its labels as a model numbers them.

    Attributes
    ----------
    dataset : Dataset
    truth : csr_matrix, rows x labels
        Labels that the model does not know follow those of the model.
    model : Source
    """

    dataset: Dataset
    truth: sp.csr_matrix
    model: Source

    @classmethod
    def of(cls, dataset: Dataset, model: Source) -> Labeled:
        """Match data with a model."""
        return cls(dataset, dataset.align(model.label_names, model.n_labels).Y, model)

    def metrics(self, predicted: Any, ks: Sequence[int]) -> dict[str, float]:
        """Return every metric of ranked labels, rows x ranks, as a fraction."""
        ranked = metrics.pad_labels(predicted, max(ks))
        propensities = metrics.propensities(self.model.label_counts, self.model.n_instances)
        return metrics.evaluate(self.truth, ranked, ks, propensities)

    def accepted(
        self, labels: NDArray[np.int32], scores: NDArray[np.float32], decision: Decision
    ) -> dict[str, float]:
        """Return F1 of the ranked labels that a decision accepts, and the share of rows that get any.

        Rows without labels are left out.
        """
        kept = decision.accept(labels[:, :MAX_ACCEPTED], scores[:, :MAX_ACCEPTED])
        found = rank(self.truth, *kept)[0].measure(decision)
        return {
            "micro_F1": found["micro_f1"],
            "macro_F1": found["macro_f1"],
            "rows_with_accepted_label": 1 - found["rows_without"],
        }

    @cached_property
    def missed(self) -> Missed:
        """What no prediction can get right."""
        labels = np.unique(self.truth.indices)
        return {
            "rows_without_labels": int((np.diff(self.truth.indptr) == 0).sum()),
            "skipped_rows": self.dataset.n_skipped,
            "unknown_labels": int((labels >= self.model.n_labels).sum()),
        }

    @property
    def is_mostly_known(self) -> bool:
        """Whether the model knows at least half of the label occurrences."""
        return mostly_known(self.truth, self.model.n_labels)

    def unknown_note(self, separators: str, name: str = "the model") -> Iterator[str]:
        """Describe the labels that the model does not know, if there are any.

        Parameters
        ----------
        separators : str
            How the separators of labels are set.
        name : str
            Of the model.
        """
        unknown, known = self.missed["unknown_labels"], known_occurrences(self.truth, self.model.n_labels)
        check = f"check that the data belongs to {name}"
        if self.dataset.text is not None:
            check += f", and how labels are separated ({separators})"
        if unknown and not known:
            yield f"No label in the data is known to {name}, so every metric is 0: {check}."
        elif unknown:
            n_labels = np.unique(self.truth.indices).size
            more = f" Only {known:,} of {self.truth.nnz:,} label occurrences are known: {check}."
            yield (
                f"{unknown:,} of the {n_labels:,} labels in the data {'is' if unknown == 1 else 'are'} "
                f"unknown to {name} and counted as missed.{'' if self.is_mostly_known else more}"
            )


def labeled_data(data: Dataset | str | os.PathLike[str], model: OpenModel) -> Labeled:
    """Match data with a model, after reading a file; warn of what looks wrong, at the caller's caller."""
    notes: list[str] = []
    if not isinstance(data, Dataset):
        data = read_data(data, like=model)
        notes += suspicions(data, _as_call, model)
    if data.one_based is not None:  # a file need not mention the last features
        data = data.widen(model.n_features)
    labeled = Labeled.of(data, model)
    if not labeled.is_mostly_known:
        notes += labeled.unknown_note("labeltree.Columns(separators=...)")
    for note in notes:
        warnings.warn(note, stacklevel=3)
    return labeled


def _as_call(separator: str, format: str | None) -> str:
    return f"read_data(file, {as_arguments(separator, format)}, like=model)"
