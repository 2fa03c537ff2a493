"""A model that was trained on rows of length 1 scales its queries, in every form of a row."""

import numpy as np
import pytest
import scipy.sparse as sp
from codec_twin import scale_row
from helpers import examples, random_data, train_small
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from labeltree import InputError
from labeltree.explain.prediction import explain_prediction

HUGE = np.finfo(np.float32).max
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("scaling") / "model"
    return train_small(path, random_data(names=True).normalize())


@pytest.fixture(scope="module")
def rows():
    return random_data(seed=1, instances=40).X


@examples(40)
@given(st.lists(st.integers(-60, 60), min_size=40, max_size=40))
def test_rows_times_powers_of_two_give_the_same_bits(model, rows, exponents):
    squares = rows.multiply(rows).sum(axis=1).A1
    factors = np.ldexp(1.0, np.array(exponents))
    # A row that is about as long as 1 keeps its length.
    factors[np.abs(squares * factors**2 - 1) < 0.01] = 2**61
    assert (np.abs(squares - 1) > 0.01)[squares > 0].all()
    other = sp.csr_matrix(sp.diags(factors) @ rows.astype(np.float64)).astype(np.float32)
    assert same(model.predict(rows), model.predict(other))


@given(arrays.arrays(np.float32, (3, 30), elements=st.one_of(st.just(0.0), FINITE)))
def test_a_single_row_gives_the_bits_of_a_batch(model, dense):
    X = sp.csr_matrix(dense)
    labels, scores = model.predict(X, top=12, beam=100)
    for number in range(3):
        row = X[number]
        found = model._search.search.search_row(row.indices, row.data, 100, 12, "sigmoid", 3.0, 1.0, True)
        twice, options = sp.vstack([row, row], "csr"), {"score": "sigmoid", "score_scale": 3}
        expected = model.predict(twice, top=12, beam=100, **options)
        assert same(found, [part[:1] for part in expected])
        assert same(model.predict(row, top=12, beam=100), (labels[[number]], scores[[number]]))


def test_the_kernel_leaves_repeated_and_unknown_features_to_the_batch(model):
    search = model._search.search.search_row
    for indices, expected in (([3, 4], True), ([3, 3], False), ([4, 3], False), ([3, 30], False)):
        arguments = np.array(indices, np.int32), np.ones(2, np.float32), 10, 3, "sigmoid", 3.0, 1.0
        assert (search(*arguments, True) is not None) == expected
        assert (search(*arguments, False) is not None) == (indices != [4, 3])


def test_rows_without_values(model):
    empty = sp.csr_matrix((2, 30), dtype=np.float32)
    zeros = sp.csr_matrix((np.zeros(2, np.float32), [3, 4], [0, 1, 2]), shape=(2, 30))
    assert same(model.predict(empty), model.predict(zeros))
    assert same(model.predict(empty[:1]), model.predict(zeros[:1]))
    assert model.predict(empty[:0])[0].shape == (0, 5)


def test_values_that_cannot_be_scaled_are_refused(model):
    too_large = sp.csr_matrix((np.full(2, HUGE), [3, 3], [0, 2]), shape=(1, 30))
    infinite = (sp.csr_matrix(np.full((1, 30), value, np.float32)) for value in (np.nan, np.inf))
    for row in (too_large, *infinite):
        for X in (row, sp.vstack([row, row], "csr")):
            with pytest.raises(ValueError, match=r"X contains NaN|too large for float32"):
                model.predict(X)
    for wrong in (-1, 10**6):
        X = random_data().X.copy()
        X.indptr[5] = X.indptr[4] + wrong
        with pytest.raises(InputError, match="X is not a valid sparse matrix"):
            model.predict(X)


@pytest.mark.parametrize("number", range(0, 40, 7))
def test_an_explanation_has_the_scaled_values(model, rows, number):
    row = 50 * rows[number]
    dense = scale_row(row.toarray()[0], 30)
    explained = explain_prediction(model, row, words=100)
    assert [explanation.label for explanation in explained] == model.predict(row)[0][0].tolist()
    steps = [step for explanation in explained for path in explanation.paths for step in path.steps]
    for step in steps:
        words = [*step.supporting, *step.opposing]
        assert sum(word.product for word in words) + step.bias + step.rest == pytest.approx(step.margin)
        assert all(word.value == dense[word.feature] for word in words)
    wide = sp.hstack([row, [[1000.0]]], "csr").astype(np.float32)
    with pytest.warns(UserWarning, match="ignored"):
        assert explain_prediction(model, wide, words=100) == explained


def test_copies_of_a_model_keep_the_flag(model, rows, tmp_path):
    pruned = model.compress(tmp_path / "pruned", prune=0.01)
    dense = model.compress(tmp_path / "int8", weights="int8")
    for copy in (pruned, dense, dense.store_decision(None, None)):
        assert copy.normalized
        assert same(copy.predict(rows), copy.predict(2 * rows))
    raw = train_small(tmp_path / "raw", random_data())
    assert not same(raw.predict(rows), raw.predict(2 * rows))
