"""Write results: tables as CSV, figures as PNG and SVG, and a report in Markdown that shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from labeltree._version import __version__
from labeltree.base import plots
from labeltree.base.files import REPLACE, write_whole
from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.paper.table import Result, Table

REPORT = "report.md"
TITLE = """# Space efficiency of label trees

Experiments of *Exploring Space Efficiency in a Tree-based Linear Model for Extreme Multi-label
Classification* by He-Zhe Lin, Cheng-Hung Liu and Chih-Jen Lin.
"""


def format_cell(key: str, value: Any) -> str:
    """Write one value of a table; ``..._bytes`` and ``..._share`` get units.

    Examples
    --------
    >>> format_cell("labels", 4108), format_cell("tree_bytes", 1_300_000_000), format_cell("ratio", 0.25173)
    ('4,108', '1.3 GB', '0.2517')
    >>> format_cell("one_instance_share", 0.125), format_cell("weights", 2e14), format_cell("ratio", None)
    ('12.5%', '2.00e+14', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_cell(key, item) for item in value) or "none"
    if isinstance(value, (bool, str)):
        return str(value)
    if key.endswith("bytes"):
        return human_bytes(round(value))
    if key.endswith("share"):
        return f"{100 * value:.3g}%"
    if isinstance(value, int) or 1000 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    if abs(value) >= 1e12 or 0 < abs(value) < 1e-4:
        return f"{value:.2e}"
    return f"{value:.7f}" if 0.999 < value < 1 else f"{value:.4g}"


def table_lines(table: Table) -> list[str]:
    """Return the caption and the rows of a table as Markdown with aligned columns."""
    columns = [
        [heading, *(format_cell(key, row.get(key)) for row in table.rows)]
        for key, heading in table.columns.items()
    ]
    cells = [[re.sub(r"([\\|<*`\[])", r"\\\1", cell) for cell in column] for column in columns]
    widths = [max(map(len, column)) for column in cells]
    texts = [any(isinstance(row.get(key), str) for row in table.rows) for key in table.columns]
    aligned = [
        [cell.ljust(width) if text else cell.rjust(width) for cell in column]
        for column, width, text in zip(cells, widths, texts, strict=True)
    ]
    head, *rows = (f"| {' | '.join(row)} |" for row in zip(*aligned, strict=True))
    rule = "|".join(
        "-" * (width + 2) if text else "-" * (width + 1) + ":"
        for width, text in zip(widths, texts, strict=True)
    )
    return [table.caption, "", head, f"|{rule}|", *rows, ""]


def render(results: Sequence[Result]) -> str:
    """Return the report as Markdown; its figures are the SVG files that ``save`` writes beside it."""
    lines = [TITLE, f"Created with labeltree {__version__} on {datetime.now():%Y-%m-%d at %H:%M}.", ""]
    for result in results:
        lines += [f"## {result.name}: {result.title}", "", f"In the paper: {result.source}.", ""]
        for table in result.tables:
            if table.figure is not None:
                lines += [f"![{table.caption}]({table.name}.svg)", ""]
            if table.shown and table.rows:
                lines += table_lines(table)
        files = ", ".join(f"[{table.name}.csv]({table.name}.csv)" for table in result.tables)
        settings = "; ".join(f"{key}: {format_cell('', value)}" for key, value in result.settings.items())
        lines += [f"Files: {files}. Settings: {settings}.", ""]
    return "\n".join(lines)


def save(results: Sequence[Result], out: Path | str, *, overwrite: bool = False) -> Path:
    """Write every table and figure, and a report that shows them.

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
        The report.
    """
    check_out(out := Path(out), [result.name for result in results], overwrite)
    for result in results:
        save_tables(result, out)
    return save_report(results, out)


def check_out(out: Path, names: Iterable[str], overwrite: bool) -> None:
    """Check that results can be written to a directory, and replace none unless ``overwrite``."""
    existing = next(path for path in (out, *out.parents) if path.exists())
    if not existing.is_dir():
        raise InputError("is a file, not a directory", file=existing, hint="choose another name")
    if not os.access(existing, os.W_OK):
        raise InputError("the directory is not writable", file=existing, hint="check its permissions")
    prefixes = tuple(f"{name}{end}" for name in names for end in (".", "-"))
    for path in sorted(out.iterdir()) if out.is_dir() and not overwrite else []:
        ours = path.name.startswith(prefixes) and path.suffix in (".csv", ".png", ".svg")
        if path.name == REPORT or ours:
            raise InputError(
                "the file already exists", file=path, hint=REPLACE, parameters={"overwrite": True}
            )


def save_tables(result: Result, out: Path) -> None:
    """Write the tables and figures of one result."""
    out.mkdir(parents=True, exist_ok=True)
    for table in result.tables:
        _write(out / f"{table.name}.csv", plots.table(table.rows, table.columns))
        if table.figure is not None:
            _write(out / f"{table.name}.png", plots.png(table.figure))
            _write(out / f"{table.name}.svg", plots.svg(table.figure))


def save_report(results: Sequence[Result], out: Path) -> Path:
    """Write the report about results whose tables and figures are in the same directory."""
    _write(out / REPORT, render(results).encode())
    return out / REPORT


def _write(path: Path, content: bytes) -> None:
    with write_whole(path) as file:
        file.write(content)
