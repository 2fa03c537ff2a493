"""Cells of tables as labels, whatever library they come from."""

import numpy as np
import pytest

from labeltree import InputError
from labeltree.data.columns import Columns, cell_labels

SPLIT = Columns().split(",")


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("a,  b c ,", ["a", "b c"]),
        (["a, b", None, " "], ["a, b"]),
        (("a", np.str_("b")), ["a", "b"]),
        (7, ["7"]),
        (np.int64(7), ["7"]),
        (7.0, ["7"]),
        (np.array([1.0, np.nan, 2.0]), ["1", "2"]),
        (np.array(["a", np.int32(3), None], dtype=object), ["a", "3"]),
        (np.array([]), []),
        (None, []),
        (float("nan"), []),
        (np.datetime64("NaT"), []),
        ([{"uri": "http://a", "label": "a"}], ["http://a"]),
    ],
)
def test_cells(cell, labels):
    assert cell_labels(cell, SPLIT) == labels


def test_missing_cells_of_pandas():
    pandas = pytest.importorskip("pandas")
    assert cell_labels(pandas.NA, SPLIT) == cell_labels(pandas.NaT, SPLIT) == []
    assert cell_labels([pandas.NA, "a"], SPLIT) == ["a"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (1.5, "'tags' is a number, expected a string, an integer or a list of them"),
        (True, "'tags' is a boolean, expected"),
        (np.bool_(True), "'tags' is a boolean, expected"),
        ([2.5], "'tags' contains a number, expected only strings and integers"),
        ([["a"]], "'tags' contains a list"),
        ({"a": 1}, "'tags' is an object"),
        (b"a", "'tags' is a value of type bytes"),
    ],
)
def test_other_cells_are_refused(cell, message):
    with pytest.raises(InputError, match=f"^{message}"):
        cell_labels(cell, SPLIT, "tags")
