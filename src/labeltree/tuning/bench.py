"""What the trials of a search share: data per text setting, samples of its rows, label vectors and trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base.progress import Progress, part_of
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation.labeled import check_known
from labeltree.model.labeled import Validation
from labeltree.settings import SolverSettings, TextSettings
from labeltree.training.costs import default_cost
from labeltree.training.plan import Plan, make_plan
from labeltree.trees.kmeans import LabelVectors, build_tree
from labeltree.trees.tree import LabelTree
from labeltree.tuning.candidate import Candidate

# With fewer validation rows, the choice would be random.
_MIN_VALIDATION = 10
# Trials on a part of the training rows are validated on up to so many of the others, too.
_MORE_VALIDATION = 10_000


@dataclass(frozen=True)
class DataSource:
    """The data of a search, read again for each text setting that is tried.

    Attributes
    ----------
    read : callable
        Takes `TextSettings`, or None for data that is not text, and returns the dataset.
    validation : float or callable
        The share of the rows to validate on; or takes the training data and returns other data with the
        same features.
    text : TextSettings or None
        The settings that trials change; None if the data is not text.
    searches_terms : bool
        Whether n-grams and min_df are searched for.
    """

    read: Callable[[TextSettings | None], Dataset]
    validation: float | Callable[[Dataset], Dataset]
    text: TextSettings | None = None
    searches_terms: bool = False


class Bench:
    """Data and trees for trials. Only what the last trials used is kept in memory.

    Parameters
    ----------
    source : DataSource
    seed : int
        Of the split, of the samples and of the trees.
    threads : int

    Attributes
    ----------
    n_rows : int
        Rows of the whole data, known when it was read first.
    """

    n_rows: int

    def __init__(self, source: DataSource, seed: int, threads: int) -> None:
        self._source, self._seed, self.threads = source, seed, threads
        self._last_vectors: LabelVectors | None = None
        self._split = lru_cache(1)(self._make_split)
        self._sample = lru_cache(1)(self._make_sample)
        self._validation = lru_cache(1)(self._make_validation)
        self._tree = lru_cache(8)(self._make_tree)
        self._plan = lru_cache(2)(self._make_plan)

    @cached_property
    def start(self) -> Candidate:
        """The candidate that the search begins with: the defaults."""
        text = self._source.text
        cost = default_cost(self._split(text)[0].X)
        if text is None or not self._source.searches_terms:
            return Candidate(cost=cost)
        return Candidate(cost=cost, ngrams=text.ngrams, min_df=text.min_df)

    def text_settings(self, candidate: Candidate) -> TextSettings | None:
        """Return the text settings of a candidate."""
        text = self._source.text
        if text is None or candidate.ngrams is None or candidate.min_df is None:
            return text
        return replace(text, ngrams=candidate.ngrams, min_df=candidate.min_df)

    def data(self, candidate: Candidate) -> tuple[Dataset, Validation]:
        """Return the training rows in random order, and the validation data."""
        return self._split(self.text_settings(candidate))

    def validation(self, candidate: Candidate, share: float) -> Validation:
        """Return the validation data of trials on a share of the training rows.

        If no other data was given, these are the held-out rows and training rows that the trial does not use.
        """
        return self._validation(self.text_settings(candidate), share)

    def sample(self, candidate: Candidate, share: float) -> Dataset:
        """Return the first rows of the training data."""
        return self._sample(self.text_settings(candidate), share)

    def plan(
        self, candidate: Candidate, share: float, trees: int, progress: Progress | None = None
    ) -> tuple[Dataset, Plan]:
        """Return training rows and the plan of a model of them."""
        settings = self.text_settings(candidate)
        for number in range(trees):
            self._tree(settings, share, candidate.clusters, number)
            if progress is not None:
                part = part_of(progress, number, trees)
                assert part is not None
                part(1.0)
        plan = self._plan(settings, share, candidate.clusters, candidate.max_depth, trees)
        solver = SolverSettings(
            cost=candidate.cost,
            max_cost=candidate.max_cost,
            positive_cost=candidate.positive_cost,
            seed=self._seed,
        )
        return self.sample(candidate, share), replace(plan, settings=solver)

    def _make_split(self, text: TextSettings | None) -> tuple[Dataset, Validation]:
        dataset, given = self._source.read(text).normalize(), self._source.validation
        self.n_rows = dataset.n_instances
        order = np.random.default_rng(self._seed).permutation(dataset.n_instances)
        labeled = order[np.diff(dataset.Y.indptr)[order] > 0]
        if callable(given):
            other = given(dataset)
            Y = other.align(dataset.label_names, dataset.n_labels).Y
            held_out = np.flatnonzero(np.diff(Y.indptr))
            if held_out.size == 0:
                raise InputError("the validation data has no labels", hint="use labeled data")
            check_known(Y, other, dataset.n_labels, "in the training data")
            return _rows(dataset, order), Validation(other.X[held_out], Y[held_out])
        n_rows = round(given * labeled.size)
        if n_rows < _MIN_VALIDATION:
            raise InputError(
                f"a share of {given:g} of the rows with labels is {n_rows} row{'s' * (n_rows != 1)}, "
                "too few to validate on",
                hint="use more data, or a larger {validation}",
                parameters={"validation": None},
            )
        held_out = np.sort(labeled[:n_rows])
        rest = order[~np.isin(order, held_out)]
        validation = Validation(dataset.X[held_out], dataset.Y[held_out])
        return _rows(dataset, rest), validation

    def _make_validation(self, text: TextSettings | None, share: float) -> Validation:
        train, held_out = self._split(text)
        unused = np.arange(_n_used(train, share), train.n_instances)
        unused = unused[np.diff(train.Y.indptr)[unused] > 0][-_MORE_VALIDATION:]
        if unused.size == 0 or callable(self._source.validation):
            return held_out
        X, truth = sp.vstack([held_out.X, train.X[unused]]), sp.vstack([held_out.truth, train.Y[unused]])
        return Validation(sp.csr_matrix(X), sp.csr_matrix(truth))

    def _make_sample(self, text: TextSettings | None, share: float) -> Dataset:
        train = self._split(text)[0]
        return train if share >= 1 else _rows(train, np.arange(_n_used(train, share)))

    def _make_tree(self, text: TextSettings | None, share: float, clusters: int, number: int) -> LabelTree:
        sample = self._sample(text, share)
        return build_tree(
            sample,
            clusters=clusters,
            seed=self._seed + number,
            threads=self.threads,
            vectors=self._vectors(sample),
        )

    def _vectors(self, sample: Dataset) -> LabelVectors:
        if self._last_vectors is None or self._last_vectors.dataset is not sample:
            self._last_vectors = LabelVectors(sample)
        return self._last_vectors

    def _make_plan(
        self, text: TextSettings | None, share: float, clusters: int, max_depth: int, trees: int
    ) -> Plan:
        whole = [self._tree(text, share, clusters, number) for number in range(trees)]
        # A tree that is cut is the tree that would have been built with the smaller depth.
        cut = [tree if tree.depth <= max_depth else tree.clip(max_depth) for tree in whole]
        return make_plan(self._sample(text, share), cut, threads=self.threads)


def _n_used(train: Dataset, share: float) -> int:
    """Return how many of the training rows a trial is trained on."""
    return max(1, round(share * train.n_instances))


def _rows(dataset: Dataset, rows: NDArray[Any]) -> Dataset:
    """Return some rows of a dataset, with all its features and labels."""
    return replace(dataset, X=dataset.X[rows], Y=dataset.Y[rows])
