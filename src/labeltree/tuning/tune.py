"""Tuning: from data and a budget to settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from labeltree import limits
from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.leftovers import temporary_directory
from labeltree.progress import Progress, silent
from labeltree.reading import read_data
from labeltree.svm import read_svm
from labeltree.system import threads_to_use
from labeltree.text.documents import read_documents
from labeltree.text.formats import format_of
from labeltree.text.settings import TextSettings
from labeltree.tuning.bench import Bench, DataSource
from labeltree.tuning.journal import TrialJournal
from labeltree.tuning.result import TuningResult, choose, final_settings
from labeltree.tuning.row_metrics import METRIC
from labeltree.tuning.search import Goal, Search
from labeltree.tuning.trial import Trial

DEFAULT_SHARE = 0.1


def tune(
    data: Dataset | DataSource | Path | str,
    out: Path | str,
    *,
    max_size: int | str | None = None,
    max_time: float | str | None = None,
    metric: str = "P@1",
    validation: float | Dataset | Path | str = DEFAULT_SHARE,
    text: TextSettings | None = None,
    seed: int = 0,
    resume: bool = False,
    threads: int | None = None,
    stage: Callable[[str], AbstractContextManager[Progress]] | None = None,
    report: Callable[[Trial], None] | None = None,
) -> TuningResult:
    """Search for the settings of the best model within a budget of bytes and time.

    Trials are trained on a part of the rows and evaluated on validation rows: single changes of the defaults
    on a quarter of the training rows, the best of them and their combinations on half, and two or more on
    all, with several trees. Each trained model is evaluated with fewer trees, a range of thresholds and all
    score functions, without training it again. Trials that do not fit in memory or on disk are left out.

    Parameters
    ----------
    data : Dataset, path-like or DataSource
        The training data. A file of documents is read again for each choice of n-grams and ``min_df``.
    out : path-like
        Directory for the journal of trials, the table, the figure and the settings file.
    max_size : int or str, optional
        Bytes that the final model may take without its manifest, or a string such as "50MB".
    max_time : float or str, optional
        Seconds for the search and for training the final model, or a string such as "20min".
    metric : {"P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "F1"}
        What to maximize. F1 is micro-averaged, with the threshold of scores that makes it largest.
    validation : float, Dataset or path-like, default 0.1
        The share of the rows to validate on, or other labeled data.
    text : TextSettings, optional
        The text settings to begin with, if the data is a file of documents.
    seed : int, default 0
        Of the split and of the final model.
    resume : bool, default False
        Continue a search that was interrupted.
    threads : int, optional
        Default: all CPUs.
    stage : callable, optional
        Called with the description of each trial; returns a context manager that gives a progress callback.
    report : callable, optional
        Called with each trial when it is done.

    Returns
    -------
    TuningResult
    """
    started = time.perf_counter()
    out = Path(os.path.abspath(out))
    limits.checked("metric", metric, METRIC)
    goal = Goal(
        metric,
        limits.checked("max_size", max_size, limits.Optional(limits.MAX_SIZE)),
        limits.checked("max_time", max_time, limits.Optional(limits.MAX_TIME)),
    )
    limits.checked("seed", seed, limits.SEED)
    if isinstance(validation, float | int):
        validation = limits.checked("validation", validation, limits.VALIDATION_SHARE)
    if not out.parent.is_dir():
        raise InputError("no such directory", file=out.parent)
    if out.exists() and not out.is_dir():
        raise InputError("the output is a file, not a directory", file=out, hint="choose another name")
    source = data if isinstance(data, DataSource) else data_source(data, validation, text, threads)
    bench = Bench(source, seed, threads_to_use(threads))
    train, held_out, _ = bench.data(bench.start)
    described = {
        "data": train.fingerprint(),
        "validation": held_out.X.shape[0],
        "seed": seed,
        "metric": metric,
        "max_size": goal.max_size,
        "text": None if source.text is None else asdict(source.text),
    }
    journal = TrialJournal(out, described, resume)
    spent = sum(trial.seconds for trial in journal.trials)
    with temporary_directory(out, ".models-") as work:
        search = Search(
            bench,
            journal,
            goal,
            work,
            started,
            stage or (lambda description: silent("trial", description)),
            report or (lambda trial: None),
        )
        search.run()
    finished = search.finished_trials()
    if not finished:
        raise _nothing_fits(journal.trials, goal)
    chosen, point = choose(finished, metric)
    settings = final_settings(
        chosen.candidate, point, seed, goal.max_size, bench.text_settings(chosen.candidate)
    )
    result = TuningResult(
        journal.trials,
        chosen,
        point,
        settings,
        metric,
        goal.max_size,
        spent + time.perf_counter() - started,
        search.out_of_time,
        out,
    )
    result.write()
    return result


def data_source(
    data: Dataset | Path | str,
    validation: float | Dataset | Path | str,
    text: TextSettings | None = None,
    threads: int | None = None,
) -> DataSource:
    """Return how to read training and validation data, each a file or a dataset."""
    if isinstance(data, Dataset):
        given: Any = validation
        if not isinstance(validation, float | Dataset):
            path = validation
            given = lambda dataset: _read_like(path, dataset, threads)  # noqa: E731
        elif isinstance(validation, Dataset):
            given = lambda _: validation  # noqa: E731
        return DataSource(lambda _: data, given)
    is_text = format_of(os.fspath(data)) not in (None, "svm")
    if isinstance(validation, Dataset):
        raise InputError(
            "the validation data is a dataset, but the training data is a file",
            hint="pass both as files, or both as datasets",
        )
    share: Any = validation
    if not isinstance(validation, float):
        other = validation
        share = lambda dataset: _read_like(other, dataset, threads)  # noqa: E731

    def read(settings: TextSettings | None) -> Dataset:
        if is_text:
            return read_documents(data, settings=settings, threads=threads)
        return read_svm(data, threads=threads_to_use(threads))

    start = (text or TextSettings()) if is_text else None
    return DataSource(read, share, start, searches_terms=is_text and text is None)


def features_of(dataset: Dataset, path: Path | str) -> SimpleNamespace:
    """Return what decides how other data is read, like a model of a dataset would have it."""
    return SimpleNamespace(
        text=dataset.text, one_based=dataset.one_based, n_features=dataset.n_features, path=path
    )


def _read_like(path: Path | str, dataset: Dataset, threads: int | None) -> Dataset:
    """Read validation data with the features of the training data."""
    like: Any = features_of(dataset, "of the training data")
    return read_data(path, like=like, threads=threads)


def _nothing_fits(trials: list[Trial], goal: Goal) -> InputError:
    reasons = [trial.skipped for trial in trials if trial.skipped]
    return InputError(
        f"no settings were found that fit: {reasons[-1] if reasons else 'no trial was finished'}",
        hint="use a larger {max_size}, {max_time} or a machine with more memory",
        parameters={"max_size": None, "max_time": None},
    )
