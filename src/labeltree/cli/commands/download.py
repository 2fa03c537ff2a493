"""`labeltree download`: fetches a dataset of the paper and compares it with the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.cli import printing
from labeltree.data.published import SOURCES


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
        part: {
            "path": str(path),
            "bytes": path.stat().st_size,
            "instances": dataset.n_instances,
            "features": dataset.n_features,
            "labels": dataset.n_labels,
        }
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
