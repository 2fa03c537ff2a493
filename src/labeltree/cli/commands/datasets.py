"""`labeltree download` and `synth`: datasets of the paper, and synthetic ones like them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.data.published import SOURCES
from labeltree.errors import InputError


def download(
    name: Annotated[str, limits.OneOf(tuple(SOURCES))],
    *,
    directory: Path | None = None,
    display: printing.Display,
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

    found = fetch_data(name, directory, stage=display.stage)
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
    display.show({"name": name, **figures, "checks": checks}, lines)


def synth(
    out_dir: Path,
    *,
    like: Annotated[str, limits.OneOf(tuple(SOURCES))] = "eur-lex",
    scale: Annotated[float, limits.Number(0, math.inf, above=True)] = 1.0,
    seed: options.Seed = 0,
    overwrite: bool = False,
    display: printing.Display,
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
    with display.stage("synth", f"generating data like {like}"):
        parts = dict(zip(paths, synthesize(like, scale, seed), strict=True))
    with display.stage("write", f"writing to {out_dir}"):
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            write_svm(path, parts[name])
    figures: dict[str, dict[str, Any]] = {
        name: {"path": str(path), **printing.counts(parts[name])} for name, path in paths.items()
    }
    report = {"like": like, "scale": scale, "seed": seed, **figures}
    lines = printing.facts((part["path"], printing.shape(part)) for part in figures.values())
    display.show(report, lines)
