"""The rows of a search: read for each text setting, split for validation, sampled, and planned."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation.accepted import check_known
from labeltree.settings import SolverSettings, TextSettings, TreeSettings
from labeltree.training.default_cost import default_costs
from labeltree.training.plan import Plan, make_plan
from labeltree.trees.kmeans import build_tree
from labeltree.trees.tree import LabelTree
from labeltree.tuning.trial import Changes

# With fewer validation rows, the choice would be random.
_MIN_VALIDATION = 10
# Trials on a part of the training rows are validated on up to this many of the others, too.
_MORE_VALIDATION = 10_000
# The settings of a variant that the solver takes.
_SOLVER = ("cost", "max_cost", "positive_cost", "seed")


@dataclass(frozen=True)
class DataSource:
    """Where the data of a search comes from.

    `read` takes the settings of text, or None for data that is not text. `validation` is the share of the
    rows to validate on, or takes the training data and returns other data with the same features. `text` has
    the settings to begin with; n-grams and min_df are searched only with `searches_terms`.
    """

    read: Callable[[TextSettings | None], Dataset]
    validation: float | Callable[[Dataset], Dataset]
    text: TextSettings | None = None
    searches_terms: bool = False


class TuningRows:
    """Training and validation rows. Those of one text setting are in memory at a time.

    The `seed` is that of the split, of the trees and of the solver. `defaults` are the settings that variants
    change, with their defaults for this data. `train` has the training rows in random order, and `held_out`
    the validation rows, of the text setting that was read last, in so many `seconds`.
    """

    train: Dataset
    held_out: Dataset
    seconds: float
    _trees: dict[tuple[float, int, int], LabelTree]

    def __init__(self, source: DataSource, seed: int, threads: int) -> None:
        self._source, self._seed, self._threads = source, seed, threads
        self._read(source.text)
        self.defaults: Changes = {
            "cost": default_costs(self.train.X)[0],
            "positive_cost": SolverSettings.positive_cost,
            **{name: getattr(TreeSettings, name) for name in ("clusters", "max_depth", "trees")},
        }
        if source.text is not None and source.searches_terms:
            self.defaults |= {"ngrams": list(source.text.ngrams), "min_df": source.text.min_df}

    def settings(self, changes: Changes) -> dict[str, Any]:
        """Return all settings of a variant. The cost grows in smaller nodes, up to 1, as by default."""
        found = {**self.defaults, **changes}
        return {**found, "max_cost": max(1.0, found["cost"]), "seed": self._seed}

    def text_settings(self, changes: Changes) -> TextSettings | None:
        """Return the text settings of a variant."""
        text = self._source.text
        if text is None or "ngrams" not in changes:
            return text
        return replace(text, ngrams=tuple(changes["ngrams"]), min_df=changes["min_df"])

    def plan(self, changes: Changes, share: float) -> tuple[Dataset, Plan]:
        """Return a share of the training rows, and the plan of a variant on them."""
        if self.text_settings(changes) != self._text:
            self._read(self.text_settings(changes))
        settings = self.settings(changes)
        sample = self.train if share >= 1 else self.train.take(np.arange(self._n_used(share)))
        trees = []
        for number in range(settings["trees"]):
            key = share, settings["clusters"], number
            if key not in self._trees:
                seed, clusters = self._seed + number, settings["clusters"]
                self._trees[key] = build_tree(sample, clusters=clusters, seed=seed, threads=self._threads)
            tree, depth = self._trees[key], settings["max_depth"]
            # A tree that is cut is the tree that would have been built with the smaller depth.
            trees.append(tree if tree.depth <= depth else tree.clip(depth))
        solver = SolverSettings(**{name: settings[name] for name in _SOLVER})
        return sample, make_plan(sample, trees, solver, threads=self._threads)

    def validation(self, share: float) -> Dataset:
        """Return the rows to validate on: those held out, and training rows that a share leaves out."""
        unused = np.arange(self._n_used(share), self.train.n_instances)
        unused = unused[np.diff(self.train.Y.indptr)[unused] > 0][-_MORE_VALIDATION:]
        if unused.size == 0 or callable(self._source.validation):
            return self.held_out
        X, Y = (
            sp.csr_matrix(sp.vstack([mine, others[unused]]))
            for mine, others in ((self.held_out.X, self.train.X), (self.held_out.Y, self.train.Y))
        )
        return replace(self.held_out, X=X, Y=Y)

    def _n_used(self, share: float) -> int:
        return max(1, round(share * self.train.n_instances))

    def _read(self, text: TextSettings | None) -> None:
        """Read the data, and split it."""
        begin = time.perf_counter()
        dataset, given = self._source.read(text).normalize(), self._source.validation
        self._text, self.seconds = text, time.perf_counter() - begin
        self._trees = {}
        order = np.random.default_rng(self._seed).permutation(dataset.n_instances)
        if callable(given):
            other = given(dataset)
            aligned = other.align(dataset.label_names, dataset.n_labels)
            labeled = np.flatnonzero(np.diff(aligned.Y.indptr))
            if labeled.size == 0:
                raise InputError("the validation data has no labels", hint="use labeled data")
            if not dataset.n_dropped:
                check_known(aligned.Y, other, dataset.n_labels, "in the training data")
            self.train, self.held_out = dataset.take(order), other.take(labeled)
            return
        labeled = order[np.diff(dataset.Y.indptr)[order] > 0]
        n_rows = round(given * labeled.size)
        if n_rows < _MIN_VALIDATION:
            raise InputError(
                f"a share of {given:g} of the rows with labels is {n_rows} row{'s' * (n_rows != 1)}, "
                "too few to validate on",
                hint="use more data, or a larger {validation}",
            )
        held_out = np.sort(labeled[:n_rows])
        self.train, self.held_out = dataset.take(order[~np.isin(order, held_out)]), dataset.take(held_out)
