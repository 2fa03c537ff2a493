"""Labels of data that a model knows: the others cannot be predicted."""

from __future__ import annotations

import scipy.sparse as sp

from labeltree.data.columns import SEPARATORS
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError


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
