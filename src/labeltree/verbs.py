"""The verbs that take data in any form: train a model, estimate its size, compare, split, cross-predict."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.base import limits
from labeltree.base.display import Stages, warn
from labeltree.base.files import temporary_directory
from labeltree.base.limits import checked
from labeltree.base.options import ReadingOptions, TrainingOptions, shows
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import is_file, open_data
from labeltree.data.rows import output_files, take_rows, write_parts
from labeltree.data.split import Split, checked_shares, labels_and_keys, share_error, split_rows
from labeltree.data.summary import describe_data, summary_lines
from labeltree.errors import InputError
from labeltree.evaluation.result import CrossPrediction
from labeltree.hub.loading import load
from labeltree.model.compress import Budget
from labeltree.model.labeled_data import read_labeled
from labeltree.model.model import Model
from labeltree.settings import (
    DEFAULT_BEAM,
    DEFAULT_SHARE,
    DEFAULT_TOP,
    ModelSettings,
    SolverSettings,
    StorageSettings,
    TextSettings,
    TreeSettings,
    split_options,
    stored_score,
)
from labeltree.training.plan import Plan
from labeltree.training.train import build_plan, place_of_training, train_dataset, train_source
from labeltree.training.work import resumable
from labeltree.tuning.compare import Comparison, compare_models, read_alike

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
    max_size: int | str | None = None,
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
    max_size : int or str, optional
        Prune the trained weights just enough for the model to fit in this many bytes, or in "50MB". Until
        then, all weights are kept beside the model, in a directory whose name ends in ``.full``.
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
        Files and labels (`ReadingOptions`): ``separator``, ``delimiter``, ``id``, ``format``, ``one_based``,
        ``strict``. Text (`TextSettings`): ``analyzer``, ``ngrams``, ``min_df``, ``max_features``,
        ``sublinear``, ``stop_words``, ``lowercase``, ``strip_html``, ``unicode``. Trees (`TreeSettings`):
        ``clusters``, ``max_depth``, ``trees``, ``seed``, ``tree``. Classifiers (`SolverSettings`): ``loss``,
        ``cost``, ``max_cost``, ``positive_cost``, ``tolerance``, ``max_iterations``, ``bias``. Storage
        (`StorageSettings`): ``weights``, ``prune``. Scores (`ScoreSettings`): ``score`` (its function) and
        ``score_scale``, by default chosen on the training data. ``normalize=False`` trains on rows as they
        are, instead of scaling each to length 1.

    Examples
    --------
    >>> model = train(["red apples", "a blue whale"], ["fruit", "sea"], clusters=2)
    >>> model.predict(["an apple and red apples"], top=1)[0]
    [['fruit']]
    """
    reading, text_settings, settings = _settings(options)
    path = checked("path", path, limits.Optional(limits.PATH))
    limit = checked("memory_limit", memory_limit, limits.Optional(limits.MEMORY))
    checked("min_label_count", min_label_count, limits.Whole(1))
    most = checked("max_size", max_size, limits.Optional(limits.MAX_SIZE))
    if path is None:
        given = {"overwrite": overwrite, "resume": resume, "dask": dask}
        name = next((name for name, value in given.items() if value), None)
        if name is not None:
            hint = f"add {{path}}, or remove {{{name}}}"
            what = f"{name} is given, but the model has no path"
            raise InputError(what, hint=hint)
    source = open_data(data, labels, text=text, **reading)
    # The operating system keeps the mapped files of a model as long as this process, or one forked from it,
    # uses them: nothing has to be cleaned up, even after a crash, nor reach the disk.
    unsaved = temporary_directory(Path(tempfile.gettempdir()), "labeltree-train-")
    with nullcontext(Path(path)) if path is not None else unsaved as place:
        target = place if path is not None else place / "model"
        with resumable(place_of_training(target, most)) if path is not None else nullcontext():
            _, model = train_source(
                source,
                target,
                settings,
                text_settings,
                prepare=partial(_show, progress=progress),
                min_label_count=min_label_count,
                holdout=holdout,
                max_size=most,
                threads=threads,
                memory_limit=limit,
                overwrite=overwrite,
                resume=resume,
                sync=path is not None,
                dask=dask,
                stage=Stages(quiet=not progress).stage,
            )
    if path is None:
        model.path = None
    if progress and model.holdout is not None:
        print(model.holdout, file=sys.stderr)
    return model


