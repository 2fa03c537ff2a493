"""Models and estimators in the worker processes of joblib: copied by content, whatever happens to files."""

import pickle

import numpy as np
import pytest
from helpers import random_data, train_small
from joblib import Parallel, delayed, dump
from joblib import load as load_dump
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from labeltree import LabelTreeClassifier, load
from labeltree.estimators import scorers

SMALL = {"clusters": 3, "threads": 1, "cost": 10.0}


def classes_data():
    """Data with one class per row, which the features show."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.random((90, 6))
    X[np.arange(90), y] += 3
    return X, y


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A model with more weights than joblib sends to a worker through a pipe: it writes them to a file."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((200, 500)), np.eye(600)[rng.integers(600, size=200)]
    estimator = LabelTreeClassifier(**SMALL | {"max_depth": 1}).fit(X, Y)
    assert estimator.model_.trees[0].weights.nbytes > 1_000_000
    return estimator, X


@pytest.fixture(scope="module")
def fitted():
    data = random_data()
    return LabelTreeClassifier(**SMALL).fit(data.X, data.Y), data


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_predict_in_workers(fitted, large, backend, size):
    estimator, X = (fitted[0], fitted[1].X) if size == "small" else large
    right = estimator.predict_top(X)
    found = Parallel(n_jobs=2, backend=backend)(delayed(estimator.predict_top)(X) for _ in range(3))
    for labels, scores in found:
        assert np.array_equal(labels, right[0])
        assert np.array_equal(scores, right[1])


@pytest.mark.parametrize("codec", [{}, {"weights": "int8"}, {"prune": 0.1}])
def test_a_model_replaced_after_loading_is_not_mixed_up(tmp_path, codec):
    data = random_data()
    train_small(tmp_path / "first", data)
    if codec:
        load(tmp_path / "first").compress(tmp_path / "model", **codec)
    else:
        (tmp_path / "first").rename(tmp_path / "model")
    model = load(tmp_path / "model")
    right = model.predict(data.X)
    train_small(tmp_path / "model", random_data(7), overwrite=True)
    for labels, scores in Parallel(n_jobs=2)(delayed(model.predict)(data.X, threads=1) for _ in range(2)):
        assert np.array_equal(labels, right[0])
        assert np.array_equal(scores, right[1])
    copies = Parallel(n_jobs=2)(delayed(same)(part) for part in (model, *model.trees))
    assert np.array_equal(copies[0].predict(data.X)[1], right[1])
    assert np.array_equal(copies[1].weights, model.trees[0].weights)


def same(value):
    return value


def test_estimators_come_back_from_workers(large):
    estimator, X = large
    fitted, unfitted = Parallel(n_jobs=2)(delayed(same)(value) for value in (estimator, clone(estimator)))
    assert not hasattr(unfitted, "model_")
    for copy in (fitted, pickle.loads(pickle.dumps(fitted))):
        assert np.array_equal(copy.predict_top(X)[1], estimator.predict_top(X)[1])


def validated(estimator, X, Y, jobs):
    found = cross_validate(estimator, X, Y, cv=3, return_estimator=True, n_jobs=jobs, error_score="raise")
    return [*found["test_score"], *(fitted.predict_top(X)[1] for fitted in found["estimator"])]


def searched(estimator, X, Y, jobs):
    scoring = {"P@1": scorers.precision_at(1), "nDCG@3": scorers.ndcg_at(3)}
    grid, options = {"cost": [0.01, 10.0]}, {"cv": 2, "error_score": "raise", "n_jobs": jobs}
    found = GridSearchCV(estimator, grid, scoring=scoring, refit="nDCG@3", **options).fit(X, Y).cv_results_
    assert len(set(found["mean_test_nDCG@3"])) == 2
    return [found["mean_test_P@1"], found["mean_test_nDCG@3"]]


@pytest.mark.parametrize("tool", [validated, searched])
def test_two_processes_find_what_one_finds(tool):
    data = random_data()
    one, two = (
        tool(LabelTreeClassifier(**SMALL), data.X.toarray(), data.Y.toarray(), jobs) for jobs in (1, 2)
    )
    for found, other in zip(one, two, strict=True):
        assert np.isfinite(found).all()
        assert np.array_equal(found, other)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_classes_in_workers(n_jobs):
    X, y = classes_data()
    found = cross_val_predict(LabelTreeClassifier(**SMALL), X, y, cv=3, n_jobs=n_jobs)
    assert (found == y).mean() > 0.9
    Y = np.stack([y, (y + 1) % 3], axis=1)
    each = MultiOutputClassifier(LabelTreeClassifier(**SMALL), n_jobs=n_jobs).fit(X, Y)
    assert (each.predict(X) == Y).mean() > 0.9


@pytest.mark.parametrize("kind", ["bagging", "stacking", "pipeline"])
def test_ensembles(kind):
    X, y = classes_data()
    one, other = LabelTreeClassifier(**SMALL), LabelTreeClassifier(**SMALL | {"seed": 1})
    make = {
        "bagging": lambda: BaggingClassifier(one, n_estimators=4, n_jobs=2, random_state=0),
        "stacking": lambda: StackingClassifier(
            [("a", one), ("b", other)], final_estimator=LogisticRegression(), cv=3, n_jobs=2
        ),
        "pipeline": lambda: BaggingClassifier(make_pipeline(MaxAbsScaler(), one), n_estimators=2, n_jobs=2),
    }
    estimator = make[kind]().fit(X, y)
    assert (estimator.predict(X) == y).mean() > 0.9
    # Fitted members are sent to the workers, too.
    found = Parallel(n_jobs=2)(delayed(estimator.predict)(X) for _ in range(2))
    assert all(np.array_equal(labels, estimator.predict(X)) for labels in found)


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_dump_and_load(large, tmp_path, mmap_mode):
    estimator, X = large
    dump(estimator, tmp_path / "dump")
    copy = load_dump(tmp_path / "dump", mmap_mode=mmap_mode)
    assert np.array_equal(copy.predict_top(X)[1], estimator.predict_top(X)[1])
