"""Rows of length 1: which rows are scaled, by how much, and what a model makes of rows of any length."""

import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from codec_twin import scale_row
from helpers import contents, examples, random_data, topic_data, train_small
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from labeltree import Dataset, _native, explain_prediction, load, read_documents, read_svm, write_svm
from labeltree.data.dataset import TOLERANCE, unit_rows, unit_values
from labeltree.errors import InputError

TINY, HUGE = np.float32(1e-45), np.finfo(np.float32).max
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
matrices = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=st.one_of(st.just(0.0), finite, st.floats(-1, 1, width=32)),
)


def square_of(row):
    return math.fsum(float(value) ** 2 for value in row)


@given(matrices)
@example(np.array([[TINY, 0], [HUGE, HUGE], [0, 0], [TINY, HUGE]], np.float32))
@example(np.array([[0.6, 0.8], [3, 4]], np.float32))
def test_twin(dense):
    squares = [square_of(row) for row in dense]
    assume(all(abs(abs(square - 1) - TOLERANCE) > 1e-9 for square in squares))  # sums are rounded
    X = sp.csr_matrix(dense)
    before = contents_of(X)
    scaled = unit_rows(X)
    assert contents_of(X) == before
    is_unit = [not square or abs(square - 1) <= TOLERANCE for square in squares]
    assert (scaled is X) == all(is_unit)
    assert scaled.dtype == np.float32
    assert scaled.data.all() or not X.data.all()
    found = scaled.toarray()
    for row, result, square, unit in zip(dense, found, squares, is_unit, strict=True):
        if unit:
            assert np.array_equal(result, row)
            continue
        exact = row.astype(np.float64) / math.sqrt(square)
        # One rounding to float32; those of float64 are far smaller.
        assert (np.abs(result - exact) <= 1.0001 * 2.0**-24 * np.abs(exact) + 2.0**-149).all()
        assert abs(square_of(result) - 1) < 1e-6
    again = unit_rows(scaled)
    assert again is scaled


def contents_of(X):
    return X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes()


@given(matrices)
@example(np.array([[TINY, HUGE, 1, 0]], np.float32))
def test_a_row_is_scaled_to_the_same_bits_alone(dense):
    X = sp.csr_matrix(dense)
    whole = unit_values(X.indptr, X.data)
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        row = X.data[start:end].copy()
        scaled = unit_values(np.array([0, end - start]), row)
        assert scaled.tobytes() == whole[start:end].tobytes()
        assert (scaled is row) == (scaled.tobytes() == X.data[start:end].tobytes())


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 100, 1000])
def test_rows_of_many_lengths(length):
    row = np.random.default_rng(length).normal(size=length).astype(np.float32)
    scaled = unit_values(np.array([0, length]), row)
    exact = row.astype(np.float64) / math.sqrt(square_of(row))
    assert (np.abs(scaled - exact) <= 1.0001 * 2.0**-24 * np.abs(exact)).all()


@pytest.mark.parametrize(("indptr", "what"), [([0, 3], "end"), ([1, 2], "start"), ([0, 3, 2], "decrease")])
def test_the_kernel_checks_the_pointers(indptr, what):
    with pytest.raises(ValueError, match=f"indptr must (not )?{what}"):
        _native.unit_rows(np.array(indptr), np.ones(2, np.float32))


def test_indices_are_shared():
    X = random_data().X
    scaled = unit_rows(X)
    assert np.shares_memory(scaled.indices, X.indices)
    assert np.shares_memory(scaled.indptr, X.indptr)
    assert not np.shares_memory(scaled.data, X.data)


def test_values_that_become_zero_are_left_out():
    X = sp.csr_matrix(np.array([[TINY, HUGE], [2, 0]], np.float32))
    scaled = unit_rows(X)
    assert scaled.nnz == 2
    assert scaled.toarray().tolist() == [[0, 1], [1, 0]]
    assert X.nnz == 3


@pytest.mark.parametrize("digits", [4, 5, 6])
def test_tf_idf_in_a_text_file_is_not_changed(tmp_path, digits):
    random = np.random.default_rng(0)
    dense = random.random((200, 30)) * (random.random((200, 30)) < 0.5)
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    data = Dataset.from_matrices(np.round(dense, digits), np.ones((200, 1)))
    write_svm(tmp_path / "train.svm", data)
    read = read_svm(tmp_path / "train.svm")
    assert read.normalize().X is read.X
    assert read.normalize().normalized  # its model scales queries


# Dataset.normalize


def test_a_dataset_is_scaled_once():
    data = random_data(names=True)
    scaled = data.normalize()
    assert (data.normalized, scaled.normalized) == (False, True)
    assert data.normalize() is scaled
    assert scaled.normalize() is scaled
    assert scaled.by_label is data.by_label
    assert (scaled.Y, scaled.label_names) == (data.Y, data.label_names)
    assert data.bytes == random_data(names=True).bytes + data.X.data.nbytes
    assert scaled.bytes == random_data(names=True).bytes
    copy = pickle.loads(pickle.dumps(data))
    assert "_scaled" not in vars(copy)
    assert pickle.loads(pickle.dumps(scaled)).normalized


