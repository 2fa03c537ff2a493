"""What the experiments of one run share: the data, and label vectors, trees and plans, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from labeltree.clustering import LabelVectors, build_tree
from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.plan import Plan, TreePlan, make_plan
from labeltree.progress import Progress
from labeltree.settings import SolverSettings
from labeltree.tree import LabelTree


@dataclass(frozen=True)
class Split:
    """A data set: what it is called, what to learn from, and what to be judged by, if there is that."""

    name: str
    train: Dataset
    test: Dataset | None = None

    @property
    def used_labels(self) -> int:
        """Labels that occur in the training data."""
        return int(np.count_nonzero(np.diff(self.train.by_label[0])))


@dataclass(eq=False)
class Session:
    """The data of a run, and what was already made of it.

    Parameters
    ----------
    splits : sequence of Split
        With different names.
    seeds : sequence of int, default 0 to 4
        One tree is built for each. An experiment that trains takes the first few.
    threads : int, optional
        All usable processors unless given.
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
        """The data sets by name."""
        return {split.name: split for split in self.splits}

    def plan(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> Plan:
        """Layout of the model of a tree, without a bias, as the paper counts: its size, nothing trained.

        A shallow tree is clipped from a deep one, which is the same tree. A deeper tree than was asked for
        before is built anew, so ask for the deepest first.
        """
        key = (name, clusters, seed)
        if key not in self._deep or self._deep[key][0] < max_depth:
            train = self.by_name[name].train
            tree = build_tree(
                train,
                clusters=clusters,
                max_depth=max_depth,
                seed=seed,
                threads=self.threads,
                progress=progress,
                vectors=self._vectors.setdefault(name, LabelVectors(train)),
            )
            self._deep[key] = max_depth, make_plan(train, tree, SolverSettings(bias=0), threads=self.threads)
        if progress is not None:
            progress(1.0)
        return self._deep[key][1].clip(max_depth)

    def tree_plan(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> TreePlan:
        """What the nodes of such a tree use."""
        return self.plan(name, clusters, max_depth, seed, progress).trees[0]

    def tree(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> LabelTree:
        """Tree of a data set."""
        return self.tree_plan(name, clusters, max_depth, seed, progress).tree


def check_names(names: Sequence[str]) -> None:
    """Refuse two data sets of one name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"got two data sets called {twice!r}, expected different names; rename one")


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that cannot be used."""
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**31:
        raise InputError(
            f"got the seeds {', '.join(map(str, seeds))}, expected one or more different whole numbers from "
            "0 to 2147483647; give others"
        )


def part_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    """Progress of one of several equal parts of the work, counted from 0."""
    return progress and (lambda done: progress((number + done) / count))
