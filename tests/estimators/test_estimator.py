"""LabelTreeClassifier agrees with the functions of labeltree, and handles what scikit-learn passes to it."""

import re
import subprocess
import sys
import tempfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers import contents, disk_bytes, make_data, random_data, topic_data
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError

import labeltree
from labeltree import InputError, LabelTree, LabelTreeClassifier, build_tree, make_plan, train_model
from labeltree.errors import ResourceError
from labeltree.estimators.scorers import precision_at
from labeltree.settings import ScoreSettings, SolverSettings

DATA = make_data(300)
TEST = make_data(40, seed=1)
CLASSES = np.array(["Apfel", "Birne", "Citrus", "Öl"])
SMALL = {"clusters": 5, "threads": 1}


def fitted(**parameters):
    return LabelTreeClassifier(**(SMALL | parameters)).fit(DATA.X, DATA.Y)


def topics():
    """Data with four classes, one per row."""
    data = topic_data()
    return data.X.toarray(), CLASSES[data.Y.indices // 5]


def test_predicts_what_the_functions_predict(tmp_path):
    data = DATA.normalize()
    trees = [build_tree(data, clusters=5, max_depth=3, seed=7 + t) for t in range(2)]
    solver = {"loss": "logistic", "cost": 2, "tolerance": 0.01, "max_iterations": 50, "bias": 0.5, "seed": 7}
    model = train_model(data, make_plan(data, trees, SolverSettings(**solver)), tmp_path / "model")
    estimator = fitted(max_depth=3, trees=2, beam=3, score_scale=1.5, **solver)
    for score in ({"score_scale": 1.5}, {"score": "hinge3"}):
        if "score" in score:
            estimator.set_params(score_function="hinge3")
        expected = model.predict(TEST.X, top=7, beam=3, **score)
        for one, two in zip(estimator.predict_top(TEST.X, 7), expected, strict=True):
            np.testing.assert_array_equal(one, two)


def test_fit_stores_the_score():
    assert fitted().model_.score == ScoreSettings()
    assert fitted(score_function="hinge3").model_.score == ScoreSettings("hinge3")
    assert fitted(score_scale=2).model_.score == ScoreSettings("sigmoid", 2.0)


@pytest.mark.parametrize("parameters", [{"weights": "float16"}, {"weights": "int8"}, {"prune": 0.05}])
def test_fit_stores_compact_weights(tmp_path, parameters):
    estimator, large = fitted(**parameters), fitted().model_
    plan = estimator.estimate(DATA.X, DATA.Y)
    assert estimator.model_.bytes < 0.8 * large.bytes
    assert estimator.model_.bytes <= plan.model_bytes
    assert plan.is_exact == (estimator.model_.bytes == plan.model_bytes) == ("prune" not in parameters)
    estimator.save(tmp_path / "model")
    large.save(tmp_path / "large")
    labeltree.load(tmp_path / "large").compress(tmp_path / "compact", **parameters)
    for name in ("model", "compact"):
        found = LabelTreeClassifier.load(tmp_path / name)
        assert {name: getattr(found, name) for name in parameters} == parameters
        np.testing.assert_array_equal(found.predict_top(TEST.X)[0], estimator.predict_top(TEST.X)[0])


def test_parameters_have_the_names_and_defaults_of_the_command_line():
    from dataclasses import fields
    from inspect import signature

    from labeltree.cli.commands.predict import predict
    from labeltree.cli.commands.train import train
    from labeltree.cli.options import as_command
    from labeltree.cli.reading import Text

    shell = {**signature(as_command(predict)).parameters, **signature(as_command(train)).parameters}
    ours = {"score" if name == "score_function" else name: value for name, value in DEFAULTS.items()}
    assert ours.pop("sparse_output") is True  # of the estimator only
    assert ours == {name: getattr(shell[name].default, "value", shell[name].default) for name in ours}
    about_files = {"data", "model", "overwrite", "one_based", "quiet", "json", "output", "format", "top"}
    about_files |= {"id_column", "settings", "max_size", "help_all"}
    about_answers = {"accepted", "threshold"}  # arguments of predict
    about_trees = {"tree_rest"}  # of a tree in a file
    about_text = {item.name for item in fields(Text)}
    about_runs = {"dask", "holdout", "resume", "sync"}
    assert set(shell) - set(ours) == about_files | about_answers | about_runs | about_trees | about_text


DEFAULTS = LabelTreeClassifier().get_params()


def test_all_forms_of_x_and_y_give_the_same_model(tmp_path):
    fitted().save(tmp_path / "model")
    expected = contents(tmp_path / "model")
    forms = [
        (DATA.X.tocsc(), DATA.Y.tocoo()),
        (sparse.csr_array(DATA.X), sparse.csc_array(DATA.Y, dtype=bool)),
        (DATA.X.toarray(), DATA.Y.toarray().astype(int)),
        (DATA.X.toarray().tolist(), DATA.Y.toarray().tolist()),
    ]
    for X, Y in forms:
        LabelTreeClassifier(**SMALL).fit(X, Y).save(tmp_path / "other", overwrite=True)
        assert contents(tmp_path / "other") == expected


def test_scores_are_sparse_and_limited_to_the_beam():
    estimator = fitted(beam=1)
    scores = estimator.predict_proba(TEST.X)
    assert scores.format == "csr"
    assert scores.shape == (40, 40)
    assert 0 < np.diff(scores.indptr).min() <= np.diff(scores.indptr).max() < 40
    assert scores.has_sorted_indices
    assert (estimator.decision_function(TEST.X) != scores).nnz == 0
    labels, best = estimator.predict_top(TEST.X, 40)
    assert (np.diff(scores.indptr) == (labels >= 0).sum(axis=1)).all()
    np.testing.assert_array_equal(scores.max(axis=1).toarray()[:, 0], best[:, 0])
    everything = fitted(beam=40).predict_proba(TEST.X)
    assert everything.nnz == 40 * 40


def test_arrays_instead_of_sparse_matrices(tmp_path):
    sparse_one, dense = fitted(beam=1), fitted(beam=1, sparse_output=False)
    for method in ("predict", "predict_proba", "decision_function"):
        expected, found = getattr(sparse_one, method)(TEST.X), getattr(dense, method)(TEST.X)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected.toarray())
        assert found.dtype == expected.dtype
    dense.save(tmp_path / "model")
    assert type(LabelTreeClassifier.load(tmp_path / "model").predict(TEST.X)) is np.ndarray


