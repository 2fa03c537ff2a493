"""Growing trees in parts: nodes are clustered, and what they use is counted, by any number of processes.

Nodes of one depth do not depend on each other, so processes share them; nodes of the next depth follow when
all of them are clustered. Results are kept as files of a work directory, and each is computed once. A process
computes the label vectors of its own labels only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.progress import Progress
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset, wrap_csr
from labeltree.errors import InputError
from labeltree.model.directory import check_target
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TreeSettings
from labeltree.training.parts import GROWN, READY, describe_parts, keep_usage, mapped_data, write_data
from labeltree.training.strips import shares
from labeltree.training.work import WorkDirectory
from labeltree.trees.kmeans import (
    LEAST_MOVED,
    MAIN_SHARE,
    MAX_KMEANS_ITERATIONS,
    LabelVectors,
    build_tree,
)
from labeltree.trees.tree import LabelTree, pointers


def plan_growing(
    dataset: Dataset,
    path: Path | str,
    tree_settings: TreeSettings | None = None,
    solver_settings: SolverSettings | None = None,
    storage: StorageSettings | None = None,
    *,
    score: ScoreSettings | Literal["auto"] = "auto",
    sync: bool = True,
) -> None:
    """Make a work directory with the data, whose trees are built in parts by ``grow_part``.

    Parameters
    ----------
    dataset : Dataset
        With rows as they are; ``dataset.normalize()`` scales them to length 1.
    path : path-like
        The directory to make.
    tree_settings : TreeSettings, optional
        Without a given tree.
    solver_settings : SolverSettings, optional
    storage : StorageSettings, optional
    score : ScoreSettings or "auto", default "auto"
        As in ``train_model``.
    sync : bool, default True
        Wait until everything is on disk.
    """
    settings = tree_settings or TreeSettings()
    if settings.given_tree(dataset) is not None:
        raise InputError(
            "a given tree is not built", hint="plan it without {grow}", parameters={"grow": True}
        )
    path = Path(os.path.abspath(path))
    check_target(path, overwrite=False)
    solver, storage = solver_settings or SolverSettings(), storage or StorageSettings()
    described = describe_parts(dataset, settings.trees, solver, storage, score, settings.notes())
    grown = {"clusters": settings.clusters, "max_depth": settings.max_depth, "seed": settings.seed}
    with WorkDirectory(path, {**described, GROWN: grown}, sync=sync) as work:
        write_data(work, dataset)


def grow_part(
    path: Path | str,
    part: int = 1,
    n_parts: int = 1,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    sync: bool = True,
    progress: Progress | None = None,
) -> int:
    """Do one of several shares of building the trees of a work directory, as far as that is possible now.

    Parameters
    ----------
    path : path-like
        From ``plan_growing``.
    part : int, default 1
        The share, from 1.
    n_parts : int, default 1
        Number of shares of about equal work.
    threads : int, optional
        Default: all CPUs.
    memory_limit : int, optional
        Bytes that this process may use. Default: what is available.
    sync : bool, default True
        Wait until results are on disk.
    progress : callable, optional
        Called periodically with the fraction of the nodes of a depth that is done.

    Returns
    -------
    int
        Number of nodes that other shares have to finish before this one can go on; 0 if the trees are
        complete, and the directory can be filled.
    """
    limits.checked("n_parts", n_parts, limits.PARTS)
    limits.checked("part", part, limits.Whole(1, n_parts))
    with WorkDirectory(Path(os.path.abspath(path)), sync=sync, shared=True) as work:
        if (work.path / READY).is_file():
            return 0
        if GROWN not in work.described:
            what = "the work directory has no trees that are built in parts"
            hint = "plan another one with {grow}"
            raise InputError(what, file=work.path, hint=hint, parameters={"grow": True})
        threads = threads_to_use(threads)
        missing = 0
        for number in range(work.described["n_trees"]):
            share = _Share(work, number, part - 1, n_parts, threads, memory_limit, progress)
            missing += share.grow()
        if not missing:
            work.write(READY, b"")
        return missing


class _Waiting(Exception):
    """Other shares are not finished yet; the argument is the number of their nodes."""


class _Share:
    """One of several shares of building a tree."""

    def __init__(
        self,
        work: WorkDirectory,
        number: int,
        part: int,
        n_parts: int,
        threads: int,
        memory_limit: int | None,
        progress: Progress | None,
    ) -> None:
        self._work, self._number = work, number
        self._part, self._n_parts = part, n_parts
        self._threads, self._memory_limit, self._progress = threads, memory_limit, progress
        self._data = mapped_data(work)
        self._settings = work.described[GROWN]

    def grow(self) -> int:
        """Go on as far as possible; return the number of nodes to wait for."""
        settings = {**self._settings, "seed": self._settings["seed"] + self._number}
        tree = self._work.tree(self._number)
        try:
            if tree is None:
                tree = build_tree(self._data, **settings, cluster_level=self._cluster)
                self._work.keep_tree(self._number, tree)
            self._count(tree)
        except _Waiting as waiting:
            return int(waiting.args[0])
        return 0

    def _cluster(
        self,
        depth: int,
        order: NDArray[np.int32],
        first: NDArray[np.int64],
        last: NDArray[np.int64],
        streams: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Cluster the nodes of a depth; see ``ClusterLevel``."""
        instances = np.diff(self._data.by_label[0])
        amounts = np.array([instances[order[a:b]].sum() for a, b in zip(first, last, strict=True)], np.int64)

        def cluster(nodes: NDArray[np.int64]) -> list[NDArray[np.int32]]:
            labels = np.concatenate([order[first[k] : last[k]] for k in nodes])
            ends = pointers(last[nodes] - first[nodes])
            data = _of_labels(self._data, labels)
            clusters = self._settings["clusters"]
            vectors, _ = LabelVectors(data).make(clusters, self._threads, self._memory_limit)
            found = _native.cluster_level(
                vectors,
                np.arange(labels.size, dtype=np.int32),
                ends[:-1],
                ends[1:],
                streams[nodes],
                clusters,
                MAX_KMEANS_ITERATIONS,
                LEAST_MOVED,
                self._settings["seed"] + self._number,
                self._threads,
                self._progress,
                main_share=MAIN_SHARE,
            )
            return np.split(found, ends[1:-1])

        found = self._shared(f"clusters-{self._number}-{depth}", amounts, cluster)
        result = np.full(order.size, -1, np.int32)
        for k, values in found.items():
            result[first[k] : last[k]] = values
        return result

    def _count(self, tree: LabelTree) -> None:
        """Count what the nodes of a complete tree use, and keep it."""
        # The root, and the nodes below it with all that is below them.
        inner = tree.children[: tree.child_ptr[1]]
        pieces = np.concatenate([[0], inner[inner >= 0]]).astype(np.int64)
        instances = np.diff(self._data.by_label[0])
        amounts = np.array([instances[tree.labels[tree.first[u] : tree.last[u]]].sum() for u in pieces])

        def count(chosen: NDArray[np.int64]) -> list[NDArray[np.int64]]:
            counts = []
            if chosen[0] == 0:
                usage = _native.used_features(self._data.native, tree.clip(1).native, self._threads)
                counts.append(np.stack([np.zeros(1, np.int64), *usage]).ravel())
            tops = pieces[chosen[chosen > 0]]
            if tops.size:
                nodes, labels, forest = _forest(tree, tops)
                data = _of_labels(self._data, labels)
                usage = _native.used_features(data.native, forest.native, self._threads)
                table = np.stack([nodes, *(values[1:] for values in usage)])
                counts += [table[:, _tops(tree)[nodes] == top].ravel() for top in tops]
            return counts

        usage = np.zeros((3, tree.n_nodes), np.int64)
        for values in self._shared(f"usage-{self._number}", amounts, count).values():
            nodes, *counts = values.reshape(4, -1)
            usage[:, nodes] = counts
        keep_usage(self._work, self._number, list(usage))

    def _shared(
        self,
        name: str,
        amounts: NDArray[np.int64],
        compute: Callable[[NDArray[np.int64]], Sequence[NDArray[Any]]],
    ) -> dict[int, NDArray[Any]]:
        """Return the results of all pieces of work, of which this share computes its own if they are missing.

        Parameters
        ----------
        name : str
            Of the files.
        amounts : ndarray of int64
            The work of each piece.
        compute : callable
            Takes the numbers of pieces and returns the result of each.
        """
        found: dict[int, NDArray[Any]] = {}
        for file in sorted(self._work.path.glob(f"{name}-*of*.npz")):
            with np.load(file, allow_pickle=False) as kept:
                ends = np.cumsum(kept["sizes"])[:-1]
                found.update(zip(kept["pieces"].tolist(), np.split(kept["values"], ends), strict=True))
        mine = np.flatnonzero(shares(amounts, self._n_parts) == self._part)
        mine = mine[[piece not in found for piece in mine.tolist()]] if mine.size else mine
        if mine.size:
            results = compute(mine)
            found.update(zip(mine.tolist(), results, strict=True))
            self._work.write_arrays(
                # If the number of parts is changed, what is done already stays, next to the rest.
                f"{name}-{self._part + 1}of{self._n_parts}-{mine.size}.npz",
                {
                    "pieces": mine,
                    "sizes": np.array([result.size for result in results]),
                    "values": np.concatenate(results),
                },
            )
        if len(found) < amounts.size:
            raise _Waiting(amounts.size - len(found))
        return found


