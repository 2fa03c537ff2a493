"""The experiment `time`: multiply-adds recounted from the data, the fit, and nothing is left behind."""

import tempfile

import numpy as np
import pytest
from helpers import node_rows, random_data

from labeltree import InputError, SolverSettings, build_tree, make_plan, synthesize
from labeltree.errors import ResourceError
from labeltree.paper import experiments, theory
from labeltree.paper.experiments import Session, training_time
from labeltree.paper.experiments.fits import Power, fit_powers
from labeltree.paper.experiments.time_findings import claims

SIZES = {"scales": [1 / 4000, 1 / 2000, 1 / 1000], "clusters": [8, 3], "depths": [2, 3]}

PAIRS = [(3, 2), (3, 3), (8, 2), (8, 3)]


@pytest.fixture(scope="module")
def done():
    return []


@pytest.fixture(scope="module")
def result(done):
    return training_time.run(Session([], [1], threads=1), done.append, **SIZES, largest_cost=3e7)


def recount(data, tree):
    """Margin and step: each feature value of each instance that a node sees, once for each child."""
    x = data.X.toarray() != 0
    return 2 * sum(
        int(x[node_rows(data, tree, u)].sum()) * int(tree.child_count[u]) for u in range(tree.n_nodes)
    )


def test_multiply_adds_from_scratch():
    for seed in range(3):
        data = random_data(seed, instances=90, labels=20)
        for depth in (1, 2, 4):
            tree = build_tree(data, clusters=3, max_depth=depth, seed=seed)
            part = make_plan(data, tree, SolverSettings(bias=0)).trees[0]
            assert training_time.multiply_adds(part) == recount(data, tree)


def test_rows_are_what_was_trained(result):
    rows = result.tables[0].rows
    sizes = {row["scale"]: row["labels"] for row in rows}
    assert [sizes[scale] for scale in SIZES["scales"]] == [168, 335, 670]
    for scale, labels in sizes.items():
        mine = [(row["clusters"], row["max_depth"]) for row in rows if row["scale"] == scale]
        too_costly = [(3, 2)] if labels == 670 else []  # more than 30 million
        assert mine == [(None, 1), *(pair for pair in PAIRS if pair not in too_costly)]
    for row in rows[:7]:
        data = synthesize("amazon-670k", row["scale"], seed=1)[0]
        tree = build_tree(data, clusters=row["clusters"] or 2, max_depth=row["max_depth"], seed=1)
        assert row["multiply_adds"] == recount(data, tree)
        assert (row["depth"], row["nodes"]) == (tree.depth, tree.n_nodes)
        shape = {"instances": data.n_instances, "nonzeros": data.X.nnz / data.n_instances}
        if row["kind"] == "tree":
            cost = theory.tree_cost(data.n_labels, row["clusters"], row["max_depth"], **shape)
        else:
            cost = theory.ovr_cost(data.n_labels, **shape)
            assert row["multiply_adds"] == pytest.approx(2 * cost)  # without a bias, the formula is exact
        assert row["cost"] == pytest.approx(float(cost))
        assert row["train_seconds"] > 0


def test_one_factor_for_all_points_of_a_kind(result):
    for kind in ("tree", "one-vs-rest"):
        rows = [row for row in result.tables[0].rows if row["kind"] == kind]
        for key, fitted in (("multiply_adds", "fitted_multiply_adds"), ("train_seconds", "fitted_seconds")):
            factors = [row[fitted] / row["cost"] for row in rows]
            assert factors == pytest.approx([factors[0]] * len(rows))
            errors = np.log([row[key] / row[fitted] for row in rows])
            assert errors.mean() == pytest.approx(0, abs=1e-9)
            assert np.abs(errors).max() > 0 or kind == "one-vs-rest"


def test_figures_and_progress(result, done):
    fit, growth = (plot.figure for plot in result.plots)
    assert len(fit.axes) == 2
    assert len(fit.axes[0].lines) == len(result.tables[0].rows) + 1
    assert {text.get_text() for text in growth.axes[0].texts} == {"one-vs-rest", "K = 3", "K = 8"}
    for part in (*result.plots, *result.tables):
        assert part.takeaway.endswith(".")
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1)
    assert set(result.tables[0].columns) <= set(result.tables[0].rows[0])


def time_row(kind, labels, clusters, depth, cost, adds, seconds):
    return {
        "kind": kind,
        "labels": labels,
        "instances": 10,
        "nonzeros": 5.0,
        "clusters": clusters,
        "max_depth": depth,
        "cost": cost,
        "multiply_adds": adds,
        "fitted_multiply_adds": cost,
        "train_seconds": seconds,
        "fitted_seconds": cost / 100,
    }


