"""`labeltree explain` and `info`: the results of the library, drawn on any terminal."""

import json
import shutil

import numpy as np
import pytest
from helpers import shell

from labeltree import load, read_svm
from labeltree.cli import main
from labeltree.evaluation.calibration import Calibration
from labeltree.explain.label import find_label
from labeltree.explain.overview import tree_shape
from labeltree.explain.prediction import explain_prediction


def test_explain_a_row_of_a_file(run, folder):
    arguments = ["explain", folder / "named-model", "--file", folder / "named.svm", "--row", 7, "--top", 3]
    code, out, err = run(*arguments, "--json")
    answer = json.loads(out)
    data, model = read_svm(folder / "named.svm"), load(folder / "named-model")
    expected = explain_prediction(model, data.X[7], top=3)
    assert (code, err) == (0, "")
    assert [p["name"] for p in answer["predictions"]] == [e.name for e in expected]
    assert [p["score"] for p in answer["predictions"]] == [e.score for e in expected]
    step, printed = expected[0].paths[0].steps[0], answer["predictions"][0]["paths"][0]["steps"][0]
    assert printed["margin"] == step.margin
    assert printed["supporting"][0]["name"] == str(step.supporting[0].feature + 1)  # as the file counts
    truth = {data.label_names[label] for label in data.Y[7].indices}
    assert set(answer["labels"]) == truth
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert f"7 of {folder / 'named.svm'}: {data.X[7].nnz} features" in out
    for rank, e in enumerate(expected, 1):
        assert f"{rank}. {e.name}{'*' * (e.name in truth)}  {e.paths[0].score:.3g} = " in out
    assert f"for {step.supporting[0].name} {step.supporting[0].product:+.3f}" in " ".join(out.split())
    assert "product of sigmoid(3 x margin)" in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_explain_a_row_of_index_value_pairs(run, folder):
    row = "3 1:0.5 8:1.25"
    written = json.loads(run("explain", folder / "model", row, "--json")[1])
    apart = json.loads(run("explain", folder / "model", *row.split(), "--json")[1])
    x = np.zeros(60)
    x[[0, 7]] = 0.5, 1.25
    assert written == apart
    assert written["labels"] == ["3"]
    found = [p["label"] for p in written["predictions"]]
    assert found == [e.label for e in explain_prediction(load(folder / "model"), x)]
    code, _, err = run("explain", folder / "model", "100:1 1:1")
    assert (code, err) == (
        0,
        "note: The data has 100 features, but the model has 60; the additional ones are ignored.\n",
    )


def test_features_are_numbered_as_in_the_row(run, trained):
    def words(*arguments):
        answer = json.loads(run("explain", trained, *arguments, "--words", 1000, "--json")[1])
        steps = [step for path in answer["predictions"][0]["paths"] for step in path["steps"]]
        words = [word for step in steps for word in step["supporting"] + step["opposing"]]
        return {word["name"] for word in words}, {word["feature"] for word in words}

    assert load(trained).one_based is None
    assert words("1:1 3:1") == ({"1", "3"}, {0, 2})
    assert words("0:1 3:1") == ({"0", "3"}, {0, 3})
    assert words("1:1 3:1", "--zero-based") == ({"1", "3"}, {1, 3})


