"""The cost of a model for which none is given: it depends on the length of the rows, and only on that."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import labeltree
from labeltree import settings
from labeltree.settings import SolverSettings, default_cost


@given(st.integers(1, 40), st.integers(1, 6), st.floats(0, 1), st.floats(0.05, 20), st.integers(0, 2**32 - 1))
def test_twin(n_rows, n_features, density, scale, seed):
    random = np.random.default_rng(seed)
    dense = scale * random.random((n_rows, n_features)) * (random.random((n_rows, n_features)) < density)
    X = sp.csr_matrix(dense.astype(np.float32))
    squares = np.square(X.toarray().astype(np.float64)).sum(axis=1)[np.diff(X.indptr) > 0]
    expected = np.clip(1 / squares.mean(), 0.01, 100) if squares.any() else 1
    assert default_cost(X) == pytest.approx(expected, rel=0.051)  # two significant digits


def test_weights_count_like_repeated_rows():
    X = sp.random(50, 7, 0.3, "csr", np.float32, random_state=0)
    counts = np.random.default_rng(0).integers(1, 5, 50)
    assert default_cost(X, counts.astype(float)) == default_cost(X[np.repeat(np.arange(50), counts)])
    assert default_cost(X, np.full(50, 3.0)) == default_cost(X)


def test_large_data_is_read_in_parts(monkeypatch):
    X = sp.random(50, 7, 0.2, "csr", np.float32, random_state=0)
    assert not np.diff(X.indptr).all()  # there are empty rows
    whole = default_cost(X)
    for step in (1, 3, 49, 50, 51):
        monkeypatch.setattr(settings, "_ROWS_AT_ONCE", step)
        assert default_cost(X) == whole


def test_limits_and_special_cases():
    ones = sp.csr_matrix(np.ones((3, 4), np.float32))
    assert default_cost(sp.csr_matrix((3, 4), dtype=np.float32)) == 1
    assert default_cost(ones / 2) == 1  # rows of length 1
    assert default_cost(ones) == 0.25
    assert default_cost(ones * np.float32(1e10)) == 0.01
    assert default_cost(ones * np.float32(1e-10)) == 100


def test_the_unit_of_the_features_does_not_matter(tmp_path):
    train, test = labeltree.synthesize("eur-lex", scale=0.01)
    found = []
    for scale in (1, 2):
        data = labeltree.Dataset.from_matrices(scale * train.X, train.Y)
        plan = labeltree.build_plan(data, solver_settings=SolverSettings(bias=0))
        model = labeltree.train_model(data, plan, tmp_path / f"{scale}")
        assert model.manifest["settings"]["cost"] == plan.cost == default_cost(data.X)
        found.append((plan.cost, model.predict(scale * test.X)))
    (cost, (labels, scores)), (other_cost, (other_labels, other_scores)) = found
    assert (cost, other_cost) == (1, 0.25)
    np.testing.assert_array_equal(labels, other_labels)
    np.testing.assert_allclose(scores, other_scores, rtol=1e-5)


def test_a_given_cost_is_used(tmp_path):
    train, _ = labeltree.synthesize("eur-lex", scale=0.01)
    data = labeltree.Dataset.from_matrices(3 * train.X, train.Y)
    models = [
        labeltree.train_model(
            data, labeltree.build_plan(data, solver_settings=SolverSettings(cost=cost)), tmp_path / f"{i}"
        )
        for i, cost in enumerate((None, default_cost(data.X), 1))
    ]
    blocks = [model.block(0)[1] for model in models]
    assert (blocks[0] == blocks[1]).all()
    assert (blocks[0] != blocks[2]).any()
