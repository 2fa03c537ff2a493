"""LabelTreeClassifier among scikit-learn's tools: saved, pickled, cloned, searched, piped, routed."""

import copy
import json
import pickle
import tempfile

import numpy as np
import pandas as pd
import pytest
import sklearn
from helpers import contents, make_data, run_python, topic_data
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    make_scorer,
    ndcg_score,
)
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer
from sklearn.svm import LinearSVC

import labeltree
from labeltree import InputError, LabelTreeClassifier, metrics
from labeltree.estimators import scorers

DATA = make_data(300)
TEST = make_data(40, seed=1)
SMALL = {"clusters": 5, "threads": 1}


@pytest.fixture(scope="module")
def estimator():
    return LabelTreeClassifier(**SMALL, trees=2, beam=4).fit(DATA.X, DATA.Y)


def same(one, other):
    """Return whether two estimators have the same parameters and give the same scores."""
    scores = one.predict_proba(TEST.X), other.predict_proba(TEST.X)
    return one.get_params() == other.get_params() and (scores[0] != scores[1]).nnz == 0


def test_save_and_load(estimator, tmp_path):
    path = tmp_path / "model"
    estimator.save(path)
    loaded = LabelTreeClassifier.load(path)
    assert same(estimator, loaded)
    assert (loaded.model_.path, loaded.n_features_in_) == (path, 60)
    np.testing.assert_array_equal(loaded.classes_, estimator.classes_)
    with pytest.raises(InputError, match="already exists"):
        loaded.save(path)
    before = contents(path)
    loaded.save(path, overwrite=True)  # replaces the files that are mapped
    assert contents(path) == before
    assert same(estimator, loaded)
    loaded.set_params(beam=2).save(path, overwrite=True)
    assert LabelTreeClassifier.load(path, verify=True).beam == 2
    assert sorted(tmp_path.iterdir()) == [path]


def test_the_command_line_reads_a_saved_estimator(estimator, tmp_path, run):
    estimator.save(tmp_path / "model")
    labels, _ = labeltree.load(tmp_path / "model").predict(TEST.X, top=3, beam=4)
    np.testing.assert_array_equal(labels, estimator.predict_top(TEST.X, 3)[0])
    code, out, _ = run("info", tmp_path / "model", "--json")
    assert code == 0
    assert json.loads(out)["notes"] == {"clusters": 5, "max_depth": 6}
    assert run("compress", tmp_path / "model", tmp_path / "small", "--prune", 0.1)[0] == 0
    assert LabelTreeClassifier.load(tmp_path / "small").get_params() == estimator.get_params()


