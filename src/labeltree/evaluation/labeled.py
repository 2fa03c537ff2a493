"""Validation data: labeled rows that show what a choice costs, matched with a model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data.columns import SEPARATORS
from labeltree.data.dataset import Dataset, TextSource, csr_arrays
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.settings import DEFAULT_RANKS


class Predictor(Protocol):
    """A model, as far as trials need it."""

    def predict(
        self, X: Any, *, top: int, threads: int | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Find the best labels of each row."""


class Source(Protocol):
    """What a model knows about its training data."""

    n_instances: int
    n_features: int
    n_labels: int
    label_names: tuple[str, ...] | None
    label_counts: NDArray[np.int64]

    @property
    def text(self) -> TextSource | None:
        """How features were computed from text, if they were."""


@dataclass(frozen=True, eq=False)
class Validation:
    """Data that models are evaluated on: features, and labels as the model numbers them."""

    X: sp.csr_matrix
    truth: sp.csr_matrix

    @classmethod
    def of(cls, dataset: Dataset, model: Source) -> Validation:
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

    def precision(self, model: Predictor, threads: int | None) -> tuple[float, ...]:
        """Return P@1, P@3 and P@5 of a model in percent."""
        top = max(DEFAULT_RANKS)
        labels = metrics.pad_labels(model.predict(self.X, top=top, threads=threads)[0], top)
        hits = metrics.hits(self.truth, labels, top)
        return tuple(100 * float(hits[:, :k].mean()) for k in DEFAULT_RANKS)


def known_occurrences(truth: sp.csr_matrix, n_labels: int) -> int:
    """Return how many pairs of a row and a label have one of the first labels, those of a model."""
    return int((truth.indices < n_labels).sum())


def mostly_known(truth: sp.csr_matrix, n_labels: int) -> bool:
    """Return whether a model knows at least half of the label occurrences.

    Many distinct labels may be unknown, because they are rare. If most occurrences are, the data was read
    wrongly or belongs to another model.
    """
    return 2 * known_occurrences(truth, n_labels) >= truth.nnz


def check_known(
    truth: sp.csr_matrix, dataset: Dataset, n_labels: int, known_to: str = "known to the model"
) -> None:
    """Refuse validation data whose labels are mostly unknown, as `mostly_known` counts them."""
    if mostly_known(truth, n_labels):
        return
    known = known_occurrences(truth, n_labels)
    what = f"no label of the validation data is {known_to}"
    if known:
        what = f"only {known:,} of {truth.nnz:,} label occurrences in the validation data are {known_to}"
    hint = "use data with the labels of the training data"
    if dataset.text is None:
        raise InputError(what, hint=hint)
    hint = f"check how labels are separated ({{columns}}), or {hint}"
    raise InputError(what, hint=hint, parameters={"columns": SEPARATORS})