def _of_labels(data: Dataset, labels: NDArray[np.int32]) -> Dataset:
    """Return the data with only some of its labels, numbered from 0; features are shared."""
    label_ptr, by_label = data.by_label
    counts = label_ptr[labels + 1] - label_ptr[labels]
    ptr = pointers(counts)
    instances = by_label[np.repeat(label_ptr[labels] - ptr[:-1], counts) + np.arange(ptr[-1])]
    # Nothing that grows trees reads the rows of Y.
    empty = np.zeros(0, np.int32)
    rows = np.zeros(data.n_instances + 1, np.int32)
    Y = wrap_csr(np.zeros(0, np.float32), empty, rows, (data.n_instances, labels.size))
    restricted = replace(data, Y=Y)
    restricted.__dict__["by_label"] = ptr, instances
    return restricted


def _tops(tree: LabelTree) -> NDArray[np.int64]:
    """Return the ancestor of each node that is a child of the root, or is it itself; 0 for the root."""
    tops = np.arange(tree.n_nodes)
    for first, last in pairwise(tree.level_ptr[2:].tolist()):
        tops[first:last] = tops[tree.parent[first:last]]
    return tops


def _forest(
    tree: LabelTree, tops: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], LabelTree]:
    """Return a tree with only some of the root's children, the nodes below its root, and its labels."""
    is_below = np.isin(_tops(tree), tops)
    nodes = np.flatnonzero(is_below)
    number = np.cumsum(is_below)  # from 1: the root is 0
    labels = np.concatenate([tree.labels[tree.first[top] : tree.last[top]] for top in tops])
    place = np.zeros(tree.n_labels, np.int64)
    place[labels] = np.arange(labels.size)
    children = np.concatenate(
        [tops, *(tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]] for u in nodes)]
    )
    children = np.where(children >= 0, number[np.maximum(children, 0)], ~place[~np.minimum(children, -1)])
    counts = np.concatenate([[tops.size], tree.child_count[nodes]])
    return nodes, labels, LabelTree(pointers(counts), children.astype(np.int32))
