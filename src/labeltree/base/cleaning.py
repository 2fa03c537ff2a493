"""Text before it is split into terms: HTML is removed, and characters are normalized."""

from __future__ import annotations

import html
import re
import unicodedata

# Comments and elements that are not shown end with the document if nothing ends them, as in browsers. Tags do
# not contain "<", so that no text takes more than linear time; "a < b" and "<3" are not tags.
_HIDDEN = r"<!--.*?(?:-->|\Z)|<(script|style)(?=[\s/>]).*?(?:</\1\s*>|\Z)"
_QUOTED = r"""</?[a-z](?:[^<>"']|"[^"<]*"|'[^'<]*')*>"""
_MARKUP = re.compile(
    rf"{_HIDDEN}|{_QUOTED}|</?[a-z][^<>]*>|<[!?][^<>]*>", re.ASCII | re.IGNORECASE | re.DOTALL
)


def strip_html(text: str) -> str:
    """Remove tags, comments, scripts and styles, and replace character references.

    Examples
    --------
    >>> strip_html("<p>Caf&eacute;<br/>1 &lt; 2, x < y</p><script>a > 0</script>")
    ' Café 1 < 2, x < y  '
    """
    if "<" in text:
        text = _MARKUP.sub(" ", text)
    return html.unescape(text) if "&" in text else text


def clean(text: str, *, is_html: bool, nfkc: bool, lowercase: bool = False) -> str:
    """Return a document as it is split into terms: without HTML, then normalized, then lowercased."""
    if is_html:
        text = strip_html(text)
    if nfkc and not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.lower() if lowercase else text
