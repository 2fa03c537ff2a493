"""What the experiments of one run share: the data, and trees and plans, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labeltree.clustering import build_tree
from labeltree.data import Dataset
from labeltree.plan import TreePlan, make_plan
from labeltree.tree import LabelTree, Progress


@dataclass(frozen=True)
class Split:
    """A data set: what it is called, what to learn from, and what to be judged by, if there is that."""

    name: str
    train: Dataset
    test: Dataset | None = None


@dataclass(eq=False)
class Session:
    """The data of a run, and what was already made of it.

    Parameters
    ----------
    splits : sequence of Split
    seeds : sequence of int, default 0 to 4
        One tree is built for each. An experiment that trains takes the first few.
    threads : int, optional
        All usable processors unless given.
    """

    splits: Sequence[Split]
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    threads: int | None = None
    _deep: dict[tuple[str, int, int], LabelTree] = field(default_factory=dict, repr=False)
    _deep_limit: dict[tuple[str, int, int], int] = field(default_factory=dict, repr=False)
    _plans: dict[tuple[str, int, int, int], TreePlan] = field(default_factory=dict, repr=False)

    @property
    def by_name(self) -> Mapping[str, Split]:
        """The data sets by name."""
        return {split.name: split for split in self.splits}

    def tree(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> LabelTree:
        """Tree of a data set; a shallow one is clipped from a deep one, which is the same tree.

        A deeper tree than was asked for before is built anew, so ask for the deepest first.
        """
        key = (name, clusters, seed)
        if key not in self._deep or self._deep_limit[key] < max_depth:
            self._deep[key] = build_tree(
                self.by_name[name].train,
                clusters=clusters,
                max_depth=max_depth,
                seed=seed,
                threads=self.threads,
                progress=progress,
            )
            self._deep_limit[key] = max_depth
        return self._deep[key].clip(max_depth)

    def tree_plan(
        self, name: str, clusters: int, max_depth: int, seed: int, progress: Progress | None = None
    ) -> TreePlan:
        """What the nodes of such a tree use: its size, with nothing trained."""
        key = (name, clusters, max_depth, seed)
        if key not in self._plans:
            tree = self.tree(name, clusters, max_depth, seed, progress)
            plan = make_plan(self.by_name[name].train, tree, bias=False, threads=self.threads)
            self._plans[key] = plan.trees[0]
        return self._plans[key]
