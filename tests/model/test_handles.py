"""Handles of the kernels: arrays are checked once, named in the error, and left out of pickles."""

import copy
import pickle

import numpy as np
import pytest
from helpers import random_data, run_python
from scipy import sparse

from labeltree import _native
from labeltree.data.dataset import csr_arrays
from labeltree.training.plan import make_plan
from labeltree.trees.kmeans import build_tree
from labeltree.trees.tree import LabelTree

ROWS = {
    "ptr": np.array([0, 1, 2, 3], np.int64),
    "index": np.array([0, 1, 0], np.int32),
    "value": np.ones(3, np.float32),
    "n_columns": 2,
}
DATA = {
    "x_ptr": np.array([0, 1, 2, 3], np.int64),
    "x_index": np.array([0, 1, 0], np.int32),
    "x_value": np.ones(3, np.float32),
    "n_features": 2,
    "label_ptr": np.array([0, 2, 3], np.int64),
    "label_instances": np.array([0, 2, 1], np.int32),
}


GIVEN = LabelTree.from_nested([[1, 0], 2, [[4, 3], 5]])
TREE = {name: np.array(getattr(GIVEN, name)) for name in ("child_ptr", "children", "labels", "first", "last")}
# A list of entries, which are kept by rows or by features: the name, what is wrong, the message.
WRONG_ENTRIES = [
    ("ptr", np.array([0, 2, 1, 3], np.int64), "ptr must not decrease"),
    ("ptr", np.array([1, 1, 2, 3], np.int64), "ptr must start at 0"),
    ("ptr", np.array([0, 1, 2, 4], np.int64), "ptr must end at"),
    ("ptr", np.array([], np.int64), "ptr must start at 0"),
    *(("index", np.array([0, at, 0], np.int32), "index holds .* out of range") for at in (2, -1, -(2**31))),
    ("value", np.ones(2, np.float32), "value must have as many entries as (x_)?index"),
]
LONG = np.arange(1000, dtype=np.int64)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *WRONG_ENTRIES,
        ("n_columns", -1, "n_columns must be from 0"),
        ("n_columns", 2**31 - 1, "n_columns must be from 0"),
    ],
)
def test_rows_that_do_not_fit_are_refused(name, value, message):
    _native.SparseRows(**ROWS)
    with pytest.raises(ValueError, match=f"^{message}"):
        _native.SparseRows(**ROWS | {name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *((f"x_{name}", value, f"x_{message}") for name, value, message in WRONG_ENTRIES),
        ("n_features", -1, "n_features must be from 0"),
        ("label_ptr", np.array([0, 3, 2], np.int64), "label_ptr must not decrease"),
        ("label_ptr", np.array([1, 2, 3], np.int64), "label_ptr must start"),
        ("label_ptr", np.array([0, 2, 2], np.int64), "label_ptr must end"),
        ("label_instances", np.array([0, 3, 1], np.int32), "label_instances holds an index out of range"),
        ("label_instances", np.array([0, -1, 1], np.int32), "label_instances holds an index out of range"),
    ],
)
def test_data_that_does_not_fit_is_refused(name, value, message):
    _native.TrainingData(**DATA)
    with pytest.raises(ValueError, match=f"^{message}"):
        _native.TrainingData(**DATA | {name: value})


@pytest.mark.parametrize("place", [0, 1, 500, 998, 999])
def test_an_error_anywhere_in_long_arrays_is_found(place):
    rows = {"ptr": np.append(LONG, 1000), "index": LONG.astype(np.int32), "value": np.ones(1000, np.float32)}
    _native.SparseRows(**rows, n_columns=1000)
    for name, value in (("index", 1000), ("index", -1), ("ptr", 1001)):
        changed = {key: array.copy() for key, array in rows.items()}
        changed[name][place] = value
        with pytest.raises(ValueError, match=name):
            _native.SparseRows(**changed, n_columns=1000)


