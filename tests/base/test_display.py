"""What trees, plans and models show of themselves: short in a terminal, a table in a notebook."""

import pickle
from html.parser import HTMLParser

import pytest
from helpers import random_data, train_small

from labeltree import build_tree, make_plan
from labeltree.base.display import html_table

LARGE = random_data(3, instances=400, features=50, labels=300)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    tree = build_tree(LARGE, clusters=4)
    model = train_small(tmp_path_factory.mktemp("display") / "a <b> & c", LARGE)
    return {"tree": tree, "plan": make_plan(LARGE, tree), "model": model, "data": LARGE}


@pytest.mark.parametrize("name", ["tree", "plan", "model", "data"])
def test_a_repr_is_one_short_line(shown, name):
    text = repr(shown[name])
    assert "\n" not in text
    assert len(text) < 250
    assert "300" in text  # the number of labels


@pytest.mark.parametrize("name", ["tree", "plan", "model"])
def test_a_notebook_shows_a_table(shown, name):
    cells = _cells(shown[name]._repr_html_())
    assert len(cells) > 5
    assert all(cell.strip() == cell for cell in cells)


def test_a_plan_shows_each_depth(shown):
    plan = shown["plan"]
    cells = _cells(plan._repr_html_())
    for row in plan.depths():
        assert f"{row['weights']:,}" in cells


def test_text_is_escaped(shown):
    assert "a &lt;b&gt; &amp; c" in shown["model"]._repr_html_()
    assert html_table("<p>", ["<"], [["&"]]).count("&lt;") == 2


def test_a_pickled_tree_shows_the_same(shown):
    assert repr(pickle.loads(pickle.dumps(shown["tree"]))) == repr(shown["tree"])


def _cells(page):
    """Return the text of all cells; tags must be balanced."""
    cells, open_tags = [], []

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_data(self, data):
            cells.append(data)

    Parser().feed(page)
    assert open_tags == []
    return cells