def test_explain_a_model_of_several_trees(run, folder, tmp_path):
    options = ["--clusters", 5, "--trees", 2, "--quiet"]
    assert run("train", folder / "train.svm", tmp_path / "m", *options)[0] == 0
    code, out, _ = run("explain", tmp_path / "m", "1:1 8:1", "--beam", 1, "--score", "hinge3", "--words", 0)
    assert code == 0
    assert out.count("\ntree ") == 2
    assert "mean over the trees" in out
    assert "against" not in out.split("\nA score is")[0]
    code, out, _ = run("info", tmp_path / "m")
    assert [line for line in out.splitlines() if line.startswith("tree ")] == ["tree 0", "tree 1"]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Documents in TSV and CSV, and a model of them."""
    place = tmp_path_factory.mktemp("words")
    rows = [("red apples and green pears", "fruit"), ("cars with red wheels", "things"), ("plums", "fruit")]
    (place / "train.tsv").write_text("".join(f"{label}\t{text}\n" for text, label in rows))
    (place / "train.csv").write_text("body,tag\n" + "".join(f"{text},{label}\n" for text, label in rows))
    assert main(["train", str(place / "train.tsv"), str(place / "model"), "--quiet"]) == 0
    return place


def test_explain_a_document(run, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "45")
    code, out, err = run("explain", words / "model", "red Apples", "on wheels")
    assert (code, err) == (0, "")
    assert "row        'red Apples on wheels': 3 features\n" in out
    best = explain_prediction(load(words / "model"), "red Apples on wheels")[0]
    word = best.paths[0].steps[0].supporting[0]
    assert word.name in ("apples", "red", "wheels")
    assert f" {word.name} {word.product:+.3f}" in out  # on one line


def test_a_calibrated_model_shows_both_numbers(run, words, tmp_path):
    shutil.copytree(words / "model", tmp_path / "m")
    model = load(tmp_path / "m").store_decision(None, Calibration((0.0, 1.0), (0.0, 0.5)))
    score, probability = (model.predict(["plums"], top=1, calibrated=c)[1][0][0] for c in (False, True))
    command = ("explain", tmp_path / "m", "plums", "--top", 1)
    (found,) = json.loads(run(*command, "--json")[1])["predictions"]
    assert (found["uncalibrated"], found["score"]) == pytest.approx((score, probability))
    assert found["paths"][0]["score"] == pytest.approx(score)
    out = run(*command)[1]
    assert f"predicted  fruit {score:.3g} -> {probability:.3g}\n" in out
    assert "(score before calibration -> probability)" in out
    (given,) = explain_prediction(model, "plums", labels=[found["label"]])
    assert (given.uncalibrated, given.score) == pytest.approx((score, probability))
    assert "->" not in run(*command, "--score", "hinge3")[1]


def test_explain_a_document_of_a_file(run, refused, words):
    def answer(*arguments):
        code, out, err = run("explain", words / "model", *arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    written = answer("cars with red wheels")
    read = answer("--file", words / "train.tsv", "--row", 1)
    assert (written.pop("labels"), read.pop("labels")) == ([], ["things"])
    assert written == read
    columns = ("--text-column", "body", "--label-column", "tag")
    named = answer("--file", words / "train.csv", "--row", 1, *columns)
    assert (named.pop("labels"), named) == (["things"], read)
    message = refused("explain", words / "model", "--file", words / "train.csv", "--row", 1)
    assert "--text-column" in message
    assert "without --file" in refused("explain", words / "model", "cars", *columns)
    assert "applies only to LIBSVM, but the data is in plain text format; remove --one-based" in refused(
        "explain", words / "model", "cars", "--one-based"
    )


@pytest.mark.parametrize(("name", "content"), [("text", "red wheels\nplums\n"), ("rows", "1:1 8:1\n3:1\n")])
def test_explain_the_first_row_of_a_pipe(folder, words, tmp_path, name, content):
    model = words / "model" if name == "text" else folder / "model"
    (tmp_path / name).write_text(content)
    with (tmp_path / name).open() as stdin, shell("explain", model, "-", stdin=stdin) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "row        0 of standard input: 2 features\n" in out


def test_explain_without_a_known_word(run, folder, words):
    code, out, err = run("explain", words / "model", "nothing")
    assert (code, err) == (0, "note: The model knows none of the words, so no label is predicted.\n")
    assert out == "row        'nothing': 0 features\npredicted  (no labels)\n"
    code, out, err = run("explain", folder / "model", "1:0")
    assert (code, err) == (0, "note: The row has no features known to the model, so only the bias counts.\n")
    assert "\nroot\n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected either a document or a row"),
        (["1:1", "--file", "x.svm", "--row", "1"], "expected either a document or a row"),
        (["--file", "x.svm"], "--file with --row"),
        (["1:1", "--row", "1"], "--file with --row"),
        (["hello world"], "expected index:value pairs on one line, got 'hello world'"),
        (["1:1\n2:1"], "on one line"),
        (["1:one"], "the given row:1: expected a number"),
        (["0:1"], "indices from 1"),
        (["--file", "x.svm", "--row", "1"], "no such file"),
        (["--file", "test.svm", "--row", "50"], "--row is 50, expected a row from 0 to 49"),
        (["1:1", "--words", "-1"], "--words is -1, expected an integer of at least 0"),
    ],
)
def test_explain_refuses(refused, folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    assert message in refused("explain", folder / "model", *arguments)


def test_info_about_a_label(run, refused, folder):
    code, out, err = run("info", folder / "named-model", "--label", "größe-3", "--json")
    answer = json.loads(out)
    model = load(folder / "named-model")
    assert (code, err, answer["name"]) == (0, "", "größe-3")
    assert answer["instances"] == model.label_counts[find_label(model, "größe-3")]
    code, out, _ = run("info", folder / "named-model", "--label", "größe-3", "--words", 2)
    assert code == 0
    assert f"instances  {answer['instances']} of 400" in out
    last = answer["paths"][0][-1]
    for word in last["supporting"][:2]:
        assert f"{word['name']} {word['weight']:+.3f}" in out
    assert f"one of {last['siblings'] + 1} children" in out
    assert last["sibling_labels"][0] in out
    assert "did you mean" in refused("info", folder / "named-model", "--label", "größe")
    assert "expected an integer from 0 to 39" in refused("info", folder / "model", "--label", "40")
    assert json.loads(run("info", folder / "model", "--label", "39", "--json")[1])["label"] == 39


def test_names_with_commas_are_quoted_in_lists(run, refused, tmp_path):
    data, model = tmp_path / "d.csv", tmp_path / "m"
    rows = [f"portrait of a man {i},man, old|art" if i % 2 else f"a boat {i},Venice" for i in range(20)]
    data.write_text("text,labels\n" + "".join(f'{t},"{y}"\n' for t, y in (r.split(",", 1) for r in rows)))
    _, _, err = run("train", data, model, "--label-separator", "|")
    assert "most    Venice (10), art (10), 'man, old' (10)" in err
    assert "siblings art, 'man, old'" in run("info", model, "--label", "Venice")[1]
    assert "'man, old' 0." in run("explain", model, "portrait of a man")[1].splitlines()[1]
    assert refused("info", model, "--label", "man old").endswith("did you mean 'man, old'?")


def test_info_shows_the_shape_of_the_tree(run, folder):
    code, out, _ = run("info", folder / "model")
    assert code == 0
    shape = tree_shape(load(folder / "model"))
    start = next(number for number, line in enumerate(out.splitlines()) if line.startswith("depth")) + 1
    lines = [line.split() for line in out.splitlines()[start : start + len(shape)]]
    assert [int(line[0]) for line in lines] == [row["depth"] for row in shape]
    assert [int(line[2]) for line in lines] == [row["labels"] for row in shape]


def test_narrow_terminals_and_other_encodings(folder):
    environment = {"COLUMNS": "40", "PYTHONIOENCODING": "ascii", "PATH": ""}
    with shell("explain", folder / "named-model", "1:1 8:1", "--top", "2", env=environment) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "gr\\xf6\\xdfe-" in out
    drawn = out.split("\nroot\n")[1].split("\n\n")[0]
    assert max(map(len, drawn.splitlines())) <= 40 + 2 * 8  # an escape is wider than what it stands for