def test_claims_follow_the_numbers():
    rows = [
        time_row("one-vs-rest", 100, None, 1, 1e4, 1e4, 100),
        time_row("one-vs-rest", 10_000, None, 1, 1e6, 1e6, 10_000),
        time_row("tree", 100, 10, 2, 1e3, 1e3, 10),
        time_row("tree", 10_000, 10, 2, 5e4, 5e4, 5000),
        time_row("tree", 10_000, 10, 4, 4e3, 4e3, 400),
    ]
    tree, ovr, growth, faster = claims(rows)
    assert ovr.holds
    assert (
        "seconds grow as the cost to the power 1.00 and are off by a factor of 1.00 typically, 1.00 at most"
        in ovr.sentence
    )
    assert (tree.holds, tree.partly) == (False, True)  # the seconds grow faster than the cost
    assert (
        "the seconds grow as the cost to the power 1.52 and are off by a factor of 10.00 typically"
        in tree.sentence
    )
    assert growth.holds is None
    assert "Inconclusive on K = 10 (2 sizes from 100 to 10,000 labels: too few to decide)" in growth.sentence
    assert faster.holds
    assert "25.0 times as long as the fastest tree (K = 10, d = 4)" in faster.sentence

    assert claims([{**rows[0], "train_seconds": 1}, {**rows[2], "train_seconds": 2}])[-1].holds is False
    assert [claim.holds for claim in claims(rows[:1])] == [None]


def growing(work, labels=(100, 300, 1000, 3000, 10_000)):
    """Return the claim about growth for trees of K = 10 with this work per feature value."""
    rows = [time_row("tree", n, 10, 2, work(n), 50 * work(n), 1) for n in labels]
    return next(claim for claim in claims(rows) if "log^2 L" in claim.sentence)


def test_growth_can_fail():
    assert growing(lambda n: np.log(n) ** 2 * (1 + 0.02 * np.sin(n))).holds
    assert growing(lambda n: np.log(n) ** 1.5).holds  # slower is within the bound
    linear = growing(lambda n: n * (1 + 0.05 * np.sin(n)))
    assert linear.holds is False
    assert "as L^1.0" in linear.sentence
    assert growing(lambda n: n**0.5).holds is False  # between both: faster than log^2 L
    noisy = growing(lambda n: n**0.6 * np.exp(1.5 * np.sin(n)))
    assert noisy.holds is None
    wide = growing(lambda n: np.log(n) ** 2 * np.exp(0.6 * np.sin(n)))  # not linear, but perhaps log^4 L
    assert wide.holds is None
    few = growing(lambda n: np.log(n) ** 2, labels=(335, 670, 1340))
    assert few.holds is None
    assert "3 sizes from 335 to 1,340 labels: too few to decide" in few.sentence
    assert growing(lambda n: np.log(n) ** 2, labels=(100, 200, 300, 400)).holds is None  # too close


def test_the_interval_of_a_power_is_that_of_the_regression():
    rng = np.random.default_rng(0)
    x = np.geomspace(1, 1000, 6)
    inside = 0
    for _ in range(300):
        (power,) = fit_powers([x], 3 * x**0.7 * np.exp(0.2 * rng.standard_normal(6)))
        inside += power.low <= 0.7 <= power.high
    assert 0.9 < inside / 300 < 0.99  # 95% of the intervals contain the truth
    other = rng.permutation(x)
    exact, second = fit_powers([x, other], 3 * x**0.7 / other)
    assert (exact.value, second.value) == pytest.approx((0.7, -1))
    assert exact.high - exact.low < 1e-6
    assert (exact.within(0.6, 0.8), exact.within(0.8, 1), Power(1, 0, 2).within(0.5, 3)) == (
        True,
        False,
        None,
    )


def test_an_error_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def fail(data, plan, path, score):
        seen.append(path.parent.name)
        path.mkdir()
        raise RuntimeError("broken")

    monkeypatch.setattr("labeltree.paper.experiments.training_time.train_model", fail)
    with pytest.raises(RuntimeError, match="broken"):
        training_time.run(Session([], [0], threads=1), **SIZES)
    assert seen[0].startswith("labeltree-time-")
    assert list(tmp_path.iterdir()) == []


def test_models_that_do_not_fit_are_skipped(monkeypatch):
    few = {"scales": [1 / 4000], "clusters": [3], "depths": [2]}
    train = training_time.train_model

    def narrow(data, plan, path, score):
        if plan.depth == 1:
            raise ResourceError("not enough memory")
        return train(data, plan, path, score=score)

    monkeypatch.setattr("labeltree.paper.experiments.training_time.train_model", narrow)
    found = training_time.run(Session([], [0], threads=1), **few)
    assert [row["kind"] for row in found.tables[0].rows] == ["tree"]
    assert found.introduction.endswith("1 model did not fit: not enough memory.")
    with pytest.raises(ResourceError, match="not enough memory"):
        training_time.run(Session([], [0], threads=1), **few, largest_cost=2e6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"like": "x"}, "unknown dataset"),
        ({"scales": []}, "scales"),
        ({"scales": [0.1, -1]}, "scales"),
        ({"clusters": [1]}, "at least 2"),
        ({"depths": []}, "at least 2"),
        ({"largest_cost": 1}, "costs more than 1 "),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(InputError, match=sentence):
        training_time.run(Session([]), **options)


def test_quick_by_name():
    found = experiments.run("time", seeds=[0], threads=1, quick=True, clusters=[20], depths=[2])
    assert found.settings["scales"] == sorted(training_time.QUICK_SCALES)
    assert max(row["labels"] for row in found.tables[0].rows) < 2000
