"""`labeltree reproduce`: the tables and figures of the paper on any data, and a report about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile
from labeltree.errors import InputError, ResourceError

if TYPE_CHECKING:
    from labeltree.paper.experiments import Result

Number = TypeVar("Number", int, float)
LARGEST = 2**53  # the largest whole number that the formulas compute with exactly


def reproduce(
    what: str,
    data: list[str] | None = None,
    *,
    out: Path,
    seeds: str = "0,1,2,3,4",
    clusters: Annotated[int | None, limits.CLUSTERS] = None,
    labels: Annotated[int | None, limits.Whole(2, LARGEST)] = None,
    features: Annotated[int | None, limits.Whole(1, LARGEST)] = None,
    alphas: str | None = None,
    threads: options.Threads = None,
    overwrite: bool = False,
    display: printing.Display,
) -> None:
    """Reproduce the tables and figures of the paper.

    Writes CSV files, with matplotlib also PNG and SVG, and report.md with all results. The paper is
    "Exploring Space Efficiency in a Tree-based Linear Model for Extreme Multi-label Classification".

    Parameters
    ----------
    what
        One or more of statistics, fixed-k, varied-k, alpha, last-depth, tight-bound, pruning, theory,
        separated by commas, or all.
    data
        Directories with train.svm and test.svm (or .tsv, .csv, .jsonl; plain or compressed), training files,
        or names of datasets downloaded with `labeltree download`. theory needs none.
    out : DIR
        Directory for the results.
    seeds : N,N,...
        Random seeds; one tree is built for each.
    clusters : K
        Number of clusters per node. Default: 100, as in the paper.

    Balanced trees (theory)
    -----------------------
    labels : L
        Number of labels.
    features : N
        Number of features.
    alphas : X,X,...
        Values of alpha, the fraction of its parent's features that a node uses.
    """
    from labeltree.base import plots
    from labeltree.paper.experiments import EXPERIMENTS, Session, load_splits
    from labeltree.paper.experiments import run as run_experiment
    from labeltree.paper.session import check_seeds
    from labeltree.paper.tables import check_out, save_report

    asked = list(EXPERIMENTS) if what == "all" else what.split(",")
    for name in asked:
        if name not in EXPERIMENTS:
            raise InputError(f"no such experiment: {name!r}", hint=f"use {', '.join(EXPERIMENTS)} or all")
    names = [name for name in EXPERIMENTS if name in asked]
    values: dict[str, Any] = {
        "clusters": clusters,
        "labels": labels,
        "features": features,
        "alphas": None if alphas is None else _numbers(alphas, float, "--alphas"),
    }
    given = {key: value for key, value in values.items() if value is not None}
    for key in given:
        users = [name for name, experiment in EXPERIMENTS.items() if key in experiment.options]
        if not set(names) & set(users):
            wrong = f"--{key} is an option of {', '.join(users)}, not of {', '.join(names)}"
            raise InputError(wrong, hint="remove it")
    check_out(out, names, overwrite)
    seed_list = _numbers(seeds, int, "--seeds")
    check_seeds(seed_list)
    splits = load_splits(data or (), threads=threads, stage=display.stage)
    summaries = {
        split.name: DataFile.show(split.train, display, name=split.name if len(splits) > 1 else None)
        for split in splits
    }
    session = Session(splits, seed_list, threads)
    if what == "all" and splits and not any(split.test for split in splits):
        names.remove("pruning")
        printing.note("Skipping pruning: no dataset has test data.")
    for name in names:
        EXPERIMENTS[name].check(name, splits)
    if note := plots.missing():
        printing.note(note)
    results: list[Result] = []
    skipped: list[str] = []
    try:
        for name in names:
            mine = {key: value for key, value in given.items() if key in EXPERIMENTS[name].options}
            try:
                with display.stage(name, name) as progress:
                    result = run_experiment(name, session, progress=progress, **mine)
                    result.save(out)
                results.append(result)
            except ResourceError as error:  # the other experiments may need less
                if len(names) == 1:
                    raise
                skipped.append(name)
                printing.note(f"Skipping {name}: {error.message(options.spelled)}.")
        file = save_report(results, out) if results else None
    except KeyboardInterrupt:
        done = ", ".join(result.name for result in results)
        raise KeyboardInterrupt(f"stopped; results in {out}: {done or 'none'}") from None
    if file is not None:
        report: dict[str, Any] = {"data": summaries, "report": str(file)}
        lines = []
        for result in results:
            tables = {table.name: table.rows for table in result.tables if table.shown}
            report[result.name] = {"settings": result.settings, "tables": tables}
            lines += [f"{result.name}: {result.title}", ""]
            lines += [line for table in result.tables for line in table.lines()]
        display.show(report, [*lines, f"report {file}"])
    if skipped:
        raise ResourceError(f"not enough memory or disk space for {', '.join(skipped)}")


def _numbers(text: str, kind: Callable[[str], Number], option: str) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected numbers separated by commas") from None
