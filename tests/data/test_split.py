"""Splits: sizes, shares of labels, duplicates, and independence of the order of rows and labels."""

import numpy as np
import pytest
from helpers import random_data
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from labeltree import InputError
from labeltree.data.split import checked_shares, row_keys, share_error, split_rows, text_keys


def labels(n_rows, n_labels=300, seed=0):
    """Return labels with very different frequencies, some rows without any, and a key per row."""
    rng = np.random.default_rng(seed)
    chance = 0.5 / np.arange(1, n_labels + 1)
    Y = sparse.csr_matrix((rng.random((n_rows, n_labels)) < chance).astype(np.float32))
    return Y, rng.permutation(np.arange(1, n_rows + 1)).astype(np.uint64)


@pytest.mark.parametrize("shares", [[0.1], [0.5], [0.2, 0.1], [0.1, 0.1, 0.1, 0.7 / 3]])
@pytest.mark.parametrize("seed", [0, 1])
def test_sizes_are_exact_and_shares_of_labels_are_close(shares, seed):
    Y, keys = labels(3000)
    parts = split_rows(Y, keys, shares, seed)
    assert np.bincount(parts)[1:].tolist() == [round(share * 3000) for share in shares]
    found, n_labels = share_error(Y, parts, shares)
    assert n_labels > 60
    assert found <= 0.11  # two rows of 20
    random = np.random.default_rng(seed).choice(len(shares) + 1, 3000, p=[1 - sum(shares), *shares])
    assert 2 * found < share_error(Y, random.astype(np.int8), shares)[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_rare_labels_keep_their_share_in_nested_splits(seed):
    n_rare = np.arange(3000) % 3 * 4  # labels with one row: none, four or eight in each row
    rare = sparse.csr_matrix((np.ones(n_rare.sum()), np.arange(n_rare.sum()), np.cumsum([0, *n_rare])))
    Y, keys = labels(3000)
    Y = sparse.hstack([Y, rare], format="csr")
    for _ in range(2):
        parts = split_rows(Y, keys, [0.1], seed)
        for count in (0, 4, 8):
            assert 0.07 <= parts[n_rare == count].mean() <= 0.13
        Y, keys, n_rare = Y[parts == 0], keys[parts == 0], n_rare[parts == 0]


def test_rows_without_labels_keep_their_share():
    Y = sparse.csr_matrix(np.repeat([[1.0], [0.0]], 100, axis=0))
    assert split_rows(Y, np.arange(1, 201, dtype=np.uint64), [0.25])[100:].sum() == 25


def test_duplicates_are_on_one_side():
    Y, _ = labels(2000)
    keys = np.random.default_rng(0).integers(1, 700, 2000).astype(np.uint64)
    parts = split_rows(Y, keys, [0.2, 0.2])
    assert all(np.unique(parts[keys == key]).size == 1 for key in np.unique(keys))
    assert np.bincount(parts).tolist() == [1200, 400, 400]


def test_rows_without_content_are_not_duplicates():
    Y, _ = labels(100)
    assert split_rows(Y, np.zeros(100, np.uint64), [0.3]).sum() == 30


@given(st.integers(0, 2**31 - 1), st.integers(3, 60), st.sampled_from([0.1, 0.3]))
def test_the_order_of_rows_and_labels_does_not_matter(seed, n_rows, share):
    Y, _ = labels(n_rows, 20, seed)
    rng = np.random.default_rng(seed)
    keys = rng.integers(1, 2**63, n_rows).astype(np.uint64)
    parts = split_rows(Y, keys, [share, share], seed)
    rows, columns = rng.permutation(n_rows), rng.permutation(20)
    assert np.array_equal(split_rows(Y[rows][:, columns], keys[rows], [share, share], seed), parts[rows])


@given(st.integers(0, 2**31 - 1), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_tiny_data_has_no_empty_part_or_is_refused(seed, n_rows, n_keys, n_parts):
    Y, _ = labels(n_rows, 3, seed)
    keys = np.random.default_rng(seed).integers(1, n_keys + 1, n_rows).astype(np.uint64)
    shares = [0.9 / n_parts] * n_parts
    if np.unique(keys).size <= n_parts:
        with pytest.raises(InputError, match=f"cannot be split into {n_parts + 1} parts; use more data"):
            split_rows(Y, keys, shares, seed)
    else:
        parts = split_rows(Y, keys, shares, seed)
        assert np.unique(parts).tolist() == list(range(n_parts + 1))


def test_seeds_differ():
    Y, keys = labels(500)
    assert not np.array_equal(split_rows(Y, keys, [0.2], 0), split_rows(Y, keys, [0.2], 1))


def test_keys_of_texts():
    one, same, other, blank, none = text_keys(["A  red\tapple", "a red apple ", "a red apple pie", " \n", ""])
    assert one == same != other
    assert blank == none == 0
    assert text_keys(["\ud800"])[0]


def test_keys_of_features():
    X = random_data(50).X
    n_rows = X.shape[0]
    keys = row_keys(sparse.csr_matrix(sparse.vstack([X, X[::-1], X * 2])))
    assert np.array_equal(keys[:n_rows], keys[n_rows : 2 * n_rows][::-1])
    assert np.unique(keys[:n_rows]).size == np.unique(X.toarray(), axis=0).shape[0]
    used = np.diff(X.indptr) > 0
    assert (keys[:n_rows][used] != keys[2 * n_rows :][used]).all()
    assert row_keys(sparse.csr_matrix((2, 5), dtype=np.float32)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("test", "validation", "message"),
    [
        (0, None, "test is 0, expected a positive number of at most 1"),
        (1, None, "the shares 1 leave no rows to train on; lower test"),
        (0.5, 0.5, "the shares 0.5 and 0.5 leave no rows to train on; lower test"),
        (0.1, -1, "validation is -1, expected a positive number"),
        ("a", None, "test is 'a', expected a positive number"),
    ],
)
def test_impossible_shares(test, validation, message):
    with pytest.raises(InputError, match=message):
        checked_shares(test, validation)
