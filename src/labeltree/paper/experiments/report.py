"""One HTML file that shows results as the experiment section of a paper does, and needs nothing else."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from itertools import count
from typing import Any
from urllib.parse import quote

from labeltree._version import __version__
from labeltree.paper.experiments import figures
from labeltree.paper.experiments.result import Claim, Plot, Result, Table
from labeltree.system import human_bytes

TITLE = "The space of a label tree: the paper's experiments, reproduced"
PAPER = (
    "Exploring Space Efficiency in a Tree-based Linear Model for Extreme Multi-label Classification, "
    "by He-Zhe Lin, Cheng-Hung Liu and Chih-Jen Lin"
)


HUGE = 1e12  # from here on, numbers are written with an exponent
VERDICTS = ("holds", "holds in part", "does not hold", "cannot be told")


def verdict(claim: Claim) -> str:
    """Say in a word or two whether a claim holds."""
    if claim.holds is None:
        return "cannot be told"
    return "holds" if claim.holds else "holds in part" if claim.partly else "does not hold"


def tally(claims: Sequence[Claim]) -> str:
    """Say how many claims hold.

    Examples
    --------
    >>> tally([Claim("A.", True), Claim("B.", None), Claim("C.", True)])
    '2 hold, 1 cannot be told'
    """
    words = [verdict(claim) for claim in claims]
    plural = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
    said = (
        f"{number} {word if number == 1 else plural.get(word, word)}"
        for word in VERDICTS
        if (number := words.count(word))
    )
    return ", ".join(said)


def format_column(key: str, values: Sequence[Any]) -> list[str]:
    """Write a column for people: numbers that are not whole get as many decimals as the largest needs.

    Examples
    --------
    >>> format_column("ratio", [0.38731, 0.087, None])
    ['0.3873', '0.0870', '-']
    >>> format_column("threshold", [0.0, 0.02, 0.1])
    ['0.00', '0.02', '0.10']
    >>> format_column("ratio", [1.0, 0.00000214])  # so little would vanish
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
    """Write a value for people; the key tells bytes (``..._bytes``) and shares (``..._share``).

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


def render(results: Sequence[Result], made: datetime | None = None) -> str:
    """Write the report.

    Parameters
    ----------
    results : sequence of Result
    made : datetime, optional
        When; now unless given.

    Returns
    -------
    str
        HTML: style and figures are within, and no address is loaded. Tables and figures link to the files
        that ``save`` writes beside it.
    """
    made = made or datetime.now()
    numbers: dict[str, Iterator[int]] = {"Figure": count(1), "Table": count(1)}
    sections = [_section(number, result, numbers) for number, result in enumerate(results, 1)]
    contents = "\n".join(
        f'<li><a href="#{escape(result.name)}">{escape(result.title)}</a>{_tally(result)}</li>'
        for result in results
    )
    style = files("labeltree.paper.experiments").joinpath("report.css").read_text()
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
<p>{escape(_lead(results))}</p>
<p class="note">Made by labeltree {escape(__version__)} on {made:%Y-%m-%d at %H:%M}. Names such as
fig:ratio-fixed-K are the paper's own, in its source: {escape(PAPER)}.</p>
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


def _lead(results: Sequence[Result]) -> str:
    claims = [claim for result in results for claim in result.claims]
    if not claims:
        return "The numbers of the paper's experiments on the data at hand."
    return (
        f"Of {len(claims)} statements of the paper that were put to the test on the data at hand, "
        f"{tally(claims)}. Every sentence below that says so was computed from the numbers beside it."
    )


def _tally(result: Result) -> str:
    return f' <span class="note">{tally(result.claims)}</span>' if result.claims else ""


def _section(number: int, result: Result, numbers: dict[str, Iterator[int]]) -> str:
    claims = "\n".join(
        f'<li><span class="verdict {verdict(claim).replace(" ", "-")}">{verdict(claim)}</span>'
        f" {escape(claim.sentence)}</li>"
        for claim in result.claims
    )
    settings = "; ".join(
        f"{key.replace('_', ' ') if '(' not in key else key}: {format_cell(key, value)}"
        for key, value in result.settings.items()
    )
    parts = [
        f'<section id="{escape(result.name)}">',
        f"<h2>{number}. {escape(result.title)}</h2>",
        f'<p class="note">In the paper: {escape(result.source)}</p>',
        f"<p>{escape(result.introduction)}</p>",
        f'<ul class="claims">\n{claims}\n</ul>' if claims else "",
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
    least = round(0.7 * width)  # in a narrow window it shrinks so far, and then scrolls
    return f"""<figure>
<div class="scroll card" tabindex="0">
<img src="data:image/svg+xml;base64,{drawn}" width="{width}" style="min-width:{least}px"
alt="{escape(plot.caption)}">
</div>
{_caption(f"Figure {number}.", plot.caption, " ".join(links))}
</figure>"""


def _table(number: int, table: Table) -> str:
    text = {
        key: any(isinstance(row.get(key), str) for row in table.rows) for key in table.columns
    }  # columns of words are aligned to the left
    head = "".join(
        f'<th scope="col"{_side(text[key])}>{escape(heading)}</th>' for key, heading in table.columns.items()
    )
    cells = [
        [f"<td{_side(text[key])}>{escape(cell)}</td>" for cell in _column(table, key)]
        for key in table.columns
    ]
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
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


def _column(table: Table, key: str) -> list[str]:
    return format_column(key, [row.get(key) for row in table.rows])


def _caption(number: str, caption: str, links: str) -> str:
    return f'<figcaption><b>{number}</b> {escape(caption)} <span class="links">{links}</span></figcaption>'


def _long_tables(result: Result) -> str:
    links = [
        f"{_link(f'{table.name}.csv', f'{table.name}.csv')} ({escape(table.caption.rstrip('.').lower())}, "
        f"{len(table.rows):,} rows)"
        for table in result.tables
        if not table.shown
    ]
    return f'<p class="note">All measurements: {"; ".join(links)}.</p>' if links else ""


def _link(file: str, text: str) -> str:
    return f'<a href="{escape(quote(file))}">{escape(text)}</a>'


def _side(text: bool) -> str:
    return ' class="text"' if text else ""
