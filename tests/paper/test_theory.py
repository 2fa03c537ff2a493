"""The paper's formulas against exact sums, its theorems on random trees, and the numbers that it prints."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labeltree import InputError
from labeltree.paper import experiments, theory
from labeltree.paper.session import Session

EPS = Fraction(2) ** -52
BIG = 2 * 10**8, 100  # L and K of the paper's example


def exact_weights(L, K, d, alpha, n=1):
    """Sum nodes x children x used features over the depths, as in Table 4."""
    a = Fraction(alpha)
    children = [Fraction(K)] * (d - 1) + [Fraction(L, K ** (d - 1))]
    return sum(K**i * children[i] * a**i * n for i in range(d))


def close(value, exact, ulps):
    return abs(Fraction(float(value)) - exact) <= ulps * EPS * abs(exact)


def exact_depth(L, K, bottom):
    """Return the largest d with bottom K^(d-1) <= L."""
    d = 0
    while bottom * K**d <= L:
        d += 1
    return d


@st.composite
def trees(draw, least_depth=1, most_depth=60, clusters=(2, 1000), spare=0, bottom=1):
    """Draw L, K, d with bottom K^(d-1+spare) <= L; L is often as small as that allows."""
    K = draw(st.integers(*clusters))
    deepest = exact_depth(10**15, K, bottom) - spare
    d = draw(st.integers(least_depth, min(most_depth, deepest)))
    least = bottom * K ** (d - 1 + spare)
    return draw(st.just(least) | st.integers(least, 4 * least) | st.integers(least, 10**15)), K, d


@st.composite
def fewest(draw, least_depth, clusters=(2, 1000), bottom=2):
    """Draw K and d for which bottom K^(d-1) labels, the fewest of a tree of this depth, are not too many."""
    K = draw(st.integers(*clusters))
    return K, draw(st.integers(least_depth, min(40, exact_depth(10**15, K, bottom))))


alphas = st.floats(1e-6, 1)
ulps_off = st.integers(-3, 3)


def near(value, ulps):
    return value * (1 + ulps * 2.0**-52)


# Formulas


@given(trees(), alphas, st.integers(0, 10**9))
@example((10**15, 2, 50), 0.9, 10**9)
@example((10**15, 2, 50), 0.5, 10**9)
@example((3, 2, 2), 1e-6, 0)
def test_sizes_are_the_sums_over_depths(drawn, alpha, n):
    L, K, d = drawn
    exact = exact_weights(L, K, d, alpha)
    assert close(theory.tree_weights(L, K, d, alpha, n), exact * n, 2 * d + 4)
    assert close(theory.weight_ratio(L, K, d, alpha), exact / L, 2 * d + 4)
    assert close(theory.ovr_weights(L, n), L * n, 1)
    assert close(theory.dense_tree_weights(L, K, d, n), (L + Fraction(K**d - K, K - 1)) * n, d + 4)
    assert close(theory.meta_labels(L, K, d), Fraction(K**d - K, K - 1), d)


@given(trees(least_depth=2), ulps_off)
def test_no_digit_is_lost_where_k_alpha_is_one(drawn, ulps):
    """The closed form divides rounding errors there; its limit is equation 35."""
    L, K, d = drawn
    alpha = near(1 / K, ulps)
    value = theory.tree_weights(L, K, d, alpha, 1)
    assert close(value, exact_weights(L, K, d, alpha), 2 * d + 4)
    assert value == pytest.approx((d - 1) * K + L / K ** (d - 1), rel=1e-12)


@given(fewest(least_depth=1), st.integers(-1, 1))
@example((10, 15), 0)
@example((1000, 5), -1)
def test_largest_depth_is_exact_at_powers(drawn, off):
    K, d = drawn
    L = max(2, 2 * K ** (d - 1) + off)
    D = int(theory.largest_depth(L, K))
    assert exact_depth(L, K, 2) == D
    assert 2 * K ** (D - 1) <= L < 2 * K**D


def test_arrays_broadcast_and_numbers_stay_numbers():
    L = np.array([[10**4], [10**6], [10**15]])
    d = [1, 2, 3]
    table = theory.tree_weights(L, 10, d, 0.25, 7)
    assert table.shape == (3, 3)
    for i, row in enumerate(L[:, 0]):
        for j, depth in enumerate(d):
            assert table[i, j] == theory.tree_weights(row, 10, depth, 0.25, 7)
    bounds = theory.alpha_bound(2 * 10**8, 100, np.arange(2, 6))
    assert bounds.tolist() == [theory.alpha_bound(2 * 10**8, 100, depth) for depth in range(2, 6)]
    assert theory.largest_depth([20, 200], [[10], [2]]).tolist() == [[2, 3], [4, 7]]
    assert theory.largest_depth([20, 200], 10).dtype == np.int64
    assert theory.tree_weights([], 2, 2, 0.5, 1).shape == theory.alpha_bound([], 4, 3).shape == (0,)
    for value in (
        *(theory.ovr_weights(3, 4), theory.meta_labels(9, 3, 2), theory.dense_tree_weights(9, 3, 2, 4)),
        *(theory.tree_weights(9, 3, 2, 0.5, 4), theory.weight_ratio(9, 3, 2, 0.5)),
        *(theory.largest_depth(9, 3), theory.alpha_bound(9, 3, 2)),
        *(theory.shrinks_with_depth(9, 3, 2, 0.5), theory.weights_saved(9, 3, 2, 0.5)),
        *(theory.ovr_cost(9, 2, 2), theory.tree_cost(9, 3, 2, 2, 2), theory.lowest_tree_cost(9, 3, 2, 2)),
        theory.cheapest_depth(9, 3),
    ):
        assert isinstance(value, np.generic)


# Theorem 1


def exact_f(alpha, K, d, D):
    return alpha ** (d - 2) * (Fraction(K) ** (d - D) + alpha) - 1


@given(trees(least_depth=2, bottom=2, clusters=(4, 1000)), st.floats(0.001, 1))
@example((32, 4, 3), 1)
@example((2 * 10**8, 100, 5), 1)
def test_below_the_bound_a_tree_is_smaller(drawn, share):
    L, K, d = drawn
    bound = float(theory.alpha_bound(L, K, d))
    for alpha in (bound * share, float(np.nextafter(bound, 0))):
        if alpha < bound:
            assert exact_weights(L, K, d, alpha) < L
            assert theory.weight_ratio(L, K, d, alpha) <= 1


@given(trees(least_depth=3, bottom=2, clusters=(4, 1000)))
@example((10**15, 4, 3))
@example((10**15, 4, 25))
def test_alpha_star_is_the_root_to_double_precision(drawn):
    L, K, d = drawn
    bound = float(theory.alpha_bound(L, K, d))
    D = exact_depth(L, K, 2)
    assert exact_f(Fraction(bound) - EPS, K, d, D) < 0 < exact_f(Fraction(bound) + EPS, K, d, D)
    assert exact_f(Fraction(2, K), K, d, D) <= Fraction(-1, 4)  # the paper's max{2 / K, alpha*} is alpha*
    assert bound > 2 / K


@given(fewest(least_depth=2))
def test_the_bound_of_depth_2_is_tight_at_the_fewest_labels(drawn):
    K, D = drawn
    L = 2 * K ** (D - 1)
    exact = 1 - Fraction(1, 2 * K ** (D - 2))
    bound = float(theory.alpha_bound(L, K, 2))
    assert close(bound, exact, Fraction(1, 2))
    assert exact_weights(L, K, 2, exact) == L
    assert exact_weights(L, K, 2, np.nextafter(bound, 0)) < L < exact_weights(L, K, 2, np.nextafter(bound, 1))


# Theorem 2


@given(trees(least_depth=2, bottom=2, spare=2, clusters=(2, 1000)), st.floats(1e-6, 1))
def test_within_its_range_a_deeper_tree_is_smaller(drawn, alpha):
    L, K, d = drawn
    promised = bool(theory.shrinks_with_depth(L, K, d, alpha))
    assert promised == (Fraction(alpha) < 1 - Fraction(1, 2 * K))
    if promised:
        assert exact_weights(L, K, d, alpha) > exact_weights(L, K, d + 1, alpha)  # larger, not "smaller"
        assert theory.weights_saved(L, K, d, alpha) > 0


@given(fewest(least_depth=4, clusters=(2, 200)))
def test_the_range_of_theorem_2_cannot_be_wider(drawn):
    K, D = drawn
    L = 2 * K ** (D - 1)
    edge = 1 - Fraction(1, 2 * K)
    assert exact_weights(L, K, D - 2, edge) == exact_weights(L, K, D - 1, edge)
    above = (1 + edge) / 2
    assert exact_weights(L, K, D - 2, above) < exact_weights(L, K, D - 1, above)
    assert exact_weights(L, K, D - 1, Fraction(2, 3)) < exact_weights(L, K, D, Fraction(2, 3))  # d = D - 1
    depths = np.arange(1, D + 1)
    inside = float(edge) - 1e-9
    assert theory.shrinks_with_depth(L, K, depths, inside).tolist() == [2 <= d <= D - 2 for d in depths]
    assert not theory.shrinks_with_depth(L, K, depths, float(above)).any()


@given(trees(spare=1), alphas, st.integers(1, 10**9))
def test_weights_saved_are_the_difference(drawn, alpha, n):
    L, K, d = drawn
    value = Fraction(float(theory.weights_saved(L, K, d, alpha, n)))
    exact = exact_weights(L, K, d, alpha, n) - exact_weights(L, K, d + 1, alpha, n)
    size = Fraction(alpha) ** (d - 1) * n * (L + K**d)
    assert abs(value - exact) <= (d + 6) * EPS * size
    if abs(exact) > (d + 6) * EPS * size:
        assert (value > 0) == (exact > 0)


# Theorem 3 is in test_paper_examples.py


# Costs


@given(trees(least_depth=2), st.integers(1, 10**7), st.floats(0.5, 1000))
def test_tree_cost_sums_the_depths(drawn, instances, nonzeros):
    """Appendix A: (d - 1) times K, and once L / K^(d-1), binary problems of l log L instances."""
    L, K, d = drawn
    per_problem = instances * nonzeros * math.log(L)
    depths = [float(K)] * (d - 1) + [L / K ** (d - 1)]
    cost = theory.tree_cost(L, K, d, instances, nonzeros)
    assert cost == pytest.approx(per_problem * math.fsum(depths), rel=1e-13)
    means = per_problem * d * L ** (1 / d)  # equation 24
    assert cost >= means * (1 - 1e-12)
    assert theory.ovr_cost(L, instances, nonzeros) == pytest.approx(L * instances * nonzeros, rel=1e-15)


@given(fewest(least_depth=3, bottom=1))
def test_costs_at_powers_of_k(drawn):
    K, d = drawn
    m = d - 1
    L = K**m
    cost = theory.tree_cost(L, K, m, 1, 1)
    assert cost == pytest.approx(math.log(L) * m * L ** (1 / m), rel=1e-12)  # the means are equal
    assert cost == pytest.approx(theory.lowest_tree_cost(L, K, 1, 1) / math.log(K), rel=1e-12)
    assert theory.cheapest_depth(L, K) == (m if K > 2 else max(m - 1, 2))


@given(trees(least_depth=2))
@example((10_050, 100, 2))
@example((5, 2, 2))
@example((2**49, 2, 2))
def test_cheapest_depth(drawn):
    L, K, _ = drawn
    inner = {d: K * (d - 1) + Fraction(L, K ** (d - 1)) for d in range(2, exact_depth(L, K, 1) + 3)}
    assert theory.cheapest_depth(L, K) == min(inner, key=lambda d: (inner[d], d))
    rounded_up = next(d for d in range(1, 60) if K**d >= L)  # the paper's
    best = int(theory.cheapest_depth(L, K))
    assert best in (rounded_up - 1, rounded_up, 2)
    if K > 2 and rounded_up >= 2:
        cost = theory.tree_cost(L, K, rounded_up, 1, 1)
        assert cost <= 2 * theory.lowest_tree_cost(L, K, 1, 1)


# The numbers that the paper prints


def test_the_papers_example_of_theorem_2():
    """Figures 3 and 6."""
    alphas = np.array([0.3, 0.4, 0.5, 0.6])[:, None]
    assert theory.shrinks_with_depth(*BIG, [2, 3, 4, 5], alphas).tolist() == [[True, True, False, False]] * 4
    ratio = theory.weight_ratio(*BIG, [2, 3, 4, 5], alphas)
    assert (np.diff(ratio[:, :3]) < 0).all()
    assert (ratio < 1).all()
    last = ratio[:, 3] - ratio[:, 2]
    assert last[3] == pytest.approx(0.0216, rel=1e-3)  # "slightly larger"
    assert (last[:2] < 0).all()
    assert theory.weights_saved(*BIG, 4, 0.5) == 0


def test_the_papers_bounds_in_the_exceptional_case():
    """Appendix B.2: K = 4 and d = 3, with the fewest labels, give 5/16."""
    assert theory.largest_depth(32, 4) == 3
    assert theory.weight_ratio(32, 4, 3, 1 / 4) == 5 / 16
    assert theory.weight_ratio(50, 4, 2, 1 / 4) == pytest.approx(
        4 / 50 + 1 / 4, rel=1e-15
    )  # not Kn + L alpha n
    assert theory.tree_weights(50, 4, 2, 1 / 4, 12) == 4 * 12 + 50 / 4 * 12


# Refused parameters


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.largest_depth(1, 2), "labels is 1, expected an integer of at least 2"),
        (lambda: theory.largest_depth([10, -3], 2), "labels is -3"),
        (lambda: theory.largest_depth(10, 1), "clusters is 1, expected an integer of at least 2"),
        (lambda: theory.largest_depth([2, [3]], 2), r"labels is \[2, \[3\]\], expected a number or an array"),
        (lambda: theory.largest_depth(2j, 2), "labels is 2j, expected a number or an array"),
        (lambda: theory.largest_depth(10**400, 2), "labels is 1000.*, expected a number"),
        (lambda: theory.largest_depth(None, 2), "labels is nan, expected a finite number"),
        (lambda: theory.largest_depth(math.inf, 2), "labels is inf, expected a finite number"),
        (lambda: theory.ovr_weights(3, -1), "features is -1, expected a number of at least 0"),
        (lambda: theory.weight_ratio(99, 3, 2, 0), "alpha is 0, expected a positive number of at most 1"),
        (lambda: theory.weight_ratio(99, 3, 2, [0.5, 1.01]), "alpha is 1.01"),
        (lambda: theory.weight_ratio(99, 10, [2, 3], 0.5), "depth is 3, expected at most 2 .* 99 .* 10"),
        (lambda: theory.weight_ratio(99, 10, 10**12, 0.5), "depth is 1000000000000, expected at most 2"),
        (lambda: theory.alpha_bound(100, 10, 3), "depth is 3, expected 2 to D = 2"),
        (lambda: theory.alpha_bound(100, [4, 3], 3), "clusters is 3, expected at least 4 for Theorem 1"),
        (lambda: theory.weights_saved(100, 10, 3, 0.5), "depth is 3, expected less"),
        (lambda: theory.tree_cost(100, 10, 1, 1, 1), "depth is 1, expected an integer of at least 2"),
        (lambda: theory.cheapest_depth(9, 10), "depth is 2, expected at most 1"),
    ],
)
def test_bad_parameters_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_theorem_1_of_depth_2_has_no_least_number_of_clusters():
    assert theory.alpha_bound(8, 2, 2) == 0.75


# The tables and the figure of the experiment `theory`


@pytest.fixture(scope="module")
def tables():
    """Run the paper's example: L = 2e8, K = 100."""
    return experiments.run("theory", Session())