def test_rows_of_length_1_are_shared():
    data = random_data().normalize()
    plain = Dataset(data.X, data.Y)
    scaled = plain.normalize()
    assert (plain.normalized, scaled.normalized) == (False, True)
    assert scaled.X is plain.X
    assert scaled.native is plain.native
    assert scaled.bytes == plain.bytes


def test_documents_are_not_scaled_again(tmp_path):
    (tmp_path / "train.tsv").write_text("0\ta\tred apples\n1\tb\ta blue whale\n")
    data = read_documents(tmp_path / "train.tsv")
    assert data.normalize() is data
    assert not data.normalized


def test_other_columns_keep_the_flag():
    data = random_data(names=True).normalize()
    assert data.widen(100).normalized
    assert data.align(None, 12).normalized
    assert data.align([*data.label_names, "other"], 13).normalized


# Prediction


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("scaling") / "model"
    return train_small(path, random_data(names=True).normalize())


@pytest.fixture(scope="module")
def rows():
    return random_data(seed=1, instances=40).X


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


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


@examples(40)
@given(st.lists(st.floats(1e-10, 1e10), min_size=40, max_size=40))
def test_rows_of_any_length_give_nearly_the_same_scores(model, rows, factors):
    """Values differ by four roundings, 2^-22; a row that keeps its length differs by up to 0.1%."""
    other = sp.csr_matrix(sp.diags(factors) @ rows.astype(np.float64)).astype(np.float32)
    one, two = (unit_rows(X).toarray().astype(np.float64) for X in (rows, other))
    kept = np.abs(np.square(other.toarray().astype(np.float64)).sum(axis=1) - 1) <= TOLERANCE
    bound = np.where(kept, 0.00101, 2.0**-22)[:, None]
    assert (np.abs(one - two) <= bound * np.abs(one)).all()
    scores = [model.predict_matrix(X, top=12, beam=100).toarray() for X in (rows, other)]
    np.testing.assert_allclose(scores[0][~kept], scores[1][~kept], rtol=2e-5)
    np.testing.assert_allclose(scores[0][kept], scores[1][kept], rtol=2e-2)


def test_every_form_of_a_row_gives_the_same_prediction(model, rows):
    labels, scores = model.predict(rows)
    before = contents_of(rows)
    for number in range(rows.shape[0]):
        expected = labels[number : number + 1], scores[number : number + 1]
        row = rows[number]
        two_parts = sp.csr_matrix(
            (
                np.repeat(row.data / np.float32(2), 2),
                np.repeat(row.indices, 2),
                2 * row.indptr,
            ),
            shape=row.shape,
        )
        backwards = sp.csr_matrix((row.data[::-1], row.indices[::-1], row.indptr), shape=row.shape)
        for form in (
            row,
            row.toarray(),
            row.tocsc(),
            sp.csr_array(row),
            row.astype(np.float64),
            two_parts,
            sp.vstack([two_parts, two_parts], "csr")[:1],
            backwards,
            row.toarray().tolist(),
        ):
            arrays_before = form.data.tobytes() if sp.issparse(form) else None
            assert same(model.predict(form), expected)
            if sp.issparse(form):
                assert form.data.tobytes() == arrays_before
    both = sp.vstack([two_parts, backwards], "csr")
    assert same(model.predict(both), (np.repeat(expected[0], 2, axis=0), np.repeat(expected[1], 2, axis=0)))
    assert contents_of(rows) == before


@given(arrays.arrays(np.float32, (3, 30), elements=st.one_of(st.just(0.0), finite)))
def test_a_single_row_gives_the_bits_of_a_batch(model, dense):
    X = sp.csr_matrix(dense)
    labels, scores = model.predict(X, top=12, beam=100)
    for number in range(3):
        row = X[number]
        found = model._search.search_row(row.indices, row.data, 100, 12, "sigmoid", 3.0, True)
        twice, options = sp.vstack([row, row], "csr"), {"score": "sigmoid", "score_scale": 3}
        expected = model.predict(twice, top=12, beam=100, **options)
        assert same(found, [part[:1] for part in expected])
        assert same(model.predict(row, top=12, beam=100), (labels[[number]], scores[[number]]))


def test_the_kernel_leaves_repeated_and_unknown_features_to_the_batch(model):
    search = model._search.search_row
    for indices, expected in (([3, 4], True), ([3, 3], False), ([4, 3], False), ([3, 30], False)):
        arguments = np.array(indices, np.int32), np.ones(2, np.float32), 10, 3, "sigmoid", 3.0
        assert (search(*arguments, True) is not None) == expected
        assert (search(*arguments, False) is not None) == (indices != [4, 3])


