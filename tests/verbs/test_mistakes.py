"""Mistakes in Python: each gets one message that says what is wrong, in the words of the caller."""

# ruff: noqa: E501

import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import labeltree
from labeltree import train

T, L = ["red apples", "blue whales", "green pears"], [["a"], ["b"], ["a"]]
F = pl.DataFrame({"text": T, "labels": ["a", "b", "a"], "n": [1, 2, 3]})
X, Y = sp.csr_matrix(np.eye(3)), sp.csr_matrix([[1, 0], [0, 1], [1, 0]])
M, N = None, None  # of text, and of features


@pytest.fixture(scope="module", autouse=True)
def _models():
    global M, N
    M, N = train(T, L, clusters=2), train(X, Y, clusters=2)


MISTAKES = [
    ("labels missing", lambda: train(T), "the labels are missing; pass the labels of each text as labels"),
    (
        "lengths",
        lambda: train(T, L[:2]),
        "there are 3 rows of data, but the labels of 2; pass the labels of each row",
    ),
    (
        "labels str for list",
        lambda: train(T, "labels"),
        "labels is 'labels', but the data has no columns; pass the labels of each row",
    ),
    (
        "text for list",
        lambda: train(T, L, text="text"),
        "the data has no columns, to which text does not apply; remove text",
    ),
    (
        "column labels",
        lambda: train(F, "tags"),
        "the data has no column 'tags', only 'text', 'labels', 'n'; set the name of the label column (labels)",
    ),
    (
        "column text",
        lambda: train(F, "labels", text="body"),
        "the data has no column 'body', only 'text', 'labels', 'n'; set the name of the text column (text)",
    ),
    (
        "one of several text",
        lambda: train(F, "labels", text=["text", "body"]),
        "the data has no column 'body', only 'text', 'labels', 'n'; set the name of the text column (text)",
    ),
    (
        "numeric text col",
        lambda: train(F, "labels", text="n"),
        "column 'n', row 0, is of type int, expected a string; convert it to a string, or use None for a missing text",
    ),
    (
        "lazy",
        lambda: train(F.lazy(), "labels"),
        "the data is a LazyFrame, whose rows are not computed yet; pass data.collect()",
    ),
    (
        "dict",
        lambda: train({"text": T}, L),
        "the data is of type dict; pass its values, such as data['text'], or make a frame of it",
    ),
    ("set", lambda: train(set(T), L), "the data is of type set; pass a list, because a set has no order"),
    (
        "generator",
        lambda: train((t for t in T), L),
        "the data is of type generator; make a list of it, because data may be read more than once",
    ),
    ("bytes", lambda: train(b"abc", L), "the data is of type bytes; decode it"),
    (
        "list of bytes",
        lambda: train([b"abc"], ["a"]),
        "data[0] is of type bytes, expected a string; convert it to a string, or use None for a missing text",
    ),
    (
        "none",
        lambda: train(None, L),
        "the data is of type NoneType; pass a list of texts, a frame, a matrix or the path of a file",
    ),
    (
        "number text",
        lambda: train(["a b", 3, "c"], L),
        "data[1] is of type int, expected a string; convert it to a string, or use None for a missing text",
    ),
    (
        "dict text",
        lambda: train([{"t": "a"}] * 3, L),
        "the data is a list of dictionaries; make a frame of it",
    ),
    ("empty", lambda: train([], []), "there are no documents to learn from"),
    ("all missing", lambda: train([None] * 3, L), "there are no documents to learn from"),
    ("no labels", lambda: train(T, [[], [], []]), "no document has a label; check the labels (labels)"),
    ("labels none list", lambda: train(T, [None] * 3), "no document has a label; check the labels (labels)"),
    (
        "labels dict",
        lambda: train(T, [{"x": 1}] * 3),
        "'labels[0]' is an object, expected a string, an integer or a list of them",
    ),
    (
        "labels nested",
        lambda: train(T, [[["a"]], ["b"], ["c"]]),
        "'labels[0]' contains a list, expected only strings and integers",
    ),
    (
        "labels float",
        lambda: train(T, [1.5, 2.0, 1.0]),
        "'labels[0]' is a number, expected a string, an integer or a list of them",
    ),
    (
        "labels gen",
        lambda: train(T, (labels for labels in L)),
        "labels are of type generator; make a list of it, because data may be read more than once",
    ),
    (
        "labels int",
        lambda: train(T, 3),
        "labels is 3, but the data has no columns; pass the labels of each row",
    ),
    (
        "indicator lists",
        lambda: train(T, [[1, 0, 0], [0, 1, 1], [1, 0, 0]]),
        "labels[0] repeats 0 or 1, as if labels were the rows of an indicator matrix; pass numpy.array(labels), or lists of the labels of each row",
    ),
    (
        "indicator rows",
        lambda: train(T, Y[:2]),
        "there are 3 rows of data, but the labels of 2; pass the labels of each row",
    ),
    (
        "indicator nan",
        lambda: train(T, np.array([[1, np.nan]] * 3)),
        "labels contains NaN, infinity or a number too large for float32; replace or remove them",
    ),
    (
        "empty separator",
        lambda: train(T, ["a"] * 3, separator=""),
        "a label separator is empty; use one or more characters, such as ';'",
    ),
    (
        "X nan",
        lambda: train(np.array([[np.nan, 1]] * 3), Y),
        "X contains NaN, infinity or a number too large for float32; replace or remove them",
    ),
    (
        "X 1d",
        lambda: train(np.array([1.0, 2, 3]), Y),
        "data[0] is of type float, expected a string; convert it to a string, or use None for a missing text",
    ),
    (
        "X 3d",
        lambda: train(np.ones((3, 1, 1)), Y),
        "X has 3 dimensions, expected 2; pass one row per instance and one column per feature",
    ),
    (
        "X complex",
        lambda: train(np.eye(3) * 1j, Y),
        "X has entries of type complex128, expected real numbers",
    ),
    (
        "X object",
        lambda: train(np.array([[1, "a"]] * 3, dtype=object), Y),
        "the first text is of type list, expected a string; join its words, or pass labels as the second argument",
    ),
    ("X Y rows", lambda: train(X, Y[:2]), "X has 3 rows and Y has 2; pass one row per instance in both"),
    (
        "X ragged",
        lambda: train([[1, 2], [1]], [["a"], ["b"]]),
        "X has rows of different lengths; pass rows of equal length",
    ),
    (
        "text settings with X",
        lambda: train(X, Y, min_df=2),
        "text settings are given, but the data is not text; remove them",
    ),
    (
        "delimiter mem",
        lambda: train(T, L, delimiter=";"),
        "the data is not a file, to which delimiter does not apply; remove delimiter",
    ),
    (
        "format mem",
        lambda: train(F, format="csv"),
        "the data is not a file, to which format does not apply; remove format",
    ),
    (
        "labels of strings in a frame",
        lambda: train(T, F[["labels"]]),
        "the columns of labels contain something else than numbers: 'labels'; pass one of the columns",
    ),
    (
        "columns of the same name",
        lambda: train(pd.DataFrame([["a", "b", "c"]], columns=["text", "text", "labels"])),
        "several columns have the same name; rename all but one of them",
    ),
    (
        "names of files in a list",
        lambda: train([__file__, __file__]),
        "the labels are missing; pass the labels of each text as labels; pass Path objects if these are files",
    ),
    ("path missing", lambda: train("nothing.tsv"), "nothing.tsv: no such file"),
    (
        "text as path",
        lambda: train("Keeps tea hot on a long walk."),
        "'Keeps tea ho... a long walk.': no such file; a string is the name of a file; pass a list of texts",
    ),
    ("directory", lambda: train("."), ".: is a directory, not a file"),
    (
        "Dataset with labels",
        lambda: train(labeltree.read_data(T, L), L),
        "the data is a Dataset, to which labels does not apply; remove labels",
    ),
    (
        "misspelled",
        lambda: train(T, L, cluster=3),
        "train() has no argument 'cluster'; did you mean 'clusters'?",
    ),
    (
        "misspelled in a method",
        lambda: M.evaluate(T, L, seperator=";"),
        "evaluate() has no argument 'seperator'; did you mean 'separator'?",
    ),
    ("clusters", lambda: train(T, L, clusters=1), "clusters is 1, expected an integer of at least 2"),
    (
        "clusters str",
        lambda: train(T, L, clusters="ten"),
        "clusters is 'ten', expected an integer of at least 2",
    ),
    (
        "overwrite no path",
        lambda: train(T, L, overwrite=True),
        "overwrite is given, but the model has no path; add path, or remove overwrite",
    ),
    ("holdout", lambda: train(T, L, holdout=2), "holdout is 2, expected a number from 0.01 to 0.5"),
    (
        "holdout small",
        lambda: train(T[:1], L[:1], holdout=0.1),
        "1 row with 1 different texts cannot be split into 2 parts; use more data",
    ),
    (
        "predict str",
        lambda: M.predict("Keeps tea hot"),
        "'Keeps tea hot': no such file; a string is the name of a file; pass a list of texts",
    ),
    (
        "predict number",
        lambda: M.predict([1, 2]),
        "data[0] is of type int, expected a string; convert it to a string, or use None for a missing text",
    ),
    (
        "predict matrix few",
        lambda: M.predict(np.eye(2)),
        "X has 2 columns, but the model has 6 features; compute the features as for training, or read the file with the model's n_features",
    ),
    (
        "predict text on matrix",
        lambda: N.predict(T),
        "the data is text, but the model was not trained on text; pass a matrix of features",
    ),
    (
        "predict words",
        lambda: M.predict([["red", "apples"]]),
        "the first text is of type list, expected a string; join its words, or pass labels as the second argument",
    ),
    (
        "predict strict",
        lambda: M.predict(iter(["a", None]), strict=True),
        "row 1 has no text; correct it, or remove strict",
    ),
    (
        "predict set",
        lambda: M.predict(set(T)),
        "the data is of type set; pass a list, because a set has no order",
    ),
    (
        "predict dict",
        lambda: M.predict({"text": T}),
        "the data is of type dict; pass its values, such as data['text'], or make a frame of it",
    ),
    (
        "predict dicts",
        lambda: M.predict([{"text": "a"}]),
        "the data is a list of dictionaries; make a frame of it",
    ),
    (
        "predict bytes",
        lambda: M.predict([b"a"]),
        "data[0] is of type bytes, expected a string; convert it to a string, or use None for a missing text",
    ),
    (
        "predict None",
        lambda: M.predict(None),
        "the data is of type NoneType; pass a list of texts, a frame, a matrix or the path of a file",
    ),
    (
        "predict frame col",
        lambda: M.predict(F, text="body"),
        "the data has no column 'body', only 'text', 'labels', 'n'; set the name of the text column (text)",
    ),
    (
        "predict text of list",
        lambda: M.predict(T, text="body"),
        "the data has no columns, to which text does not apply; remove text",
    ),
    (
        "predict delimiter",
        lambda: M.predict_matrix(F, delimiter=";"),
        "the data is not a file, to which delimiter does not apply; remove delimiter",
    ),
    ("predict top", lambda: M.predict(T, top=0), "top is 0, expected an integer of at least 1"),
    (
        "predict threshold",
        lambda: M.predict(T, threshold=2),
        "threshold is 2, expected a number from 0 to 1 or 'stored'",
    ),
    (
        "predict options of files",
        lambda: N.predict(X, delimiter=";"),
        "the data is a matrix, to which delimiter does not apply; remove delimiter",
    ),
    (
        "predict text of a matrix",
        lambda: N.predict_matrix(X, text="a"),
        "the data is a matrix, to which text does not apply; remove text",
    ),
    (
        "frames in a list",
        lambda: train([F, F], "labels"),
        "the data is a list of frames; concatenate them",
    ),
    (
        "names of files and a column",
        lambda: train([__file__], "labels"),
        "labels is 'labels', but the data has no columns; pass the labels of each row; pass Path objects if these are files",
    ),
    (
        "no columns",
        lambda: train(pd.DataFrame(), "tags"),
        "the data has no column 'tags', nor any other; set the name of the label column (labels)",
    ),
    *(
        (
            f"indicator of {value:g}",
            lambda value=value: train(T, Y.toarray() * value),
            f"labels contains {value:g}, expected an indicator matrix of 0 and 1; pass labels != 0 if every other number stands for a label",
        )
        for value in (-1, 2, 0.5)
    ),
    ("train path", lambda: train(T, L, path=3), "path is 3, expected None or a path"),
    ("save path", lambda: M.save(3), "path is 3, expected a path"),
    ("load path", lambda: labeltree.load(None), "path is None, expected a path"),
    (
        "push path",
        lambda: labeltree.push(M, pathlib.Path("a")),
        "address is of type PosixPath, expected a string such as hf://user/name, s3://bucket/name, https://host/name or file:///directory/name",
    ),
    (
        "loss of 100%",
        lambda: M.compress("c", max_loss=1, validation=(T, L)),
        "max_loss is 1, expected None or a loss such as 0.1% or 0.001, at most 10% (in text, 0.01 or more needs the percent sign)",
    ),
    (
        "column of a table",
        lambda: M.evaluate(T, L).per_label["name"],
        "no column 'name', only label, support, predicted, correct, precision, recall, F1",
    ),
    (
        "metric",
        lambda: M.evaluate(T, L, ks=[1])["P@2"],
        "no metric 'P@2', only P@1, R@1, RP@1, nDCG@1, PSP@1, PSnDCG@1",
    ),
    (
        "predict stored",
        lambda: M.predict(T, threshold="stored"),
        "the model has no threshold; choose one with `choose_threshold`, or set threshold to a number instead",
    ),
    (
        "evaluate none",
        lambda: M.evaluate(T),
        "the labels are missing; pass the labels of each text as labels",
    ),
    (
        "evaluate one rank",
        lambda: M.evaluate(T, L, ks=5),
        "ks is 5, expected several ranks such as [1, 3, 5]",
    ),
    ("evaluate path", lambda: M.evaluate("test.csv"), "test.csv: no such file"),
    (
        "choose two goals",
        lambda: M.choose_threshold(T, L, metric="micro_f1", min_precision=0.5),
        "a threshold has one goal, but several are given; remove metric or min_precision",
    ),
    (
        "choose metric",
        lambda: M.choose_threshold(T, L, metric="f1"),
        "metric is 'f1', expected None or one of micro_f1, macro_f1, row_f1",
    ),
    (
        "explain list",
        lambda: M.explain(T),
        "the row is of type list, expected a document (one string) or feature values",
    ),
    (
        "explain number",
        lambda: M.explain(3),
        "the row is of type int, expected a document (one string) or feature values",
    ),
    ("label unknown", lambda: M.label("zz"), "no label 'zz' among the 2 labels; check the spelling"),
    (
        "label list",
        lambda: M.label(["a"]),
        "label is ['a'], expected the name of a label or an integer from 0 to 1",
    ),
    (
        "compress valid",
        lambda: M.compress("c", max_loss=0.01, validation=T),
        "the labels are missing; pass the labels of each text as labels",
    ),
    (
        "compress none",
        lambda: M.compress("c", max_loss=0.01),
        "a loss budget needs labeled data to measure the loss on; add training or validation, or use max_size",
    ),
    (
        "compress both",
        lambda: M.compress("c", max_loss=0.01, validation=(T, L), training=(T, L)),
        "validation data cannot be combined with training data; remove validation or training",
    ),
    (
        "cross_predict folds",
        lambda: labeltree.cross_predict(T, L, folds=1),
        "folds is 1, expected an integer from 2 to 100",
    ),
    (
        "compare one",
        lambda: labeltree.compare([M], T, L),
        "there is nothing to compare with; pass two or more models",
    ),
    (
        "compare str",
        lambda: labeltree.compare("m", T, L),
        "models is of type str, expected a list of models and paths",
    ),
    (
        "compare model",
        lambda: labeltree.compare(M, T, L),
        "models is of type Model, expected a list of models and paths",
    ),
    (
        "compare kinds",
        lambda: labeltree.compare([M, N], T, L),
        "the data is text, but the model was not trained on text; pass a matrix of features",
    ),
    (
        "split test",
        lambda: labeltree.split(T, L, test=1.5),
        "test is 1.5, expected a positive number of at most 1",
    ),
    (
        "split file",
        lambda: labeltree.split(__file__, format="tsv"),
        "the data is a file, but there is no directory for its parts; add path",
    ),
    (
        "split few",
        lambda: labeltree.split(T[:1], L[:1]),
        "1 row with 1 different texts cannot be split into 2 parts; use more data",
    ),
    (
        "load missing",
        lambda: labeltree.load("nomodel"),
        "nomodel: no such model directory; check the path, or train a model first",
    ),
    (
        "estimate",
        lambda: labeltree.estimate(T, L, max_depth=0),
        "max_depth is 0, expected an integer of at least 1",
    ),
    (
        "estimate size",
        lambda: labeltree.estimate(T, L, max_size="1kB"),
        "the model cannot be compressed to 1.0 kB (1,000 bytes), the smallest possible size is 1.8 kB (1,758 bytes); "
        "use a larger max_size",
    ),
    (
        "tune metric",
        lambda: labeltree.tune(T, L, path="t", metric="P@2"),
        "metric is 'P@2', expected one of P@1, P@3, P@5, nDCG@5, PSP@5, F1",
    ),
    (
        "tune few",
        lambda: labeltree.tune(T, L, path="t"),
        "a share of 0.1 of the rows with labels is 0 rows, too few to validate on; use more data, or a larger validation",
    ),
]


@pytest.mark.parametrize(
    ("call", "message"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES]
)
@pytest.mark.filterwarnings("ignore")
def test_a_mistake_gets_one_message(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((labeltree.InputError, TypeError, KeyError)) as caught:
        call()
    assert caught.value.args[0] == message
    assert not any(tmp_path.iterdir())  # nothing is left behind


def test_labels_of_a_file_are_a_column(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb c\n")
    message = "labels are values, but the data is a file; pass the name of the column with the labels"
    with pytest.raises(labeltree.InputError, match=message):
        train(tmp_path / "a.tsv", L)


def test_a_model_is_not_replaced_by_accident(tmp_path):
    train(T, L, path=tmp_path / "m", clusters=2)
    for call in (lambda: train(T, L, path=tmp_path / "m"), lambda: M.save(tmp_path / "m")):
        with pytest.raises(
            labeltree.InputError, match="already exists; choose another name, or use overwrite=True"
        ):
            call()
    with pytest.raises(labeltree.InputError, match="the model is complete; load it, or use overwrite=True"):
        train(T, L, path=tmp_path / "m", clusters=2, resume=True)
