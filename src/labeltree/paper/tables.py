"""Results of experiments: tables of rows, means over the seeds, and the files that show them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from labeltree._version import __version__
from labeltree.base import plots
from labeltree.base.files import REPLACE, write_whole
from labeltree.base.system import human_bytes
from labeltree.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = dict[str, Any]

REPORT = "report.md"
TITLE = """# Space efficiency of label trees

Experiments of *Exploring Space Efficiency in a Tree-based Linear Model for Extreme Multi-label
Classification* by He-Zhe Lin, Cheng-Hung Liu and Chih-Jen Lin.
"""
# Columns that the report names after the paper's symbols. The headings of the others are their keys.
SYMBOLS = {"clusters": "K", "max_depth": "d_max", "vector_nonzeros": "nnz(V)"}


@dataclass(frozen=True, eq=False)
class Table:
    """A table of an experiment, written as a CSV file, and as PNG and SVG files if it has a figure.

    The files have its ``name``, with extensions. There is one row per measurement, or per mean of several;
    the CSV file contains all their keys, and the report those of the ``columns``. A table that is not
    ``shown`` is only linked. Without matplotlib, there is no figure.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    shown: bool = True
    figure: Figure | None = None

    def lines(self) -> list[str]:
        """Return the caption and the rows as Markdown with aligned columns; nothing if they are not shown."""
        if not self.shown or not self.rows:
            return []
        texts = [any(isinstance(row.get(key), str) for row in self.rows) for key in self.columns]
        aligned = []
        for key, text in zip(self.columns, texts, strict=True):
            heading = SYMBOLS.get(key, key.replace("_", " "))
            cells = [heading, *(format_cell(key, row.get(key)) for row in self.rows)]
            cells = [re.sub(r"([\\|<*`\[])", r"\\\1", cell) for cell in cells]
            width = max(map(len, cells))
            rule = "-" * (width + 2) if text else "-" * (width + 1) + ":"
            aligned.append(
                [rule, *(f" {cell.ljust(width) if text else cell.rjust(width)} " for cell in cells)]
            )
        rule, head, *rows = (f"|{'|'.join(row)}|" for row in zip(*aligned, strict=True))
        return [self.caption, "", head, rule, *rows, ""]


@dataclass(frozen=True, eq=False)
class Result:
    """The tables of one experiment, with its options and the seeds as ``settings``.

    ``source`` is the part of the paper that it reproduces, such as "Figure 4".
    """

    name: str
    title: str
    source: str
    settings: dict[str, Any]
    tables: Sequence[Table]

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table by its name."""
        return next(one.rows for one in self.tables if one.name == table)

    def save(self, out: Path) -> None:
        """Write the tables and figures to a directory; it is created if it does not exist."""
        out.mkdir(parents=True, exist_ok=True)
        for table in self.tables:
            plots.save(out / table.name, table.rows, table.figure, table.columns)


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def group(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values of some keys, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """Return the different values of a key, in the order of first appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def means(rows: Iterable[Row], *keys: str, spread: str | None = None) -> list[Row]:
    """Return the means over the seeds of rows that have the same values of some keys.

    Means of integers are rounded, and missing values are left out. The least and the largest value of the
    column ``spread`` are added.

    Examples
    --------
    >>> rows = [{"K": 9, "seed": 0, "nodes": 4, "ratio": None}, {"K": 9, "seed": 1, "nodes": 7, "ratio": 0.5}]
    >>> means(rows, "K")
    [{'K': 9, 'seeds': 2, 'nodes': 6, 'ratio': 0.5}]
    """
    found = []
    for values, mine in group(rows, *keys).items():
        mean: Row = {**dict(zip(keys, values, strict=True)), "seeds": len(mine)}
        for key in mine[0]:
            if key not in (*keys, "seed"):
                numbers = [row[key] for row in mine if row[key] is not None]
                average = sum(numbers) / len(numbers) if numbers else None
                whole = bool(numbers) and isinstance(numbers[0], int)
                mean[key] = round(average) if whole and average is not None else average
        if spread:
            numbers = [row[spread] for row in mine]
            mean |= {f"{spread}_least": min(numbers), f"{spread}_most": max(numbers)}
        found.append(mean)
    return found


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


def save(results: Sequence[Result], out: Path | str, *, overwrite: bool = False) -> Path:
    """Write every table and figure to a directory, and a report that shows them; return its path.

    The directory is created if it does not exist; existing files are replaced only with ``overwrite``.
    """
    check_out(out := Path(out), [result.name for result in results], overwrite)
    for result in results:
        result.save(out)
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


def save_report(results: Sequence[Result], out: Path) -> Path:
    """Write the report in Markdown about results whose tables and figures are in the same directory."""
    lines = [TITLE, f"Created with labeltree {__version__} on {datetime.now():%Y-%m-%d at %H:%M}.", ""]
    for result in results:
        lines += [f"## {result.name}: {result.title}", "", f"In the paper: {result.source}.", ""]
        for table in result.tables:
            if table.figure is not None:
                lines += [f"![{table.caption}]({table.name}.svg)", ""]
            lines += table.lines()
        files = ", ".join(f"[{table.name}.csv]({table.name}.csv)" for table in result.tables)
        settings = "; ".join(f"{key}: {format_cell('', value)}" for key, value in result.settings.items())
        lines += [f"Files: {files}. Settings: {settings}.", ""]
    with write_whole(out / REPORT) as file:
        file.write("\n".join(lines).encode())
    return out / REPORT
