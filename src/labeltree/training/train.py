"""From data to a model in one call: read, build the trees, plan, check that it fits, and train."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Protocol

from labeltree.base import limits
from labeltree.base.limits import AUTO
from labeltree.base.progress import Stage, silent
from labeltree.base.stages import Stages
from labeltree.data.dataset import Dataset
from labeltree.data.formats import Columns
from labeltree.data.read import check_path, read_data
from labeltree.data.summary import describe_data, summary_lines
from labeltree.data.text_settings import TextSettings
from labeltree.errors import InputError
from labeltree.model.model import Model
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TreeSettings
from labeltree.training.build import build_plan
from labeltree.training.fill import describe_run, train_model
from labeltree.training.plan import Plan
from labeltree.training.work import WorkDirectory, check_run

Settings = tuple[TreeSettings, SolverSettings, StorageSettings]


class Build(Protocol):
    """Builds the trees and the plan, and checks that the model fits."""

    def __call__(self, work: WorkDirectory | None = None) -> Plan:
        """Build in a work directory, or in memory."""


def train(
    data: Dataset | str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: Columns | None = None,
    one_based: bool | None = None,
    strict: bool = False,
    normalize: bool = True,
    score: ScoreSettings | Literal["auto"] = AUTO,
    threads: int | None = None,
    memory_limit: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Model:
    """Train a model on a file or a dataset, as ``labeltree train`` does.

    What looks like a mistake in the data, such as a wrong separator of labels, is a warning.

    Parameters
    ----------
    data : path-like or Dataset
        LIBSVM, TSV, CSV or JSONL, plain or compressed; or data that was read already.
    model : path-like
        The model directory to write.
    format, columns, one_based, strict
        How to read a file, as in :func:`labeltree.read_data`.
    normalize : bool, default True
        Scale every row of features to length 1, for training and for prediction. Rows of TF-IDF have this
        length already.
    score : ScoreSettings or "auto", default "auto"
        How the model turns margins into scores by default; "auto" chooses it on the training data.
    threads : int, optional
        Default: all CPUs.
    memory_limit : int, optional
        Bytes of memory that training may use. Default: what is available.
    overwrite : bool, default False
        Replace an existing model, once the new one is complete.
    resume : bool, default False
        Continue an interrupted run with the same data and settings.
    progress : bool, default False
        Show what was read, and the progress of each stage, on standard error or in a notebook.
    **settings
        Any field of `TreeSettings` (such as ``clusters=20``), `SolverSettings` (``cost=2``),
        `StorageSettings` (``weights="int8"``) and, for a file of documents, `TextSettings`
        (``ngrams=(1, 2)``). The seed is that of the trees and of the solver.

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
    path = Path(model)
    tree, solver, storage, text = _settings(settings)
    limits.checked("normalize", normalize, limits.FLAG)
    if isinstance(data, Dataset) and text is not None:
        raise InputError("text settings apply to a file of documents, not to a Dataset", hint="remove them")
    check_run(path, overwrite, resume)
    stages = Stages(quiet=not progress)
    if isinstance(data, Dataset):
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
    build = planner(
        dataset,
        path,
        (tree, solver, storage),
        normalize=normalize,
        threads=threads,
        memory_limit=memory_limit,
        stage=stages.stage,
    )
    return train_dataset(
        dataset.normalize() if normalize else dataset,
        path,
        (tree, solver, storage),
        score,
        build,
        overwrite=overwrite,
        resume=resume,
        stage=stages.stage,
    )[1]


def _settings(
    given: dict[str, Any],
) -> tuple[TreeSettings, SolverSettings, StorageSettings, TextSettings | None]:
    """Sort settings by their classes; text settings are None if none is given."""
    kinds = (TreeSettings, SolverSettings, StorageSettings, TextSettings)
    names = [{item.name for item in fields(kind)} for kind in kinds]
    known = set().union(*names)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"use {close[0]}" if close else f"use one of {', '.join(sorted(known))}"
            raise InputError(f"there is no setting {name!r}", hint=hint)
    tree, solver, storage, text = (
        {name: value for name, value in given.items() if name in of_kind} for of_kind in names
    )
    return (
        TreeSettings(**tree),
        SolverSettings(**solver),
        StorageSettings(**storage),
        TextSettings(**text) if text else None,
    )


def planner(
    dataset: Dataset,
    path: Path,
    settings: Settings,
    *,
    normalize: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    force: bool = False,
    stage: Stage = silent,
) -> Build:
    """Return a function that builds the trees and the plan, and checks that the model fits.

    Parameters
    ----------
    dataset : Dataset
    path : Path
        The model directory that will be written.
    settings : (TreeSettings, SolverSettings, StorageSettings)
    normalize, threads, memory_limit, stage
        As in `build_plan`; by default, rows are used as they are.
    force : bool, default False
        Do not check memory and disk.

    Returns
    -------
    callable
        Takes the work directory to keep the trees in, or None.
    """
    limit = sys.maxsize if force else memory_limit

    def build(work: WorkDirectory | None = None) -> Plan:
        plan = build_plan(
            dataset,
            *settings,
            normalize=normalize,
            threads=threads,
            memory_limit=limit,
            stage=stage,
            work=work,
        )
        if not force:
            plan.check_resources(path, limit, work.allocated_bytes if work else 0)
        return plan

    return build


def train_dataset(
    dataset: Dataset,
    path: Path,
    settings: Settings,
    score: ScoreSettings | Literal["auto"],
    build: Build,
    *,
    overwrite: bool = False,
    resume: bool = False,
    sync: bool = True,
    stage: Stage = silent,
) -> tuple[Plan, Model]:
    """Train a model in a work directory of its own, from which an interrupted run continues.

    Parameters
    ----------
    dataset : Dataset
        As it is trained on: with scaled rows, if `build` scales them.
    path, settings
        As in `planner`.
    score, overwrite, resume, sync
        As in `train_model`.
    build : callable
        From `planner`.
    stage : callable, optional
        Shows the progress of training.

    Returns
    -------
    (Plan, Model)
    """
    tree_settings, solver_settings, storage = settings
    notes = tree_settings.notes()
    described = describe_run(
        dataset, solver_settings, storage, score, notes=notes, tree_settings=tree_settings
    )
    with ExitStack() as stack:
        work = stack.enter_context(
            WorkDirectory.of_model(path, described, resume=resume, overwrite=overwrite, sync=sync)
        )
        plan = build(work)
        trees, nodes = len(plan.trees), plan.n_nodes
        what = f"training {trees:,} tree{'s' * (trees != 1)}, {nodes:,} node{'s' * (nodes != 1)}"
        with stage("train", what) as progress:
            model = train_model(dataset, plan, path, score=score, progress=progress, notes=notes, work=work)
    return plan, model
