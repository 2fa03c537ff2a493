"""`labeltree download`, `synth` and `demo`: data of the paper, synthetic data, and a small catalog."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.cli import options, printing
from labeltree.data.published import SOURCES
from labeltree.errors import InputError

FILES = ("catalog-train.tsv", "catalog-test.tsv")
DOCUMENTS = (
    "Boots with a good grip on wet rock.",
    "A light for the handlebar that charges from a USB port.",
    "Keeps tea hot on a long walk.",
)
COMMANDS = (
    f"estimate {FILES[0]} --clusters 10 --quiet",
    f"train {FILES[0]} model --clusters 10",
    f"evaluate model {FILES[1]}",
    "predict model documents.txt --top 3 --quiet",
    f"explain model '{DOCUMENTS[-1]}' --top 1 --words 3",
)


def download(
    name: Annotated[str, limits.OneOf(tuple(SOURCES))],
    *,
    directory: Path | None = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Download and verify one of the paper's datasets.

    Existing files are not downloaded again; counts are compared with the published values.

    Parameters
    ----------
    name
        Dataset.
    directory : DIR
        Directory for the files. Default: the environment variable LABELTREE_DATA, or the system's cache
        directory.
    """
    from labeltree.data.published import fetch_data

    stages = Stages(quiet or json)
    found = fetch_data(name, directory, stage=stages.stage)
    figures: dict[str, dict[str, Any]] = {
        part: {"path": str(path), "bytes": path.stat().st_size, **printing.counts(dataset)}
        for part, path, dataset in zip(("train", "test"), found.files, (found.train, found.test), strict=True)
    }
    checks = [{**vars(check), "met": check.met} for check in found.checks]
    rows = (
        (check.what, f"{check.found:,}", f"{check.published:,}", "equal" if check.met else "differs")
        for check in found.checks
    )
    lines = [
        *printing.facts((part["path"], printing.shape(part)) for part in figures.values()),
        "",
        *printing.table(("", "found", "published", ""), rows, left=1),
    ]
    printing.show({"name": name, **figures, "checks": checks, "seconds": stages.seconds}, lines, json, quiet)


def synth(
    out_dir: Path,
    *,
    like: Annotated[str, limits.OneOf(tuple(SOURCES))] = "eur-lex",
    scale: Annotated[float, limits.Number(0, math.inf, above=True)] = 1.0,
    seed: options.Seed = 0,
    overwrite: bool = False,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Generate a synthetic dataset modeled on a well-known one.

    Parameters
    ----------
    out_dir
        Directory for train.svm and test.svm.
    like
        Dataset to imitate.
    scale : S
        Factor for the number of instances and labels.
    """
    from labeltree.base.files import check_output
    from labeltree.data.svm import write_svm
    from labeltree.data.synthetic import synthesize

    paths = {name: out_dir / f"{name}.svm" for name in ("train", "test")}
    if out_dir.is_dir():
        for path in paths.values():
            check_output(path, overwrite)
    elif out_dir.exists():
        raise InputError("is a file, not a directory", file=out_dir, hint="choose another name")
    stages = Stages(quiet or json)
    with stages.stage("synth", f"generating data like {like}"):
        parts = dict(zip(paths, synthesize(like, scale, seed), strict=True))
    with stages.stage("write", f"writing to {out_dir}"):
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            write_svm(path, parts[name])
    figures: dict[str, dict[str, Any]] = {
        name: {"path": str(path), **printing.counts(parts[name])} for name, path in paths.items()
    }
    report = {"like": like, "scale": scale, "seed": seed, **figures, "seconds": stages.seconds}
    lines = printing.facts((part["path"], printing.shape(part)) for part in figures.values())
    printing.show(report, lines, json, quiet)


def demo(*, out: Path | None = None) -> None:
    """Show the whole workflow on a small catalog of products.

    Estimates the size of a model, trains and evaluates it, predicts the labels of new documents, and
    explains one of them. Takes a few seconds.

    Parameters
    ----------
    out : DIR
        Keep the data and the model in this new directory.
    """
    from labeltree.cli.app import main

    if out is not None and out.exists():
        raise InputError("already exists", file=out, hint="choose a new directory")
    with contextlib.ExitStack() as stack:
        if out is None:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labeltree-demo-")))
        out.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (out / name).write_bytes(files("labeltree.data").joinpath("examples", name).read_bytes())
        (out / "documents.txt").write_text("".join(f"{document}\n" for document in DOCUMENTS))
        stack.callback(os.chdir, Path.cwd())
        os.chdir(out)
        for command in COMMANDS:
            print(f"$ labeltree {command}", flush=True)
            if code := main(shlex.split(command)):
                raise typer.Exit(code)
            print()
