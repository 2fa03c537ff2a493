"""Hard negatives: the rows that nodes train on besides their own, found level by level of a tree.

A row visits the nodes of its own labels, and at each level those that score best for it. In the latter, it is
foreign: a negative of all children. Which nodes these are depends on the trained weights of the levels above.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.model.pack import BlockFiles, readable_blocks
from labeltree.training.journal import read_journals
from labeltree.training.plan import Plan
from labeltree.training.work import WorkDirectory
from labeltree.trees.tree import pointers

# What reading a damaged archive may raise.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, struct.error)


class Visits(NamedTuple):
    """The rows that visit each node of a level, as row with a label of the node, and as ~row without one."""

    ptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    log_scores: NDArray[np.float32]  # of the path to the node

    def foreign(
        self, lengths: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Return how many foreign rows each node has, their values, and these rows, given their lengths."""
        is_foreign = self.rows < 0
        rows = ~self.rows[is_foreign]
        ptr = pointers(is_foreign)[self.ptr]
        return np.diff(ptr), np.diff(pointers(lengths[rows])[ptr]), rows


class Routing:
    """The visits of the nodes of one tree, level by level; the work directory keeps them.

    Attributes
    ----------
    stages : list of ndarray of bool
        Which strips are trained after one another; without hard negatives, all at once.
    """

    def __init__(
        self,
        dataset: Dataset,
        plan: Plan,
        number: int,
        work: WorkDirectory,
        costs: NDArray[np.float32] | None,
    ) -> None:
        self._dataset, self._plan, self._number, self._work = dataset, plan, number, work
        self._part, self._costs = plan.trees[number], costs
        self._n_best = plan.settings.hard_negatives
        self._ends = self._part.tree.level_ptr
        node = self._part.strips.node
        levels = np.searchsorted(self._ends, node, side="right") - 1
        n_stages = self._part.tree.depth if self._n_best else 1
        self.stages = [levels == level if self._n_best else levels >= 0 for level in range(n_stages)]
        n_rows = dataset.n_instances
        root = np.array([0, n_rows]), np.arange(n_rows, dtype=np.int32), np.zeros(n_rows, np.float32)
        self._last = Visits(*root)
        self._lengths = np.diff(dataset.X.indptr)
        self._foreign = [self._last.foreign(self._lengths)]

    def route(self, level: int, files: BlockFiles | None) -> bool:
        """Find the visits of a level; return whether the level above is trained, so that they can be known.

        Without files, they must have been found before.
        """
        if level == 0:
            return True
        above, records = np.flatnonzero(self.stages[level - 1]).tolist(), self._work.records[self._number]
        if not records.keys() >= set(above):  # other processes may have trained the others
            records |= read_journals(self._work.path / "journal").get(self._number, {})
            if not records.keys() >= set(above):
                return False
        trained = {strip: records[strip] for strip in above}
        source = zlib.crc32(b"".join(trained.values()))
        self._last = self._read(level, source) or self._find(level, source, trained, files)
        self._foreign.append(self._last.foreign(self._lengths))
        return True

    def training(self) -> tuple[_native.Training, NDArray[np.int64]]:
        """Return how the nodes are trained, and the non-zero values of the rows of each."""
        plan, part = self._plan, self._part
        if not self._n_best:
            return plan.training(self._number, self._dataset, self._costs), part.nonzeros
        counts, nonzeros = np.zeros((2, part.tree.n_nodes), np.int64)
        for of_all, found in zip((counts, nonzeros), zip(*self._foreign, strict=True), strict=False):
            of_level = np.concatenate(found)
            of_all[: of_level.size] = of_level
        foreign = pointers(counts), np.concatenate([rows for *_, rows in self._foreign])
        training = plan.training(self._number, self._dataset, self._costs, foreign)
        return training, part.nonzeros + nonzeros

    def _file(self, level: int) -> str:
        return f"visits-{self._number}-{level}.npz"

    def _find(self, level: int, source: int, records: dict[int, bytes], files: BlockFiles | None) -> Visits:
        if files is None:
            raise self._damaged(level, "is missing")
        part = self._part
        written, _ = part.strips.gather(records)
        try:
            with readable_blocks(self._work.path, part.layout, written, files) as blocks:
                visits = Visits(
                    *_native.route_rows(
                        self.training()[0],
                        blocks.files,
                        scales=blocks.scales,
                        biases=blocks.biases,
                        first_node=int(self._ends[level - 1]),
                        **self._last._asdict(),
                        n_best=min(self._n_best, int(self._ends[level + 1] - self._ends[level])),
                        threads=self._plan.threads,
                    )
                )
        except ValueError as error:  # blocks may come from other processes
            what = f"the trained blocks of tree {self._number} are damaged ({error})"
            raise InputError(what, hint="remove the work directory, and train again") from None
        self._work.write_arrays(self._file(level), {"source": np.uint32(source), **visits._asdict()})
        return visits

    def _read(self, level: int, source: int) -> Visits | None:
        file = self._work.path / self._file(level)
        if not file.is_file():
            return None
        try:
            with (
                file.open("rb") as stream,
                np.load(stream, allow_pickle=False) as arrays,
            ):  # which checks CRC-32
                visits, found = Visits(*(arrays[name] for name in Visits._fields)), int(arrays["source"])
        except _UNREADABLE as error:
            raise self._damaged(level, f"is damaged ({error})") from None
        if found != source:
            raise self._damaged(level, "belongs to other weights")
        return visits

    def _damaged(self, level: int, what: str) -> InputError:
        file, resume = self._work.path / self._file(level), {"resume": True}
        removed = "remove it, then " * file.exists()
        hint = f"{removed}continue with {{resume}} or `labeltree fill`, which make it again"
        return InputError(f"the file {what}", file=file, hint=hint, parameters=resume)
