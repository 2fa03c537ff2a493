"""The experiment `time`: multiply-adds recounted from the data, the fit, and nothing is left behind."""

import tempfile

import numpy as np
import pytest
from helpers import node_rows, random_data

from labeltree import InputError, SolverSettings, build_tree, make_plan, synthesize
from labeltree.errors import ResourceError
from labeltree.paper import experiments, theory, training_time
from labeltree.paper.experiments import Session

SIZES = {"scales": [1 / 4000, 1 / 2000, 1 / 1000], "cluster_counts": [8, 3], "depths": [2, 3]}

PAIRS = [(3, 2), (3, 3), (8, 2), (8, 3)]


@pytest.fixture(scope="module")
def done():
    return []


@pytest.fixture(scope="module")
def result(done):
    return experiments.run(
        "time", Session([], [1], threads=1), progress=done.append, **SIZES, largest_cost=3e7
    )


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
    fit = result.tables[0].figure
    assert len(fit.axes) == 2
    points = sum(len(line.get_xdata()) for line in fit.axes[0].lines)
    assert points >= len(result.tables[0].rows)
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1)
    assert set(result.tables[0].columns) <= set(result.tables[0].rows[0])


def test_an_error_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def fail(data, plan, path, score):
        seen.append(path.parent.name)
        path.mkdir()
        raise RuntimeError("broken")

    monkeypatch.setattr("labeltree.paper.training_time.train_model", fail)
    with pytest.raises(RuntimeError, match="broken"):
        experiments.run("time", Session([], [0], threads=1), **SIZES)
    assert seen[0].startswith("labeltree-time-")
    assert list(tmp_path.iterdir()) == []


def test_models_that_do_not_fit_are_skipped(monkeypatch):
    few = {"scales": [1 / 4000], "cluster_counts": [3], "depths": [2]}
    train = training_time.train_model

    def narrow(data, plan, path, score):
        if plan.depth == 1:
            raise ResourceError("not enough memory")
        return train(data, plan, path, score=score)

    monkeypatch.setattr("labeltree.paper.training_time.train_model", narrow)
    found = experiments.run("time", Session([], [0], threads=1), **few)
    assert [row["kind"] for row in found.tables[0].rows] == ["tree"]
    assert "with 1 models that do not fit" in found.tables[0].caption
    with pytest.raises(ResourceError, match="not enough memory"):
        experiments.run("time", Session([], [0], threads=1), **few, largest_cost=2e6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"like": "x"}, "unknown dataset"),
        ({"scales": []}, "scales"),
        ({"scales": [0.1, -1]}, "scales"),
        ({"cluster_counts": [1]}, "at least 2"),
        ({"depths": []}, "at least 2"),
        ({"largest_cost": 1}, "costs more than 1 "),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(InputError, match=sentence):
        experiments.run("time", Session([]), **options)


def test_quick_by_name():
    found = experiments.run("time", seeds=[0], threads=1, quick=True, cluster_counts=[20], depths=[2])
    assert {row["scale"] for row in found.tables[0].rows} <= set(training_time.QUICK_SCALES)
    assert max(row["labels"] for row in found.tables[0].rows) < 2000
