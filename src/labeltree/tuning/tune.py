"""Tuning: from data and a budget to settings."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labeltree.base import limits
from labeltree.base.system import threads_to_use
from labeltree.data.columns import Columns
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import read_data
from labeltree.data.read import check_path, resolve_format
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_SHARE, TextSettings
from labeltree.tuning.halving import Goal, Halving
from labeltree.tuning.result import MODELS, TuningResult, best_trial
from labeltree.tuning.rows import DataSource, TuningRows
from labeltree.tuning.trial import TrialJournal

JOURNAL = "trials.jsonl"


def tune(
    data: Dataset | Path | str,
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
) -> TuningResult:
    """Search for the settings of the best model within a budget of bytes and time.

    Successive halving: about a dozen variants of the defaults are trained on a quarter of the training rows,
    the best of them and their combinations on half, and the best of these on all. A difference that is not
    larger than its standard error is noise, and the simpler variant is chosen. Variants whose plans do not
    fit are not trained. Rows of features are scaled to length 1, as in `labeltree.train`.

    If the search is stopped (Ctrl-C), it ends with the best settings so far.

    Parameters
    ----------
    data : Dataset or path-like
        The training data. A file of documents is read again for each choice of n-grams and ``min_df``.
    out : path-like
        Directory for the journal of trials, the table, the settings file and the best model.
    max_size : int or str, optional
        Bytes that the final model may take without its manifest, or a string such as "50MB".
    max_time : float or str, optional
        Seconds for the search and for training the final model, or a string such as "20min".
    metric : {"P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "F1"}
        What to maximize. F1 is micro-averaged, with the threshold of scores that makes it largest.
    validation : float, Dataset or path-like, default 0.1
        The share of the rows to validate on, or other labeled data.
    text : TextSettings, optional
        The text settings, if the data is a file of documents. Default: n-grams and ``min_df`` are searched.
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

    Returns
    -------
    TuningResult
    """
    goal = Goal(metric, max_size, max_time)  # type: ignore[arg-type]  # it converts strings
    if isinstance(validation, float | int):
        validation = limits.checked("validation", validation, limits.VALIDATION_SHARE)
    reading = {"format": format, "columns": columns, "one_based": one_based, "strict": strict}
    source = data_source(data, validation, text, threads=threads, **reading)
    return search(source, Path(out), goal, seed=seed, resume=resume, threads=threads, quiet=not progress)


def search(
    source: DataSource,
    out: Path,
    goal: Goal,
    *,
    seed: int,
    resume: bool,
    threads: int | None,
    quiet: bool,
) -> TuningResult:
    """Search for settings, as `tune` does, in data from any source."""
    started = time.perf_counter()
    out = Path(os.path.abspath(out))
    limits.checked("seed", seed, limits.SEED)
    if not out.parent.is_dir():
        raise InputError("no such directory", file=out.parent)
    if out.exists() and not out.is_dir():
        raise InputError("the output is a file, not a directory", file=out, hint="choose another name")
    if not resume and (out / JOURNAL).exists():
        raise InputError(
            "there is a search in this directory already",
            file=out,
            hint="use {resume} to continue it, or another directory",
            parameters={"resume": True},
        )
    rows = TuningRows(source, seed, threads_to_use(threads))
    described = {
        "data": rows.train.fingerprint(),
        "validation_data": rows.held_out.fingerprint(),
        "seed": seed,
        "metric": goal.metric,
        "max_size": goal.max_size,
        "text": None if source.text is None else asdict(source.text),
    }
    out.mkdir(exist_ok=True)
    journal = TrialJournal(out / JOURNAL, described)
    (out / MODELS).mkdir(exist_ok=True)
    started -= sum(trial.seconds for trial in journal.trials)
    halving = Halving(rows, journal, goal, out / MODELS, started, quiet)
    ended = "complete"
    try:
        halving.run()
        if halving.out_of_time:
            ended = "out of time"
    except KeyboardInterrupt:
        if not any(trial.rows for trial in journal.trials):
            raise
        ended = "stopped"
    if not any(trial.rows for trial in journal.trials):
        (out / JOURNAL).unlink()
        for directory in (out / MODELS, out):
            with suppress(OSError):  # it has other files
                directory.rmdir()
        # Name the smallest model that was tried, if all were too large.
        smallest = min(journal.trials, key=lambda trial: trial.model_bytes)
        raise InputError(
            f"no settings were found that fit: {smallest.skipped}",
            hint="use a larger {max_size} or a machine with more memory",
            parameters={"max_size": None},
        )
    chosen = best_trial(journal.trials, goal.metric)
    settings = rows.settings(chosen.changes)
    settings |= chosen.storage if goal.max_size is None else {"max_size": goal.max_size}
    text = rows.text_settings(chosen.changes)
    if text is not None:
        terms = asdict(text).items()
        settings |= {name: value for name, value in terms if value != getattr(TextSettings, name)}
    seconds = time.perf_counter() - started
    result = TuningResult(journal.trials, chosen, settings, goal.metric, goal.max_size, seconds, ended, out)
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
        return read_data(validation, like=dataset, threads=threads, **reading)

    start = (text or TextSettings()) if is_text else None
    share = validation if isinstance(validation, float) else read_other
    return DataSource(read, share, start, searches_terms=is_text and text is None)
