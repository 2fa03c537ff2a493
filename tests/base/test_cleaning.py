"""Documents without HTML and with normalized characters, as the twin and an HTML parser have them."""

from html.parser import HTMLParser

import pytest
import text_twin
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st

from labeltree import TextSettings
from labeltree.base.cleaning import clean, strip_html

PIECES = [
    "<",
    ">",
    "</",
    "<!--",
    "-->",
    "--",
    "!",
    "?",
    "'",
    '"',
    " ",
    "\n",
    "/",
    "<p",
    "<b>",
    "a",
    "é",
    "&lt;",
]
PIECES += [
    "<script",
    "<SCRIPT>",
    "</script",
    "<style ",
    "</style\t>",
    "style",
    "<!doctype html>",
    "&eacute",
    "\u017f",  # s in another case, but not a letter of a tag
    "\xa0",
]


@examples(500)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=25).map("".join))
def test_html_is_that_of_the_twin(text):
    settings = TextSettings(strip_html=True, unicode="nfkc")
    assert settings.cleaner()(text) == text_twin.clean(text, settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<br>b", "a b"),
        ("<p class='x>y' id=\"a>b\">one</p>", " one "),
        ("one <!-- <b> two --> three", "one   three"),
        ("one <!-- two", "one  "),
        ("<SCRIPT src=x>var a = '<b>' && 1 > 0</Script >one", " one"),
        ("<style>p { color: red }", " "),
        ("<scripture>one", " one"),
        ("<?xml version='1.0'?><!DOCTYPE html>one", "  one"),
        ("a < b, c <3 and <- d", "a < b, c <3 and <- d"),
        ("one <two", "one <two"),
        ("<p don't>one", " one"),
        ("R&amp;D &#233;&#x2014;&hellip; &unknown; &lt;b&gt;", "R&D é—… &unknown; <b>"),
        ("&amp;lt;", "&lt;"),
    ],
)
def test_what_is_markup(text, expected):
    assert strip_html(text) == expected


def test_words_are_those_of_an_html_parser():
    page = """<!DOCTYPE html><html><head><title>Tea &amp; pots</title><style>b > i {}</style></head>
    <body onload="go('a > b')"><h1>Th&eacute;</h1><!-- <p>hidden</p> --><p>Keeps tea <b>hot</b>,
    at 80&nbsp;&deg;C<br/>all day.<script>if (a < b) document.write("<p>no</p>")</script></p></body></html>"""

    class Text(HTMLParser):
        def __init__(self):
            super().__init__()
            self.found, self.hidden = [], False

        def handle_starttag(self, tag, attrs):
            self.hidden = tag in ("script", "style")

        def handle_endtag(self, tag):
            self.hidden = False

        def handle_data(self, data):
            if not self.hidden:
                self.found.append(data)

    parser = Text()
    parser.feed(page)
    assert strip_html(page).split() == " ".join(parser.found).split()


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<a '", '<a "', "<!", "<!--", "<script ", "</script", "<a ''", "&", "&a"]
)
def test_no_text_takes_more_than_linear_time(piece):
    """Quadratic time would be hours for a text of this length."""
    text = f"<a{piece * 1_000_000}"
    assert len(strip_html(text)) <= len(text)


@pytest.mark.parametrize("same", ["\xe9 e\u0301", "\u212b \xc5", "\ufb01 fi", "\uff21 A", "\u2460 1"])
def test_forms_of_characters_become_the_same(same):
    assert len({clean(word, is_html=False, nfkc=True) for word in same.split()}) == 1
    assert len({clean(word, is_html=True, nfkc=False) for word in same.split()}) > 1


def test_references_are_replaced_before_characters_are_normalized():
    settings = TextSettings(strip_html=True, unicode="nfkc")
    assert settings.cleaner()("e&#x301;&nbsp;&#xFB01;") == "é fi"
    assert TextSettings().cleaner() is None
