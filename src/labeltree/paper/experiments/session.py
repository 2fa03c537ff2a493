"""The datasets of a run, and the label vectors, trees and plans that its experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base.limits import LARGEST_INT32
from labeltree.base.progress import Progress, ignore
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.paper.experiments.rows import listed
from labeltree.settings import SolverSettings, TreeSettings
from labeltree.training.plan import Plan
from labeltree.training.train import build_plan
from labeltree.training.tree_plan import TreePlan
from labeltree.trees.kmeans import LabelVectors


@dataclass(frozen=True)
class Split:
    """A named dataset: training data, and test data if there is any."""

    name: str
    train: Dataset
    test: Dataset | None = None

    @property
    def used_labels(self) -> int:
        """Number of labels that occur in the training data."""
        return int(np.count_nonzero(np.diff(self.train.by_label[0])))


@dataclass(eq=False)
class Session:
    """The datasets of a run, with everything that was computed from them so far.

    Parameters
    ----------
    splits : sequence of Split
        With different names.
    seeds : sequence of int, default 0 to 4
        One tree is built per seed. An experiment that trains uses the first few.
    threads : int, optional
        Default: all CPUs.
    """

    splits: Sequence[Split]
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    threads: int | None = None
    _vectors: dict[str, LabelVectors] = field(default_factory=dict, init=False, repr=False)
    _deep: dict[tuple[str, int, int], tuple[int, Plan]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_names([split.name for split in self.splits])
        check_seeds(self.seeds)

    @property
    def by_name(self) -> Mapping[str, Split]:
        """The datasets by name."""
        return {split.name: split for split in self.splits}

    def plan(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> Plan:
        """Return the plan of a tree, without a bias, as the paper counts.

        A shallow tree is cut off from a deep one, which gives the same tree as building it. A tree that is
        deeper than those so far is built again, so ask for the deepest first.
        """
        key = (name, clusters, seed)
        if key not in self._deep or self._deep[key][0] < max_depth:
            train = self.by_name[name].train
            building = progress or ignore
            plan = build_plan(
                train,
                TreeSettings(clusters, max_depth, seed=seed),
                SolverSettings(cost=1, bias=0),
                normalize=False,
                threads=self.threads,
                vectors=self._vectors.setdefault(name, LabelVectors(train)),
                stage=lambda stage, _: nullcontext(building if stage == "tree" else ignore),
            )
            self._deep[key] = max_depth, plan
        if progress is not None:
            progress(1.0)
        return self._deep[key][1].clip(max_depth)

    def label_vectors(self, name: str, clusters: int) -> tuple[_native.SparseRows, NDArray[np.int64]]:
        """Return the label vectors of a dataset (V), and the non-zeros of each."""
        train, threads = self.by_name[name].train, threads_to_use(self.threads)
        vectors = self._vectors.setdefault(name, LabelVectors(train))
        rows, _ = vectors.make(clusters, threads, None)
        return rows, np.diff(_native.count_label_vectors(train.native, threads))

    def tree_plan(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> TreePlan:
        """Return the only tree of ``plan``."""
        return self.plan(name, clusters, max_depth, seed, progress).trees[0]


def check_names(names: Sequence[str]) -> None:
    """Raise an error if two datasets have the same name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two datasets are named {twice!r}", hint="rename one of them")


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise an error if seeds are missing, repeated or out of range."""
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_INT32:
        raise InputError(
            f"{listed('seeds', seeds)}, expected one or more different integers from 0 to {LARGEST_INT32}"
        )
