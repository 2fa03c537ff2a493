"""The same data in every form gives the same model; missing texts are treated alike."""

import csv
import inspect
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import labeltree
from labeltree.base import options
from labeltree.settings import SolverSettings, StorageSettings, TextSettings, TreeSettings

CATALOG = Path("examples/catalog-train.tsv").resolve()
TEST = Path("examples/catalog-test.tsv").resolve()
TEXT = "Keeps tea hot on a long walk."


@pytest.fixture(scope="module")
def catalog():
    rows = [line.split("\t") for line in CATALOG.read_text().splitlines()]
    return [text for _, _, text in rows], [labels.split() for _, labels, _ in rows]


@pytest.fixture(scope="module")
def expected():
    return labeltree.train(CATALOG, clusters=10, threads=1)


def file_of(kind, folder, texts, labels):
    """Return the path of a file with the documents."""
    path = folder / f"train.{kind}"
    joined = [",".join(names) for names in labels]
    if kind == "csv":
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([["text", "labels"], *zip(texts, joined, strict=True)])
    elif kind == "jsonl":
        pl.DataFrame({"text": texts, "labels": labels}).write_ndjson(path)
    else:
        pl.DataFrame({"text": texts, "labels": labels}).write_parquet(path)
    return path


FORMS = {
    "lists": lambda folder, texts, labels: (texts, labels),
    "tuples": lambda folder, texts, labels: (tuple(texts), tuple(map(tuple, labels))),
    "strings": lambda folder, texts, labels: (texts, [",".join(names) for names in labels]),
    "arrays": lambda folder, texts, labels: (np.array(texts), np.array(labels, dtype=object)),
    "pandas": lambda folder, texts, labels: (pd.DataFrame({"text": texts, "labels": labels}),),
    "series": lambda folder, texts, labels: (pd.Series(texts), pd.Series(labels)),
    "polars": lambda folder, texts, labels: (pl.DataFrame({"text": texts, "labels": labels}),),
    "arrow": lambda folder, texts, labels: (pa.table({"text": texts, "labels": labels}),),
    "record batch": lambda folder, texts, labels: (pa.record_batch({"text": texts, "labels": labels}),),
    "arrow arrays": lambda folder, texts, labels: (pa.array(texts), pa.array(labels)),
    "frame of flags": lambda folder, texts, labels: (texts, flags(labels)),
    "csv": lambda folder, texts, labels: (file_of("csv", folder, texts, labels),),
    "parquet": lambda folder, texts, labels: (str(file_of("parquet", folder, texts, labels)),),
}


def flags(labels):
    names = sorted({name for row in labels for name in row})
    return pd.DataFrame([[int(name in row) for name in names] for row in labels], columns=names)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_model(form, catalog, expected, tmp_path):
    model = labeltree.train(*FORMS[form](tmp_path, *catalog), clusters=10, threads=1)
    assert model.label_names == expected.label_names
    assert model.text.names == expected.text.names
    assert model.text.idf.tobytes() == expected.text.idf.tobytes()
    for node in range(expected.trees[0].tree.n_nodes):
        for mine, others in zip(model.block(node), expected.block(node), strict=True):
            assert mine.tobytes() == others.tobytes()
    assert model.predict([TEXT], top=3)[0] == [["tea", "teapot", "outdoor"]]


def test_a_matrix_of_the_features_gives_the_same_predictions(catalog, expected):
    data = labeltree.read_data(*catalog)
    model = labeltree.train(data.X, catalog[1], clusters=10)
    rows = expected.text.transform([TEXT, "A set of dice"])
    numbers, scores = model.predict(rows)
    assert [[model.label_names[j] for j in row] for row in numbers] == expected.predict(
        [TEXT, "A set of dice"]
    )[0]
    assert (
        model.predict(labeltree.Dataset.from_matrices(rows, rows))[0]
        == expected.predict([TEXT, "A set of dice"])[0]
    )
    assert scores.shape == numbers.shape


QUERIES = {
    "list": lambda texts: texts,
    "array": lambda texts: np.array(texts, dtype=object),
    "generator": lambda texts: (text for text in texts),
    "pandas": lambda texts: pd.Series(texts),
    "polars": lambda texts: pl.Series(texts),
    "arrow": lambda texts: pa.chunked_array([texts]),
    "frame": lambda texts: pl.DataFrame({"id": range(3), "text": texts}),
}