def test_an_array_that_does_not_fit_in_memory_is_refused(monkeypatch):
    data, y = topics()
    several, single = fitted(sparse_output=False), LabelTreeClassifier(**SMALL).fit(data, y)
    monkeypatch.setattr("labeltree.estimators.predictor.available_memory", lambda: 12_000)
    what = "an array of 40 rows and 40 labels takes 12.8 kB, but only 12.0 kB are available"
    with pytest.raises(
        ResourceError, match=re.escape(f"{what}; pass fewer rows, or use predict_top or spar")
    ):
        several.decision_function(TEST.X)
    assert several.set_params(force=True).decision_function(TEST.X).shape == (40, 40)
    assert several.set_params(force=False, sparse_output=True).predict(TEST.X).shape == (40, 40)
    assert single.predict_proba(data).shape == (len(y), 4)
    monkeypatch.setattr("labeltree.estimators.predictor.available_memory", lambda: 0)
    with pytest.raises(ResourceError, match=re.escape("; pass fewer rows, or use predict_top") + "$"):
        single.predict_proba(data)


def test_scores_do_not_depend_on_how_many_rows_are_searched_at_once(monkeypatch):
    estimator = fitted()
    whole = estimator.predict_proba(TEST.X)
    monkeypatch.setattr("labeltree.estimators.predictor._PAIRS_AT_ONCE", 100)
    assert (estimator.predict_proba(TEST.X) != whole).nnz == 0


