"""Labeled data, matched with a model: to evaluate its predictions, or to show what a choice costs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data.dataset import Dataset, csr_arrays
from labeltree.data.read import read_data
from labeltree.data.summary import as_arguments, suspicions
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.evaluation.accepted import Decision, labeled_candidates
from labeltree.evaluation.labeled import check_known, known_occurrences, mostly_known
from labeltree.settings import DEFAULT_RANKS, MAX_ACCEPTED

if TYPE_CHECKING:
    from labeltree.model.model import Model


@dataclass(frozen=True, eq=False)
class Validation:
    """Data that models are evaluated on: features, and labels as the model numbers them."""

    X: sp.csr_matrix
    truth: sp.csr_matrix

    @classmethod
    def of(cls, dataset: Dataset, model: Model) -> Validation:
        """Match data with a model; data that cannot show what a choice costs is refused.

        Warns about data that looks like the training data: it has as many rows, and as many of each label.
        """
        if dataset.text is not None and (model.text is None or dataset.text.contents != model.text.contents):
            what = "the validation data was read with text features that are not the model's"
            raise InputError(what, hint="read the documents with the features of the model")
        if dataset.n_features > model.n_features:
            raise InputError(
                f"the validation data has {dataset.n_features:,} features, but the model has "
                f"{model.n_features:,}",
                hint="use data with the features of the training data",
            )
        if dataset.Y.nnz == 0:
            raise InputError("the validation data has no labels", hint="use labeled data")
        truth = dataset.align(model.label_names, model.n_labels).Y
        check_known(truth, dataset, model.n_labels)
        counts = np.bincount(truth.indices, minlength=truth.shape[1])
        same = counts.size == model.n_labels and np.array_equal(counts, model.label_counts)
        if same and dataset.n_instances == model.n_instances:
            warnings.warn(
                "The validation data looks like the training data: it has as many rows, and as many of each "
                "label. A model is better on its training data than on any other, so this choice does not "
                "show what to expect on other data.",
                stacklevel=3,
            )
        if dataset.one_based is not None:  # a file need not mention the last features
            dataset = dataset.widen(model.n_features)
        return cls(dataset.X, truth)

    def fingerprint(self) -> int:
        """Return a checksum of features and labels."""
        crc = 0
        for array in (*csr_arrays(self.X), *csr_arrays(self.truth)):
            crc = _native.crc32c(array.view(np.uint8), crc)
        return crc

    def precision(self, model: Model, threads: int | None) -> tuple[float, ...]:
        """Return P@1, P@3 and P@5 of a model in percent."""
        top = max(DEFAULT_RANKS)
        labels = metrics.pad_labels(model.predict(self.X, top=top, threads=threads)[0], top)
        hits = metrics.hits(self.truth, labels, top)
        return tuple(100 * float(metrics.row_precision(hits, k).mean()) for k in DEFAULT_RANKS)


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
    model : Model
    """

    dataset: Dataset
    truth: sp.csr_matrix
    model: Model

    @classmethod
    def of(cls, dataset: Dataset, model: Model) -> Labeled:
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
        found = labeled_candidates(self.truth, *kept)[0].measure(decision)
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


def labeled_data(data: Dataset | str | os.PathLike[str], model: Model) -> Labeled:
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
