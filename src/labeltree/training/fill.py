"""Training: fill the blocks of a plan, each written to its place on disk and recorded when it is done."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeltree import _native
from labeltree.base.display import Progress, shown, warn
from labeltree.base.limits import AUTO, LARGEST_VALUE, SMALLEST_COST
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation.sketch import RowSketch
from labeltree.model.layout import float32_threshold
from labeltree.model.manifest import stored_as
from labeltree.model.model import Model, load, load_complete
from labeltree.model.pack import (
    BlockFiles,
    TrainedBlocks,
    pack_blocks,
    remove_loose,
    reserve_blocks,
    write_small,
)
from labeltree.model.writer import ModelWriter
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings
from labeltree.training.default_cost import with_costs
from labeltree.training.plan import Plan
from labeltree.training.routing import Routing
from labeltree.training.score import HeldOut, choose_decision, choose_score
from labeltree.training.tree_plan import shares
from labeltree.training.work import WorkDirectory


def train_model(
    dataset: Dataset,
    plan: Plan,
    path: Path | str,
    *,
    costs: ArrayLike | None = None,
    score: ScoreSettings | Literal["auto"] = "auto",
    overwrite: bool = False,
    resume: bool = False,
    sync: bool = True,
    progress: bool | Progress = False,
    notes: dict[str, Any] | None = None,
) -> Model:
    """Train every block of a plan and write the model directory.

    Memory does not grow with the model: each block is written as soon as it is trained. The directory
    appears under its name once it is complete; until then, an old model is kept. A run that is interrupted
    leaves a work directory next to the model, named like it with ``.work`` at the end, and can be continued.

    Parameters
    ----------
    dataset : Dataset
        The data that the plan was made for. If the plan is normalized, its rows are scaled to length 1.
    plan : Plan
        From ``make_plan`` or ``build_plan``; it contains the solver settings.
    path : path-like
        The model directory to write.
    costs : array-like of float, optional
        A positive weight for each instance, multiplied by the cost in the settings. The default cost is that
        of the plan, which does not depend on them.
    score : ScoreSettings or "auto", default "auto"
        How the model turns margins into scores by default. "auto" chooses it by how well the labels of a
        sample of the training rows are ranked, as if the model had been trained without them.
    overwrite : bool, default False
        Replace an existing model, once the new one is complete.
    resume : bool, default False
        Continue an interrupted run, if there is one; the model has the same bytes as that of a run that was
        not interrupted. Data, trees and settings must be the same. Otherwise an unfinished run is an error.
    sync : bool, default True
        Wait until data is on disk, so that nothing is lost if the machine fails.
    progress : bool, default False
        Show the progress on standard error or in a notebook.
    notes : dict, optional
        More entries to keep in the manifest (JSON), such as how the trees were built.

    Returns
    -------
    Model
        The trained model, opened from disk.
    """
    if score != AUTO and not isinstance(score, ScoreSettings):
        raise InputError(f"score is {score!r}, expected ScoreSettings or 'auto'")
    dataset = plan.rows_of(dataset)
    plan = replace(plan, settings=with_costs(plan.settings, dataset.X))
    weights = checked_costs(costs, dataset, plan.settings)
    described = describe_run(dataset, plan.settings, plan.storage, score, notes, costs=weights)
    work = WorkDirectory.of_model(path, described, resume=resume, overwrite=overwrite, sync=sync)
    with work, shown(progress, "training") as done:
        return train_planned(dataset, plan, work, weights, done)


def checked_costs(
    costs: ArrayLike | None, dataset: Dataset, settings: SolverSettings
) -> NDArray[np.float32] | None:
    """Return the weight of each instance, or None; refuse values and costs that can overflow."""
    largest = float(np.abs(dataset.X.data).max(initial=0))
    if largest > LARGEST_VALUE:
        what = f"X contains a value of magnitude {largest:.2g}, too large to be squared and summed"
        raise InputError(what, hint="scale the features, for instance each row to length 1")
    if costs is None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        weights = np.ascontiguousarray(costs, np.float32)
    if not (weights.shape == (dataset.n_instances,) and (weights > 0).all() and np.isfinite(weights).all()):
        what = f"expected costs to be a positive number for each of {dataset.n_instances:,} instances"
        raise InputError(what)
    settings = with_costs(settings, dataset.X, weights)
    assert settings.cost is not None
    assert settings.max_cost is not None
    least, most = settings.cost * float(weights.min()), settings.max_cost * float(weights.max())
    if least < SMALLEST_COST or most > LARGEST_VALUE:
        raise InputError(
            f"the weight of a row times cost ranges from {least:g} to {most:g}, expected {SMALLEST_COST:g} "
            f"to {LARGEST_VALUE:g}",
            hint="scale the weights",
        )
    return weights


def train_planned(
    dataset: Dataset,
    plan: Plan,
    work: WorkDirectory,
    costs: NDArray[np.float32] | None,
    progress: Progress | None,
) -> Model:
    """Train the model of a work directory with checked data and costs, publish it and open it."""
    for t, part in enumerate(plan.trees):
        work.keep_tree(t, part.tree)
    if not (work.is_complete or work.is_published):
        ModelWriter(work.model).write_common(np.diff(dataset.by_label[0]), plan.label_names, plan.text)
        fill_blocks(dataset, plan, work, costs, progress)
    model = complete_model(dataset, plan, work, costs)
    if n_not_converged := model.manifest["not_converged"]:
        n_problems = sum(part.tree.children.size for part in plan.trees)
        warn(
            f"{n_not_converged:,} of {n_problems:,} binary problems did not converge to the tolerance "
            f"of {plan.settings.tolerance:g}; scale the features, lower the cost ({plan.cost:g}) or raise "
            "max_iterations."
        )
    return model


def describe_run(
    dataset: Dataset,
    settings: SolverSettings,
    storage: StorageSettings,
    score: ScoreSettings | Literal["auto"],
    notes: dict[str, Any] | None = None,
    *,
    n_trees: int | None = None,
    costs: NDArray[np.float32] | None = None,
) -> dict[str, Any]:
    """Return what a model depends on besides its trees, to recognize an unfinished run of the same model.

    ``n_trees`` is the number of trees if they are built for this run, and not given by the caller.
    """
    described: dict[str, Any] = {
        "data": {
            "instances": dataset.n_instances,
            "features": dataset.n_features,
            "labels": dataset.n_labels,
            "normalized": dataset.normalized,
            "crc32c": dataset.fingerprint(),
        },
        "one_based": dataset.one_based,
        "solver": asdict(with_costs(settings, dataset.X)),
        "weights": asdict(storage),
        "score": score if score == AUTO else asdict(score),
        "notes": {**(notes or {}), **({"min_label_count": dataset.least_rows} if dataset.n_dropped else {})},
    }
    if n_trees is not None:
        described["trees"] = n_trees
    if costs is not None:
        described["costs"] = _native.crc32c(costs.view(np.uint8))
    return described


def fill_blocks(
    dataset: Dataset,
    plan: Plan,
    work: WorkDirectory,
    costs: NDArray[np.float32] | None = None,
    progress: Progress | None = None,
    share: tuple[int, int] = (0, 1),
) -> None:
    """Train the strips that are not recorded yet, of one of several shares of about equal work."""
    number, n_shares = share
    amounts = [part.strips.work for part in plan.trees]
    for t, amount in enumerate(amounts):
        work.keep_amounts(t, amount)
    routings = [Routing(dataset, plan, t, work, costs) for t in range(len(plan.trees))]
    mine = [np.zeros(amount.size, bool) for amount in amounts]
    # The stages follow each other, so each is divided; what is trained at once in all trees counts together.
    for level in range(max(len(routing.stages) for routing in routings)):
        parts = [(t, each.stages[level]) for t, each in enumerate(routings) if level < len(each.stages)]
        chosen = shares(np.concatenate([amounts[t][strips] for t, strips in parts]), n_shares) == number
        ends = np.cumsum([np.count_nonzero(strips) for _, strips in parts])
        for (t, strips), is_mine in zip(parts, np.split(chosen, ends[:-1]), strict=True):
            mine[t][strips] = is_mine
    total = float(sum(amount[own].sum() for amount, own in zip(amounts, mine, strict=True))) or 1.0
    done = 0.0
    with ExitStack() as stack:
        # Allocate the files of all trees before the first is trained.
        files = [
            stack.enter_context(reserve_blocks(ModelWriter(work.model), f"tree-{t}", part.layout))
            for t, part in enumerate(plan.trees)
        ]
        for t, (amount, own) in enumerate(zip(amounts, mine, strict=True)):
            known = work.records.setdefault(t, {})
            is_missing = np.array([n not in known for n in range(own.size)], bool) & own
            done += float(amount[own & ~is_missing].sum()) / total
            for level, strips in enumerate(routings[t].stages):
                if not routings[t].route(level, files[t]):
                    break  # other processes have yet to train the level above
                missing = np.flatnonzero(is_missing & strips)
                left = float(amount[missing].sum()) / total
                if missing.size:
                    stage = _scaled(progress, done, left)
                    _train_strips(plan, t, routings[t], files[t], missing, work, stage)
                done += left


def _scaled(progress: Progress | None, start: float, share: float) -> Progress | None:
    return progress and (lambda done: progress(start + share * done))


def complete_model(
    dataset: Dataset,
    plan: Plan,
    work: WorkDirectory,
    costs: NDArray[np.float32] | None = None,
    verify: bool = False,
) -> Model:
    """Complete a model whose strips are all trained, publish it and open it.

    If an earlier process published it, nothing is left to do. If other processes trained it, every block is
    read again and compared with its checksum (``verify``).
    """
    assert work.target is not None
    if not (work.is_complete or work.is_published):
        writer = ModelWriter(work.model)
        writer.adopt_common()
        n_not_converged = n_stored = 0
        blocks: list[TrainedBlocks] = []
        trainings: list[_native.Training] = []
        for t in range(len(plan.trees)):
            routing = Routing(dataset, plan, t, work, costs)
            for level in range(len(routing.stages)):
                routing.route(level, None)
            trainings.append(routing.training()[0])
        with ExitStack() as stack:
            for t, part in enumerate(plan.trees):
                folder = f"tree-{t}"
                files = stack.enter_context(reserve_blocks(writer, folder, part.layout))
                written, not_converged = part.strips.gather(work.records[t])
                files.add_checksums(part.layout, written)
                # From now on, it only matters that the records exist.
                work.records[t] = dict.fromkeys(work.records[t], b"")
                n_not_converged += not_converged
                n_stored += int(written.n_nonzeros.sum())
                write_small(writer, folder, part.tree, part.codec, written)
                packed = stack.enter_context(pack_blocks(writer, folder, part.layout, written, files))
                blocks.append(TrainedBlocks.of(part.codec, written, packed))
            held_out = HeldOut(dataset, plan, blocks, trainings)
            score = work.described["score"]
            chosen = choose_score(held_out) if score == AUTO else ScoreSettings(**score)
            decision = choose_decision(held_out, chosen)
        described = {
            "instances": dataset.n_instances,
            "features": dataset.n_features,
            "labels": dataset.n_labels,
            "one_based": dataset.one_based,
            "normalized": dataset.normalized,
            "trees": [{"nodes": part.tree.n_nodes, "depth": part.tree.depth} for part in plan.trees],
            "weights": plan.n_weights if plan.storage.prune is None else n_stored,
            "settings": asdict(plan.settings),
            "score": asdict(chosen),
            **({} if decision is None else {"decision": decision.entry()}),
            "not_converged": n_not_converged,
            "notes": work.described["notes"],
            "row_sketch": RowSketch.of(dataset.X).entry(),
            **stored_as(plan.storage),
        }
        dataset.release_pages()
        writer.finish(described)  # the manifest comes last
    if not work.is_published:
        remove_loose(work.model)
        if verify:
            load(work.model, verify=True)
        work.publish()
    return load_complete(work.target)


def _train_strips(
    plan: Plan,
    number: int,
    routing: Routing,
    files: BlockFiles,
    missing: NDArray[np.int64],
    work: WorkDirectory,
    progress: Progress | None,
) -> None:
    """Train some strips of a tree and record them."""
    part, finished = plan.trees[number], _native.FinishedStrips()
    training, n_nonzeros = routing.training()
    with work.journal.recording(
        number, finished, (files.feature_file, files.weight_file), work.records[number]
    ) as check:

        def watch(done: float) -> None:
            check()
            if progress:
                progress(done)

        try:
            _native.train_strips(
                training,
                files.native(part.codec, part.layout.feature_ptr, part.layout.weight_ptr),
                threshold=float32_threshold(plan.storage.prune or 0.0),
                n_nonzeros=n_nonzeros,
                strip_bytes=part.strips.strip_bytes,
                strips=missing,
                finished=finished,
                threads=plan.threads,
                progress=watch,
            )
        except OverflowError as error:  # a block is too large
            raise InputError(str(error), hint="use fewer {clusters}") from None
        except ValueError as error:  # the plan belongs to other data of the same shape
            raise InputError(str(error), hint="make the plan again") from None
