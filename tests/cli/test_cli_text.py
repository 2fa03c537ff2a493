"""Text on the command line: documents from a file or a pipe, labels by name, errors in one sentence."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from forgery import forge
from helpers import disk_bytes
from helpers import refused_model as damaged

import labeltree
from labeltree import (
    LabelTreeClassifier,
    load,
)
from labeltree.data.tfidf import IDF_FILE, SETTINGS_FILE, TERMS_FILE
from labeltree.explain.prediction import explain_prediction

TOPICS = {"fruit": "apple pear plum", "sea life": "whale shark Größe", "tools": "hammer saw nail"}


def documents(rows, seed=0):
    random = np.random.default_rng(seed)
    names = list(TOPICS)
    for _ in range(rows):
        chosen = [names[t] for t in sorted(random.choice(len(names), random.integers(1, 3), replace=False))]
        words = ["common", *" ".join(TOPICS[name] for name in chosen).split()]
        yield " ".join(random.choice(words, 8)), chosen


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The same documents in three formats, and a model trained on the TSV file."""
    from labeltree.cli import main

    folder = tmp_path_factory.mktemp("text")
    for name, rows, seed in (("train", 200, 0), ("test", 40, 1)):
        made = list(documents(rows, seed))
        one_word = [(text, [label.replace(" ", "-") for label in labels]) for text, labels in made]
        (folder / f"{name}.tsv").write_text(
            "".join(f"{i}\t{' '.join(labels)}\t{text}\n" for i, (text, labels) in enumerate(one_word))
        )
        (folder / f"{name}.csv").write_text(
            "body,tags\n" + "".join(f"{text},{'; '.join(labels)}\n" for text, labels in made)
        )
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in made)
        )
    assert main(["train", str(folder / "train.tsv"), str(folder / "model"), "--quiet"]) == 0
    return folder


CSV = ("--text-column", "body", "--label-column", "tags", "--label-separator", ";")


@pytest.mark.parametrize(("ending", "options"), [("tsv", ()), ("csv", CSV), ("jsonl", ())])
def test_estimate_train_evaluate(run, place, tmp_path, ending, options):
    features = ("--ngrams", "1,2", "--min-df", 2, "--sublinear", "--stop-words", "english")
    data = place / f"train.{ending}"
    code, out, err = run("estimate", data, *options, *features, "--json")
    assert (code, err) == (0, "")
    planned = json.loads(out)["model_bytes"]
    code, out, err = run("train", data, tmp_path / "m", *options, *features, "--json")
    assert (code, err) == (0, "")
    trained = json.loads(out)
    assert planned == trained["model_bytes"] == trained["planned_bytes"] == disk_bytes(tmp_path / "m")
    model = load(tmp_path / "m")
    assert model.text.settings.ngrams == (1, 2)
    assert model.text.settings.sublinear
    assert "common whale" in model.text.names
    # Columns and separators are those of the training file.
    code, out, _ = run("evaluate", tmp_path / "m", place / f"test.{ending}", "--json")
    assert code == 0
    assert json.loads(out)["P@1"] > 0.9


