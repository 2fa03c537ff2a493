"""The verbs that take data in any form: train a model, estimate its size, compare models."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.base.files import temporary_directory
from labeltree.base.limits import checked
from labeltree.base.options import ReadingOptions, TrainingOptions, shows
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import open_data
from labeltree.data.split import held_out
from labeltree.data.summary import describe_data, summary_lines
from labeltree.errors import InputError
from labeltree.model.model import Model
from labeltree.settings import (
    ModelSettings,
    SolverSettings,
    StorageSettings,
    TextSettings,
    TreeSettings,
    stored_score,
)
from labeltree.training.plan import Plan
from labeltree.training.train import build_plan, train_dataset
from labeltree.training.work import check_run

if TYPE_CHECKING:
    from distributed import Client
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data, Labels


_SETTINGS = (TreeSettings, SolverSettings, StorageSettings, TextSettings, ModelSettings)


@shows(TrainingOptions, *_SETTINGS)
def train(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    holdout: float | None = None,
    min_label_count: int = 1,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    dask: Client | None = None,
    progress: bool = False,
    **options: Unpack[TrainingOptions],
) -> Model:
    """Train a model.

    What looks like a mistake in the data, such as a wrong separator of labels, is a warning.

    Parameters
    ----------
    data, labels, text
        Files, texts, a frame, a matrix or a `Dataset`, and its labels, as in :func:`labeltree.read_data`.
    path : path-like, optional
        The model directory to write. Default: the model is kept in temporary files, which disappear with it;
        ``model.save(path)`` keeps it.
    holdout : float, optional
        Train without this share of the rows, evaluate the model on them, and choose there which labels it
        accepts; ``model.holdout`` has the figures.
    min_label_count : int, default 1
        Leave out labels with fewer rows.
    threads : int, optional
        Default: all CPUs.
    memory_limit : int or str, optional
        Memory that training may use, such as "8GB". Default: what is available.
    overwrite : bool, default False
        Replace an existing model, once the new one is complete.
    resume : bool, default False
        Continue an interrupted run with the same data and settings.
    dask : distributed.Client, optional
        Train the classifiers on the workers of this client, which must see the directory of the model. The
        data is read and the trees are built here.
    progress : bool, default False
        Show what was read, and the progress of each stage, on standard error or in a notebook.
    **options
        How data is read, how documents become features, and how the model is built, trained and stored: the
        fields of `ReadingOptions`, `TextSettings`, `TreeSettings`, `SolverSettings` and `StorageSettings`;
        ``score`` and ``score_scale`` as in `ScoreSettings`, by default chosen on the training data; and
        ``normalize=False`` to train on rows as they are, instead of scaling each to length 1.

    Returns
    -------
    Model

    Examples
    --------
    >>> model = train(["red apples", "a blue whale"], ["fruit", "sea"], clusters=2)
    >>> model.predict(["an apple and red apples"], top=1)[0]
    [['fruit']]
    """
    settings, text_settings = _settings(options)
    limit = checked("memory_limit", memory_limit, limits.Optional(limits.MEMORY))
    checked("min_label_count", min_label_count, limits.Whole(1))
    if path is None:
        given = {"overwrite": overwrite, "resume": resume, "dask": dask}
        name = next((name for name, value in given.items() if value), None)
        if name is not None:
            hint = f"add {{path}}, or remove {{{name}}}"
            what = f"{name} is given, but the model has no path"
            raise InputError(what, hint=hint, parameters={"path": None, name: None})
    else:
        check_run(Path(path), overwrite, resume)
    source = open_data(data, labels, text=text, **_reading(options))
    stages, test = Stages(quiet=not progress), None
    with stages.stage("read", f"reading {source.name or 'the data'}") as reading:
        if holdout is None:
            dataset = source.dataset(text_settings, threads=threads, progress=reading)
        else:
            dataset, test = held_out(source, holdout, settings.tree.seed, text_settings, threads, reading)
        dataset = dataset.drop_rare(min_label_count)
    _show(dataset, progress)
    # The operating system keeps the mapped files of a model as long as this process, or one forked from it,
    # uses them: nothing has to be cleaned up, even after a crash, nor reach the disk.
    unsaved = temporary_directory(Path(tempfile.gettempdir()), "labeltree-train-")
    with nullcontext(Path(path)) if path is not None else unsaved as place:
        model = train_dataset(
            dataset,
            place if path is not None else place / "model",
            settings,
            threads=threads,
            memory_limit=limit,
            overwrite=overwrite,
            resume=resume,
            sync=path is not None,
            dask=dask,
            stage=stages.stage,
        )[1]
    if path is None:
        model.path = None
    if test is not None:
        with stages.stage("evaluate", f"evaluating on {test.n_instances:,} rows that were held out"):
            model.judge(test, threads)
        if progress:
            print(model.holdout, file=sys.stderr)
    return model


@shows(TrainingOptions, *_SETTINGS)
def estimate(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    min_label_count: int = 1,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool = False,
    **options: Unpack[TrainingOptions],
) -> Plan:
    """Compute the size of a model, exactly, without training it.

    Parameters
    ----------
    data, labels, text, min_label_count, threads, memory_limit, progress, **options
        As in :func:`labeltree.train`.

    Returns
    -------
    Plan
        Its ``model_bytes`` is the size of the model directory without its manifest, with ``prune`` at most;
        ``to_dict()`` has all figures.

    Examples
    --------
    >>> estimate(["red apples", "a blue whale"], ["fruit", "sea"], clusters=2).model_bytes
    1073
    """
    settings, text_settings = _settings(options)
    limit = checked("memory_limit", memory_limit, limits.Optional(limits.MEMORY))
    source, stages = open_data(data, labels, text=text, **_reading(options)), Stages(quiet=not progress)
    with stages.stage("read", f"reading {source.name or 'the data'}") as reading:
        dataset = source.dataset(text_settings, threads=threads, progress=reading)
        dataset = dataset.drop_rare(min_label_count)
    _show(dataset, progress)
    return build_plan(
        dataset,
        settings.tree,
        settings.solver,
        settings.storage,
        normalize=settings.normalize,
        threads=threads,
        memory_limit=limit,
        stage=stages.stage,
    )


def _settings(options: TrainingOptions) -> tuple[ModelSettings, TextSettings | None]:
    """Return the settings of a model and, if there are any, those of text."""
    score = stored_score(options.get("score", limits.AUTO), options.get("score_scale"))
    settings = ModelSettings.of(options, score, options.get("normalize", True))
    text: dict[str, Any] = {
        item.name: options[item.name] for item in fields(TextSettings) if item.name in options
    }
    return settings, TextSettings(**text) if text else None


def _reading(options: Any) -> ReadingOptions:
    return {name: options[name] for name in ReadingOptions.__annotations__ if name in options}


def _show(dataset: Dataset, progress: bool) -> None:
    """Show what was read, and warn, at the caller of the verb, of what looks wrong."""
    summary = describe_data(dataset)
    if progress:
        print(*summary_lines(summary), sep="\n", file=sys.stderr)
    for warning in summary["warnings"]:
        warnings.warn(warning, stacklevel=4)
