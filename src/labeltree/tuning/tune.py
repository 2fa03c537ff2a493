"""Tuning: from data and a budget to settings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from labeltree.base import limits
from labeltree.base.options import TuningOptions, shows
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import open_data
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_SHARE, TextSettings, split_options
from labeltree.tuning.halving import Goal, Halving
from labeltree.tuning.result import MODELS, TuningResult, best_trial
from labeltree.tuning.rows import DataSource, TuningRows
from labeltree.tuning.settings_file import reading_settings
from labeltree.tuning.trial import TrialJournal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data, Labels

JOURNAL = "trials.jsonl"


@shows(TuningOptions, TextSettings)
def tune(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    path: str | os.PathLike[str],
    max_size: int | str | None = None,
    max_time: float | str | None = None,
    metric: Literal["P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "F1"] = "P@1",
    validation: float | Data | tuple[Data, Labels] = DEFAULT_SHARE,
    min_label_count: int = 1,
    seed: int = 0,
    resume: bool = False,
    threads: int | None = None,
    progress: bool = False,
    **options: Unpack[TuningOptions],
) -> TuningResult:
    """Search for the settings of the best model within a budget of bytes and time.

    Successive halving: about a dozen variants of the defaults are trained on a quarter of the training rows,
    the best of them and their combinations on half, and the best of these on all. A change is kept only if it
    is better than the defaults by two standard errors, and by more if many variants were tried. Variants
    whose plans do not fit are not trained. Weights are pruned only to keep to a ``max_size``. Rows of
    features are scaled to length 1, as in `labeltree.train`.

    If the search is stopped (Ctrl-C), it ends with the best settings so far.

    Parameters
    ----------
    data, labels, text
        The training data, as in :func:`labeltree.read_data`. Documents are read again for each choice of
        n-grams and ``min_df``.
    path : path-like
        Directory for the journal of trials, the table, the settings file and the best model.
    max_size : int or str, optional
        Bytes that the final model may take without its manifest, or a string such as "50MB".
    max_time : float or str, optional
        Seconds for the search and for training the final model, or a string such as "20min".
    metric : {"P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "F1"}
        What to maximize. F1 is micro-averaged, with the threshold of scores that makes it largest.
    validation : float, path-like, frame, Dataset or pair of texts and labels, default 0.1
        The share of the rows to validate on, or other labeled data.
    min_label_count : int, default 1
        Leave out labels with fewer rows.
    seed : int, default 0
        Of the split and of the final model.
    resume : bool, default False
        Continue a search that was interrupted.
    threads : int, optional
        Default: all CPUs.
    progress : bool, default False
        Show a line for each trial, on standard error or in a notebook.
    **options
        How data is read, and how documents become features, as in :func:`labeltree.train`. If there are no
        settings of text, n-grams and ``min_df`` are searched.

    Returns
    -------
    TuningResult
        ``labeltree.train(data, **result.settings)`` trains the best model. Labels that are values, not the
        name of a column, are passed again.
    """
    goal = Goal(metric, max_size, max_time)  # type: ignore[arg-type]  # it converts strings
    limits.checked("min_label_count", min_label_count, limits.Whole(1))
    reading, settings = split_options(options)
    source = open_data(data, labels, text=text, **reading)

    def read(chosen: TextSettings | None) -> Dataset:
        return source.dataset(chosen, threads=threads).drop_rare(min_label_count)

    def read_other(dataset: Dataset) -> Dataset:
        is_pair = isinstance(validation, tuple) and len(validation) == 2
        other: Any = validation if is_pair else (validation, None)
        return open_data(*other, text=text, like=dataset, **reading).dataset(like=dataset, threads=threads)

    share: Any = read_other
    if isinstance(validation, float | int):
        share = limits.checked("validation", validation, limits.VALIDATION_SHARE)
    start = (settings or TextSettings()) if source.is_text else None
    found = DataSource(read, share, start, searches_terms=source.is_text and settings is None)
    column = labels if isinstance(labels, str) else None
    named = {**reading, "text": text, "labels": column, "min_label_count": min_label_count}
    return search(
        found, Path(path), goal, reading=named, seed=seed, resume=resume, threads=threads, quiet=not progress
    )


def search(
    source: DataSource,
    out: Path,
    goal: Goal,
    *,
    reading: Mapping[str, Any],
    seed: int,
    resume: bool,
    threads: int | None,
    quiet: bool,
) -> TuningResult:
    """Search for settings, as `tune` does, in data from any source; `reading` becomes part of the result."""
    started = time.perf_counter()
    out = Path(os.path.abspath(out))
    limits.checked("seed", seed, limits.SEED)
    if not out.parent.is_dir():
        raise InputError("no such directory", file=out.parent)
    if out.exists() and not out.is_dir():
        raise InputError("the output is a file, not a directory", file=out, hint="choose another name")
    if not resume and (out / JOURNAL).exists():
        what = "there is a search in this directory already"
        hint = "use {resume} to continue it, or another directory"
        raise InputError(what, file=out, hint=hint, parameters={"resume": True})
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
    try:
        halving.run()
        ended = "out of time" if halving.out_of_time else "complete"
    except KeyboardInterrupt:
        if not journal.trained:
            raise
        ended = "stopped"
    if not journal.trained:
        (out / JOURNAL).unlink()
        for directory in (out / MODELS, out):
            with suppress(OSError):  # it has other files
                directory.rmdir()
        # Name the smallest model that was tried, if all were too large.
        smallest = min(journal.trials, key=lambda trial: trial.model_bytes)
        what = f"no settings were found that fit: {smallest.skipped}"
        raise InputError(what, hint="use a larger {max_size} or a machine with more memory")
    chosen = best_trial(journal.trained, goal.metric)
    settings = {**reading_settings(reading), **rows.settings(chosen.changes)}
    if goal.max_size is not None:
        settings["max_size"] = goal.max_size
    text = rows.text_settings(chosen.changes)
    if text is not None:
        terms = {name: v for name, v in asdict(text).items() if v != getattr(TextSettings, name)}
        settings |= {name: list(v) if isinstance(v, tuple) else v for name, v in terms.items()}
    times = time.perf_counter() - started, halving.reserved
    result = TuningResult(journal.trials, chosen, settings, goal.metric, goal.max_size, *times, ended, out)
    result.write()
    return result
