"""From data to a model: read, scale, build the trees, plan, check that it fits, fill the blocks, publish.

The verbs and the command line call `train_source`; the estimators, Dask and the parts call `train_dataset` or
its steps.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from labeltree.base import limits
from labeltree.base.display import Stage, part_of, silent, warn
from labeltree.base.system import available_memory, human_bytes, threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import Source
from labeltree.data.split import held_out
from labeltree.errors import InputError, ResourceError
from labeltree.model.compress import Budget
from labeltree.model.directory import check_target
from labeltree.model.model import Model
from labeltree.settings import ModelSettings, SolverSettings, StorageSettings, TextSettings, TreeSettings
from labeltree.training.default_cost import with_costs
from labeltree.training.fill import checked_costs, describe_run, train_planned
from labeltree.training.plan import Plan, make_plan
from labeltree.training.score import is_large_node
from labeltree.training.work import WorkDirectory, check_run
from labeltree.trees.kmeans import LabelVectors, build_tree
from labeltree.trees.tree import LabelTree

# Memory that a label takes while trees are built and planned, even one without instances.
_LABEL_BYTES = 50


def train_source(
    source: Source,
    path: Path,
    settings: ModelSettings,
    text: TextSettings | None,
    *,
    prepare: Callable[[Dataset], Dataset],
    min_label_count: int = 1,
    holdout: float | None = None,
    max_size: int | None = None,
    threads: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    stage: Stage = silent,
    **options: Any,
) -> tuple[Plan, Model]:
    """Read data, and train a model that fits in a size and is evaluated on rows that were held out.

    ``prepare`` takes the training rows, to show what was read, and returns those to train on. The options are
    those of `train_dataset`. The plan is that of all weights.
    """
    budget = Budget(None, max_size)
    budget.check(settings.storage.weights, settings.storage.prune, validated=False)
    whole = place_of_training(path, max_size)
    if whole != path:
        check_target(path, overwrite)
    check_run(whole, overwrite, resume)
    test = None
    with stage("read", f"reading {source.name or 'the data'}") as progress:
        if holdout is None:
            dataset = source.dataset(text, threads=threads, progress=progress)
        else:
            dataset, test = held_out(source, holdout, settings.tree.seed, text, threads, progress)
        dataset = dataset.drop_rare(min_label_count)
    dataset = prepare(dataset)  # frees the rows as they were before they were scaled
    plan, model = train_dataset(
        dataset,
        whole,
        settings,
        threads=threads,
        overwrite=overwrite,
        resume=resume,
        check=lambda plan: budget.check_least(plan.least_bytes),
        stage=stage,
        **options,
    )
    if max_size is not None:
        with stage("compress", f"fitting the model in {human_bytes(max_size)}") as progress:
            model = model.compress(
                path, max_size=max_size, overwrite=overwrite, threads=threads, progress=progress
            )
        shutil.rmtree(whole)
    if test is not None:
        with stage("evaluate", f"evaluating on {test.n_instances:,} rows that were held out"):
            model.choose_threshold(test, save=True, threads=threads)
            model.holdout = model.evaluate(test, threads=threads)
    elif model.decision is None and is_large_node(plan):
        warn("a large one-vs-rest model gets no threshold in training: use `choose_threshold` or a holdout")
    return plan, model


def place_of_training(path: Path, max_size: int | None) -> Path:
    """Return where a model is trained: beside its place, if it is to be pruned to a size."""
    return path if max_size is None else path.with_name(f"{path.name}.full")


def train_dataset(
    dataset: Dataset,
    path: Path,
    settings: ModelSettings,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    force: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    sync: bool = True,
    costs: ArrayLike | None = None,
    dask: Any = None,
    check: Callable[[Plan], None] | None = None,
    stage: Stage = silent,
) -> tuple[Plan, Model]:
    """Train a model in a work directory of its own, from which an interrupted run continues.

    With ``force``, it is trained even if memory or disk seem too small. ``dask`` is a client whose workers
    fill the blocks. ``check`` takes the plan before training, and refuses it with an error. The other
    arguments are those of `build_plan` and `train_model`.
    """
    if dask is not None and costs is not None:
        raise InputError("rows with weights cannot be trained with Dask", hint="train without it")
    rows = dataset.normalize() if settings.normalize else dataset
    weights = checked_costs(costs, rows, settings.solver)
    settings = replace(settings, solver=with_costs(settings.solver, rows.X, weights))
    limit = sys.maxsize if force else memory_limit

    def planned(work: WorkDirectory | None) -> Plan:
        plan = build_plan(
            dataset,
            settings.tree,
            settings.solver,
            settings.storage,
            normalize=settings.normalize,
            threads=threads,
            memory_limit=limit,
            stage=stage,
            work=work,
        )
        if not force:
            plan.check_resources(path, limit, work.allocated_bytes if work else 0)
        if check is not None:
            check(plan)
        return plan

    described = describe_run(
        rows,
        settings.solver,
        settings.storage,
        settings.score,
        settings.tree.notes(),
        n_trees=settings.tree.trees,
        costs=weights,
    )
    if dask is not None:
        from labeltree.dask.cluster import train_on_cluster

        return train_on_cluster(
            dask, rows, path, described, planned, threads=threads, overwrite=overwrite, sync=sync, stage=stage
        )
    with WorkDirectory.of_model(path, described, resume=resume, overwrite=overwrite, sync=sync) as work:
        plan = planned(work)
        trees, nodes = len(plan.trees), plan.n_nodes
        what = f"training {trees:,} tree{'s' * (trees != 1)}, {nodes:,} node{'s' * (nodes != 1)}"
        with stage("train", what) as done:
            model = train_planned(rows, plan, work, weights, done)
    return plan, model


def build_plan(
    dataset: Dataset,
    tree_settings: TreeSettings | None = None,
    solver_settings: SolverSettings | None = None,
    storage: StorageSettings | None = None,
    *,
    normalize: bool = True,
    threads: int | None = None,
    memory_limit: int | None = None,
    vectors: LabelVectors | None = None,
    stage: Stage | None = None,
    work: WorkDirectory | None = None,
) -> Plan:
    """Build the trees of a model and plan its files.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    tree_settings : TreeSettings, optional
    solver_settings : SolverSettings, optional
    storage : StorageSettings, optional
    normalize : bool, default True
        Scale every row of features to length 1, for training and for prediction.
    threads : int, optional
        Number of threads for building, and later for training. Default: all CPUs.
    memory_limit : int, optional
        Bytes that this process may use to build the trees. Default: what is available.
    vectors : LabelVectors, optional
        The label vectors of the dataset that is trained on, to share them between calls.
    stage : callable, optional
        Called as ``stage(name, description)`` for the stages "tree" and "plan"; returns a context manager
        that gives a progress callback.
    work : WorkDirectory, optional
        Where to keep the trees. Those that it has already are not built again.

    Returns
    -------
    Plan
        For ``train_model`` with the same dataset.
    """
    limits.checked("normalize", normalize, limits.FLAG)
    rows = dataset.normalize() if normalize else dataset
    settings = tree_settings or TreeSettings()
    threads = threads_to_use(threads)
    memory = available_memory() if memory_limit is None else memory_limit
    if rows.n_labels * _LABEL_BYTES > memory:
        raise ResourceError(
            f"a tree of {rows.n_labels:,} labels needs {human_bytes(rows.n_labels * _LABEL_BYTES)} of "
            f"memory, but only {human_bytes(memory)} can be used",
            hint="use a machine with more memory, or raise {memory_limit}",
        )
    count, stage = settings.trees, stage or silent
    with stage("tree", f"building {count} tree{'s' * (count > 1)}") as progress:
        given: Any = settings.tree
        if isinstance(given, LabelTree):
            trees = [given]
        elif isinstance(given, Sequence):
            trees = [LabelTree.from_nested(given, rows.label_names)]
        elif given is not None:
            trees = [given.to_tree(rows)]
        else:
            # Several trees share the label vectors; the vectors of a single one are freed when it is built.
            shared = vectors or (LabelVectors(rows) if count > 1 else None)
            trees = []
            for number in range(count):
                tree = work.tree(number) if work else None
                if tree is None:
                    tree = build_tree(
                        rows,
                        clusters=settings.clusters,
                        max_depth=settings.max_depth,
                        seed=settings.seed + number,
                        threads=threads,
                        memory_limit=memory_limit,
                        progress=part_of(progress, number, count),
                        vectors=shared,
                    )
                    if work:
                        work.keep_tree(number, tree)
                trees.append(tree)
    with stage("plan", "planning"):
        plan = make_plan(rows, trees, solver_settings, storage, threads=threads)
        return replace(plan, data_bytes=dataset.bytes)  # of both: the caller keeps the rows as they were
