"""The experiment `theory`: the numbers that the paper prints, and claims that follow the numbers."""

import math

import pytest
from helpers import table_rows

from labeltree import InputError
from labeltree.paper import theory
from labeltree.paper.experiments import theory_tables
from labeltree.paper.experiments.session import Session


def claim(result, begin):
    (found,) = [claim for claim in result.claims if claim.sentence.startswith(begin)]
    return found


@pytest.fixture(scope="module")
def paper():
    """Run the paper's example: L = 2e8, K = 100."""
    return theory_tables.run(Session([]))


def test_the_numbers_that_the_paper_prints(paper):
    """Section 5.1 and appendix C, summed here term by term."""
    assert paper.settings["deepest"] == 5
    assert {row["alpha"] for row in table_rows(paper, "theory-ratio")} == {0.3, 0.4, 0.5, 0.6}
    for row in table_rows(paper, "theory-ratio"):
        above = sum(100**i * 100 * row["alpha"] ** i for i in range(row["depth"] - 1))
        assert row["ratio"] == pytest.approx(above / 2e8 + row["alpha"] ** (row["depth"] - 1), rel=1e-12)
        assert row["weights"] == pytest.approx(row["ratio"] * 2e8 * 1e6, rel=1e-12)
    printed = [row["printed"] for row in table_rows(paper, "theory-alpha-bounds")]
    assert printed == [0.999, 0.999, 0.996, 0.819]
    assert all(
        math.floor(1000 * r["bound"]) == 1000 * r["printed"] for r in table_rows(paper, "theory-alpha-bounds")
    )
    last = claim(paper, "Appendix C")
    assert last.holds
    assert "alpha = 0.6 (from 0.2178 to 0.2394)" in last.sentence
    assert "0.5" not in last.sentence  # there it stays the same
    assert [c.holds for c in paper.claims] == [True, True, True, False, True, True]


def test_the_exact_bound_is_where_both_have_the_same_weights(paper):
    for row in table_rows(paper, "theory-alpha-bounds"):
        assert theory.weight_ratio(2e8, 100, row["depth"], row["exact"]) == pytest.approx(1, abs=1e-9)
        assert row["exact"] >= row["bound"] * (1 - 1e-12)


def test_the_tables_of_the_paper_with_numbers(paper):
    """Tables 2 and 4, for n = 1e6."""
    ovr, *trees = table_rows(paper, "theory-comparison")
    assert (ovr["vectors"], ovr["dense_weights"], ovr["cost"]) == (200_000_000, 2e14, 2e16)
    assert [row["vectors"] - 200_000_000 for row in trees] == [100, 10_100, 1_010_100, 101_010_100]
    assert trees[1]["cost"] == pytest.approx(1e6 * 100 * math.log(2e8) * (200 + 2e8 / 1e4))
    depths = table_rows(paper, "theory-depths")
    assert [row["nodes"] for row in depths] == [1, 100, 10**4, 10**6, 10**8]
    assert [row["children"] for row in depths] == [100, 100, 100, 100, 2]
    assert [row["features_0.5"] for row in depths] == [1e6, 5e5, 2.5e5, 1.25e5, 6.25e4]
    for alpha in (0.3, 0.6):
        whole = [row["weights"] for row in table_rows(paper, "theory-ratio") if row["alpha"] == alpha][-1]
        assert sum(row[f"weights_{alpha}"] for row in depths) == pytest.approx(whole)


def test_the_figure_and_what_it_shows(paper):
    (plot,) = paper.plots
    assert (
        plot.takeaway
        == "The smallest tree has depth 4 for alpha = 0.6 and depth 5 for alpha = 0.3, 0.4 and 0.5."
    )
    lines = plot.figure.axes[0].lines
    assert [list(line.get_xdata()) for line in lines] == [[2, 3, 4], [4, 5]] * 4
    assert [line.get_linestyle() for line in lines] == ["-", "--"] * 4
    assert [table.takeaway for table in paper.tables] == [
        "Training a tree of depth 5 costs 0.00384% of one-vs-rest, but with dense weight vectors the tree "
        "would be 1.505 times as large.",
        "A node at depth 4 uses 0.81% (alpha = 0.3) to 13% (alpha = 0.6) of the features.",
        "Trees of depths 2 to 5 have fewer weights than one-vs-rest if alpha is below 0.819.",
        "With alpha = 0.3 and d = 5, a tree has 2.21% of the weights of one-vs-rest.",
    ]


def test_other_numbers_and_claims_that_fail():
    """With K = 100 and alpha near 1 no step makes the tree smaller; Theorem 2 does not cover a small L."""
    shallow = theory_tables.run(Session([]), labels=4_000, alphas=[0.9])
    assert shallow.plots[0].takeaway == "The smallest tree has depth 2 for alpha = 0.9."
    assert claim(shallow, "Theorem 2 does not apply").holds is None
    assert [row["printed"] for row in table_rows(shallow, "theory-alpha-bounds")] == [None]
    two = theory_tables.run(Session([]), labels=1_000, clusters=2)
    assert [row["depth"] for row in table_rows(two, "theory-alpha-bounds")] == [2]
    minute = theory_tables.run(Session([]), labels=2_000_000_000, clusters=2, alphas=[0.001])
    assert claim(minute, "Theorem 2: ").holds  # although two ratios agree in all their digits
    done = []
    theory_tables.run(Session([]), done.append, labels=1_000, clusters=10, alphas=[0.2])
    assert done == [1.0]


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
        theory_tables.run(Session([]), **options)
