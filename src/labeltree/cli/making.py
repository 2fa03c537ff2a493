"""`labeltree download`, `synth` and `demo`: data for those who have none at hand."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from labeltree.cli import options, printing
from labeltree.cli.progress import Stages
from labeltree.datasets import PRESETS, SOURCES, Check
from labeltree.errors import InputError


def synth(
    out_dir: Annotated[
        Path, typer.Argument(metavar="OUT_DIR", help="Folder for train.svm and test.svm.", show_default=False)
    ],
    like: Annotated[
        str, typer.Option(metavar="NAME", help=f"Data set whose shape to take: {', '.join(PRESETS)}.")
    ] = "eur-lex",
    scale: Annotated[float, typer.Option(metavar="S", help="Multiplies instances and labels.")] = 1.0,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make up a realistic data set with the shape of a well-known one."""
    from labeltree.datasets.synthetic import synthesize
    from labeltree.svm import write_svm

    files = {name: out_dir / f"{name}.svm" for name in ("train", "test")}
    for path in files.values():
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists already; give another folder, or --overwrite to replace it")
    if out_dir.exists() and not out_dir.is_dir():
        raise InputError(f"{out_dir} is a file, expected a folder; give another name")
    stages = Stages(quiet or json)
    with stages.stage("synth", f"making up data like {like}"):
        parts = dict(zip(files, synthesize(like, scale, seed), strict=True))
    with stages.stage("write", f"writing to {out_dir}"):
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, path in files.items():
            write_svm(path, parts[name])
    figures = {
        name: {
            "path": str(path),
            "instances": parts[name].n_instances,
            "features": parts[name].n_features,
            "labels": parts[name].n_labels,
        }
        for name, path in files.items()
    }
    if json:
        printing.print_json(
            {"like": like, "scale": scale, "seed": seed, **figures, "seconds": stages.seconds}
        )
    elif not quiet:
        print(
            *printing.facts((str(part["path"]), printing.shape(part)) for part in figures.values()), sep="\n"
        )


def download(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(SOURCES)}.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep the files there; else in LABELTREE_DATA, or in the system's cache."
        ),
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Fetch one of the paper's data sets, unless it is there, and check it against its published numbers."""
    from labeltree.datasets import fetch

    stages = Stages(quiet or json)
    found = fetch(name, folder, stage=stages.stage)
    figures = {
        part: {
            "path": str(path),
            "bytes": path.stat().st_size,
            "instances": dataset.n_instances,
            "features": dataset.n_features,
            "labels": dataset.n_labels,
        }
        for part, path, dataset in zip(("train", "test"), found.files, (found.train, found.test), strict=True)
    }
    if json:
        checks = [{**vars(check), "met": check.met} for check in found.checks]
        printing.print_json({"name": name, **figures, "checks": checks, "seconds": stages.seconds})
    elif not quiet:
        lines = printing.facts((str(part["path"]), printing.shape(part)) for part in figures.values())
        print(*lines, "", *_check_table(found.checks), sep="\n")


def _check_table(checks: Sequence[Check]) -> list[str]:
    rows = ((check.what, f"{check.found:,}", f"{check.published:,}") for check in checks)
    head, *lines = printing.table(("", "found", "published"), rows, left=1)
    said = (
        f"{'as' if check.met else 'not as'} published by {check.source}; counted in {check.counted}"
        for check in checks
    )
    return [head, *(f"{line}  {text}" for line, text in zip(lines, said, strict=True))]


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the data, the model and the report in this new folder.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the report; in DIR of --out, or a new temporary one, unless given.",
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """See it work: made-up data, the estimate, training, evaluation, predictions, the paper's figures."""
    from labeltree.cli.demo_story import run_demo

    if out is not None and out.exists():
        raise InputError(f"{out} exists already, expected a new folder; give another name")
    if report is not None and report.exists() and not report.is_dir():
        raise InputError(f"{report} is a file, expected a folder for the report; give another name")
    with contextlib.ExitStack() as stack:
        if report is None:
            # It stays: it is there to be opened afterwards.
            report = out / "report" if out else Path(tempfile.mkdtemp(prefix="labeltree-report-"))
        if out is None:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labeltree-demo-")))
        figures = run_demo(out, report, threads=threads, tell=(lambda line: None) if json else _tell)
    if json:
        printing.print_json(figures)


def _tell(line: str) -> None:
    print(line, flush=True)