def test_predict_by_threshold_and_by_top():
    estimator = fitted()
    scores = estimator.predict_proba(TEST.X).toarray()
    for threshold in (0.1, 0.9):
        found = estimator.predict(TEST.X, threshold=threshold)
        assert found.format == "csr"
        assert found.dtype.kind == "i"
        np.testing.assert_array_equal(found.toarray(), scores >= threshold)
    chosen = estimator.model_.decision.threshold
    np.testing.assert_array_equal(estimator.predict(TEST.X).toarray(), scores >= np.float32(chosen))
    three = estimator.predict(TEST.X, top=3).toarray()
    labels, _ = estimator.predict_top(TEST.X, 3)
    np.testing.assert_array_equal(np.sort(labels), np.nonzero(three)[1].reshape(-1, 3))
    both = estimator.predict(TEST.X, top=3, threshold=0.3).toarray()
    np.testing.assert_array_equal(both, three * (scores >= 0.3))


@pytest.mark.parametrize("kind", [list, LabelTree.from_nested])
def test_a_given_tree_is_used_and_survives_saving(kind, tmp_path):
    nested = [list(range(20)), list(range(20, 40))]
    estimator = fitted(tree=kind(nested))
    built = estimator.model_.trees[0].tree
    np.testing.assert_array_equal(built.children, LabelTree.from_nested(nested).children)
    estimator.save(tmp_path / "model")
    for other in (clone(estimator), clone(LabelTreeClassifier.load(tmp_path / "model"))):
        scores = other.fit(DATA.X, DATA.Y).predict_proba(TEST.X)
        assert (scores != estimator.predict_proba(TEST.X)).nnz == 0


def test_score_is_p_at_1_and_takes_weights():
    estimator = fitted()
    hits = TEST.Y.toarray()[np.arange(40), estimator.predict_top(TEST.X, 1)[0][:, 0]]
    assert 0 < hits.mean() < 1
    assert estimator.score(TEST.X, TEST.Y) == pytest.approx(hits.mean())
    half = np.arange(len(hits)) % 2  # rows without labels are left out
    some = TEST.Y.multiply(half[:, None]).tocsr()
    assert estimator.score(TEST.X, some) == pytest.approx(hits[half == 1].mean())
    assert estimator.score(TEST.X, 0 * TEST.Y) == 0
    weighted = estimator.score(TEST.X, TEST.Y.toarray(), sample_weight=hits + 1)
    assert weighted == pytest.approx(np.average(hits, weights=hits + 1))


def test_estimate_is_the_size_on_disk_and_changes_nothing(tmp_path):
    estimator = LabelTreeClassifier(**SMALL, trees=2)
    plan = estimator.estimate(DATA.X, DATA.Y)
    assert vars(estimator) == LabelTreeClassifier(**SMALL, trees=2).get_params()
    estimator.fit(DATA.X, DATA.Y).save(tmp_path / "model")
    assert disk_bytes(tmp_path / "model") == plan.model_bytes == estimator.model_.bytes


def test_one_class_per_row():
    X, y = topics()
    estimator = LabelTreeClassifier(threads=1).fit(X, y)
    np.testing.assert_array_equal(estimator.classes_, CLASSES)
    np.testing.assert_array_equal(estimator.predict(X), y)
    assert estimator.score(X, y) == 1
    probabilities = estimator.predict_proba(X)
    assert isinstance(probabilities, np.ndarray)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(CLASSES[probabilities.argmax(axis=1)], y)
    np.testing.assert_array_equal(CLASSES[estimator.decision_function(X).argmax(axis=1)], y)
    np.testing.assert_array_equal(CLASSES[estimator.predict_top(X, 2)[0][:, 0]], y)
    assert estimator.score(X, np.where(y == "Birne", "unknown", y)) == pytest.approx(np.mean(y != "Birne"))