def test_html_and_unicode_are_options_of_the_model(run, place, tmp_path):
    """A model of marked-up documents predicts what the model of the plain ones does, and explains it so."""
    marked = tmp_path / "train.jsonl"
    with open(marked, "w") as file:
        for line in (place / "train.jsonl").read_text().splitlines():
            row = json.loads(line)
            text = row["text"].replace("Größe", "Gr&ouml;&szlig;e").replace("whale", "\uff37hale")
            row["text"] = (
                f"<p class='apple'>{text.replace(' ', '<br>')}</p><!-- saw --><script>nail()</script>"
            )
            file.write(json.dumps(row) + "\n")
    options = ("--strip-html", "--unicode", "nfkc")
    planned = json.loads(run("estimate", marked, *options, "--json")[1])["model_bytes"]
    code, out, err = run("train", marked, tmp_path / "m", *options, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["model_bytes"] == planned == disk_bytes(tmp_path / "m")
    assert run("train", place / "train.jsonl", tmp_path / "plain", "-q")[0] == 0
    model, plain = load(tmp_path / "m"), load(tmp_path / "plain")
    assert model.text.names == plain.text.names
    documents = ["<b>\uff37hale</b> &amp; Gr&ouml;&szlig;e<script>apple</script>", "whale & Größe"]
    (first, scores), (second, expected) = (
        one.predict([text]) for one, text in zip((model, plain), documents, strict=True)
    )
    assert first == second
    assert scores[0].tolist() == expected[0].tolist()
    assert explain_prediction(model, documents[0]) == explain_prediction(plain, documents[1])
    assert "strip_html True, unicode nfkc" in run("info", tmp_path / "m")[1]
    assert "strip_html" not in run("info", tmp_path / "plain")[1]
    trained = labeltree.train(marked, path=tmp_path / "python", strip_html=True, unicode="nfkc")
    assert trained.text.contents == model.text.contents


def test_lines_without_known_words_get_no_labels(run, place, tmp_path):
    lines = tmp_path / "input.txt"
    lines.write_text("apple\n\nunknown words\nsaw")
    code, out, _ = run("predict", place / "model", lines, "--format", "svm", "--top", 1, "-q")
    assert code == 0
    first, *unknown, last = out.split("\n")[:-1]
    assert first.startswith("fruit:0.")
    assert unknown == ["", ""]
    assert last.startswith("tools:0.")
    code, out, _ = run("predict", place / "model", lines, "--data-format", "tsv", "--json")
    assert [len(row["labels"]) for row in json.loads(out)["predictions"]] == [3, 0, 0, 3]


def test_labels_unknown_to_the_model_count_as_missed(run, place, tmp_path):
    (tmp_path / "t.tsv").write_text("0\tfruit\tapple\n1\tvegetables\tapple pear\n")
    code, out, err = run("evaluate", place / "model", tmp_path / "t.tsv", "--json")
    assert code == 0
    assert err == "note: 1 of the 2 labels in the data is unknown to the model and counted as missed.\n"
    assert json.loads(out)["P@1"] == 0.5
    assert json.loads(out)["R@5"] == 0.5


def test_documents_without_terms_are_trained_on_and_evaluated(run, tmp_path):
    (tmp_path / "d.tsv").write_text("0\ta\tone two\n1\tb\t!\n2\ta\ttwo\n")
    assert run("train", tmp_path / "d.tsv", tmp_path / "m", "-q")[0] == 0
    figures = json.loads(run("evaluate", tmp_path / "m", tmp_path / "d.tsv", "--json")[1])
    assert figures["P@1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("d.tsv", b"0\ta\tone\n1\tb\tcaf\xe9\n", "", "d.tsv:2: the byte 0xe9 is not UTF-8"),
        (
            "d.csv",
            b"text,labels\none,a\n",
            "--text-column body",
            "no column 'body', only 'text', 'labels'",
        ),
        (
            "d.csv",
            b"text^tags\none^a\n",
            "",
            ", or the character between columns (--delimiter)",
        ),
        ("d.csv", b"text,tags\none,a\n", "", "set the name of the label column (--label-column)"),
        (
            "d.tsv",
            b"0\ta\tone\n",
            "--text-column x",
            "JSONL, Parquet or Arrow, but the data is in TSV format; remove --text-column",
        ),
        (
            "d.tsv",
            b"0\ta\tone\n",
            "--one-based",
            "applies only to LIBSVM, but the data is in TSV format; remove --one-based",
        ),
        (
            "d.svm",
            b"0 1:1\n",
            "--text-column x",
            "Parquet or Arrow, but the data is in LIBSVM format",
        ),
        ("d.txt", b"0\ta\tone\n", "--data-format txt", "plain text (txt) has no labels"),
        ("d.tsv", b"0\ta\tone\n", "--label-separator=", "a label separator is empty"),
        ("d.txt", b"x\ta\tone\n", "", "--data-format"),
    ],
)
def test_bad_data_and_options(refused, place, tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content)
    for command in (["estimate", tmp_path / name], ["train", tmp_path / name, tmp_path / "m"]):
        assert message in refused(*command, *options.split())
    if name != "d.svm":
        assert message in refused("evaluate", place / "model", tmp_path / name, *options.split())
    assert {file.name for file in tmp_path.iterdir()} == {name}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--ngrams 2,1", "--ngrams is (2, 1), expected a minimum and a maximum"),
        ("--ngrams x", "--ngrams is 'x', expected a minimum and a maximum"),
        ("--min-df 999", "train.tsv: no term occurs in 999 or more documents"),
        ("--analyzer char --stop-words english", "stop words require the word analyzer"),
        ("--unicode nfc", "--unicode is 'nfc', expected one of nfkc"),
        ("--analyzer letters", "--analyzer is 'letters', expected one of word,"),
    ],
)
def test_bad_settings(refused, place, tmp_path, options, message):
    assert message in refused("train", place / "train.tsv", tmp_path / "m", *options.split())
    assert message in refused("estimate", place / "train.tsv", *options.split())