@pytest.mark.parametrize("form", QUERIES)
def test_missing_texts_are_counted_in_training_and_empty_in_prediction(form, expected):
    texts = [TEXT, None, "zzzz"]
    names, scores = expected.predict(QUERIES[form](texts), top=1)
    assert names == [["tea"], [], []]
    assert [len(row) for row in scores] == [1, 0, 0]
    if form not in ("generator", "frame"):
        data = labeltree.read_data(QUERIES[form](["a text", None, "b text"]), ["x", "y", "z"])
        assert (data.n_skipped, data.n_instances, data.label_names) == (1, 2, ("x", "z"))
        with pytest.raises(labeltree.InputError, match="row 1 has no text; correct it, or remove strict"):
            labeltree.read_data(QUERIES[form](["a text", None]), ["x", "y"], strict=True)
    if form != "frame":
        with pytest.raises(labeltree.InputError, match="row 1 has no text; correct it, or remove strict"):
            expected.predict(QUERIES[form](texts), strict=True)


@pytest.mark.parametrize("flags", [np.array, sp.csr_matrix, lambda rows: pd.DataFrame(rows).astype(bool)])
def test_rows_of_indicators_belong_to_their_texts(flags):
    data = labeltree.read_data(["a text", None, "another"], flags([[1, 0, 0], [0, 1, 0], [0, 1, 1]]))
    assert data.Y.toarray().tolist() == [[1, 0, 0], [0, 1, 1]]
    assert data.n_skipped == 1


def test_a_second_frame_is_read_like_the_training_data(expected):
    about = ["red apples", "blue whales", "red pears"]
    frame = pl.DataFrame({"about": about, "tags": ["a;b", "c", "a"], "text": [""] * 3})
    model = labeltree.train(frame, "tags", text=["text", "about"], separator=";", clusters=2)
    assert model.evaluate(frame, ks=[1])["P@1"] == 1
    assert model.predict(frame, top=1)[0][1] == ["c"]
    assert model.evaluate(frame["about"], frame["tags"], ks=[1])["P@1"] == 1


def test_an_unsaved_model_is_saved_with_its_threshold(catalog, tmp_path):
    model = labeltree.train(*catalog, clusters=10)
    assert model.path is None
    choice = model.choose_threshold(TEST, metric="macro_f1", save=True)
    before = model.predict([TEXT], threshold="stored")
    assert model.predict([TEXT], threshold=choice.decision)[0] == before[0]
    assert model.predict([TEXT], threshold=choice)[0] == before[0]
    with pytest.raises(AttributeError, match="decision"):
        model.decision = 0.5
    model.save(tmp_path / "model")
    assert model.path == tmp_path / "model"
    model.choose_threshold(TEST, metric="macro_f1", save=True)  # in the directory
    after = labeltree.load(tmp_path / "model")
    assert after.predict([TEXT], threshold="stored")[0] == before[0]
    assert after.decision.thresholds.tolist() == choice.decision.thresholds.tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_threshold_is_chosen_again_for_the_scores_of_a_compact_model(catalog, expected, tmp_path):
    few = tuple(part[:20] for part in catalog)  # too few to choose by
    for validation, rows in ((few, 400), (tuple(part[:200] for part in catalog), 200)):
        small = expected.compress(tmp_path / str(rows), max_loss="1%", validation=validation)
        assert (small.decision.rows, small.decision.held_out) == (rows, rows == 400)
        assert labeltree.load(small.path).decision.threshold == small.decision.threshold
    assert expected.compress(tmp_path / "int8").decision.threshold == expected.decision.threshold


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_shown_or_not(shown, catalog, expected, tmp_path, capsys):
    file = file_of("csv", tmp_path, *catalog)
    labeltree.read_data(file, progress=shown)
    expected.frontier(catalog, max_loss="1%", progress=shown)
    expected.compress(tmp_path / "small", progress=shown)
    err = capsys.readouterr().err
    assert [word in err for word in ("reading", "measuring", "compressing")] == [shown] * 3


def test_data_is_described_in_any_form(catalog, tmp_path):
    data = labeltree.describe_data(labeltree.read_data(*catalog))
    assert labeltree.describe_data(*catalog) == data
    assert labeltree.describe_data(file_of("csv", tmp_path, *catalog)) == data


@pytest.mark.filterwarnings("ignore")
def test_notes_name_the_least_count_of_a_label(catalog):
    texts, labels = catalog
    model = labeltree.train(texts, labels, clusters=10, min_label_count=10)
    assert model.info()["notes"]["min_label_count"] == 10
    rare = [[f"{row[0]} {number}"] for number, row in enumerate(labels)]
    rare[:2] = labels[:2]
    with pytest.warns(UserWarning, match="counted as missed: it was trained with min_label_count=10"):
        model.evaluate(texts, rare)
    assert model.choose_threshold(texts, rare).decision.rows == len(texts)  # most labels are unknown
    rare = [["all"] if number < 9 else row for number, row in enumerate(rare)]
    with pytest.warns(UserWarning, match=r"rows have no labels with at least 5 rows \(min_label_count\)"):
        labeltree.train(texts, rare, clusters=10, min_label_count=5)


