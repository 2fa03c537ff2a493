"""`labeltree download`: fetches a dataset of the paper and compares it with the published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from labeltree.base import limits
from labeltree.base.progress import Stages
from labeltree.cli import options, printing
from labeltree.data.published import SOURCES, Check


class FileReport(TypedDict):
    """A file of ``labeltree download --json``."""

    path: str
    bytes: int
    instances: int
    features: int
    labels: int


def download(
    name: Annotated[str, options.limited_argument(limits.OneOf(tuple(SOURCES)), "NAME", "Dataset")],
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for the files. Default: the environment variable LABELTREE_DATA, or the system's "
            "cache directory.",
        ),
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Download and verify one of the paper's datasets.

    Existing files are not downloaded again; counts are compared with the published values.
    """
    from labeltree.data.published import fetch_data

    stages = Stages(quiet or json)
    found = fetch_data(name, directory, stage=stages.stage)
    figures: dict[str, FileReport] = {
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
        lines = printing.facts((part["path"], printing.shape(part)) for part in figures.values())
        print(*lines, "", *_check_table(found.checks), sep="\n")


def _check_table(checks: Sequence[Check]) -> list[str]:
    rows = ((check.what, f"{check.found:,}", f"{check.published:,}") for check in checks)
    head, *lines = printing.table(("", "found", "published"), rows, left=1)
    remarks = (
        f"{'as' if check.met else 'not as'} published by {check.source}; counted in {check.counted}"
        for check in checks
    )
    return [head, *(f"{line}  {text}" for line, text in zip(lines, remarks, strict=True))]