def test_a_model_of_the_command_line_loads_as_an_estimator(folder):
    loaded = LabelTreeClassifier.load(folder / "named-model")
    used = loaded.model_.manifest["settings"]  # the costs of its data, since none were given
    expected = LabelTreeClassifier(clusters=5, cost=used["cost"], max_cost=used["max_cost"])
    assert loaded.get_params() == expected.get_params()
    assert sorted(loaded.classes_) == sorted(f"größe-{label}" for label in range(40))
    assert tuple(loaded.classes_) == loaded.model_.label_names
    test = labeltree.read_svm(folder / "test.svm")
    labels, _ = labeltree.load(folder / "model").predict(test.X)
    np.testing.assert_array_equal(LabelTreeClassifier.load(folder / "model").predict_top(test.X)[0], labels)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["b", "ä", "c", "d"]),
        np.array(["b", "ä", "c", "d"], dtype=object),
        np.array([3, -1, 7, 5]),
        np.array([0, 1, 2, 3], dtype=np.uint8),
        np.array([2.0, 1.0, 4.0, 3.0]),
        np.array([True, False, True, False]),
    ],
    ids=lambda classes: classes.dtype.str,
)
def test_classes_survive_save_and_pickle(classes, tmp_path):
    data = topic_data()
    y = classes[data.Y.indices // 5]
    X = pd.DataFrame(data.X.toarray(), columns=[f"f{j}" for j in range(data.n_features)])
    fitted = LabelTreeClassifier(threads=1).fit(X, y)
    fitted.save(tmp_path / "model")
    for other in (LabelTreeClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.classes_, fitted.classes_)
        assert other.classes_.dtype == fitted.classes_.dtype
        np.testing.assert_array_equal(other.predict(X), y)
        assert list(other.feature_names_in_) == list(X.columns)
        assert other.score(X, y) == 1


def test_an_invalid_description_is_refused(estimator, tmp_path):
    estimator.model_.save(tmp_path / "model", extra={"estimator": {"parameters": {"depth": 3}}})
    with pytest.raises(InputError, match="does not describe an estimator"):
        LabelTreeClassifier.load(tmp_path / "model")
    assert labeltree.load(tmp_path / "model").n_labels == 40


def test_copies_are_equal_and_independent(estimator, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    original = LabelTreeClassifier(**SMALL, trees=2, beam=4).fit(DATA.X, DATA.Y)
    copies = [
        pickle.loads(pickle.dumps(original)),
        pickle.loads(pickle.dumps(original, protocol=2)),
        copy.deepcopy(original),
        clone(original).fit(DATA.X, DATA.Y),
    ]
    del original
    assert all(same(estimator, other) for other in copies)
    copies[0].model_.verify()
    copies[0].save(tmp_path / "one")
    estimator.save(tmp_path / "other")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    assert {path.name for path in tmp_path.iterdir()} == {"one", "other"}


FORK = """
import os, sys
from helpers import make_data
from labeltree import LabelTreeClassifier
estimator = LabelTreeClassifier(clusters=5, threads=2)
data, test = make_data(300), make_data(40, seed=1)
good = estimator.fit(data.X, data.Y).score(test.X, test.Y)
child = os.fork()
if child == 0:
    os._exit(0 if estimator.score(test.X, test.Y) == good > 0.5 else 1)
code = os.waitpid(child, 0)[1]
sys.exit(code or estimator.score(test.X, test.Y) != good)
"""


def test_a_forked_process_can_predict():
    run_python(FORK)  # not in the process of pytest, which has threads


def test_pipeline_from_text_to_labels():
    texts = ["red apple", "green apple", "red car", "blue car", "green pear"] * 4
    tags = MultiLabelBinarizer(sparse_output=True).fit_transform([text.split() for text in texts])
    pipeline = make_pipeline(TfidfVectorizer(), LabelTreeClassifier(clusters=3, threads=1)).fit(texts, tags)
    assert (pipeline.predict(texts, top=2) != tags).nnz == 0
    assert pipeline.score(texts, tags) == 1
    assert scorers.precision_at(2)(pipeline, texts, tags) == 1
    assert sparse.issparse(pipeline.decision_function(texts))
    search = GridSearchCV(
        pipeline, {"labeltreeclassifier__cost": [0.1, 1]}, scoring=scorers.recall_at(2), cv=KFold(2)
    )
    assert search.fit(texts, tags).best_score_ == 1


def test_sample_weight_is_routed():
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    split = [(np.arange(250), np.arange(250, 300))]
    heavy = np.r_[weights[:250], np.arange(50.0)]
    with sklearn.config_context(enable_metadata_routing=True):
        last = LabelTreeClassifier(**SMALL).set_fit_request(sample_weight=True)
        last.set_score_request(sample_weight=True)
        pipeline = Pipeline([("scale", MaxAbsScaler()), ("last", last)])
        found = pipeline.fit(DATA.X, DATA.Y, sample_weight=weights).predict_proba(TEST.X)
        (value,) = cross_val_score(last, DATA.X, DATA.Y.toarray(), cv=split, params={"sample_weight": heavy})
    scale, alone = MaxAbsScaler().fit(DATA.X), LabelTreeClassifier(**SMALL)
    expected = alone.fit(scale.transform(DATA.X[:200]), DATA.Y[:200]).predict_proba(scale.transform(TEST.X))
    assert (found != expected).nnz == 0
    alone.fit(DATA.X[:200], DATA.Y[:200])
    assert value == alone.score(DATA.X[250:], DATA.Y[250:], sample_weight=np.arange(50.0))
    assert value != alone.score(DATA.X[250:], DATA.Y[250:])


def test_scorers_take_weights(estimator):
    k, weights = 3, np.arange(40) % 3
    rows = np.repeat(np.arange(40), weights)
    known = metrics.propensities(DATA.Y)
    for scorer in (
        scorers.precision_at(k),
        scorers.recall_at(k),
        scorers.ndcg_at(k),
        scorers.propensity_scored_precision_at(k, known),
        scorers.propensity_scored_ndcg_at(k, known),
    ):
        weighted = scorer(estimator, TEST.X, TEST.Y, sample_weight=weights)
        assert weighted == pytest.approx(scorer(estimator, TEST.X[rows], TEST.Y[rows]))
        assert weighted != scorer(estimator, TEST.X, TEST.Y)


def test_weights_are_routed_to_scorers():
    weights, Y = np.random.default_rng(0).integers(0, 3, 300).astype(float), DATA.Y.toarray()
    split = [(np.arange(200), np.arange(200, 300))]
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = LabelTreeClassifier(**SMALL).set_fit_request(sample_weight=True)
        routed = {
            "weighted": scorers.precision_at(1).set_score_request(sample_weight=True),
            "plain": scorers.precision_at(1).set_score_request(sample_weight=False),
            "heavy": scorers.precision_at(1).set_score_request(sample_weight="heavy"),
        }
        params = {"sample_weight": weights, "heavy": weights**3}
        found = cross_validate(classifier, DATA.X, Y, scoring=routed, cv=split, params=params)
        search = GridSearchCV(classifier, {"cost": [1.0]}, scoring=routed["weighted"], cv=split)
        best = search.fit(DATA.X, DATA.Y, sample_weight=weights).best_score_
        one = pickle.loads(pickle.dumps(routed["weighted"]))
        (value,) = cross_val_score(
            classifier, DATA.X, Y, scoring=one, cv=split, params={"sample_weight": weights}
        )
        with pytest.raises(
            sklearn.exceptions.UnsetMetadataPassedError, match=r"RankingScorer.set_score_requ"
        ):
            cross_validate(
                classifier,
                DATA.X,
                Y,
                scoring=scorers.precision_at(1),
                cv=split,
                params={"sample_weight": weights},
            )
    alone = LabelTreeClassifier(**SMALL).fit(DATA.X[:200], Y[:200], sample_weight=weights[:200])
    expected = [alone.score(DATA.X[200:], Y[200:], w) for w in (weights[200:], None, weights[200:] ** 3)]
    assert [found[f"test_{name}"][0] for name in routed] == pytest.approx(expected)
    assert len(set(expected)) == 3
    assert value == pytest.approx(expected[0])
    alone.set_params(cost=1.0).fit(DATA.X[:200], Y[:200], sample_weight=weights[:200])
    assert best == pytest.approx(alone.score(DATA.X[200:], Y[200:], weights[200:]))


@pytest.mark.parametrize(
    ("metric", "methods"),
    [
        (label_ranking_average_precision_score, ("decision_function", "predict_proba")),
        (label_ranking_loss, ("decision_function",)),
        (coverage_error, ("decision_function",)),
        (ndcg_score, ("predict_proba",)),
    ],
)
def test_ranking_metrics_of_scikit_learn(metric, methods):
    Y = DATA.Y.toarray().astype(int)
    dense = LabelTreeClassifier(**SMALL, beam=40, sparse_output=False)
    fitted = dense.fit(DATA.X[:200], Y[:200])
    for method in methods:
        scorer = make_scorer(metric, response_method=method)
        expected = metric(Y[200:], LabelTreeClassifier.predict_proba(fitted, DATA.X[200:]))
        assert scorer(fitted, DATA.X[200:], Y[200:]) == expected
        split = [(np.arange(200), np.arange(200, 300))]
        assert cross_val_score(dense, DATA.X, Y, scoring=scorer, cv=split) == [expected]


@pytest.mark.parametrize("k", [1, 5])
def test_scorers_are_the_metrics(estimator, k):
    labels, _ = estimator.predict_top(TEST.X, k)
    known = metrics.propensities(DATA.Y)
    pairs = [
        (scorers.precision_at(k), metrics.precision_at_k, ()),
        (scorers.recall_at(k), metrics.recall_at_k, ()),
        (scorers.ndcg_at(k), metrics.ndcg_at_k, ()),
        (
            scorers.propensity_scored_precision_at(k, known),
            metrics.propensity_scored_precision_at_k,
            (known,),
        ),
        (scorers.propensity_scored_ndcg_at(k, known), metrics.propensity_scored_ndcg_at_k, (known,)),
    ]
    for scorer, metric, more in pairs:
        expected = metric(TEST.Y, labels, k, *more)
        assert scorer(estimator, TEST.X, TEST.Y) == expected
        assert pickle.loads(pickle.dumps(scorer))(estimator, TEST.X, TEST.Y.toarray()) == expected


def test_scorers_accept_other_classifiers():
    rest = OneVsRestClassifier(LinearSVC()).fit(DATA.X, DATA.Y)
    scores = rest.decision_function(TEST.X)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    assert scorers.precision_at(3)(rest, TEST.X, TEST.Y) == metrics.precision_at_k(TEST.Y, best, 3)
    with pytest.raises(InputError, match="k is 0, expected an integer of at least 1"):
        scorers.precision_at(0)


def test_scorers_accept_one_class_per_row():
    data = topic_data()
    for classes in (np.array(["a", "b", "c", "d"]), np.array(["a", "b", "b", "b"])):
        y = classes[data.Y.indices // 5]
        for model in (LabelTreeClassifier(threads=1), LogisticRegression()):
            fitted = model.fit(data.X, y)
            assert scorers.precision_at(1)(fitted, data.X, y) == fitted.score(data.X, y) == 1
            assert scorers.recall_at(5)(fitted, data.X, y) == 1
            assert scorers.precision_at(1)(fitted, data.X, np.full(len(y), "z")) == 0