def test_words_that_repeat_in_single_labels_are_noted():
    cells = [f"t{n % 149} t{(7 * n + n // 149) % 149} t{11 * n % 149}" for n in range(200)]
    data = labeltree.read_data([f"word {n % 7}" for n in range(200)], cells)
    assert "many contain a space, such as" in labeltree.describe_data(data)["warnings"][0]


def test_rows_that_are_held_out_are_not_trained_on(catalog):
    model = labeltree.train(*catalog, clusters=10, holdout=0.2)
    train, test = labeltree.split(*catalog, test=0.2)
    assert model.text.names == labeltree.read_data(*train).text.names
    assert model.holdout.rows == model.decision.rows == len(test[0]) == 80
    assert model.holdout.to_dict() == model.evaluate(*test).to_dict()


def test_cross_prediction(catalog):
    """Each row is predicted by a model that is trained on the other folds; equal rows share a fold."""
    data = labeltree.read_data(*catalog)
    found = labeltree.cross_predict(data, folds=3, top=4, clusters=10, seed=2)
    assert sorted(np.bincount(found.folds).tolist()) == [133, 133, 134]
    for fold in range(3):
        is_out = found.folds == fold
        model = labeltree.train(data.take(np.flatnonzero(~is_out)), clusters=10, seed=2)
        labels, scores = model.predict(data.X[is_out], top=4)
        np.testing.assert_array_equal(found.labels[is_out], labels)
        np.testing.assert_array_equal(found.scores[is_out], scores)
    assert (found.truth != data.Y).nnz == 0
    assert labeltree.metrics.precision_at_k(found.truth, found.labels, 1) > 0.8


def test_cross_prediction_of_texts(catalog, tmp_path):
    texts, labels = [*catalog[0], "  ", catalog[0][0].upper()], [*catalog[1], ["tea"], ["tea"]]
    forms = ("lists", "polars", "csv")
    found = [labeltree.cross_predict(*FORMS[form](tmp_path, texts, labels), clusters=10) for form in forms]
    for other in found:
        assert other.names == found[0].names
        assert other.names[-2] == []  # no text
        assert other.folds[-1] == other.folds[0]
        assert labeltree.metrics.precision_at_k(other.truth, other.labels, 1) > 0.8


PARTS = {
    "lists": lambda texts, labels: (texts, labels),
    "frame": lambda texts, labels: (pl.DataFrame({"text": texts, "labels": labels}), None),
    "pandas and a list": lambda texts, labels: (pd.Series(texts), labels),
    "matrices": lambda texts, labels: (
        labeltree.read_data(texts, labels).X,
        labeltree.read_data(texts, labels).Y,
    ),
    "dataset": lambda texts, labels: (labeltree.read_data(texts, labels), None),
}


@pytest.mark.parametrize("form", PARTS)
def test_parts_have_the_form_of_the_data(form, catalog):
    data, labels = PARTS[form](*catalog)
    parts = labeltree.split(data, labels, test=0.2, validation=0.1)
    assert list(parts.rows) == ["train", "test", "validation"]
    assert list(parts) == [parts.train, parts.test, parts.validation]
    for part, rows in zip(parts, parts.rows.values(), strict=True):
        first = part if labels is None else part[0]
        assert type(first) is type(data)
        assert (
            getattr(first, "n_instances", None) == rows
            or getattr(first, "shape", (0,))[0] == rows
            or len(first) == rows
        )
        if labels is not None:
            assert type(part[1]) is type(labels)
    assert sum(parts.rows.values()) == 400


def test_parts_of_a_file_are_its_lines(tmp_path):
    parts = labeltree.split(CATALOG, path=tmp_path / "parts", test=0.2)
    lines = [Path(part).read_text().splitlines() for part in parts]
    assert sorted(lines[0] + lines[1]) == sorted(CATALOG.read_text().splitlines())
    assert [len(part) for part in lines] == list(parts.rows.values())
    again = labeltree.split(CATALOG, path=tmp_path / "parts", test=0.2, overwrite=True)
    assert [Path(part).read_text().splitlines() for part in again] == lines
    with pytest.raises(labeltree.InputError, match="already exists"):
        labeltree.split(CATALOG, path=tmp_path / "parts")