def put(name, place, value):
    return name, np.concatenate([TREE[name][:place], [value], TREE[name][place + 1 :]]).astype(
        TREE[name].dtype
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("child_ptr", np.zeros(1, np.int64), "child_ptr must have a root"),
        (*put("child_ptr", 0, 1), "child_ptr must start"),
        (*put("child_ptr", 1, 7), "child_ptr must not decrease"),
        ("children", TREE["children"][:-1], "child_ptr must end"),
        (*put("children", 0, 0), "children must come after"),
        (*put("children", 0, 9), "children holds an id out of range"),
        (*put("children", 1, ~9), "children holds an id out of range"),
        (*put("children", 1, ~3), "children holds an id twice"),
        ("labels", TREE["labels"][:-1], "children must be every node but the root, and every label"),
        ("labels", TREE["labels"][::-1].copy(), "labels must be in the order"),
        (*put("labels", 0, 6), "labels must be in the order"),
        ("first", TREE["first"][:-1], "first and last must have one entry"),
        (*put("first", 0, 1), "first must be 0"),
        (*put("first", 1, 1), "first must be where"),
        (*put("last", 0, 5), "last must be where"),
        (*put("last", 1, -1), "last must be within"),
        (*put("last", 1, 100), "last must be within"),
        (*put("last", 1, 1), "labels must be in the order"),
    ],
)
def test_trees_that_do_not_fit_are_refused(name, value, message):
    _native.Tree(**TREE)
    with pytest.raises(ValueError, match=f"^{message}"):
        _native.Tree(**TREE | {name: value})


@pytest.mark.parametrize(
    "change", [lambda a: a.astype(np.int64), lambda a: a[::-1], lambda a: a.reshape(1, -1)]
)
def test_arrays_of_another_kind_are_refused(change):
    with pytest.raises(TypeError):
        _native.SparseRows(**ROWS | {"index": change(ROWS["index"])})


def test_data_and_tree_must_have_the_same_labels():
    with pytest.raises(ValueError, match="same labels"):
        _native.used_features(_native.TrainingData(**DATA), _native.Tree(**TREE), 1)


def test_label_vectors_of_other_data_are_refused():
    data, vectors = _native.TrainingData(**DATA), (np.zeros(3, np.int32), np.zeros(3, np.float32))
    for ptr in ([0, 2, 3], [0, 0, 3]):  # label 0 has one feature in both of its instances, label 1 another
        with pytest.raises(ValueError, match="ptr was made for other data"):
            _native.label_vectors(data, np.array(ptr, np.int64), *vectors, 1)
    with pytest.raises(ValueError, match="ptr must have one entry per label"):
        _native.label_vectors(data, np.array([0, 3], np.int64), *vectors, 1)


def test_a_handle_keeps_its_arrays():
    x, y = (sparse.random(50, 30, 0.2, "csr", dtype=np.float32, rng=np.random.default_rng(s)) for s in (0, 1))
    data = _native.TrainingData(*csr_arrays(x), 30, *csr_arrays(y.T.tocsr())[:2])
    before = _native.count_label_vectors(data, 1)
    del x, y
    _ = [np.ones(10_000) for _ in range(100)]
    assert np.array_equal(before, _native.count_label_vectors(data, 1))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_data_and_trees_can_be_copied_and_pickled(duplicate):
    data = random_data()
    tree = build_tree(data, clusters=3)
    plan = make_plan(data, tree)
    assert {"native"} <= data.__dict__.keys() & tree.__dict__.keys()
    again, same_tree, same_plan = map(duplicate, (data, tree, plan))
    assert "native" not in again.__dict__.keys() | same_tree.__dict__.keys()
    assert data.native is data.native
    counted = make_plan(again, same_tree).trees[0].used_features
    assert counted.tolist() == plan.trees[0].used_features.tolist()
    assert same_plan.model_bytes == plan.model_bytes


def test_nothing_of_the_kernels_leaks(tmp_path):
    script = """
import os, sys
from helpers import random_data, train_small
from labeltree import read_svm, write_svm
os.dup2(1, 2)
data = random_data()
write_svm(sys.argv[1] + "/d.svm", data)
model = train_small(sys.argv[1] + "/model", read_svm(sys.argv[1] + "/d.svm"), threads=2)
model.predict(data.X)
model.compress(sys.argv[1] + "/pruned", prune=0.1).predict(data.X)
del data, model
"""
    assert run_python(script, tmp_path, LABELTREE_LEAK_WARNINGS="1") == ""
