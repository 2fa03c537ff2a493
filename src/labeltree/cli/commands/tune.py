"""`labeltree tune`: settings for the best model within a budget of bytes and time."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_SHARE

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.data.summary import DataSummary
    from labeltree.settings import TextSettings
    from labeltree.tuning.result import TuningResult


def tune(
    data: list[str],
    *,
    out: Path,
    text: Text,
    max_size: Annotated[int | None, limits.MAX_SIZE] = None,
    max_time: Annotated[float | None, limits.MAX_TIME] = None,
    metric: Annotated[str, limits.TUNING_METRIC] = "P@1",
    validation: str = str(DEFAULT_SHARE),
    seed: options.Seed = 0,
    resume: bool = False,
    threads: options.Threads = None,
    display: printing.Display,
) -> None:
    """Find the settings of the best model within a budget.

    Tries clusters, depth, one-vs-rest, cost, positive cost, three trees and, for text, n-grams and --min-df:
    all on a part of the rows, the best on more, and the best of these on all rows. Writes a settings file
    for `labeltree train --settings`, a table of all trials and the best model. Ctrl-C ends the search with
    the best settings so far; --resume continues it.

    Parameters
    ----------
    out : DIR
        Directory for the settings file, the trials and the best model.
    metric
        What to maximize.
    validation : DATA
        Labeled data to validate on, or the share of the rows of DATA to set aside for it.

    Budget
    ------
    max_size
        Size that the model may have, such as 50MB.
    max_time
        Time for the search and for training the final model, such as 20min.
    """
    from labeltree.tuning.halving import Goal
    from labeltree.tuning.rows import DataSource
    from labeltree.tuning.settings_file import READING
    from labeltree.tuning.tune import search

    if "-" in data:
        raise InputError("standard input can be read only once", hint="pass a file")
    # Refuses options that do not match the data.
    is_text = DataFile(data, text).is_text
    share = _share(validation)
    searches_terms = is_text and text.ngrams is None and text.min_df is None

    shown: list[DataSummary] = []  # of the first time that the data is read

    def read(settings: TextSettings | None) -> Dataset:
        reading = text
        if searches_terms and settings is not None:
            reading = replace(text, ngrams=settings.ngrams, min_df=settings.min_df)
        dataset = DataFile(data, reading).read(display, threads)
        if not shown:
            shown.append(DataFile.show(dataset, display))
        return dataset

    def read_other(dataset: Dataset) -> Dataset:
        return DataFile(validation, text, dataset).read(display, threads)

    settings = text.settings() if is_text else None
    given = DataSource(read, read_other if share is None else share, settings, searches_terms)
    goal = Goal(metric, max_size, max_time)
    result = search(
        given,
        out,
        goal,
        reading={name: getattr(text, options.parameter(name)) for name in READING},
        seed=seed,
        resume=resume,
        threads=threads,
        quiet=display.is_quiet,
    )
    place = str(out / result.settings_path.name)
    command = shlex.join(["labeltree", "train", *data, str(out / "model"), "--settings", place])
    report = {**result.to_dict(), "command": command, "data": shown[0]}
    printing.show(report, _summary(result, command), display.json, display.quiet)
    if result.ended == "stopped":
        raise KeyboardInterrupt("stopped; the same command with --resume continues")


def _share(validation: str) -> float | None:
    """Return the share of the rows to validate on; None if it is a file."""
    try:
        share = float(validation)
    except ValueError:
        return None
    limits.checked("--validation", share, limits.VALIDATION_SHARE)
    return share


def _summary(result: TuningResult, command: str) -> list[str]:
    from labeltree.tuning.trial import describe

    metric, chosen = result.metric, result.chosen
    rows = []
    for trial, row in zip(result.trials, result.table, strict=True):
        gained = row["difference"]
        gap = "" if gained is None else f"{100 * gained:+.2f} ± {100 * row['difference_error']:.2f}"
        value, size = (trial.value(metric), human_bytes(trial.model_bytes)) if trial.rows else ("skipped", "")
        settings = describe(trial.changes) + (f" ({trial.skipped})" if trial.skipped else "")
        rows.append([settings, f"{trial.share:.0%}", size, value, gap, "*" if trial is chosen else ""])
    head = ["settings", "rows", "size", metric, "difference", ""]
    values = ", ".join(f"{name} {_shown(value)}" for name, value in result.settings.items())
    spent = f"{printing.human_seconds(result.seconds)}, {printing.plural(len(result.trials), 'trial')}"
    times = f"{spent}, {result.ended}; {printing.human_seconds(result.reserved)} kept for training"
    return [
        f"{metric} in percent on the validation rows, its difference from the defaults, and standard errors:",
        "",
        *printing.table(head, rows, left=1),
        "",
        *printing.table(*result.comparison(), left=1),
        "",
        *printing.facts([("chosen", values), ("time", times), ("files", str(result.directory))]),
        "",
        "train the final model with:",
        printing.escaped(command),
    ]


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
