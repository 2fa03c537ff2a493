"""`labeltree reproduce`: the tables and figures of the paper on any data, and a report about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from labeltree.base import limits, plots
from labeltree.base.progress import Stages, ignore
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text
from labeltree.errors import InputError, ResourceError

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.paper.experiments import Result

Number = TypeVar("Number", int, float)
LARGEST = 2**53  # the largest whole number that the formulas compute with exactly


def reproduce(
    what: str,
    data: list[str] | None = None,
    *,
    out: Path,
    text: Text,
    seeds: str = "0,1,2,3,4",
    clusters: Annotated[int | None, limits.CLUSTERS] = None,
    labels: Annotated[int | None, limits.Whole(2, LARGEST)] = None,
    features: Annotated[int | None, limits.Whole(1, LARGEST)] = None,
    alphas: str | None = None,
    quick: bool = False,
    threads: options.Threads = None,
    overwrite: bool = False,
    one_based: bool | None = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Reproduce the tables and figures of the paper.

    Writes CSV, PNG and SVG files, and report.md with all results. The paper is "Exploring Space
    Efficiency in a Tree-based Linear Model for Extreme Multi-label Classification".

    Parameters
    ----------
    what
        One or more of statistics, fixed-k, varied-k, alpha, last-depth, tight-bound, pruning, theory, kmeans
        and time, separated by commas, or all.
    data
        Directories with train.svm and test.svm (or .tsv, .csv, .jsonl; plain or compressed), training files,
        or names of datasets downloaded with `labeltree download`. theory and time need none.
    out : DIR
        Directory for the results.
    seeds : N,N,...
        Random seeds; one tree is built for each.
    clusters : K
        Number of clusters per node. Default: 100, as in the paper.
    quick
        Run `time` on small data, and `tight-bound` and `kmeans` once.

    Balanced trees (theory)
    -----------------------
    labels : L
        Number of labels.
    features : N
        Number of features.
    alphas : X,X,...
        Values of alpha, the fraction of its parent's features that a node uses.
    """
    from labeltree.data.published import SOURCES
    from labeltree.paper import experiments
    from labeltree.paper.results import check_out, save_report
    from labeltree.paper.session import check_seeds

    names = _experiments(what)
    chosen = [experiments.EXPERIMENTS[name] for name in names]
    given: dict[str, Any] = {
        "clusters": clusters,
        "labels": labels,
        "features": features,
        "alphas": None if alphas is None else _numbers(alphas, float, "--alphas"),
        "quick": quick or None,
    }
    given = {key: value for key, value in given.items() if value is not None}
    _check_options(names, given)
    if any(experiment.draws for experiment in chosen):
        plots.require()
    check_out(out, names, overwrite)
    seed_list = _numbers(seeds, int, "--seeds")
    check_seeds(seed_list)
    if not data:
        for name, experiment in zip(names, chosen, strict=True):
            experiment.check(name, ())
    stages = Stages(quiet or json)
    if not data or any(name in SOURCES and not Path(name).exists() for name in data):
        _refuse_reading(text, one_based, "a dataset is downloaded" if data else "none is given")
    read = partial(_read, text, one_based, threads)
    splits = experiments.load_splits(data or (), read=read, stage=stages.stage)
    summaries = {
        split.name: DataFile.show(
            split.train, quiet=quiet or json, name=split.name if len(splits) > 1 else None
        )
        for split in splits
    }
    session = experiments.Session(splits, seed_list, threads)
    if what == "all" and not any(split.test for split in splits):
        names.remove("pruning")
        printing.note("Skipping pruning: no dataset has test data.")
    for name in names:
        experiments.EXPERIMENTS[name].check(name, splits)
    results: list[Result] = []
    skipped: list[str] = []

    def run(name: str) -> None:
        mine = {key: given[key] for key in given if key in experiments.EXPERIMENTS[name].options}
        try:
            with printing.warnings_as_notes(), stages.stage(name, name) as progress:
                result = experiments.run(name, session, progress=progress, **mine)
                result.save(out)
            results.append(result)
        except ResourceError as error:  # the other experiments may need less
            if len(names) == 1:
                raise
            skipped.append(name)
            printing.note(f"Skipping {name}: {error.message(options.spelled)}.")

    try:
        for name in names:
            run(name)
        if results:
            file = save_report(results, out)
    except KeyboardInterrupt:
        done = ", ".join(result.name for result in results)
        raise KeyboardInterrupt(f"stopped; results in {out}: {done or 'none'}") from None
    if json and results:
        printing.print_json({"data": summaries, **_figures(results, file, stages)})
    elif results and not quiet:
        for result in results:
            print(f"{result.name}: {result.title}", "", sep="\n")
            for table in result.tables:
                if lines := table.lines():
                    print(*lines, sep="\n")
        print(f"report {file}")
    if skipped:
        raise ResourceError(f"not enough memory or disk space for {', '.join(skipped)}")


def _refuse_reading(text: Text, one_based: bool | None, why: str) -> None:
    """Refuse options for reading a file if there is no file."""
    given = {item.name: getattr(text, item.name) for item in fields(text)}
    names = [options.spelled(name, None) for name, value in given.items() if value not in (None, False)]
    if one_based is not None:
        names.append(options.spelled("one_based", one_based))
    if names:
        raise InputError(f"{names[0]} applies to files, but {why}", hint="remove it")


def _read(
    text: Text, one_based: bool | None, threads: int | None, file: Path, train: Dataset | None
) -> Dataset:
    """Read a file; test data with the features, the columns and the first index of the training data."""
    return DataFile(str(file), text, one_based, train).dataset(threads, ignore)


def _experiments(what: str) -> list[str]:
    from labeltree.paper.experiments import EXPERIMENTS

    given = list(EXPERIMENTS) if what == "all" else what.split(",")
    for name in given:
        if name not in EXPERIMENTS:
            raise InputError(f"no such experiment: {name!r}", hint=f"use {', '.join(EXPERIMENTS)} or all")
    return [name for name in EXPERIMENTS if name in given]


def _check_options(names: Sequence[str], given: dict[str, Any]) -> None:
    """Refuse an option that none of the experiments takes."""
    from labeltree.paper.experiments import EXPERIMENTS

    for key in given:
        users = [name for name, experiment in EXPERIMENTS.items() if key in experiment.options]
        if not set(names) & set(users):
            raise InputError(
                f"--{key} is an option of {', '.join(users)}, not of {', '.join(names)}", hint="remove it"
            )


def _numbers(text: str, kind: Callable[[str], Number], option: str) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected numbers separated by commas") from None


def _figures(results: Sequence[Result], file: Path, stages: Stages) -> dict[str, Any]:
    found = {
        result.name: {
            "settings": result.settings,
            "tables": {table.name: table.rows for table in result.tables if table.shown},
        }
        for result in results
    }
    return {"report": str(file), **found, "seconds": stages.seconds}
