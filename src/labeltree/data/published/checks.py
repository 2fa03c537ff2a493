"""Compare the counts of a dataset with the published ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.data.published.sources import Source

# Relative difference of a count that may be due to how columns were counted, not to another dataset.
TOLERANCE = 0.01

# Who published a count. The repositories: LIBSVM's and the Extreme Classification Repository.
PAPER, PECOS, BOTH, REPOSITORIES = "the paper", "PECOS", "the paper and PECOS", "the repositories"


@dataclass(frozen=True)
class Check:
    """A count, compared with the published one.

    Attributes
    ----------
    what : str
        What is counted, such as "features".
    found, published : int
    source : str
        Who published it.
    counted : str
        Where it was counted, such as "both files": of several ways to count, the one that comes closest.
    """

    what: str
    found: int
    published: int
    source: str
    counted: str = ""

    @property
    def met(self) -> bool:
        """Whether the counts are equal."""
        return self.found == self.published

    @property
    def plausible(self) -> bool:
        """Whether the counts can belong to the same dataset."""
        tolerance = 0.0 if self.what == "instances" else TOLERANCE * self.published
        return abs(self.found - self.published) <= tolerance


def identifying_checks(source: Source, part: str, dataset: Dataset) -> list[Check]:
    """Return the checks that distinguish one dataset from another.

    The non-zeros of X are not among them, since they depend on how documents are split into words.
    """
    if part == "test":
        return [Check("instances", dataset.n_instances, source.n_test_instances, REPOSITORIES)]
    return [
        Check("instances", dataset.n_instances, source.n_instances, BOTH),
        _closest("features", {"": dataset.n_features, "used": _used(dataset.X)}, _published_features(source)),
        _closest("labels", {"": dataset.n_labels, "used": _used(dataset.Y)}, {BOTH: source.n_labels}),
        Check("labels of instances", dataset.Y.nnz, source.y_nnz, PECOS),
    ]


def all_checks(source: Source, train: Dataset, test: Dataset) -> tuple[Check, ...]:
    """Compare every published count with the count that comes closest to it."""
    aligned = test.align(train.label_names, train.n_labels)
    in_train, in_both = "the training file", "both files"
    features = {
        in_train: train.n_features,
        in_both: max(train.n_features, test.n_features),
        f"{in_train}, those that occur": _used(train.X),
        f"{in_both}, those that occur": _used(train.X, test.X),
    }
    labels = {
        in_train: train.n_labels,
        in_both: max(train.n_labels, aligned.n_labels),
        f"{in_train}, those that occur": _used(train.Y),
        f"{in_both}, those that occur": _used(train.Y, aligned.Y),
    }
    pecos = f"{PECOS}, of {source.n_pecos_features:,} features" if source.n_pecos_features else PECOS
    return (
        Check("instances", train.n_instances, source.n_instances, BOTH, in_train),
        Check("test instances", test.n_instances, source.n_test_instances, REPOSITORIES, "the test file"),
        _closest("features", features, _published_features(source)),
        _closest("labels", labels, {BOTH: source.n_labels}),
        Check("non-zeros", train.X.nnz, source.x_nnz, pecos, in_train),
        Check("labels of instances", train.Y.nnz, source.y_nnz, PECOS, in_train),
    )


def _published_features(source: Source) -> dict[str, int]:
    if source.n_pecos_features:
        return {PAPER: source.n_features, PECOS: source.n_pecos_features}
    return {BOTH: source.n_features}


def _closest(what: str, counts: dict[str, int], published: dict[str, int]) -> Check:
    """Choose, from several ways to count and several published counts, the pair that agrees best."""
    pairs = (
        Check(what, found, number, source, counted)
        for counted, found in counts.items()
        for source, number in published.items()
    )
    return min(pairs, key=lambda check: abs(check.found - check.published))


def _used(*matrices: Any) -> int:
    """Count the columns with an entry in any of the matrices."""
    import numpy as np

    used = np.zeros(max(matrix.shape[1] for matrix in matrices), bool)
    for matrix in matrices:
        used[matrix.indices] = True
    return int(used.sum())
