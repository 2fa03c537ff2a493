"""Display: names and durations in messages, and tables of trees, plans and models in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

# Characters that a terminal interprets instead of showing: controls, line and paragraph separators, and marks
# that change the direction of the text; and halves of characters, which stand for bytes in file names.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return a name, path or term as it can be shown: characters that a terminal would obey are escaped.

    Examples
    --------
    >>> escaped("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def human_seconds(seconds: float) -> str:
    """Return a duration with units.

    Examples
    --------
    >>> human_seconds(0.0123), human_seconds(75), human_seconds(7265)
    ('0.01 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table below a title, all text escaped."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<p>{escape(title)}</p><table>{''.join(lines)}</table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
