"""The experiment `theory`: the numbers that the paper prints."""

import math

import pytest

from labeltree import InputError
from labeltree.paper import experiments, theory
from labeltree.paper.experiments import Session


@pytest.fixture(scope="module")
def paper():
    """Run the paper's example: L = 2e8, K = 100."""
    return experiments.run("theory", Session([]))


def test_the_numbers_that_the_paper_prints(paper):
    """Section 5.1 and appendix C, summed here term by term."""
    assert {row["alpha"] for row in paper.rows("theory-ratio")} == {0.3, 0.4, 0.5, 0.6}
    for row in paper.rows("theory-ratio"):
        above = sum(100**i * 100 * row["alpha"] ** i for i in range(row["depth"] - 1))
        assert row["ratio"] == pytest.approx(above / 2e8 + row["alpha"] ** (row["depth"] - 1), rel=1e-12)
        assert row["weights"] == pytest.approx(row["ratio"] * 2e8 * 1e6, rel=1e-12)
    printed = [row["printed"] for row in paper.rows("theory-alpha-bounds")]
    assert printed == [0.999, 0.999, 0.996, 0.819]
    assert all(
        math.floor(1000 * r["bound"]) == 1000 * r["printed"] for r in paper.rows("theory-alpha-bounds")
    )


def test_the_exact_bound_is_where_both_have_the_same_weights(paper):
    for row in paper.rows("theory-alpha-bounds"):
        assert theory.weight_ratio(2e8, 100, row["depth"], row["exact"]) == pytest.approx(1, abs=1e-9)
        assert row["exact"] >= row["bound"] * (1 - 1e-12)


def test_the_tables_of_the_paper_with_numbers(paper):
    """Tables 2 and 4, for n = 1e6."""
    ovr, *trees = paper.rows("theory-comparison")
    assert (ovr["vectors"], ovr["dense_weights"], ovr["cost"]) == (200_000_000, 2e14, 2e16)
    assert [row["vectors"] - 200_000_000 for row in trees] == [100, 10_100, 1_010_100, 101_010_100]
    assert trees[1]["cost"] == pytest.approx(1e6 * 100 * math.log(2e8) * (200 + 2e8 / 1e4))
    depths = paper.rows("theory-depths")
    assert [row["nodes"] for row in depths] == [1, 100, 10**4, 10**6, 10**8]
    assert [row["children"] for row in depths] == [100, 100, 100, 100, 2]
    assert [row["features_0.5"] for row in depths] == [1e6, 5e5, 2.5e5, 1.25e5, 6.25e4]
    for alpha in (0.3, 0.6):
        whole = [row["weights"] for row in paper.rows("theory-ratio") if row["alpha"] == alpha][-1]
        assert sum(row[f"weights_{alpha}"] for row in depths) == pytest.approx(whole)


def test_the_figure_and_what_it_shows(paper):
    (figure,) = (table.figure for table in paper.tables if table.figure)
    lines = figure.axes[0].lines
    assert [list(line.get_xdata()) for line in lines] == [[2, 3, 4], [4, 5]] * 4
    assert [line.get_linestyle() for line in lines] == ["-", "--"] * 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"labels": 199}, "too few labels"),
        ({"alphas": []}, "no value of alpha is given"),
        ({"alphas": [0.5, 1.0]}, "alphas"),
        ({"clusters": 1}, "clusters"),
        ({"labels": 1.5}, "labels"),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(InputError, match=sentence):
        experiments.run("theory", Session([]), **options)
