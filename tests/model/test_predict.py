"""Predictions of a model: rows in any form, bad ones refused, the same labels on any number of threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import random_data, train_small
from scipy import sparse

from labeltree import InputError
from labeltree.explain.prediction import explain_prediction
from labeltree.model.model import load


@pytest.fixture(scope="module", params=[False, True], ids=["as given", "scaled"])
def model(request, trained, tmp_path_factory):
    """A model of rows as they are, and one of rows of length 1, which scales its queries."""
    if not request.param:
        return load(trained)
    return train_small(tmp_path_factory.mktemp("scaled") / "model", random_data(names=True).normalize())


def same(one, other):
    return all(a.tobytes() == b.tobytes() and a.shape == b.shape for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    "form",
    [
        sparse.csr_matrix,
        sparse.csc_matrix,
        sparse.coo_array,
        np.asarray,
        np.asfortranarray,
        np.ndarray.tolist,
        lambda x: x.astype(np.float64),
    ],
)
def test_rows_may_come_in_any_form(model, form):
    x = random_data(3).X
    expected = model.predict(x)
    assert expected[0].shape == expected[1].shape == (60, 5)
    assert (expected[0].dtype, expected[1].dtype) == (np.int32, np.float32)
    assert same(model.predict(form(x.toarray())), expected)


def test_what_is_not_a_matrix_of_rows_is_refused(model):
    x = random_data(3).X.toarray()
    assert same(model.predict(x[5:6]), [part[5:6] for part in model.predict(x)])
    for given in (x[5], x[5].tolist(), sparse.csr_array(x[5])):
        for call in (model.predict, model.predict_matrix):
            with pytest.raises(InputError, match="X has 1 dimension, expected 2; pass one row per instance"):
                call(given)
    with pytest.raises(InputError, match="X has 1 dimension, expected 2"):
        explain_prediction(model, sparse.csr_array(x[5]))
    with pytest.raises(InputError, match="the data is of type int; pass a list"):
        model.predict(3)


@pytest.mark.parametrize("rows", [np.zeros((0, 30)), sparse.csr_matrix((0, 30))])
def test_no_rows_give_no_predictions(model, rows):
    labels, scores = model.predict(rows)
    assert labels.shape == scores.shape == (0, 5)
    assert model.predict_matrix(rows).shape == (0, 12)


def test_unsorted_and_repeated_entries_are_summed(model):
    tidy = np.zeros((1, 30))
    tidy[0, [2, 9]] = 1.0, 3.0
    untidy = sparse.csr_matrix(([3.0, 0.25, 0.75], [9, 2, 2], [0, 3]), shape=(1, 30))
    for one, other in zip(model.predict(untidy), model.predict(tidy), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert untidy.indices.tolist() == [9, 2, 2]  # the caller's own is left alone


def test_more_features_than_the_model_are_ignored_with_a_warning(model):
    x = random_data(3).X.toarray()
    with pytest.warns(UserWarning, match="The data has 33 features, but the model has 30"):
        wide = model.predict(np.hstack([x, np.ones((60, 3))]))
    for rows in (np.ones((2, 33)), sparse.csr_matrix(np.ones((1, 33), np.float32))):
        with pytest.warns(UserWarning, match="33 features") as caught:
            model.predict(rows)
        assert caught[0].filename == __file__
    assert same(wide, model.predict(x))
    with pytest.warns(UserWarning, match="33 features"):
        assert same(model.predict(np.append(x[7:8], np.full((1, 3), 100), axis=1)), model.predict(x[7:8]))


def test_a_feature_number_beyond_32_bits_is_not_taken_for_another(model):
    far = sparse.csr_matrix(([1.0], np.array([2**32 + 4]), np.array([0, 1])), shape=(1, 2**33))
    with pytest.raises(InputError, match="8589934592 columns"):
        model.predict(far)


def test_fewer_features_than_the_model_are_refused(model):
    x = random_data(3).X[:, :20]
    for narrow in (x, x[0], x.toarray(), [[0.5] * 29]):
        with pytest.raises(InputError, match="but the model has 30 features"):
            model.predict(narrow)
        with pytest.raises(InputError, match="but the model has 30 features"):
            explain_prediction(model, narrow[:1])
    with pytest.raises(InputError, match="but the model has 30 features"):
        explain_prediction(model, np.array([0.5, 0.5]))
    for call in (model.predict, lambda rows: explain_prediction(model, rows)):
        with pytest.raises(InputError, match="X has rows of different lengths"):
            call([[0.5, 0.5], [0.5]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_nan_and_infinity_are_refused(model, value):
    x = np.zeros((2, 30))
    x[1, 7] = value
    for rows in (x, sparse.csr_matrix(x)):
        with pytest.raises(InputError, match="NaN"):
            model.predict(rows)


@pytest.mark.parametrize(
    "rows", [np.zeros((2, 3, 4)), [["a", "b"]], [[1, 2], [3]], np.zeros((1, 3), complex)]
)
def test_what_is_not_a_table_of_numbers_is_refused(model, rows):
    with pytest.raises(InputError):
        model.predict(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top is 0, expected "),
        ({"beam": -1}, "beam is -1, expected "),
        ({"threads": 0}, "threads is 0, expected "),
        ({"score_scale": 0}, "score_scale is 0, expected None or a number from 0.001"),
        ({"score": "margin"}, "score is 'margin', expected None or one of sigmoid, hinge2, hinge3"),
    ],
)
def test_bad_options_are_refused(model, options, message):
    with pytest.raises(InputError, match=message):
        model.predict(np.zeros((1, 30)), **options)


def test_every_label_is_reached_by_a_wide_beam(model):
    labels, scores = model.predict(random_data(3).X, top=99, beam=99)
    assert labels.shape == (60, 12)
    assert (np.sort(labels) == np.arange(12)).all()
    assert ((scores > 0) & (scores <= 1)).all()
    assert (np.diff(scores) <= 0).all()


def test_a_matrix_holds_the_same_scores(model):
    x = random_data(3).X
    labels, scores = model.predict(x, top=12, beam=1)
    matrix = model.predict_matrix(x, top=12, beam=1)
    assert matrix.shape == (60, 12)
    assert matrix.nnz == (labels >= 0).sum() < labels.size
    assert (scores[labels < 0] == 0).all()
    for row in range(60):
        for label, score in zip(labels[row], scores[row], strict=True):
            assert label < 0 or matrix[row, label] == score


def spread(array):
    """Return the same array with a gap after each element."""
    wide = np.zeros(2 * array.size, array.dtype)
    wide[::2] = array
    return wide[::2]


def raw_row(data, indices, indptr, width=30):
    """Return a row of exactly these arrays, which SciPy does not check."""
    row = sparse.csr_matrix((1, width), dtype=np.float32)
    row.data, row.indices, row.indptr = data, indices, indptr
    return row


def test_a_single_row_is_predicted_from_whatever_arrays_it_has(model):
    row = random_data(3).X[7]
    data, indices, indptr = row.data, row.indices, row.indptr
    expected = model.predict(row.toarray())
    for other in (
        row,
        sparse.csr_array(row),
        raw_row(data, indices.astype(np.int64), indptr.astype(np.int64)),
        raw_row(data, indices, indptr.astype(np.int64)),
        raw_row(data.astype(np.float64), indices, indptr),
        raw_row(spread(data), spread(indices), indptr),
        raw_row(data[::-1], indices[::-1], indptr),
        raw_row(data[::-1].copy(), indices[::-1].copy(), indptr),
        raw_row(np.append(data, 0).astype(np.float32), np.append(indices, 0).astype(np.int32), indptr),
    ):
        assert same(model.predict(other), expected)


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([2, -1], [0, 2]),
        ([-1, 2], [0, 2]),
        ([2], [0, 2]),
        ([2, 3], [0, 1, 2]),
        ([2, 3], [1, 2]),
        ([2, 3], [0, 3]),
    ],
)
def test_a_single_row_with_damaged_arrays_is_refused(model, indices, indptr):
    row = raw_row(np.ones(2, np.float32), np.array(indices, np.int32), np.array(indptr, np.int32))
    with pytest.raises(ValueError, match=r"indices|data|indptr|reshape|index"):
        model.predict(row)


def test_threads_and_copies_predict_single_rows_at_the_same_time(trained):
    """They share the buffers of the search, which outlive a call."""
    model = load(trained)
    x = random_data(3).X
    rows = [x[i] for i in range(60)]
    options = [{"top": 5, "beam": 10}, {"top": 12, "beam": 1}]
    expected = [[model.predict(row, **some) for row in rows] for some in options]
    copy = pickle.loads(pickle.dumps(model))

    def check(of):
        for _ in range(20):
            for some, wanted in zip(options, expected, strict=True):
                for row, want in zip(rows, wanted, strict=True):
                    assert same(of.predict(row, **some), want)
        return True

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(check, [model, copy] * 6))
    kept = model.predict(rows[0])
    del model, copy
    assert same(kept, expected[0][0])  # results outlive the model