def test_the_tables_hold_the_numbers_that_the_paper_prints(tables):
    """Section 5.1, appendix C, and Tables 2 and 4 for n = 1e6, summed here term by term."""
    assert {row["alpha"] for row in tables.rows("theory-ratio")} == {0.3, 0.4, 0.5, 0.6}
    for row in tables.rows("theory-ratio"):
        above = sum(100**i * 100 * row["alpha"] ** i for i in range(row["depth"] - 1))
        assert row["ratio"] == pytest.approx(above / 2e8 + row["alpha"] ** (row["depth"] - 1), rel=1e-12)
        assert row["weights"] == pytest.approx(row["ratio"] * 2e8 * 1e6, rel=1e-12)
    bounds = tables.rows("theory-alpha-bounds")
    printed = [(row["depth"], row["printed"]) for row in bounds]
    assert printed == [(2, 0.999), (3, 0.999), (4, 0.996), (5, 0.819)]
    for row in bounds:
        assert math.floor(1000 * row["bound"]) == 1000 * row["printed"]
        assert theory.weight_ratio(2e8, 100, row["depth"], row["exact"]) == pytest.approx(1, abs=1e-9)
        assert row["exact"] >= row["bound"] * (1 - 1e-12)
    ovr, *trees = tables.rows("theory-comparison")
    assert (ovr["vectors"], ovr["dense_weights"], ovr["cost"]) == (200_000_000, 2e14, 2e16)
    assert [row["vectors"] - 200_000_000 for row in trees] == [100, 10_100, 1_010_100, 101_010_100]
    assert trees[1]["cost"] == pytest.approx(1e6 * 100 * math.log(2e8) * (200 + 2e8 / 1e4))
    depths = tables.rows("theory-depths")
    assert [row["nodes"] for row in depths] == [1, 100, 10**4, 10**6, 10**8]
    assert [row["children"] for row in depths] == [100, 100, 100, 100, 2]
    assert [row["features_0.5"] for row in depths] == [1e6, 5e5, 2.5e5, 1.25e5, 6.25e4]
    for alpha in (0.3, 0.6):
        whole = [row["weights"] for row in tables.rows("theory-ratio") if row["alpha"] == alpha][-1]
        assert sum(row[f"weights_{alpha}"] for row in depths) == pytest.approx(whole)


def test_the_step_to_the_deepest_tree_is_dashed(tables):
    lines = tables.tables[0].figure.axes[0].lines
    assert [list(line.get_xdata()) for line in lines] == [[2, 3, 4], [4, 5]] * 4
    assert [line.get_linestyle() for line in lines] == ["-", "--"] * 4
