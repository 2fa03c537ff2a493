"""Write results: values for readers, tables as CSV, figures as PNG and SVG, and one HTML page."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labeltree._version import __version__
from labeltree.base import plots as figures
from labeltree.base.files import REPLACE, write_whole
from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.paper.experiments.result import Plot, Result, Table

HUGE = 1e12  # from here on, numbers are written with an exponent


def format_column(key: str, values: Sequence[Any]) -> list[str]:
    """Write a column; its fractions all get as many decimals as the largest one needs.

    Parameters
    ----------
    key : str
        The key of the column: ``..._bytes`` and ``..._share`` get units.
    values : sequence

    Returns
    -------
    list of str

    Examples
    --------
    >>> format_column("ratio", [0.38731, 0.087, None])
    ['0.3873', '0.0870', '-']
    >>> format_column("threshold", [0.0, 0.02, 0.1])
    ['0.00', '0.02', '0.10']
    >>> format_column("ratio", [1.0, 0.00000214])  # too small for the decimals of the largest
    ['1', '2.14e-06']
    """
    sizes = [abs(value) for value in values if isinstance(value, float) and value]
    floats = all(isinstance(value, (float, type(None))) for value in values)
    if sizes and floats and max(sizes) >= HUGE:
        return ["-" if value is None else f"{value:.2e}" for value in values]
    if sizes and floats and max(sizes) < 1000:
        decimals = 3 - max(math.floor(math.log10(max(sizes))), -1)
        while decimals > 0 and all(round(size, decimals - 1) == size for size in sizes):
            decimals -= 1
        if min(sizes) >= 10**-decimals and not key.endswith(("bytes", "share")):
            return ["-" if value is None else f"{value:.{decimals}f}" for value in values]
    return [format_cell(key, value) for value in values]


def format_cell(key: str, value: Any) -> str:
    """Write one value; ``..._bytes`` and ``..._share`` get units.

    Examples
    --------
    >>> format_cell("labels", 4108), format_cell("tree_bytes", 1_300_000_000), format_cell("ratio", 0.25173)
    ('4,108', '1.3 GB', '0.2517')
    >>> format_cell("one_instance_share", 0.125), format_cell("weights", 2e14), format_cell("note", None)
    ('12.5%', '2.00e+14', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_cell(key, item) for item in value) or "none"
    if not isinstance(value, (int, float)):
        return str(value)
    if key.endswith("bytes"):
        return human_bytes(round(value))
    if key.endswith("share"):
        return f"{100 * value:.3g}%"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= HUGE or 0 < abs(value) < 1e-4:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def is_number(text: str) -> bool:
    """Return whether a value that is already written is a number.

    Examples
    --------
    >>> is_number("0.9999995"), is_number("bibtex")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


TITLE = "Space efficiency of label trees: the paper's experiments, reproduced"
PAPER = (
    "Exploring Space Efficiency in a Tree-based Linear Model for Extreme Multi-label Classification, "
    "by He-Zhe Lin, Cheng-Hung Liu and Chih-Jen Lin"
)


def render(results: Sequence[Result], created: datetime | None = None) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    results : sequence of Result
    created : datetime, optional
        Default: now.

    Returns
    -------
    str
        A page that contains its style and figures and loads nothing. Its tables and figures link to the files
        that ``save`` writes to the same directory.
    """
    created = created or datetime.now()
    numbers: dict[str, Iterator[int]] = {"Figure": count(1), "Table": count(1)}
    sections = [_section(number, result, numbers) for number, result in enumerate(results, 1)]
    contents = "\n".join(
        f'<li><a href="#{escape(result.name)}">{escape(result.title)}</a></li>' for result in results
    )
    style = files("labeltree.paper.experiments").joinpath("report.css").read_text("utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="labeltree {escape(__version__)}">
<title>{escape(TITLE)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{escape(TITLE)}</h1>
<p class="note">Created with labeltree {escape(__version__)} on {created:%Y-%m-%d at %H:%M}. The paper:
{escape(PAPER)}.</p>
</header>
<nav aria-label="Contents">
<h2>Contents</h2>
<ol>
{contents}
</ol>
</nav>
{"".join(sections)}
</main>
</body>
</html>
"""


def _section(number: int, result: Result, numbers: dict[str, Iterator[int]]) -> str:
    settings = "; ".join(
        f"{key.replace('_', ' ') if '(' not in key else key}: {format_cell(key, value)}"
        for key, value in result.settings.items()
    )
    parts = [
        f'<section id="{escape(result.name)}">',
        f"<h2>{number}. {_text(result.title)}</h2>",
        f'<p class="note">Reproduces {escape(result.source)}</p>',
        *(_figure(next(numbers["Figure"]), plot, result) for plot in result.plots),
        *(_table(next(numbers["Table"]), table) for table in result.tables if table.shown),
        _long_tables(result),
        f'<p class="note">Settings: {escape(settings)}.</p>' if settings else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _figure(number: int, plot: Plot, result: Result) -> str:
    drawn = base64.b64encode(figures.svg(plot.figure)).decode()
    links = [_link(f"{plot.name}.png", "PNG"), _link(f"{plot.name}.svg", "SVG")]
    if any(table.name == plot.name for table in result.tables):
        links.append(_link(f"{plot.name}.csv", "CSV"))
    width = round(96 * plot.figure.get_figwidth())
    least = round(0.7 * width)  # in a narrower window it scrolls
    return f"""<figure>
<div class="scroll card" tabindex="0">
<img src="data:image/svg+xml;base64,{drawn}" width="{width}" style="min-width:{least}px"
alt="{escape(plot.caption)}">
</div>
{_caption(f"Figure {number}.", plot.caption, " ".join(links))}
</figure>"""


def _table(number: int, table: Table) -> str:
    columns = {key: [row.get(key) for row in table.rows] for key in table.columns}
    # Columns of words are aligned to the left.
    words = {
        key: any(isinstance(value, str) and not is_number(value) for value in values)
        for key, values in columns.items()
    }
    head = "".join(
        f'<th scope="col"{_classes("text" * words[key])}>{_text(heading)}</th>'
        for key, heading in table.columns.items()
    )
    cells = [
        [f"<td{_classes('text' * words[key])}>{escape(cell)}</td>" for cell in format_column(key, values)]
        for key, values in columns.items()
    ]
    first = next(iter(columns.values()), [])
    # A line separates groups of rows with the same first column.
    grouped = len(set(first)) < len(first)
    new_group = [grouped and i > 0 and value != first[i - 1] for i, value in enumerate(first)]
    body = "\n".join(
        f"<tr{_classes('group' * new)}>{''.join(row)}</tr>"
        for new, row in zip(new_group, zip(*cells, strict=True), strict=True)
    )
    return f"""<figure>
{_caption(f"Table {number}.", table.caption, _link(f"{table.name}.csv", "CSV"))}
<div class="scroll" tabindex="0">
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>
</figure>"""


def _caption(number: str, caption: str, links: str) -> str:
    return f'<figcaption><b>{number}</b> {_text(caption)} <span class="links">{links}</span></figcaption>'


def _long_tables(result: Result) -> str:
    links = [
        f"{_link(f'{table.name}.csv', f'{table.name}.csv')} ({escape(table.caption.rstrip('.').lower())}; "
        f"{len(table.rows):,} rows)"
        for table in result.tables
        if not table.shown
    ]
    return f'<p class="note">All measurements: {", ".join(links)}.</p>' if links else ""


def _link(file: str, text: str) -> str:
    return f'<a href="{escape(quote(file))}">{escape(text)}</a>'


def _text(text: str) -> str:
    """Escape text, and keep equations such as K = 100 on one line."""
    return escape(text).replace(" = ", "&nbsp;=&nbsp;")


def _classes(names: str) -> str:
    return f' class="{names}"' if names else ""


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
