"""Tables of results: columns, rows, frames, and what they show."""

import numpy as np
import pytest

from labeltree.base.table import Table

TABLE = Table({"name": ["a <b>", "c"], "f1": np.array([0.5, 1 / 3]), "rows": np.array([3, 4])})


def test_columns_rows_and_frames():
    assert list(TABLE.columns) == ["name", "f1", "rows"]
    assert TABLE["rows"].tolist() == [3, 4]
    assert len(TABLE) == 2
    assert list(TABLE) == [
        {"name": "a <b>", "f1": 0.5, "rows": 3},
        {"name": "c", "f1": 1 / 3, "rows": 4},
    ]
    assert TABLE.to_dict() == {"name": ["a <b>", "c"], "f1": [0.5, 1 / 3], "rows": [3, 4]}
    assert TABLE.to_dict()["name"] is not TABLE["name"]
    assert TABLE.to_pandas().to_dict("list") == TABLE.to_dict()
    assert TABLE.to_polars().to_dict(as_series=False) == TABLE.to_dict()


def test_it_shows_the_first_rows():
    assert repr(TABLE).splitlines() == [
        "2 rows",
        "name   f1      rows",
        "a <b>  0.5     3",
        "c      0.3333  4",
    ]
    assert "<td>a &lt;b&gt;</td><td>0.5</td><td>3</td>" in TABLE._repr_html_()
    many = Table({"n": np.arange(2000)})
    assert repr(many).splitlines()[0] == "2,000 rows, the first 10"
    assert len(repr(many).splitlines()) == 12


@pytest.mark.parametrize("columns", [{}, {"n": []}])
def test_an_empty_table(columns):
    table = Table(columns)
    assert (len(table), list(table)) == (0, [])
    assert repr(table).startswith("0 rows")