@shows(TrainingOptions, *_SETTINGS)
def estimate(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    min_label_count: int = 1,
    max_size: int | str | None = None,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool = False,
    **options: Unpack[TrainingOptions],
) -> Plan:
    """Compute the size of a model, exactly, without training it.

    Parameters
    ----------
    data, labels, text, min_label_count, max_size, threads, memory_limit, progress, **options
        As in :func:`labeltree.train`. A ``max_size`` that no pruning can reach is an error; the size is that
        before pruning.

    Returns
    -------
    Plan
        Its ``model_bytes`` is the size of the model directory without its manifest, with ``prune`` at most;
        ``to_dict()`` has all figures.

    Examples
    --------
    >>> estimate(["red apples", "a blue whale"], ["fruit", "sea"], clusters=2).model_bytes
    1481
    """
    reading, text_settings, settings = _settings(options)
    limit = checked("memory_limit", memory_limit, limits.Optional(limits.MEMORY))
    budget = Budget(None, max_size)  # type: ignore[arg-type]  # it converts strings
    budget.check(settings.storage.weights, settings.storage.prune, validated=False)
    source, stages = open_data(data, labels, text=text, **reading), Stages(quiet=not progress)
    with stages.stage("read", f"reading {source.name or 'the data'}") as read:
        dataset = source.dataset(text_settings, threads=threads, progress=read).drop_rare(min_label_count)
    plan = build_plan(
        _show(dataset, progress),
        settings.tree,
        settings.solver,
        settings.storage,
        normalize=settings.normalize,
        threads=threads,
        memory_limit=limit,
        stage=stages.stage,
    )
    budget.check_least(plan.least_bytes)
    return plan


@shows(ReadingOptions)
def compare(
    models: Sequence[Model | str | os.PathLike[str]],
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    beam: int = DEFAULT_BEAM,
    seed: int = 0,
    threads: int | None = None,
    **reading: Unpack[ReadingOptions],
) -> Comparison:
    """Compare models with the first of them, on data that none was trained on.

    Parameters
    ----------
    models : sequence of Model or path-like
        Models, their directories or addresses.
    data, labels, text
        Labeled data, as in :func:`labeltree.read_data`; each model reads it as its training data.
    beam : int, default 10
    seed : int, default 0
        Of the paired bootstrap over the rows.
    threads, **reading
        As in :func:`labeltree.read_data`.

    Returns
    -------
    Comparison
        Metrics, bytes and times, and the differences from the first model with their intervals.
    """
    if not isinstance(models, Sequence) or isinstance(models, str):
        raise InputError(f"models is of type {type(models).__name__}, expected a list of models and paths")
    opened = [model if isinstance(model, Model) else load(model) for model in models]
    read = partial(read_labeled, data=data, labels=labels, text=text, threads=threads, **reading)
    datasets = read_alike(opened, read)
    comparison = compare_models(opened, datasets, beam=beam, seed=seed, threads=threads)
    for note in comparison.notes(lambda rows, model: rows.training_note(name=model)):
        warn(note)
    return comparison


@shows(ReadingOptions)
def split(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    test: float = DEFAULT_SHARE,
    validation: float | None = None,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    **reading: Unpack[ReadingOptions],
) -> Split:
    """Split labeled data into training and test rows with about the same share of every label.

    Rows with the same text (or the same features) are put into the same part.

    Parameters
    ----------
    data, labels, text, threads, **reading
        As in :func:`labeltree.read_data`.
    test : float, default 0.1
        The share of the rows in the test part.
    validation : float, optional
        The share of the rows in a validation part. Default: there is none.
    seed : int, default 0
    path : path-like, optional
        The directory for the parts of files, such as ``train.tsv`` and ``test.tsv``; only then required.
        Several files are split as one, and matrices are written as LIBSVM.
    overwrite : bool, default False
        Replace existing files.

    Examples
    --------
    >>> texts = [f"a text about topic {number % 5}, number {number}" for number in range(100)]
    >>> train, test = split(texts, [[f"topic {number % 5}"] for number in range(100)], test=0.2)
    >>> len(train[0]), len(test[0])
    (80, 20)
    """
    shares = checked_shares(test, validation)
    checked("seed", seed, limits.SEED)
    path = checked("path", path, limits.Optional(limits.PATH))
    source = open_data(data, labels, text=text, **reading)
    names = ("train", *shares)
    files: list[Path] = []
    if is_file(data):
        if path is None:
            what, hint = "the data is a file, but there is no directory for its parts", "add {path}"
            raise InputError(what, hint=hint)
        files = output_files(Path(path), names, str(source.format) if source.is_text else "svm", overwrite)
    Y, keys, dataset, _ = labels_and_keys(source, threads)
    parts = split_rows(Y, keys, list(shares.values()), seed)
    if files:
        files[0].parent.mkdir(exist_ok=True)
        write_parts(data, source, dataset, parts, files)
        found: list[Any] = files
    else:
        rows = [np.flatnonzero(parts == number) for number in range(len(names))]
        found = [take_rows(data, kept) for kept in rows]
        if labels is not None and not isinstance(labels, str | int):
            found = [(part, take_rows(labels, kept)) for part, kept in zip(found, rows, strict=True)]
    counts = np.bincount(parts, minlength=len(names)).tolist()
    error = share_error(Y, parts, list(shares.values()))
    of = dict(zip(names, found, strict=True))
    rows_of = dict(zip(names, counts, strict=True))
    return Split(of["train"], of["test"], of.get("validation"), rows_of, *error)


