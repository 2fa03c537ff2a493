"""Write results: tables as CSV, figures as PNG and SVG, and one report about them all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from labeltree.errors import InputError
from labeltree.files import write_whole
from labeltree.paper.experiments import figures
from labeltree.paper.experiments.report import render
from labeltree.paper.experiments.result import Result, Table

REPORT = "report.html"


def save(results: Sequence[Result], out: Path | str, *, overwrite: bool = False) -> Path:
    """Write results into a folder: every table and figure, and a report.html that shows them all.

    Parameters
    ----------
    results : sequence of Result
    out : path-like
        The folder; made if need be.
    overwrite : bool, default False
        Replace files of the same names.

    Returns
    -------
    Path
        The report: one file that needs nothing else to be read.
    """
    out = Path(out)
    check_out(out, [result.name for result in results], overwrite)
    for result in results:
        save_parts(result, out)
    return save_report(results, out)


def check_out(out: Path, names: Iterable[str], overwrite: bool) -> None:
    """Refuse a folder that holds results of these experiments already, before the work is done."""
    there = next(path for path in (out, *out.parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file, expected a folder for the results; give another name")
    if not os.access(there, os.W_OK):
        raise InputError(f"{there} cannot be written to, expected a folder for the results; check its rights")
    if overwrite or not out.is_dir():
        return
    prefixes = tuple(f"{name}{end}" for name in names for end in (".", "-"))
    for path in sorted(out.iterdir()):
        ours = path.name.startswith(prefixes) and path.suffix in (".csv", ".png", ".svg")
        if path.name == REPORT or ours:
            raise InputError(f"{path} exists already; give another folder, or --overwrite to replace it")


def save_parts(result: Result, out: Path) -> None:
    """Write the tables and the figures of one result, each under its name."""
    out.mkdir(parents=True, exist_ok=True)
    for table in result.tables:
        _write(out / f"{table.name}.csv", to_csv(table))
    for plot in result.plots:
        _write(out / f"{plot.name}.png", figures.png(plot.figure))
        _write(out / f"{plot.name}.svg", figures.svg(plot.figure))


def save_report(results: Sequence[Result], out: Path) -> Path:
    """Write the report about results whose parts are in the same folder."""
    out.mkdir(parents=True, exist_ok=True)
    _write(out / REPORT, render(results).encode())
    return out / REPORT


def to_csv(table: Table) -> bytes:
    """Rows of a table as CSV, with the keys of all rows as its head."""
    text = io.StringIO(newline="")
    keys = list(dict.fromkeys(key for row in table.rows for key in row)) or list(table.columns)
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return text.getvalue().encode()


def _write(path: Path, content: bytes) -> None:
    with write_whole(path) as file:
        file.write(content)
