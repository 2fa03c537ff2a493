"""The files of the page: markup, style and scripts, without anything from elsewhere."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

# The scripts in the order in which they are loaded, and the type of every file that the service sends.
SCRIPTS = (
    *("dom.js", "source.js", "words.js", "ask.js", "squares.js"),
    *("map.js", "labels.js", "about.js", "main.js"),
)
STYLE = "page.css"
ASSETS = {
    "index.html": "text/html; charset=utf-8",
    STYLE: "text/css; charset=utf-8",
    **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
}
# Only files of the service itself; no frame, no form to elsewhere, no code in the markup.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def asset(name: str) -> str:
    """Return the content of one of `ASSETS`."""
    return (files("labeltree.serve") / "page" / name).read_text(encoding="utf-8")


def with_inline_files(style: str, script: str, data: str) -> str:
    """Return the page with its files, and data, in itself."""
    page = re.sub(r'<script defer src="page/[^"]+"></script>\n', "", asset("index.html"))
    link = f'<link rel="stylesheet" href="page/{STYLE}">'
    page = page.replace(link, f"<style>{style}</style>")
    return page.replace("</body>", f"{data}\n<script>{script}</script>\n</body>")