def test_a_tree_of_classes_by_name():
    X, y = topics()
    tree = [["Öl", "Birne"], ["Citrus", "Apfel"]]
    estimator = LabelTreeClassifier(threads=1, tree=tree, beam=1).fit(X, y)
    np.testing.assert_array_equal(estimator.predict(X), y)
    scores = estimator.predict_proba(X)  # 0 for classes outside the beam
    np.testing.assert_allclose(scores.sum(axis=1), 1)
    reached = scores[y == "Citrus"] > 0
    np.testing.assert_array_equal(reached, [[True, False, True, False]] * len(reached))


def test_two_classes_have_one_decision():
    X, y = topics()
    estimator = LabelTreeClassifier(threads=1).fit(X, y == "Birne")
    decision = estimator.decision_function(X)
    assert decision.shape == (len(X),)
    np.testing.assert_array_equal(decision > 0, y == "Birne")
    np.testing.assert_array_equal(estimator.predict_proba(X)[:, 1] > 0.5, y == "Birne")


def test_names_of_data_frames():
    X = pd.DataFrame(DATA.X.toarray(), columns=[f"word {j}" for j in range(60)])
    Y = pd.DataFrame(DATA.Y.toarray(), columns=[f"label {j}" for j in range(40)])
    estimator = LabelTreeClassifier(**SMALL).fit(X, Y)
    assert estimator.n_features_in_ == 60
    assert list(estimator.feature_names_in_) == list(X.columns)
    assert list(estimator.classes_) == list(Y.columns)
    assert estimator.model_.label_names == tuple(Y.columns)
    assert estimator.score(X, Y) == fitted().score(DATA.X, DATA.Y)
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(X[X.columns[::-1]])
    kept_sparse = pd.DataFrame.sparse.from_spmatrix(DATA.Y, columns=Y.columns)
    other = LabelTreeClassifier(**SMALL).fit(pd.DataFrame.sparse.from_spmatrix(DATA.X), kept_sparse)
    assert list(other.classes_) == list(Y.columns)
    assert (other.predict_proba(TEST.X) != fitted().predict_proba(TEST.X)).nnz == 0


def test_columns_in_another_order():
    X, Y = DATA.X, pd.DataFrame(DATA.Y.toarray(), columns=[f"label {j}" for j in range(40)])
    estimator = LabelTreeClassifier(**SMALL).fit(X, Y)
    assert estimator.score(X, Y) == estimator.score(X, Y.to_numpy()) == fitted().score(X, Y)
    for other in (Y[Y.columns[::-1]], Y.rename(columns={"label 0": "label 00"})):
        with pytest.raises(InputError, match=r"column 0 of Y is 'label (39|00)'.* in the same order"):
            estimator.score(X, other)


def test_weights_are_costs_and_zero_leaves_a_row_out():
    weights = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    kept = weights > 0
    X, Y = DATA.X[kept], DATA.Y[kept]
    twice = np.full(kept.sum(), 2.0)
    scores = [
        LabelTreeClassifier(**SMALL, cost=cost).fit(*data).predict_proba(TEST.X).toarray()
        for cost, *data in (
            (None, DATA.X, DATA.Y, weights),
            (None, X, Y, weights[kept]),
            (2, X, Y),
            (1, X, Y, twice),
        )
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[2], scores[3])
    assert (scores[0] != scores[2]).any()


