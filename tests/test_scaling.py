"""Rows of length 1: which rows are scaled, by how much, and what a model makes of rows of any length."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import random_data
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from labeltree import Dataset, read_svm, scaling, write_svm
from labeltree.scaling import TOLERANCE, unit_row, unit_rows

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
def test_a_single_row_is_scaled_to_the_same_bits(dense):
    X = sp.csr_matrix(dense)
    whole = scaling.unit_values(X.indptr, X.data)
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        row = X.data[start:end].copy()
        before = row.tobytes()
        scaled = unit_row(row)
        assert scaled.tobytes() == whole[start:end].tobytes()
        assert row.tobytes() == before
        if scaled.tobytes() == before:
            assert scaled is row


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_left_to_the_checks(value):
    row = np.array([1, value], np.float32)
    assert unit_row(row) is row


@pytest.mark.parametrize("at_once", [1, 2, 7, 100, 10**6])
def test_parts_give_the_same_bits(at_once, monkeypatch):
    X = sp.random(60, 40, 0.2, "csr", np.float32, rng=np.random.default_rng(0))
    X = sp.vstack([sp.csr_matrix((3, 40), dtype=np.float32), X, X[:0], sp.csr_matrix((2, 40))], "csr")
    X = X.astype(np.float32)
    expected = contents_of(unit_rows(X))
    monkeypatch.setattr(scaling, "_VALUES_AT_ONCE", at_once)
    assert contents_of(unit_rows(X)) == expected


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
    assert read.normalize() is read
    assert not read.normalized


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


def test_rows_of_length_1_are_the_same_dataset():
    data = random_data().normalize()
    plain = Dataset(data.X, data.Y)
    assert plain.normalize() is plain
    assert not plain.normalized


def test_other_columns_keep_the_flag():
    data = random_data(names=True).normalize()
    assert data.widen(100).normalized
    assert data.align(None, 12).normalized
    assert data.align([*data.label_names, "other"], 13).normalized
