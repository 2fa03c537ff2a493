"""Write results to a directory: tables as CSV, figures as PNG and SVG, and a report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from labeltree.base import plots as figures
from labeltree.base.files import REPLACE, write_whole
from labeltree.errors import InputError
from labeltree.paper.experiments.report import render
from labeltree.paper.experiments.result import Result

REPORT = "report.html"


def save(results: Sequence[Result], out: Path | str, *, overwrite: bool = False) -> Path:
    """Write every table and figure, and a report.html that shows them.

    Parameters
    ----------
    results : sequence of Result
    out : path-like
        The directory; created if it does not exist.
    overwrite : bool, default False
        Replace existing files of the same names.

    Returns
    -------
    Path
        The report. It can be read without the other files.
    """
    out = Path(out)
    check_out(out, [result.name for result in results], overwrite)
    for result in results:
        save_parts(result, out)
    return save_report(results, out)


def check_out(out: Path, names: Iterable[str], overwrite: bool) -> None:
    """Check that results can be written to a directory, and replace none unless ``overwrite``."""
    existing = next(path for path in (out, *out.parents) if path.exists())
    if not existing.is_dir():
        raise InputError("is a file, not a directory", file=existing, hint="choose another name")
    if not os.access(existing, os.W_OK):
        raise InputError("the directory is not writable", file=existing, hint="check its permissions")
    if overwrite or not out.is_dir():
        return
    prefixes = tuple(f"{name}{end}" for name in names for end in (".", "-"))
    for path in sorted(out.iterdir()):
        ours = path.name.startswith(prefixes) and path.suffix in (".csv", ".png", ".svg")
        if path.name == REPORT or ours:
            raise InputError(
                "the file already exists",
                file=path,
                hint=REPLACE,
                parameters={"overwrite": True},
            )


def save_parts(result: Result, out: Path) -> None:
    """Write the tables and figures of one result."""
    out.mkdir(parents=True, exist_ok=True)
    for table in result.tables:
        _write(out / f"{table.name}.csv", figures.table(table.rows, table.columns))
    for plot in result.plots:
        _write(out / f"{plot.name}.png", figures.png(plot.figure))
        _write(out / f"{plot.name}.svg", figures.svg(plot.figure))


def save_report(results: Sequence[Result], out: Path) -> Path:
    """Write the report about results whose tables and figures are in the same directory."""
    out.mkdir(parents=True, exist_ok=True)
    _write(out / REPORT, render(results).encode())
    return out / REPORT


def _write(path: Path, content: bytes) -> None:
    with write_whole(path) as file:
        file.write(content)