@pytest.mark.parametrize(("max_depth", "loss"), [(1, "squared_hinge"), (6, "squared_hinge"), (6, "logistic")])
def test_weighted_rows_give_the_model_of_repeated_rows(max_depth, loss):
    weights = np.random.default_rng(0).integers(0, 4, 60)
    rows = np.repeat(np.arange(60), weights)
    X, Y = DATA.X[:60], DATA.Y[:60]
    nested = [[list(range(a, a + 5)) for a in range(b, b + 20, 5)] for b in (0, 20)]
    exact = {"threads": 1, "tolerance": 1e-10, "max_iterations": 10_000, "tree": nested, "loss": loss}
    exact |= {"tree": None, "max_depth": 1} if max_depth == 1 else {}
    weighted = LabelTreeClassifier(**exact).fit(X, Y, sample_weight=weights)
    repeated = LabelTreeClassifier(**exact).fit(X[rows], Y[rows])
    plain = LabelTreeClassifier(**exact).fit(X, Y)
    costs = [found.model_.manifest["settings"]["cost"] for found in (weighted, repeated, plain)]
    assert costs[0] == costs[1] != costs[2]
    # Those of nodes, too.
    scores = [found.predict_proba(TEST.X).toarray() for found in (weighted, repeated)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-5)


def test_weights_and_repeated_rows_are_equally_precise_with_the_default_settings():
    weights = np.random.default_rng(1).integers(1, 9, 300)
    rows = np.repeat(np.arange(300), weights)
    weighted = LabelTreeClassifier(threads=1).fit(DATA.X, DATA.Y, sample_weight=weights)
    repeated = LabelTreeClassifier(threads=1).fit(DATA.X[rows], DATA.Y[rows])
    precisions = [found.score(TEST.X, TEST.Y) for found in (weighted, repeated)]
    assert precisions[0] == pytest.approx(precisions[1], abs=0.05)  # two of 40 rows
    assert min(precisions) > 0.5


def test_a_label_without_rows():
    data = random_data(empty_label=True)
    estimator = LabelTreeClassifier(clusters=3, threads=1).fit(data.X, data.Y)
    assert estimator.model_.label_counts[-1] == 0
    assert estimator.predict(data.X, top=1).getnnz(axis=0)[-1] == 0


def test_a_sparse_column_is_one_label_and_a_dense_one_has_classes():
    one, estimator = DATA.Y[:, :1], LabelTreeClassifier(threads=1, cost=1000)
    assert (estimator.fit(DATA.X, one).predict(DATA.X) != one).nnz == 0
    with pytest.warns(DataConversionWarning, match="column-vector"):
        estimator.fit(DATA.X, one.toarray())
    np.testing.assert_array_equal(estimator.predict(DATA.X), one.toarray()[:, 0])


