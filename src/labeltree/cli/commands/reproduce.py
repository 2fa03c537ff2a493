"""`labeltree reproduce`: the tables and figures of the paper on any data, and a report about them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from labeltree.base import limits
from labeltree.base.progress import Stages, ignore
from labeltree.cli import options, printing, text_options
from labeltree.cli.reading import Source
from labeltree.errors import InputError, ResourceError

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.paper.experiments import Result, Table

Number = TypeVar("Number", int, float)
# The experiments that take an option.
TAKEN_BY = {
    "clusters": ("fixed-k", "alpha", "last-depth", "tight-bound", "pruning", "theory"),
    "labels": ("theory",),
    "features": ("theory",),
    "alphas": ("theory",),
    "quick": ("tight-bound", "kmeans", "time"),
}
LARGEST = 2**53  # the largest whole number that the formulas compute with exactly
_THEORY = "Balanced trees (theory)"


@options.takes(text=text_options.Text)
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="One or more of statistics, fixed-k, varied-k, alpha, last-depth, growth, tight-bound, "
            "pruning, theory, kmeans and time, separated by commas, or all.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Directory for the results.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Directories with train.svm and test.svm (or .tsv, .csv, .jsonl; plain or compressed), "
            "training files, or names of datasets downloaded with `labeltree download`. theory and time need "
            "none.",
        ),
    ] = None,
    *,
    text: text_options.Text,
    seeds: Annotated[
        str, typer.Option(metavar="N,N,...", help="Random seeds; one tree is built for each.")
    ] = "0,1,2,3,4",
    clusters: Annotated[
        int | None,
        options.limited(
            "--clusters", limits.CLUSTERS, "K", "Number of clusters per node", default="100, as in the paper"
        ),
    ] = None,
    labels: Annotated[
        int | None,
        options.limited("--labels", limits.Whole(2, LARGEST), "L", "Number of labels", _THEORY),
    ] = None,
    features: Annotated[
        int | None,
        options.limited("--features", limits.Whole(1, LARGEST), "N", "Number of features", _THEORY),
    ] = None,
    alphas: Annotated[
        str | None,
        typer.Option(
            metavar="X,X,...",
            help="Values of alpha, the fraction of its parent's features that a node uses.",
            rich_help_panel=_THEORY,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run `time` on small data, and `tight-bound` and `kmeans` once.")
    ] = False,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    one_based: options.OneBased = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Reproduce the tables and figures of the paper.

    Writes CSV, PNG and SVG files, and report.html with all results. The paper is "Exploring Space
    Efficiency in a Tree-based Linear Model for Extreme Multi-label Classification".
    """
    from labeltree.data.published import SOURCES
    from labeltree.paper import experiments
    from labeltree.paper.experiments import report as output
    from labeltree.paper.experiments.session import check_seeds

    names = _experiments(what)
    given: dict[str, Any] = {
        "clusters": clusters,
        "labels": labels,
        "features": features,
        "alphas": None if alphas is None else _numbers(alphas, float, "--alphas"),
        "quick": quick or None,
    }
    chosen = _options(names, {key: value for key, value in given.items() if value is not None})
    if "theory" in names:  # runs late, so check its options now
        from labeltree.paper.experiments import theory_tables

        theory_tables.check(**{key: value for key, value in chosen["theory"].items() if key != "features"})
    experiments.check_plots(names)
    output.check_out(out, names, overwrite)
    seed_list = _numbers(seeds, int, "--seeds")
    check_seeds(seed_list)
    if not data:
        for name in names:
            experiments.check_data(name, ())
    stages = Stages(quiet or json)
    if not data or any(name in SOURCES and not Path(name).exists() for name in data):
        _refuse_reading(text, one_based, "a dataset is downloaded" if data else "none is given")
    read = partial(_read, text, one_based, threads)
    splits = experiments.load_splits(data or (), read=read, stage=stages.stage)
    summaries = {
        split.name: Source.show(
            split.train, quiet=quiet or json, name=split.name if len(splits) > 1 else None
        )
        for split in splits
    }
    session = experiments.Session(splits, seed_list, threads)
    if what == "all" and not any(split.test for split in splits):
        names = [name for name in names if name not in experiments.WITH_TEST]
        printing.note(f"Skipping {', '.join(experiments.WITH_TEST)}: no dataset has test data.")
    for name in names:
        experiments.check_data(name, splits)
    results: list[Result] = []
    skipped: list[str] = []

    def run(name: str) -> None:
        try:
            with printing.warnings_as_notes(), stages.stage(name, name) as progress:
                result = experiments.run(name, session, progress=progress, **chosen[name])
                output.save_parts(result, out)
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
            with stages.stage("report", "writing the report"):
                report = output.save_report(results, out)
    except KeyboardInterrupt:
        done = ", ".join(result.name for result in results)
        raise KeyboardInterrupt(f"stopped; results in {out}: {done or 'none'}") from None
    if json and results:
        printing.print_json({"data": summaries, **_figures(results, report, stages)})
    elif results and not quiet:
        print(*_summary(results, report), sep="\n")
    if skipped:
        raise ResourceError(f"not enough memory or disk space for {', '.join(skipped)}")