def test_text_options_are_refused_for_libsvm_data(refused, tmp_path):
    (tmp_path / "d.svm").write_text("0 1:1\n")
    for options in (
        "--ngrams 1,2",
        "--sublinear",
        "--min-df 2",
        "--stop-words none",
        "--strip-html",
        "--unicode nfkc",
    ):
        assert "applies only to text" in refused("estimate", tmp_path / "d.svm", *options.split())


def test_models_refuse_other_kinds_of_data(refused, folder, place):
    message = refused("predict", folder / "model", place / "test.tsv")
    assert f"the file is text, but the model {folder / 'model'} was trained on LIBSVM" in message
    message = refused("predict", place / "model", folder / "test.svm")
    assert "was trained on text" in message
    assert "applies only to CSV, JSONL, Parquet or Arrow" in refused(
        "evaluate", folder / "model", folder / "test.svm", "--label-column", "x"
    )


def test_a_compact_model_keeps_its_text(run, place, tmp_path):
    assert run("compress", place / "model", tmp_path / "p", "--prune", "0.01", "-q")[0] == 0
    assert "TF-IDF, analyzer word, ngrams (1, 1), min_df 1" in run("info", tmp_path / "p")[1]
    assert load(tmp_path / "p").text.names == load(place / "model").text.names
    assert run("predict", tmp_path / "p", place / "test.tsv", "-q")[0] == 0


# Stored files are checked


def test_an_estimator_predicts_nothing_without_a_known_word(place):
    estimator = LabelTreeClassifier.load(place / "model")
    X = estimator.model_.text.transform(["whale", "???"])
    truth = np.zeros((2, len(estimator.classes_)))
    truth[:, estimator.predict_top(X, 1)[0][0, 0]] = truth[:, -1] = 1
    assert estimator.score(X, truth) == 0.5
    assert estimator.predict(X).getnnz(axis=1).tolist() == [1, 0]


@pytest.fixture
def copy(place, tmp_path):
    return shutil.copytree(place / "model", tmp_path / "copy")


def test_forged_files_are_refused(copy):
    terms = json.loads((copy / TERMS_FILE).read_text())
    for content in ("[]", "{", "\ud800", json.dumps(terms[:-1] + terms[:1]), json.dumps([1] * len(terms))):
        (copy / TERMS_FILE).write_bytes(content.encode(errors="surrogatepass"))
        forge(copy)
        damaged(copy, r"terms\.json: (expected \d+ distinct terms|the file cannot be read)")
    (copy / TERMS_FILE).write_text(json.dumps(terms))
    forge(copy)
    idf = np.load(copy / IDF_FILE)
    for wrong in (np.where(np.arange(idf.size) == 1, np.nan, idf), -idf, idf[:-1], idf.astype(np.float32)):
        np.save(copy / IDF_FILE, wrong)
        forge(copy)
        damaged(copy, r"idf\.npy: the (file contains invalid weights|array is|file has)")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("tfidf", {"analyzer": "letters"}),
        ("tfidf", {"ngrams": [1]}),
        ("tfidf", {"ngrams": 1}),
        ("tfidf", {"unknown": 1}),
        ("tfidf", {"stop_words": [1]}),
        ("columns", {"text": 3}),
        ("columns", {"separators": 3}),
        ("columns", {"unknown": 3}),
    ],
)
def test_forged_settings_are_refused(copy, part, change):
    stored = json.loads((copy / SETTINGS_FILE).read_text())
    stored[part].update(change)
    for content in (json.dumps(stored), "[]", "{}", "nul"):
        (copy / SETTINGS_FILE).write_text(content)
        forge(copy)
        damaged(copy, r"settings\.json: the (settings of TF-IDF are invalid|file cannot be read)")


@pytest.mark.parametrize(("command", "data"), [("predict", "test.tsv"), ("train", "train.tsv")])
def test_text_needs_no_large_import(place, tmp_path, command, data):
    program = (
        "import sys; from labeltree.cli import main; code = main(sys.argv[1:]);"
        "large = {'matplotlib', 'pandas', 'pooch', 'requests', 'sklearn'} & set(sys.modules);"
        "sys.exit(str((code, large or None)))"
    )
    paths = (place / "model", place / data) if command == "predict" else (place / data, tmp_path / "new")
    finished = subprocess.run(
        [sys.executable, "-c", program, command, *map(str, paths), "-q"], capture_output=True, text=True
    )
    assert finished.stderr == "(0, None)\n"