NAN = DATA.X.toarray()
NAN[3, 4] = np.nan
BAD = {
    "no positive": (DATA.X, DATA.Y * 0, "no row of y has a label"),
    "no columns": (DATA.X, np.zeros((300, 0)), "no row of y has a label"),
    "NaN": (NAN, DATA.Y, "X contains NaN, infinity"),
    "lengths": (DATA.X, DATA.Y[:-1], "X has 300 rows and Y has 299"),
    "lengths of classes": (DATA.X, np.arange(299) % 3, "X has 300 rows and Y has 299"),
    "no y": (DATA.X, None, "the target y is None"),
    "signs": (DATA.X, 2 * DATA.Y.toarray() - 1, "Y contains the value -1, expected only 0 and 1"),
    "lists": (DATA.X, [[1, 2]] * 299 + [[3]], "Y has rows of different lengths"),
    "NaN in y": (DATA.X, np.full(300, np.nan), "y[0] is missing"),
    "continuous y": (DATA.X, np.linspace(0, 1, 300), "Unknown label type: continuous"),
    "text": (DATA.X, np.full((300, 2), "a"), "Y contains <U1 values"),
    "depth": (DATA.X, np.zeros((300, 2, 2)), "Y has 3 dimensions, expected 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data(case):
    X, Y, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        LabelTreeClassifier(**SMALL).fit(X, Y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(299), "sample_weight has shape (299,), expected one weight for each of the 300 rows"),
        (-np.ones(300), "sample_weight contains a negative number"),
        (np.full(300, np.nan), "sample_weight contains a negative number, NaN"),
        (np.zeros(300), "every sample_weight is zero"),
        (np.full(300, 1e-20), "the weight of a row times cost ranges from 2e-20 to "),
    ],
)
def test_bad_weights(weights, message):
    estimator = LabelTreeClassifier(**SMALL)
    with pytest.raises(InputError, match=re.escape(message)):
        estimator.fit(DATA.X, DATA.Y, sample_weight=weights)
    if message.startswith("the weight of a row times cost"):
        return
    estimator.fit(DATA.X, DATA.Y)
    for score in (estimator.score, partial(precision_at(1), estimator)):
        with pytest.raises(InputError, match=re.escape(message)):
            score(DATA.X, DATA.Y, sample_weight=weights)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"clusters": 2.5}, "clusters is 2.5, expected an integer"),
        ({"max_depth": True}, "max_depth is True, expected an integer"),
        ({"tree": "abc"}, "tree is 'abc', expected None or a LabelTree or nested lists"),
        ({"tree": [0, 1], "trees": 2}, "a tree cannot be combined with trees=2"),
        ({"seed": None}, "seed is None, expected an integer of at least 0"),
        ({"cost": np.nan}, "cost is nan, expected None or a number"),
        ({"cost": 10**400}, "expected None or a number from 1e-15"),
        ({"prune": 0.1, "weights": "float16"}, "pruned weights are stored as int8, not as float16"),
        ({"score_function": "tanh"}, "score_function is 'tanh', expected one of auto, sigmoid, hinge2"),
        ({"memory_limit": "much"}, "memory_limit is 'much', expected None or a number of bytes"),
        ({"memory_limit": "1MB"}, "but only 1.0 MB can be used"),
        ({"force": 1}, "force is 1, expected True or False"),
    ],
)
def test_bad_parameters(parameters, expected):
    with pytest.raises(InputError, match=re.escape(expected)) as caught:
        fitted(**parameters)
    assert "\n" not in str(caught.value)


def test_numpy_numbers_are_numbers_and_force_ignores_the_memory_limit():
    numbers = {"clusters": np.int64(5), "cost": np.float32(1), "max_iterations": np.int32(300)}
    estimator = fitted(seed=np.uint8(0), memory_limit="1MB", force=True, **numbers)
    assert (estimator.predict_proba(TEST.X) != fitted(cost=1).predict_proba(TEST.X)).nnz == 0


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("predict_top", (TEST.X, 0), "k is 0, expected an integer of at least 1"),
        ("predict", (TEST.X[:, :50],), "60 features"),
        ("score", (TEST.X, TEST.Y[:, :30]), "Y has 30 columns, expected 40 as in fit"),
        ("score", (TEST.X, np.arange(40) % 3), "y is one class per row, expected an indicator matrix"),
        ("score", (TEST.X, TEST.Y[:-1]), "X has 40 rows and Y has 39"),
    ],
)
def test_bad_arguments_of_predictions(method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted(), method)(*arguments)


def test_bad_options_of_predict():
    with pytest.raises(NotFittedError):
        LabelTreeClassifier().predict_top(TEST.X, 1)
    with pytest.raises(InputError, match="threshold is 2, expected None or a number from 0 to 1"):
        fitted().predict(TEST.X, threshold=2)
    X, y = topics()
    with pytest.raises(InputError, match="use predict_top"):
        LabelTreeClassifier(threads=1).fit(X, y).predict(X, top=2)


def test_fit_leaves_no_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match="too large"):
        LabelTreeClassifier(**SMALL, normalize=False).fit(DATA.X * 1e20, DATA.Y)
    estimator = fitted()
    assert not list(tmp_path.iterdir())
    assert estimator.model_.path is None
    assert estimator.score(TEST.X, TEST.Y) > 0.5
    estimator.model_.verify()


def test_scikit_learn_is_imported_only_when_needed():
    check = "import sys, labeltree.cli, labeltree.training; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
    assert labeltree.LabelTreeClassifier is LabelTreeClassifier
