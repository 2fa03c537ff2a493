"""From data to a model: read, scale, build the trees, plan, check that it fits, fill the blocks, publish.

The command line, the estimators, Dask and the parts call `train_dataset` or its steps.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from labeltree.base import limits
from labeltree.base.display import Stage, Stages, part_of, silent
from labeltree.base.limits import AUTO
from labeltree.base.system import available_memory, human_bytes, threads_to_use
from labeltree.data.columns import Columns
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import read_data
from labeltree.data.read import check_path
from labeltree.data.summary import describe_data, summary_lines
from labeltree.errors import InputError, ResourceError
from labeltree.model.model import Model
from labeltree.settings import (
    ModelSettings,
    ScoreSettings,
    SolverSettings,
    StorageSettings,
    TextSettings,
    TreeSettings,
)
from labeltree.training.default_cost import with_costs
from labeltree.training.fill import checked_costs, describe_run, train_planned
from labeltree.training.plan import Plan, make_plan
from labeltree.training.work import WorkDirectory, check_run
from labeltree.trees.kmeans import LabelVectors, build_tree
from labeltree.trees.tree import LabelTree

# Memory that a label takes while trees are built and planned, even one without instances.
_LABEL_BYTES = 50


def train(
    data: Dataset | str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    clusters: int = TreeSettings.clusters,
    max_depth: int = TreeSettings.max_depth,
    trees: int = TreeSettings.trees,
    tree: Any = None,
    seed: int = TreeSettings.seed,
    loss: str = SolverSettings.loss,
    cost: float | None = None,
    max_cost: float | None = None,
    positive_cost: float | tuple[float, ...] = SolverSettings.positive_cost,
    tolerance: float = SolverSettings.tolerance,
    max_iterations: int = SolverSettings.max_iterations,
    bias: float = SolverSettings.bias,
    normalize: bool = True,
    weights: str | None = None,
    prune: float | None = None,
    score: ScoreSettings | Literal["auto"] = AUTO,
    format: str | None = None,
    columns: Columns | None = None,
    one_based: bool | None = None,
    strict: bool = False,
    analyzer: str | None = None,
    ngrams: tuple[int, int] | None = None,
    min_df: int | None = None,
    max_features: int | None = None,
    sublinear: bool | None = None,
    lowercase: bool | None = None,
    stop_words: str | Sequence[str] | None = None,
    strip_html: bool | None = None,
    unicode: Literal["nfkc"] | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    dask: Any = None,
    progress: bool = False,
) -> Model:
    """Train a model on a file or a dataset, as ``labeltree train`` does.

    What looks like a mistake in the data, such as a wrong separator of labels, is a warning.

    Parameters
    ----------
    data : path-like or Dataset
        LIBSVM, TSV, CSV or JSONL, plain or compressed; or data that was read already.
    model : path-like
        The model directory to write.
    clusters, max_depth, trees, tree, seed
        How trees are built, as in `TreeSettings`. The seed is that of the trees and of the solver.
    loss, cost, max_cost, positive_cost, tolerance, max_iterations, bias
        How classifiers are trained, as in `SolverSettings`.
    normalize : bool, default True
        Scale every row of features to length 1, for training and for prediction. Rows of TF-IDF have this
        length already.
    weights, prune
        How weights are stored, as in `StorageSettings`.
    score : ScoreSettings or "auto", default "auto"
        How the model turns margins into scores by default; "auto" chooses it on the training data.
    format, columns, one_based, strict
        How to read a file, as in :func:`labeltree.read_data`.
    analyzer, ngrams, min_df, max_features, sublinear, lowercase, stop_words, strip_html, unicode
        How documents of a file become features, as in `TextSettings`.
    threads : int, optional
        Default: all CPUs.
    memory_limit : int, optional
        Bytes of memory that training may use. Default: what is available.
    overwrite : bool, default False
        Replace an existing model, once the new one is complete.
    resume : bool, default False
        Continue an interrupted run with the same data and settings.
    dask : distributed.Client, optional
        Train the classifiers on the workers of this client, which must see the directory of the model. The
        data is read and the trees are built here.
    progress : bool, default False
        Show what was read, and the progress of each stage, on standard error or in a notebook.

    Returns
    -------
    Model
        The trained model, opened from disk.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.csv").write_text("text,labels\\nred apples,fruit\\na blue whale,sea\\n")
    >>> model = train(folder / "train.csv", folder / "model", clusters=2)
    >>> model.predict(["an apple and red apples"], top=1)[0]
    [['fruit']]
    """
    given = locals()
    settings = ModelSettings.of(given, score, normalize)
    chosen = {item.name: given[item.name] for item in fields(TextSettings) if given[item.name] is not None}
    text = TextSettings(**chosen) if chosen else None
    path = Path(model)
    check_run(path, overwrite, resume)
    stages = Stages(quiet=not progress)
    if isinstance(data, Dataset):
        if text is not None:
            what = "text settings apply to a file of documents, not to a Dataset"
            raise InputError(what, hint="remove them")
        dataset = data
    else:
        check_path(data)
        with stages.stage("read", f"reading {os.fspath(data)}") as reading:
            dataset = read_data(
                data,
                format,
                columns,
                settings=text,
                one_based=one_based,
                strict=strict,
                threads=threads,
                progress=reading,
            )
        if text is not None and dataset.text is None:
            raise InputError(
                "text settings are given, but the file is in LIBSVM format",
                file=os.fspath(data),
                hint="remove them, or set {format}",
                parameters={"format": None},
            )
    summary = describe_data(dataset)
    if progress:
        print(*summary_lines(summary), sep="\n", file=sys.stderr)
    for warning in summary["warnings"]:
        warnings.warn(warning, stacklevel=2)
    return train_dataset(
        dataset,
        path,
        settings,
        threads=threads,
        memory_limit=memory_limit,
        overwrite=overwrite,
        resume=resume,
        dask=dask,
        stage=stages.stage,
    )[1]


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

    Parameters
    ----------
    dataset : Dataset
    path : Path
        The model directory to write.
    settings : ModelSettings
    threads, memory_limit
        As in `build_plan`.
    force : bool, default False
        Train even if memory or disk seem too small.
    overwrite, resume, sync, costs
        As in `train_model`.
    dask : distributed.Client, optional
        Whose workers fill the blocks.
    check : callable, optional
        Takes the plan before training, and refuses it with an error.
    stage : callable, optional
        Shows the progress of each stage.

    Returns
    -------
    (Plan, Model)
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
    stage: Stage = silent,
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
            parameters={"memory_limit": None},
        )
    count = settings.trees
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