def _refuse_reading(text: text_options.Text, one_based: bool | None, why: str) -> None:
    """Refuse options that tell how to read a file, if there is none."""
    given = {item.name: getattr(text, item.name) for item in fields(text)}
    names = [options.spelled(name, None) for name, value in given.items() if value not in (None, False)]
    if one_based is not None:
        names.append(options.spelled("one_based", one_based))
    if names:
        raise InputError(f"{names[0]} applies to files, but {why}", hint="remove it")


def _read(
    text: text_options.Text, one_based: bool | None, threads: int | None, file: Path, train: Dataset | None
) -> Dataset:
    """Read a file; test data with the features, the columns and the first index of the training data."""
    from labeltree.data.read import features_of

    like: Any = None if train is None else features_of(train, file)
    return Source(str(file), text, one_based, like).dataset(threads, ignore)


def _experiments(what: str) -> list[str]:
    from labeltree.paper.experiments import EXPERIMENTS

    given = list(EXPERIMENTS) if what == "all" else what.split(",")
    for name in given:
        if name not in EXPERIMENTS:
            raise InputError(f"no such experiment: {name!r}", hint=f"use {', '.join(EXPERIMENTS)} or all")
    return [name for name in EXPERIMENTS if name in given]


def _options(names: Sequence[str], given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each experiment; refuse an option that none of them takes."""
    for key in given:
        if not set(names) & set(TAKEN_BY[key]):
            raise InputError(
                f"--{key} is an option of {', '.join(TAKEN_BY[key])}, not of {', '.join(names)}",
                hint="remove it",
            )
    return {name: {key: given[key] for key in given if name in TAKEN_BY[key]} for name in names}


def _numbers(text: str, kind: Callable[[str], Number], option: str) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected numbers separated by commas") from None


def _figures(results: Sequence[Result], report: Path, stages: Stages) -> dict[str, Any]:
    found = {
        result.name: {
            "settings": result.settings,
            "tables": {table.name: table.rows for table in result.tables if table.shown},
        }
        for result in results
    }
    return {"report": str(report), **found, "seconds": stages.seconds}


def _summary(results: Sequence[Result], report: Path) -> list[str]:
    """Return the shown tables of each experiment, and where the report is."""
    lines = []
    for result in results:
        lines += [f"{result.name}: {result.title}", ""]
        for table in result.tables:
            lines += _table(table) if table.shown else []
    return [*lines, f"report {report}"]


def _table(table: Table) -> list[str]:
    """Return the caption and the rows of a table, and an empty line; nothing if it has no rows."""
    from labeltree.paper.experiments.report import format_column

    if not table.rows:
        return []
    columns = [format_column(key, [row.get(key) for row in table.rows]) for key in table.columns]
    caption = textwrap.wrap(table.caption, 100, break_on_hyphens=False)
    rows = printing.table(list(table.columns.values()), zip(*columns, strict=True), left=1)
    return [*caption, "", *rows, ""]