def test_parts_of_csv_have_the_header_and_whole_records(tmp_path):
    records = [[f"a text\nof number {number}", f"t{number % 4}"] for number in range(40)]
    with open(tmp_path / "d.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text", "labels"], *records])
    found = []
    for part in labeltree.split(tmp_path / "d.csv", path=tmp_path / "parts", test=0.25):
        with open(part, newline="") as file:
            header, *rest = csv.reader(file)
        assert header == ["text", "labels"]
        found += rest
    assert sorted(found) == sorted(records)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_several_files_are_split_as_one(kind, catalog, tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    for number, folder in enumerate(files):
        folder.mkdir()
        files[number] = file_of(kind, folder, *(rows[number::2] for rows in catalog))
    expected = labeltree.split(*([*rows[::2], *rows[1::2]] for rows in catalog), test=0.2, validation=0.1)
    found = labeltree.split(files, path=tmp_path / "parts", test=0.2, validation=0.1)
    assert found.to_dict()["test"] == {"path": str(tmp_path / "parts" / f"test.{kind}"), "rows": 80}
    for file, part in zip(found, expected, strict=True):
        assert sorted(labeltree.read_data(file).label_names) == sorted(
            {name for row in part[1] for name in row}
        )
        assert (labeltree.read_data(file).X != labeltree.read_data(*part).X).nnz == 0


def test_files_with_other_columns_are_not_split_as_one(tmp_path):
    rows = pl.DataFrame({"text": ["a b", "c d"], "labels": ["e", "f"]})
    for number, frame in enumerate([rows, rows.with_columns(other=1)]):
        frame.write_parquet(tmp_path / f"{number}.parquet")
        frame.write_ipc(tmp_path / f"{number}.arrow")
    for kind, message in (
        ("parquet", "the files have different columns"),
        ("arrow", "an Arrow file cannot be"),
    ):
        with pytest.raises(labeltree.InputError, match=message):
            labeltree.split(str(tmp_path / f"?.{kind}"), path=tmp_path / "parts", test=0.5)
    (tmp_path / "a.csv").write_text("text,labels\na b,c\n")
    (tmp_path / "b.csv").write_text("labels,text\nd,e f\n")
    message = (
        "b.csv: the header differs from that of .*a.csv; give the files the same columns in the same order"
    )
    with pytest.raises(labeltree.InputError, match=message):
        labeltree.split(str(tmp_path / "?.csv"), path=tmp_path / "parts", test=0.5)
    assert not list(tmp_path.glob("parts/*"))


def test_parts_of_features_are_svm_files(tmp_path):
    train, _ = labeltree.synthesize("eur-lex", scale=0.01)
    labeltree.write_svm(tmp_path / "d.svm", train)
    parts = labeltree.split(tmp_path / "d.svm", path=tmp_path / "parts", test=0.2)
    sizes = [labeltree.read_svm(part).n_instances for part in parts]
    assert sizes == list(parts.rows.values())
    sp.save_npz(tmp_path / "X.npz", train.X)
    sp.save_npz(tmp_path / "Y.npz", train.Y)
    files = [tmp_path / "X.npz", tmp_path / "Y.npz"]
    again = labeltree.split(files, path=tmp_path / "again", test=0.2)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in parts]


def test_options_have_the_names_and_types_of_the_settings():
    kinds = {"TextOptions": (TextSettings,), "ModelOptions": (TreeSettings, SolverSettings, StorageSettings)}
    for name, classes in kinds.items():
        declared = dict(getattr(options, name).__annotations__)
        more = {"score", "score_scale", "normalize"} if name == "ModelOptions" else set()
        of_settings = {item.name: item for kind in classes for item in fields(kind)}
        assert set(declared) == {*of_settings, *more}
    shown = inspect.signature(labeltree.train).parameters
    assert shown["clusters"].default == TreeSettings.clusters
    assert shown["tolerance"].default == SolverSettings.tolerance
    assert all(item.kind is not item.VAR_KEYWORD for item in shown.values())


def test_results_are_shown_and_converted(expected, catalog):
    results = [
        expected.explain(TEXT)[0],
        expected.label("tea"),
        expected.info(),
        expected.evaluate(TEST),
        expected.choose_threshold(TEST),
        labeltree.compare([expected, expected], TEST),
        labeltree.estimate(*catalog),
        labeltree.split(*catalog),
    ]
    for result in results:
        assert json.loads(json.dumps(result.to_dict()))
        assert result._repr_html_().startswith("<p>")
        assert len(repr(result)) < 1500
    assert repr(results[0]).startswith("Explanation('tea', score=0.6")
    table = results[3].per_label
    assert table[-1] == list(table)[-1]
    assert list(table[:2]) == list(table)[:2]
    assert results[2]["normalized"]
    assert "for: tea +" in repr(results[1])


def test_only_public_names_are_listed():
    assert dir(labeltree) == sorted(labeltree.__all__)
    for name in labeltree.__all__:
        getattr(labeltree, name)
