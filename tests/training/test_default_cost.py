"""The cost of a model for which none is given: by the features per instance, and the length of the rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import labeltree
from labeltree.cli import main
from labeltree.settings import SolverSettings
from labeltree.training import default_cost
from labeltree.training.default_cost import default_costs, length_cost, node_costs, with_costs


@given(st.integers(1, 40), st.integers(1, 6), st.floats(0, 1), st.floats(0.05, 20), st.integers(0, 2**32 - 1))
def test_twin(n_rows, n_features, density, scale, seed):
    random = np.random.default_rng(seed)
    dense = scale * random.random((n_rows, n_features)) * (random.random((n_rows, n_features)) < density)
    X = sp.csr_matrix(dense.astype(np.float32))
    squares = np.square(X.toarray().astype(np.float64)).sum(axis=1)[np.diff(X.indptr) > 0]
    expected = np.clip(1 / squares.mean(), 0.01, 100) if squares.any() else 1
    assert length_cost(X) == pytest.approx(expected, rel=0.051)  # two significant digits
    if squares.size:
        n_used = np.count_nonzero((X.toarray() != 0).any(axis=0))
        least = min(1, max(0.5, X.nnz / squares.size / 128))
        factor = np.clip(0.7 * (n_used / squares.size) ** (1 / 3), least, 2)
        assert default_costs(X)[0] == pytest.approx(factor * length_cost(X), rel=0.051)


@given(st.floats(0.01, 10), st.floats(0.01, 10), st.lists(st.integers(0, 1000), max_size=20))
def test_smaller_nodes_have_a_larger_cost(cost, other, sizes):
    cost, most = sorted((cost, other))
    sizes = [1000, *sizes]
    found = node_costs(SolverSettings(cost=cost, max_cost=most), np.array(sizes))
    for size, value in zip(sizes, found, strict=True):
        expected = min(cost * (1000 / max(size, 1)) ** 0.2, most)
        assert value == pytest.approx(expected)
    assert found[0] == cost


def test_the_largest_cost():
    X = sp.csr_matrix(np.ones((1000, 4), np.float32))
    data = labeltree.Dataset.from_matrices(X, sp.csr_matrix(np.ones((1000, 2))))
    found_costs = [
        (found.cost, found.max_cost)
        for settings in (SolverSettings(), SolverSettings(cost=3), SolverSettings(max_cost=2))
        for found in (with_costs(settings, data.normalize().X), with_costs(settings, data.X))
    ]
    assert found_costs == [(0.5, 1), (0.12, 0.25), (3, 3), (3, 3), (0.5, 2), (0.12, 2)]
    assert default_costs(sp.csr_matrix(np.ones((1000, 100), np.float32)) / 10)[0] == 0.78
    assert default_costs(sp.csr_matrix(np.ones((1000, 200), np.float32)) / 200**0.5)[0] == 1
    long = labeltree.Dataset.from_matrices(sp.csr_matrix(np.eye(5, 500, dtype=np.float32)), np.eye(5))
    assert with_costs(SolverSettings(), long.X).max_cost == 1
    many = sp.random(20, 5000, 0.05, "csr", np.float32, random_state=0)
    found = with_costs(SolverSettings(), labeltree.Dataset.from_matrices(many, np.eye(20)).normalize().X)
    assert found.max_cost == found.cost == 2


def test_weights_count_like_repeated_rows():
    X = sp.random(50, 40, 0.3, "csr", np.float32, random_state=0)
    counts = np.random.default_rng(0).integers(1, 5, 50)
    assert length_cost(X, counts.astype(float)) == length_cost(X[np.repeat(np.arange(50), counts)])
    repeated = X[np.repeat(np.arange(50), counts)]
    assert default_costs(X, counts.astype(float)) == default_costs(repeated) != default_costs(X)
    for n_rows in range(1, 100):  # 0.125 is between 0.12 and 0.13
        eight = sp.csr_matrix(np.ones((n_rows, 8), np.float32))
        assert length_cost(eight, np.full(n_rows, 0.1)) == length_cost(eight) == 0.12


def test_large_data_is_read_in_parts(monkeypatch):
    X = sp.random(50, 7, 0.2, "csr", np.float32, random_state=0)
    assert not np.diff(X.indptr).all()  # there are empty rows
    whole = default_costs(X)[0]
    weights = np.random.default_rng(0).random(50)
    weighted = default_costs(X, weights)[0]
    for step in (1, 3, X.nnz - 1, X.nnz, X.nnz + 1):
        monkeypatch.setattr(default_cost, "_VALUES_AT_ONCE", step)
        assert (default_costs(X)[0], default_costs(X, weights)[0]) == (whole, weighted)


def test_limits_and_special_cases():
    ones = sp.csr_matrix(np.ones((3, 4), np.float32))
    assert default_costs(sp.csr_matrix((3, 4), dtype=np.float32))[0] == 1
    assert length_cost(sp.csr_matrix((3, 4), dtype=np.float32)) == 1
    assert length_cost(ones / 2) == 1  # rows of length 1
    assert length_cost(ones) == 0.25
    assert length_cost(ones * np.float32(1e10)) == 0.01
    assert length_cost(ones * np.float32(1e-10)) == 100
    assert default_costs(ones / 2)[0] == 0.77  # 0.7 (4 / 3)^(1/3)
    assert default_costs(ones)[0] == 0.19


def scaled(scale):
    """Training data with rows of this length, and rows to predict."""
    train, test = labeltree.synthesize("eur-lex", scale=0.01)
    return labeltree.Dataset.from_matrices(scale * train.X, train.Y), scale * test.X


def test_the_unit_of_the_features_does_not_matter(tmp_path):
    found = []
    for scale in (1, 2):
        data, rows = scaled(scale)
        plan = labeltree.build_plan(data, solver_settings=SolverSettings(bias=0), normalize=False)
        model = labeltree.train_model(data, plan, tmp_path / f"{scale}")
        assert model.manifest["settings"]["cost"] == plan.cost == default_costs(data.X)[0]
        found.append((plan.cost, model.predict(rows)))
    (cost, (labels, scores)), (other_cost, (other_labels, other_scores)) = found
    assert other_cost == pytest.approx(cost / 4, rel=0.05)
    np.testing.assert_array_equal(labels, other_labels)
    np.testing.assert_allclose(scores, other_scores, rtol=0.05)


def test_a_given_cost_is_used(tmp_path):
    data, _ = scaled(3)
    blocks = []
    cost = default_costs(data.X)[0]
    given = SolverSettings(cost=cost, max_cost=max(cost, length_cost(data.X)))
    for i, settings in enumerate((SolverSettings(), given, SolverSettings(cost=1))):
        plan = labeltree.build_plan(data, solver_settings=settings, normalize=False)
        blocks.append(labeltree.train_model(data, plan, tmp_path / f"{i}").block(0)[1])
    assert (blocks[0] == blocks[1]).all()
    assert (blocks[0] != blocks[2]).any()


def test_settings_that_are_exchanged_get_the_cost_of_the_data(tmp_path):
    data, _ = scaled(2)
    plan = replace(labeltree.build_plan(data, normalize=False), settings=SolverSettings(tolerance=0.1))
    model = labeltree.train_model(data, plan, tmp_path / "model")
    assert model.manifest["settings"]["cost"] == default_costs(data.X)[0]
    assert model.manifest["settings"]["max_cost"] == max(0.25, default_costs(data.X)[0])


def test_train_says_which_cost_it_uses(tmp_path, capsys):
    data, _ = scaled(2)
    labeltree.write_svm(tmp_path / "long.svm", data)
    assert main(["train", f"{tmp_path}/long.svm", f"{tmp_path}/model", "--no-normalize"]) == 0
    cost = default_costs(data.X)[0]
    assert f"the cost is {cost:g}, because of the length of the rows" in capsys.readouterr().err
    options = ["--no-normalize", "--cost", "1", "--json"]
    assert main(["train", f"{tmp_path}/long.svm", f"{tmp_path}/other", *options]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["cost"] == 1
    assert "cost" not in err