def test_features_that_the_model_does_not_have_do_not_count(model, rows):
    extra = sp.random(rows.shape[0], 5, 0.7, "csr", np.float32, rng=np.random.default_rng(0)) * 100
    wide = sp.hstack([rows, extra], "csr").astype(np.float32)
    expected = model.predict(rows)
    with pytest.warns(UserWarning, match="the additional ones are ignored"):
        assert same(model.predict(wide), expected)
    for number in (0, 1, 2):  # 1 has no feature of the model
        with pytest.warns(UserWarning, match="the additional ones are ignored"):
            found = model.predict(wide[number])
        assert same(found, [part[number : number + 1] for part in expected])


def test_rows_without_values(model):
    empty = sp.csr_matrix((2, 30), dtype=np.float32)
    zeros = sp.csr_matrix((np.zeros(2, np.float32), [3, 4], [0, 1, 2]), shape=(2, 30))
    assert same(model.predict(empty), model.predict(zeros))
    assert same(model.predict(empty[:1]), model.predict(zeros[:1]))
    assert model.predict(empty[:0])[0].shape == (0, 5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("n_rows", [1, 2])
def test_rows_that_are_not_finite_are_refused(model, value, n_rows):
    X = sp.csr_matrix(np.full((n_rows, 30), value, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="NaN or infinity"):
            model.predict(X)


def test_parts_of_a_value_whose_sum_is_too_large_are_refused(model):
    row = sp.csr_matrix((np.full(2, HUGE), [3, 3], [0, 2]), shape=(1, 30))
    for X in (row, sp.vstack([row, row], "csr")):
        with pytest.raises(ValueError, match="too large for float32"):
            model.predict(X)


def test_a_matrix_whose_pointers_are_wrong_is_refused(model):
    for wrong in (-1, 10**6):
        X = random_data().X.copy()
        X.indptr[5] = X.indptr[4] + wrong
        with pytest.raises(InputError, match="its indptr decreases"):
            model.predict(X)


@pytest.mark.parametrize("number", range(0, 40, 7))
def test_products_of_an_explanation_add_up(model, rows, number):
    row = 50 * rows[number]
    dense = scale_row(row.toarray()[0], 30)
    for labels in (None, [0, 5]):
        found = explain_prediction(model, row, labels=labels, words=100)
        for explanation in found:
            for path in explanation.paths:
                for step in path.steps:
                    parts = [*step.supporting, *step.opposing]
                    assert sum(word.product for word in parts) + step.bias + step.rest == pytest.approx(
                        step.margin
                    )
                    assert all(word.value == dense[word.feature] for word in parts)
    labels, _ = model.predict(row)
    explained = explain_prediction(model, row)
    assert [e.label for e in explained] == labels[0].tolist()
    for explanation in explained:
        reached = [path.score for path in explanation.paths if path.reached]
        assert explanation.score == pytest.approx(sum(reached) / len(explanation.paths), rel=1e-5)
    wide = sp.hstack([row, [[1000.0]]], "csr").astype(np.float32)
    with pytest.warns(UserWarning, match="ignored"):
        assert explain_prediction(model, wide) == explained


# The model


def test_copies_of_a_model_keep_the_flag(model, rows, tmp_path):
    expected = model.predict(rows)
    model.save(tmp_path / "saved")
    pruned = model.compress(tmp_path / "pruned", prune=0.01)
    dense = model.compress(tmp_path / "int8", weights="int8")
    saved = load(tmp_path / "saved").store_decision(None, None)
    assert same(saved.predict(rows), expected)
    for copy in (saved, pruned, dense, pickle.loads(pickle.dumps(model))):
        assert copy.normalized
        assert same(copy.predict(rows), copy.predict(2 * rows))
    assert dense.store_decision(model.decision, None).normalized


def test_a_model_of_rows_as_they_are(tmp_path):
    data = random_data()
    model = train_small(tmp_path / "model", data)
    assert not model.manifest["normalized"]
    assert not same(model.predict(data.X), model.predict(2 * data.X))


def test_scaled_rows_are_those_that_scikit_learn_makes(tmp_path):
    """A model of rows that were scaled beforehand has the same blocks, and no flag."""
    from sklearn.preprocessing import normalize

    data = topic_data()
    before = Dataset.from_matrices(normalize(data.X.astype(np.float64)), data.Y)
    model, other = (
        train_small(tmp_path / f"{number}", rows) for number, rows in enumerate((data.normalize(), before))
    )
    files, others = contents(tmp_path / "0"), contents(tmp_path / "1")
    changed = {str(name) for name in files if files[name] != others[name]}
    assert changed == {"manifest.json"}
    assert (model.normalized, other.normalized) == (True, False)
    assert same(model.predict(before.X), other.predict(before.X))
