"""LabelTreeClassifier with texts and names of labels, in every form; and the messages for mistakes."""

import pickle
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers import make_data
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline

import labeltree
from labeltree import InputError, LabelTreeClassifier
from labeltree.estimators import scorers
from labeltree.evaluation.accepted import Decision

TRUSTED = "labeltree.estimators.classifier.LabelTreeClassifier"  # also in docs/scikit-learn.md
TEXTS = ["red apple", "green apple", "red car", "blue car", "green pear"] * 4
NAMES = [text.split() for text in TEXTS]
FRAME = pd.DataFrame({"title": TEXTS, "pages": 1.0, "labels": NAMES})
X, Y = make_data(20).X, make_data(20).Y


class Column(Sequence):
    """A column like those of Hugging Face's datasets."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return self.values[key]


def objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def classifier(**parameters):
    return LabelTreeClassifier(clusters=3, threads=1, **parameters)


def chunked(values):
    return pa.chunked_array([values])


def variable(texts):
    return np.array(texts, np.dtypes.StringDType())


COLUMNS = [list, tuple, objects, pd.Series, pl.Series, pa.array, chunked, Column]


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(TEXTS, NAMES)


def test_texts_in_any_form_give_the_model_of_train(fitted):
    model = labeltree.train(TEXTS, NAMES, clusters=3)
    assert list(fitted.classes_) == list(model.label_names) == sorted({*" ".join(TEXTS).split()})
    expected = model.predict_matrix(TEXTS, top=6)
    for form in [*COLUMNS, np.array, variable, lambda texts: [*map(np.str_, texts)]]:
        texts = form(TEXTS)
        scores = classifier().fit(texts, NAMES).predict_proba(texts)
        assert (scores != expected).nnz == 0
        assert cross_validate(fitted, texts, NAMES, cv=KFold(2))["test_score"].mean() == 1
        assert (fitted.decision_function(texts) != expected).nnz == 0


@pytest.mark.parametrize("form", [*COLUMNS, lambda rows: [*map(set, rows)], lambda rows: [*map(tuple, rows)]])
def test_labels_in_any_form(fitted, form):
    labels = form(NAMES)
    other = classifier().fit(TEXTS, labels)
    np.testing.assert_array_equal(other.classes_, fitted.classes_)
    assert (other.predict_proba(TEXTS) != fitted.predict_proba(TEXTS)).nnz == 0
    assert other.score(TEXTS, labels) == scorers.recall_at(2)(other, TEXTS, labels) == 1
    cv = KFold(2)
    assert cross_validate(other, TEXTS, labels, cv=cv, error_score="raise")["test_score"].mean() == 1
    scorer = scorers.precision_at(2)
    search = GridSearchCV(other, {"cost": [0.1, 1]}, scoring=scorer, cv=cv, error_score="raise")
    assert search.fit(TEXTS, labels).best_score_ == 1
    pipeline = make_pipeline(TfidfVectorizer(), classifier()).fit(TEXTS, labels)
    assert pipeline.score(TEXTS, labels) == scorer(pipeline, TEXTS, labels) == 1


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_matrices_of_any_library(frame):
    data = make_data(60)
    x = {f"x{j}": column for j, column in enumerate(data.X.toarray().T)}
    y = {f"y{j}": column for j, column in enumerate(data.Y.toarray().T)}
    other = classifier().fit(frame(x), frame(y))
    expected = classifier().fit(data.X, data.Y)
    assert (other.predict_proba(frame(x)) != expected.predict_proba(data.X)).nnz == 0
    assert list(other.classes_) == list(y)
    assert list(other.feature_names_in_) == list(x)
    assert other.score(frame(x), frame(y)) == expected.score(data.X, data.Y)
    # Texts with a matrix of labels, and names of labels with a matrix of features.
    assert list(classifier().fit(frame({"texts": TEXTS * 3})["texts"], frame(y)).classes_) == list(y)
    assert list(classifier().fit(frame(x), NAMES * 3).classes_)[:2] == ["apple", "blue"]


def test_what_predictions_for_texts_are(fitted):
    found = fitted.predict(["a red apple"])
    assert list(fitted.classes_[found.toarray()[0] == 1]) == ["apple", "red"]
    labels, scores = fitted.predict_top(["red apple", "unknown words", None], 2)
    assert {*fitted.classes_[labels[0]]} == {"red", "apple"}
    np.testing.assert_array_equal(labels[1:], -1)
    np.testing.assert_array_equal(scores[1:], 0)
    assert fitted.predict([]).shape == (0, 6)
    assert fitted.score(["red", "unknown"], [["red"], ["green"]]) == 0.5
    assert scorers.recall_at(2)(fitted, ["red", "red"], [["red", "new"], ["red"]]) == 0.75
    assert type(fitted.set_params(sparse_output=False).predict(["red"])) is np.ndarray
    fitted.set_params(sparse_output=True)


def test_one_class_per_text():
    classes = [names[0] for names in NAMES]
    single = classifier(beam=3).fit(TEXTS, pd.Series(classes, dtype="category"))
    assert list(single.predict(TEXTS)) == classes
    # A text without known words has the most frequent class, as with a prior probability.
    unknown = ["xyz", "", None]
    counts = [classes.count(name) for name in single.classes_]
    assert set(single.predict(unknown)) == {"green"}
    np.testing.assert_allclose(single.predict_proba(unknown), np.array([counts] * 3) / 20)
    assert single.score(unknown, ["green"] * 3) == 1
    assert cross_validate(single, TEXTS, classes, cv=2)["test_score"].mean() == 1


def test_texts_survive_save_and_pickle(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = labeltree.load(tmp_path / "model")
    assert loaded.predict(["red apple"], top=2)[0] == [["red", "apple"]]
    expected = fitted.predict_proba(TEXTS)
    for other in (LabelTreeClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        assert (other.predict_proba(TEXTS) != expected).nnz == 0
        np.testing.assert_array_equal(other.classes_, fitted.classes_)
        assert (other.predict_proba(other.model_.text.transform(TEXTS)) != expected).nnz == 0
    (tmp_path / "data.csv").write_text("text,labels\nred apples,fruit\na blue whale,sea\n")
    labeltree.train(tmp_path / "data.csv", path=tmp_path / "other")
    other = LabelTreeClassifier.load(tmp_path / "other")
    assert other.classes_[other.predict_top(["a whale"], 1)[0][0, 0]] == "sea"


def types_in(value):
    """Return the types of a state, except those of Python and arrays without objects."""
    if isinstance(value, dict):
        return {type(key) for key in value} - {str} | types_in(list(value.values()))
    if type(value) in (list, tuple):
        return set().union(*map(types_in, value))
    plain = type(value) in (str, int, float, bool, type(None))
    return set() if plain or (type(value) is np.ndarray and value.dtype.kind in "biufO") else {type(value)}


@pytest.mark.parametrize("parameters", [{}, {"weights": "int8"}, {"prune": 0.01, "trees": 2}])
def test_the_state_is_arrays_and_builtin_types(parameters):
    of_texts = classifier(**parameters).fit(TEXTS, NAMES)
    thresholds = np.linspace(0.4, 0.6, 6, dtype=np.float32)
    by_label = pickle.loads(pickle.dumps(of_texts))
    by_label.model_.store_decision(Decision(0.5, thresholds=thresholds), None)
    for one in (of_texts, by_label):
        assert types_in(one.__getstate__()) == set()
        other = pickle.loads(pickle.dumps(one))
        assert (other.predict(TEXTS) != one.predict(TEXTS)).nnz == 0
        assert other.model_.text.settings == one.model_.text.settings
    skops = pytest.importorskip("skops.io")
    stored = skops.dumps(of_texts)
    assert skops.get_untrusted_types(data=stored) == [TRUSTED]
    assert (
        skops.loads(stored, trusted=[TRUSTED]).predict_proba(TEXTS) != of_texts.predict_proba(TEXTS)
    ).nnz == 0


def test_texts_that_are_left_out(fitted):
    texts, weights = [*TEXTS, None, "  ", "red herring"], [1.0] * 22 + [0.0]
    with pytest.warns(UserWarning, match="2 of 23 rows have no text"):
        other = classifier().fit(texts, [*NAMES, ["red"], ["car"], ["fish"]], sample_weight=weights)
    assert other.model_.text.names == fitted.model_.text.names
    assert other.model_.n_instances == 20
    assert list(other.classes_) == sorted([*fitted.classes_, "fish"])
    assert classifier().estimate(TEXTS, NAMES).model_bytes == fitted.model_.bytes


def test_texts_after_a_frame():
    one = classifier().fit(pd.DataFrame(X.toarray()).add_prefix("x"), Y)
    one.fit(TEXTS, NAMES)
    assert not hasattr(one, "feature_names_in_")
    assert one.n_features_in_ == one.model_.n_features == 6


ONE_VALUE = "expected one value per row; pass a list, an array, a column or a matrix"
COLUMN = "X is a frame, and its column 'title' is text; pass only this column, X['title']"
NAMES_HINT = "pass lists of names (strings), or an indicator matrix, as from MultiLabelBinarizer"
MISTAKES = {
    "a string": ("red apple", NAMES, f"X is of type str, {ONE_VALUE}"),
    "nothing": (None, NAMES, f"X is of type NoneType, {ONE_VALUE}"),
    "a generator": (iter(TEXTS), NAMES, f"X is of type list_iterator, {ONE_VALUE}"),
    "a dict": ({"text": TEXTS}, NAMES, f"X is of type dict, {ONE_VALUE}"),
    "a set": (set(TEXTS), NAMES, f"X is of type set, {ONE_VALUE}"),
    "a lazy frame": (pl.LazyFrame({"title": TEXTS}), NAMES, f"X is of type LazyFrame, {ONE_VALUE}"),
    "a number": ([*TEXTS[1:], 3], NAMES, "X[19] is of type int, expected a string; convert it"),
    "bytes": ([b"red"] * 20, NAMES, "X[0] is of type bytes, expected a string; convert it"),
    "words": (NAMES, NAMES, "X[0] is of type list, expected a string; convert it"),
    "a frame": (FRAME, NAMES, COLUMN),
    "a polars frame": (pl.DataFrame({"n": [1] * 20, "title": TEXTS}), NAMES, COLUMN),
    "an Arrow table": (pa.table({"n": [1] * 20, "title": TEXTS}), NAMES, COLUMN),
    "no rows": ([], [], "X has no rows; pass at least one"),
    "blank": ([None] * 20, NAMES, "X has no rows with text; pass at least one"),
    "no words": (["a"] * 20, NAMES, "no words of two or more characters; check that X contains texts"),
    "no y": (TEXTS, None, f"the target y is None; {NAMES_HINT}"),
    "a column's name": (TEXTS, "labels", f"y is of type str, {ONE_VALUE}"),
    "a dict as y": (TEXTS, {"labels": NAMES}, f"y is of type dict, {ONE_VALUE}"),
    "lengths": (TEXTS, NAMES[1:], "X has 20 rows and Y has 19; pass the labels of each row of X"),
    "no labels": (TEXTS, [[]] * 20, "no row of y has a label; pass the labels of at least one row"),
    "a missing class": (TEXTS, ["red", np.nan] * 10, "y[1] is missing; remove rows without a class"),
    "mixed classes": (TEXTS, objects(["red", 3] * 10), "y has classes of different types; pass strings"),
    "numbers of labels": (TEXTS, [[1, 2], [3]] * 10, f"Y has rows of different lengths; {NAMES_HINT}"),
    "one number each": (TEXTS, [[3, 7]] * 20, f"the value 3, expected only 0 and 1; {NAMES_HINT}"),
    "a float": (TEXTS, [["red", 0.5]] * 20, "'y[0]' contains a number, expected only strings"),
    "a mixed frame": (TEXTS, FRAME, f"Y contains object values, expected 0 and 1; {NAMES_HINT}"),
}


@pytest.mark.parametrize("case", MISTAKES)
@pytest.mark.filterwarnings("ignore:20 of 20 rows have no text")
def test_mistakes(case):
    x, y, message = MISTAKES[case]
    for method in (classifier().fit, classifier().estimate):
        with pytest.raises(InputError, match=re.escape(message)) as caught:
            method(x, y)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ("red apple", f"X is of type str, {ONE_VALUE}"),
        (iter(TEXTS), f"X is of type list_iterator, {ONE_VALUE}"),
        (["red", 3], "X[1] is of type int, expected a string"),
        (FRAME[["title"]], COLUMN),
        (X, "X has 60 features, but LabelTreeClassifier is expecting 6"),
    ],
)
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_mistakes_in_predictions(fitted, x, message):
    for method in (fitted.predict, fitted.predict_top, fitted.predict_proba):
        with pytest.raises(ValueError, match=re.escape(message)):
            method(x)


def test_texts_for_a_matrix():
    message = "X is a list of texts, but the estimator was fitted on a matrix; pass a matrix"
    with pytest.raises(InputError, match=message):
        classifier().fit(X, Y).predict(TEXTS)
