"""Render results as one HTML page that needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from itertools import count
from urllib.parse import quote

from labeltree._version import __version__
from labeltree.base import plots as figures
from labeltree.paper.experiments.cells import format_cell, format_column, is_number
from labeltree.paper.experiments.result import Plot, Result, Table

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
