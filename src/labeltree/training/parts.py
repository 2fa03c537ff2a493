"""Training in parts: a work directory with the data, which any number of processes fill together.

``labeltree plan`` makes it, ``labeltree fill`` trains a share of the blocks, ``labeltree join`` completes the
model. Processes share nothing but the directory, and any share may run again, alone, or twice at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.display import Progress
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset, csr_arrays, wrap_csr
from labeltree.errors import InputError
from labeltree.model.directory import check_target
from labeltree.model.model import Model
from labeltree.model.writer import ModelWriter
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings
from labeltree.training.fill import checked_costs, complete_model, describe_run, fill_blocks
from labeltree.training.plan import Plan
from labeltree.training.tree_plan import TreePlan
from labeltree.training.work import WorkDirectory

_ARRAYS = ("x_ptr", "x_index", "x_value", "y_ptr", "y_index", "label_ptr", "label_instances")
# The file that is written last: the directory can be filled.
READY = "ready"
_USAGE = ("instances", "nonzeros", "used_features")


def plan_parts(
    dataset: Dataset,
    plan: Plan,
    path: Path | str,
    *,
    score: ScoreSettings | Literal["auto"] = "auto",
    notes: dict[str, Any] | None = None,
    sync: bool = True,
) -> None:
    """Make a work directory with data, trees and plan; the arguments are those of ``train_model``."""
    dataset = plan.rows_of(dataset)
    checked_costs(None, dataset, plan.settings)
    described = describe_run(dataset, plan.settings, plan.storage, score, notes, n_trees=len(plan.trees))
    write_parts(dataset, plan, _absolute(path), described, sync)


def write_parts(dataset: Dataset, plan: Plan, path: Path, described: dict[str, Any], sync: bool) -> None:
    """Make a work directory with this description, for the rows that are trained on."""
    check_target(path, overwrite=False)
    with WorkDirectory(path, described, sync=sync) as work:
        (work.path / "data").mkdir()
        arrays: list[NDArray[Any]] = [*csr_arrays(dataset.X), *csr_arrays(dataset.Y)[:2], *dataset.by_label]
        for name, array in zip(_ARRAYS, arrays, strict=True):
            np.save(work.path / "data" / f"{name}.npy", array, allow_pickle=False)
        writer = ModelWriter(work.model)
        writer.write_common(np.diff(dataset.by_label[0]), dataset.label_names, dataset.text)
        for t, part in enumerate(plan.trees):
            work.keep_tree(t, part.tree)
            work.write_arrays(f"plan-{t}.npz", {name: getattr(part, name) for name in _USAGE})
        work.write(READY, b"")


def fill_part(
    path: Path | str,
    part: int = 1,
    n_parts: int = 1,
    *,
    threads: int | None = None,
    sync: bool = True,
    progress: Progress | None = None,
    opened: tuple[Dataset, Plan] | None = None,
) -> int:
    """Train one of several shares of about equal work, from 1, as far as it is not trained yet.

    ``opened`` is what ``open_parts`` returned, if this process trains several shares; ``threads`` is then
    that of the plan. Returns the number of strips that are not trained yet, as far as is known.
    """
    limits.checked("n_parts", n_parts, limits.PARTS)
    limits.checked("part", part, limits.Whole(1, n_parts))
    with WorkDirectory(_absolute(path), sync=sync, shared=True) as work:
        dataset, plan = opened or (mapped_data(work), _plan(work, threads))
        fill_blocks(dataset, plan, work, progress=progress, share=(part - 1, n_parts))
        return _n_missing(work, plan)


def open_parts(path: Path | str, *, threads: int | None = None) -> tuple[Dataset, Plan]:
    """Map the data of a work directory, and read its plan."""
    with WorkDirectory(_absolute(path), shared=True) as work:
        return mapped_data(work), _plan(work, threads)


def join_parts(
    path: Path | str,
    model: Path | str,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    sync: bool = True,
) -> Model:
    """Complete the model of a work directory whose blocks are all trained; the directory is then removed.

    If the model is to be on another file system, it is copied.
    """
    target = _absolute(model)
    with WorkDirectory(_absolute(path), target=target, overwrite=overwrite, sync=sync) as work:
        if not work.is_published:
            check_target(target, overwrite)
        plan = _plan(work, threads)
        missing = _n_missing(work, plan)
        if missing and not (work.is_complete or work.is_published):
            total = sum(len(part.strips) for part in plan.trees)
            what = f"{missing:,} of {total:,} strips are not trained yet"
            hint = "run `labeltree fill` again, for these parts or for all"
            raise InputError(what, file=work.path, hint=hint)
        return complete_model(mapped_data(work), plan, work, verify=True)


def _absolute(path: Path | str) -> Path:
    return Path(os.path.abspath(path))


def _n_missing(work: WorkDirectory, plan: Plan) -> int:
    return sum(len(part.strips) - len(work.records.get(t, {})) for t, part in enumerate(plan.trees))


def mapped_data(work: WorkDirectory) -> Dataset:
    """Map the data of a work directory."""
    described = work.described["data"]
    arrays: list[NDArray[Any]] = []
    for name in _ARRAYS:
        file = work.path / "data" / f"{name}.npy"
        # A file without elements cannot be mapped.
        mode: Literal["r"] | None = "r" if file.stat().st_size > 128 else None
        arrays.append(np.load(file, mmap_mode=mode, allow_pickle=False))
    x_ptr, x_index, x_value, y_ptr, y_index, *by_label = arrays
    n_instances = described["instances"]
    X = wrap_csr(x_value, x_index, x_ptr, (n_instances, described["features"]))
    ones = np.broadcast_to(np.float32(1), y_index.size)  # takes no memory
    Y = wrap_csr(ones, y_index, y_ptr, (n_instances, described["labels"]))
    dataset = Dataset(X, Y, one_based=work.described["one_based"], normalized=described["normalized"])
    dataset.__dict__["by_label"] = tuple(by_label)
    _ = dataset.native  # checks the arrays, which reads all of them
    dataset.release_pages()
    return dataset


def _plan(work: WorkDirectory, threads: int | None) -> Plan:
    """Read the plan of a work directory."""
    if not (work.path / READY).is_file():
        what = "the work directory is incomplete: planning did not finish"
        raise InputError(what, file=work.path, hint="remove it and run `labeltree plan` again")
    described = work.described
    settings = SolverSettings(**described["solver"])
    storage = StorageSettings(**described["weights"])
    n_features = described["data"]["features"]
    parts = []
    for t in range(described["trees"]):
        tree = work.tree(t)
        assert tree is not None
        with np.load(work.path / f"plan-{t}.npz", allow_pickle=False) as usage:
            instances, nonzeros, used = (usage[name] for name in _USAGE)
        bias = settings.bias != 0
        parts.append(TreePlan(tree, instances, nonzeros, used, bias, storage.codec, n_features))
    return Plan(
        trees=tuple(parts),
        settings=settings,
        storage=storage,
        n_instances=described["data"]["instances"],
        n_features=n_features,
        n_labels=described["data"]["labels"],
        n_pairs=np.load(work.path / "data" / "y_index.npy", mmap_mode="r", allow_pickle=False).size,
        data_bytes=sum(file.stat().st_size for file in (work.path / "data").iterdir()),
        threads=threads_to_use(threads),
        normalized=described["data"]["normalized"],
    )
