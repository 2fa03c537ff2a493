"""Tuning: from data and a budget to settings."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.base import limits
from labeltree.base.progress import Progress, Stages
from labeltree.base.system import threads_to_use
from labeltree.base.tempdirs import temporary_directory
from labeltree.data.columns import Columns
from labeltree.data.dataset import Dataset
from labeltree.data.read import check_path, features_of, read_data, resolve_format
from labeltree.errors import InputError
from labeltree.evaluation.row_metrics import METRIC
from labeltree.model.compress import Budget
from labeltree.model.layout import SPARSE
from labeltree.settings import DEFAULT_SHARE, SolverSettings, StorageSettings, TextSettings
from labeltree.training.plan import Plan, TreePlan
from labeltree.trees.tree import LabelTree
from labeltree.tuning.bench import Bench, DataSource
from labeltree.tuning.journal import TrialJournal, check_no_search
from labeltree.tuning.live_table import LiveTable
from labeltree.tuning.result import TuningResult, choose, final_settings
from labeltree.tuning.search import Goal, Search
from labeltree.tuning.trial import Trial

# Trials of another version are not comparable: in 3, some are validated on more rows.
TRIALS_VERSION = 3


def tune(
    data: Dataset | DataSource | Path | str,
    out: Path | str,
    *,
    max_size: int | str | None = None,
    max_time: float | str | None = None,
    metric: str = "P@1",
    validation: float | Dataset | Path | str = DEFAULT_SHARE,
    text: TextSettings | None = None,
    format: str | None = None,
    columns: Columns | None = None,
    one_based: bool | None = None,
    strict: bool = False,
    seed: int = 0,
    resume: bool = False,
    threads: int | None = None,
    progress: bool = False,
    stage: Callable[[str], AbstractContextManager[Progress]] | None = None,
    report: Callable[[Trial], None] | None = None,
) -> TuningResult:
    """Search for the settings of the best model within a budget of bytes and time.

    Trials are trained on a part of the rows and evaluated on validation rows: single changes of the defaults
    on a quarter of the training rows, the best of them and their combinations on half, and two or more on
    all, with several trees. Each trained model is evaluated with fewer trees, a range of thresholds and all
    score functions, without training it again. Trials that do not fit in memory or on disk are left out.
    Rows of features are scaled to length 1, as `labeltree.train` does by default.

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
    format, columns, one_based, strict
        How to read files, as in :func:`labeltree.read_data`.
    seed : int, default 0
        Of the split and of the final model.
    resume : bool, default False
        Continue a search that was interrupted.
    threads : int, optional
        Default: all CPUs.
    progress : bool, default False
        Show a line for each trial, on standard error or in a notebook.
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
    check_no_search(out, resume)
    source = data
    if not isinstance(source, DataSource):
        reading = {"format": format, "columns": columns, "one_based": one_based, "strict": strict}
        source = data_source(source, validation, text, threads=threads, **reading)
    bench = Bench(source, seed, threads_to_use(threads))
    train, held_out = bench.data(bench.start)
    Budget(max_size=goal.max_size).check_least(_least_bytes(train, source), exact=False)
    described = {
        "version": TRIALS_VERSION,
        "data": train.fingerprint(),
        "validation_data": held_out.fingerprint(),
        "seed": seed,
        "metric": metric,
        "max_size": goal.max_size,
        "text": None if source.text is None else asdict(source.text),
    }
    journal = TrialJournal(out, described, resume)
    spent = sum(trial.seconds for trial in journal.trials)
    table = LiveTable(metric, not progress, Stages(quiet=not progress))
    with temporary_directory(out, ".models-") as work:
        search = Search(bench, journal, goal, work, started, stage or table.stage, report or table.report)
        search.run()
    finished = search.finished_trials()
    if not finished:
        is_useful = any(trial.points for trial in journal.trials)
        if not is_useful:
            journal.discard()
        raise _nothing_fits(journal.trials, ", and another directory" if is_useful else "")
    chosen, point = choose(finished, metric, goal.max_size)
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
    *,
    threads: int | None = None,
    **reading: Any,
) -> DataSource:
    """Return how to read training and validation data, each a file or a dataset.

    The other arguments are those of `read_data`.
    """
    if not isinstance(data, Dataset):
        check_path(data)
    is_text = not isinstance(data, Dataset) and resolve_format(data, reading.get("format"), None) != "svm"
    if text is not None and not is_text:
        raise InputError(
            "text settings are given, but the training data is not a file of documents", hint="remove them"
        )
    if isinstance(validation, Dataset) and not isinstance(data, Dataset):
        raise InputError(
            "the validation data is a dataset, but the training data is a file",
            hint="pass both as files, or both as datasets",
        )

    def read(settings: TextSettings | None) -> Dataset:
        if isinstance(data, Dataset):
            return data
        return read_data(data, settings=settings, threads=threads, **reading)

    def read_other(dataset: Dataset) -> Dataset:
        if isinstance(validation, Dataset):
            return validation
        assert not isinstance(validation, float)
        # Read it like a model of the training data would.
        like: Any = features_of(dataset, "of the training data")
        return read_data(validation, like=like, threads=threads, **reading)

    start = (text or TextSettings()) if is_text else None
    share = validation if isinstance(validation, float) else read_other
    return DataSource(read, share, start, searches_terms=is_text and text is None)


def _least_bytes(train: Dataset, source: DataSource) -> int:
    """Return what every model of the data takes: names, counts, and one tree of one node without weights.

    Text counts unless its terms are searched for: other choices have fewer of them.
    """
    tree = LabelTree(np.array([0, train.n_labels]), ~np.arange(train.n_labels, dtype=np.int32))
    none = np.zeros(1, np.int64)
    part = TreePlan(tree, none, none, none, True, SPARSE, train.n_features)
    text = None if source.searches_terms else train.text
    shape = train.n_instances, train.n_features, train.n_labels
    return Plan(
        (part,), SolverSettings(), StorageSettings(), *shape, train.bytes, 1, train.label_names, text
    ).least_bytes


def _nothing_fits(trials: list[Trial], more: str) -> InputError:
    skipped = [trial for trial in trials if trial.skipped]
    # Name the smallest model that was tried; if none was too large, the reason of the last trial.
    skipped.sort(key=lambda trial: -trial.least_bytes if trial.least_bytes else -math.inf)
    return InputError(
        f"no settings were found that fit: {skipped[-1].skipped if skipped else 'no trial was finished'}",
        hint="use a larger {max_size}, {max_time} or a machine with more memory" + more,
        parameters={"max_size": None, "max_time": None},
    )