@shows(TrainingOptions, *_SETTINGS)
def cross_predict(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    folds: int = 5,
    top: int = DEFAULT_TOP,
    threads: int | None = None,
    **options: Unpack[TrainingOptions],
) -> CrossPrediction:
    """Predict all rows of training data, each by a model that is trained without it, in temporary files.

    Parameters
    ----------
    data, labels, text, threads, **options
        As in :func:`labeltree.train`.
    folds : int, default 5
        The rows are split into so many parts, with about the same share of every label in each and equal rows
        together. Those of one are predicted by a model that is trained on the others.
    top : int, default 5
        Number of labels per row (k).

    Examples
    --------
    >>> texts = ["red apples", "green apples", "a blue whale", "whale song"]
    >>> cross_predict(texts, ["fruit", "fruit", "sea", "sea"], folds=2, top=1).names
    [['fruit'], ['fruit'], ['sea'], ['sea']]
    """
    limits.checked("folds", folds, limits.Whole(2, 100))
    limits.checked("top", top, limits.TOP)
    reading, text_settings, settings = _settings(options)
    source = open_data(data, labels, text=text, **reading)
    Y, keys, dataset, names = labels_and_keys(source, threads)
    fold_of = split_rows(Y, keys, [1 / folds] * (folds - 1), settings.tree.seed)
    best = np.full((Y.shape[0], min(top, Y.shape[1])), -1, np.int32)
    scores = np.zeros(best.shape, np.float32)
    for is_out in (fold_of == fold for fold in range(folds)):
        kept, out = np.flatnonzero(~is_out), np.flatnonzero(is_out)
        if dataset is None:  # rows without text are skipped
            kept, out = kept[keys[kept] != 0], out[keys[out] != 0]
            train = source.dataset(text_settings, rows=~is_out, threads=threads)
            train = replace(train, Y=Y[kept], label_names=names)
            X = source.dataset(like=train, rows=is_out, threads=threads).X
        else:
            train, X = dataset.take(kept), dataset.X[out]
        with temporary_directory(Path(tempfile.gettempdir()), "labeltree-folds-") as place:
            _, model = train_dataset(train, place / "model", settings, threads=threads, sync=False)
            best[out], scores[out] = model.predict(X, top=top, threads=threads)
    return CrossPrediction(best, scores, fold_of, Y, names)


def _settings(options: TrainingOptions) -> tuple[ReadingOptions, TextSettings | None, ModelSettings]:
    """Return how data is read, and the settings of text, if there are any, and of a model."""
    hard = options.get("hard_negatives", SolverSettings.hard_negatives)
    score = stored_score(options.get("score", limits.AUTO), options.get("score_scale"), hard)
    settings = ModelSettings.of({**options}, score, options.get("normalize", True))
    return *split_options(options), settings


def _show(dataset: Dataset, progress: bool) -> Dataset:
    """Show what was read, and warn, at the caller of the verb, of what looks wrong; return it."""
    summary = describe_data(dataset)
    if progress:
        print(*summary_lines(summary), sep="\n", file=sys.stderr)
    for warning in summary["warnings"]:
        warn(warning)
    return dataset
