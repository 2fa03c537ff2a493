"""Any data file in one call, what was read, and what looks like a wrong separator."""

import csv
import json

import numpy as np
import pytest
from helpers import read_documents

import labeltree
from labeltree import InputError, describe_data, read_data
from labeltree.data.summary import summary_lines

TAGS = ["red fruit", "fruit", "sea", "sea", "tool", "kitchen"]


def rows(separator, count=60):
    random = np.random.default_rng(0)
    for i in range(count):
        labels = [f"{TAGS[j].replace(' ', '-')}{j % 4}" for j in sorted(random.choice(6, 3, replace=False))]
        yield f"word{i % 7} text{i % 5} common", separator.join(labels)


def write_csv(path, documents, delimiter=","):
    lines = [f'"{text}"{delimiter}"{labels}"\n' for text, labels in documents]
    path.write_text(f"text{delimiter}labels\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    path = write_csv(folder / "train.csv", rows(","))
    return labeltree.train(path, path=folder / "m", clusters=2, cost=2, min_df=2)


def test_summary(tmp_path):
    path = tmp_path / "d.jsonl"
    records = [
        {"text": "apple apple pear", "labels": ["b", "a"]},
        {"text": "apple", "labels": ["a"]},
        {"text": "!", "labels": ["c"]},
        {"text": None, "labels": ["c"]},
        {"labels": ["c"]},
        {"text": "pear", "labels": None},
        {"text": "pear"},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    data = read_documents(path)
    assert data.n_instances == 5
    found = describe_data(data)
    assert found["warnings"] == ["2 rows have no text and were skipped."]
    assert found == {
        **found,
        "rows": 5,
        "labels": 3,
        "features": 2,
        "labels_per_row": 0.8,
        "most_labels_per_row": 2,
        "rows_without_labels": 2,
        "rows_without_features": 1,
        "skipped_rows": 2,
        "labels_without_rows": 0,
        "labels_with_one_row": 2,
        "frequent_labels": [{"label": "a", "rows": 2}, {"label": "b", "rows": 1}, {"label": "c", "rows": 1}],
        "terms": ["pear", "apple"],
    }
    text = "\n".join(summary_lines(found))
    assert "5 rows, 2 without labels, 1 without known term, 2 more skipped" in text
    assert "a (2), b (1), c (1)" in text
    with pytest.raises(InputError, match=":4: the document has no text"):
        read_documents(path, strict=True)


@pytest.mark.parametrize("separator", [";", "|", " "])
def test_a_wrong_separator_is_noticed(tmp_path, run, separator):
    path = write_csv(tmp_path / "d.csv", rows(separator))
    (warning,) = describe_data(read_data(path))["warnings"]
    assert "Every row has a single label" in warning
    assert warning.endswith(f"use separator='{separator}'.")
    right = read_data(path, separator=separator)
    assert describe_data(right)["warnings"] == []
    code, out, err = run("estimate", path, "--json")
    assert code == 0
    (noted,) = json.loads(out)["data"]["warnings"]
    assert noted.endswith(f"use --label-separator '{separator}'.")
    assert noted in err


@pytest.mark.parametrize(
    "written", [str, json.dumps, lambda labels: ",".join(labels).replace(",", "',").replace("t", "t'")]
)
def test_a_printed_list_is_noticed(tmp_path, written):
    with (tmp_path / "d.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "labels"))
        writer.writerows((text, written(labels.split(","))) for text, labels in rows(","))
    (warning,) = describe_data(read_data(tmp_path / "d.csv"))["warnings"]
    assert "labels begin or end with a quote or bracket, such as" in warning


def test_more_labels_than_rows(tmp_path):
    documents = [(f"word{i}", f"a{i},b{i}") for i in range(20)]
    summary = describe_data(read_data(write_csv(tmp_path / "d.csv", documents)))
    assert not summary["warnings"]
    assert "More labels than rows" in summary_lines(summary)[2]


def test_train_and_estimate_show_what_was_read(run, tmp_path):
    path = write_csv(tmp_path / "d.csv", rows(","))
    for command in (["estimate", path], ["train", path, tmp_path / "m"]):
        code, _, err = run(*command)
        assert code == 0
        assert "60 rows" in err
        assert "3.00 per row, at most 3" in err
        assert "terms   13, such as common" in err
    assert run("train", path, tmp_path / "q", "--quiet")[2] == ""
    out = run("train", path, tmp_path / "j", "--json")[1]
    assert json.loads(out)["data"]["rows"] == 60


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_detected(tmp_path, delimiter):
    path = write_csv(tmp_path / "d.csv", rows("+"), delimiter)
    plus = {"separator": "+"}
    expected = read_data(write_csv(tmp_path / "e.csv", rows("+")), **plus)
    found = read_data(path, **plus)
    assert found.label_names == expected.label_names
    assert (found.X != expected.X).nnz == 0


def test_a_given_delimiter(run, refused, tmp_path):
    for delimiter, name in (("~", "~"), ("\t", "tab")):
        path = write_csv(tmp_path / "d.csv", rows(","), delimiter)
        assert run("estimate", path, "--delimiter", name, "-q")[0] == 0
    assert "'text'" in refused("estimate", path, "--delimiter", "~")
    assert "expected one character" in refused("estimate", path, "--delimiter", "ab")


def test_several_text_columns_are_joined(run, tmp_path):
    (tmp_path / "d.csv").write_text("title,body,labels\nred apple,is sweet,fruit\nwhale,,sea\n")
    (tmp_path / "d.jsonl").write_text(
        '{"title": "red apple", "body": "is sweet", "labels": ["fruit"]}\n'
        '{"title": "whale", "body": null, "labels": ["sea"]}\n'
    )
    columns = ["title", "body"]
    one, other = (read_data(tmp_path / name, text=columns) for name in ("d.csv", "d.jsonl"))
    assert one.text.names == other.text.names == ("apple", "is", "red", "sweet", "whale")
    assert (one.X != other.X).nnz == 0
    both = ("--text-column", "title", "--text-column", "body")
    assert run("train", tmp_path / "d.csv", tmp_path / "m", *both, "-q")[0] == 0
    # The model knows its columns.
    code, out, _ = run("predict", tmp_path / "m", tmp_path / "d.jsonl", "--format", "svm", "--top", 1, "-q")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["fruit", "sea"]


def test_strict(refused, tmp_path):
    for name, content, message in (
        ("d.csv", "text,labels\nred apple,fruit\nwhale,\n", "d.csv:3: the document has no labels"),
        ("d.tsv", "fruit\tred apple\nsea\t\n", "d.tsv:2: the document has no text"),
    ):
        (tmp_path / name).write_text(content)
        assert message in refused("estimate", tmp_path / name, "--strict")


def test_texts_in_names_out(model):
    labels, scores = model.predict(["common word1", "unknown", "text2"], top=2)
    assert [len(row) for row in labels] == [2, 0, 2]
    assert [len(row) for row in scores] == [2, 0, 2]
    assert set(labels[0]) <= set(model.label_names)
    X = model.text.transform(["common word1", "unknown", "text2"])
    numbers, values = model.predict(X, top=2)
    assert numbers.shape == (3, 2)
    assert labels[2] == [model.label_names[j] for j in numbers[2]]
    assert np.array_equal(scores[2], values[2])
    for same in (("text2",), np.array(["text2"]), np.array(["text2"], dtype=object)):
        assert model.predict(same, top=2)[0] == [labels[2]]
    assert (model.predict_matrix(["text2"]) != model.predict_matrix(X[2])).nnz == 0
    pandas = pytest.importorskip("pandas")
    assert model.predict(pandas.Series(["text2"]), top=2)[0] == [labels[2]]


def test_texts_that_are_refused(model, tmp_path):
    with pytest.raises(
        InputError, match="no such file; a string is the name of a file; pass a list of texts"
    ):
        model.predict("common word1")
    with pytest.raises(InputError, match=r"data\[1\] is of type int, expected a string"):
        model.predict(["a", 1])
    plain = labeltree.Dataset.from_matrices(np.eye(4), np.eye(4))
    other = labeltree.train(plain, path=tmp_path / "m", clusters=2)
    with pytest.raises(InputError, match="not trained on text"):
        other.predict(["a"])


@pytest.mark.filterwarnings("ignore:The data looks like the training data")
def test_train_in_one_call(model, tmp_path, run, capsys):
    assert model.manifest["settings"]["cost"] == 2
    assert model.text.settings.min_df == 2
    path = write_csv(tmp_path / "d.csv", rows(","))
    assert run("train", path, tmp_path / "m", "--clusters", 2, "--cost", 2, "--min-df", 2, "-q")[0] == 0
    same = labeltree.load(tmp_path / "m")
    assert same.manifest["files"] == model.manifest["files"]
    capsys.readouterr()
    again = labeltree.train(read_data(path), path=tmp_path / "m", overwrite=True, progress=True)
    assert "60 rows" in capsys.readouterr().err
    assert model.evaluate(path)["P@1"] > 0.5
    assert again.evaluate(path) == again.evaluate(read_data(path, like=again))


def test_train_refuses_what_it_cannot_use(tmp_path):
    path = write_csv(tmp_path / "d.csv", rows(","))
    with pytest.raises(TypeError, match="cluster"):
        labeltree.train(path, path=tmp_path / "m", cluster=3)
    with pytest.raises(InputError, match="text settings"):
        labeltree.train(read_data(path), path=tmp_path / "m", min_df=2)
    with pytest.raises(InputError, match="clusters is 0"):
        labeltree.train(path, path=tmp_path / "m", clusters=0)
    assert not (tmp_path / "m").exists()


def test_narrow_files_are_read_for_the_model(tmp_path):
    plain = labeltree.Dataset.from_matrices(np.eye(4), np.eye(4))
    model = labeltree.train(plain, path=tmp_path / "m", clusters=2)
    (tmp_path / "t.svm").write_text("0 0:1\n1 1:1\n")
    assert model.evaluate(tmp_path / "t.svm")["P@1"] == 1
    assert read_data(tmp_path / "t.svm", like=model).n_features == 4
    (tmp_path / "t.csv").write_text("text,labels\na,b\n")
    with pytest.raises(InputError, match="was trained on LIBSVM data"):
        model.evaluate(tmp_path / "t.csv")


def test_experiments_read_documents(tmp_path):
    from labeltree.paper.experiments import load_splits

    write_csv(tmp_path / "train.csv", rows(","))
    write_csv(tmp_path / "test.csv", list(rows(","))[:9])
    (split,) = load_splits([tmp_path])
    assert split.test.n_features == split.train.n_features == 13
    assert (split.train.X[:9] != split.test.X).nnz == 0


def test_train_warns_of_what_was_read(tmp_path):
    path = write_csv(tmp_path / "d.csv", rows(";"))
    with pytest.warns(UserWarning, match="use separator=';'") as caught:
        labeltree.train(path, path=tmp_path / "m", clusters=2)
    assert caught[0].filename == __file__


def test_rare_labels_with_a_wrong_separator_are_noticed(tmp_path):
    random = np.random.default_rng(0)
    labels = [[f"l{j}" for j in random.choice(3000, 3, replace=False)] for _ in range(400)]
    documents = [(f"word{i % 7}", ";".join(names)) for i, names in enumerate(labels)]
    (warning,) = describe_data(read_data(write_csv(tmp_path / "d.csv", documents)))["warnings"]
    assert "separator=';'" in warning


@pytest.mark.parametrize(
    "names",
    [
        [*(f"Surname{i}, Given {i}" for i in range(40)), *(f"machine learning {i}" for i in range(40))],
        [f"Given{i} / Name{i}" for i in range(50)],
        ["C++", "R&D", "Notepad++ plugins", "C++ - advanced", "a+", "std::map", "x - y"],
        [f"{kind} > {size}" for kind in "abcdefgh" for size in "klmnopqr"],  # each with several rows
        [f"area{i % 9} > topic{i}" for i in range(400)],  # a hierarchy
        [f"area{i % 3} > part{i % 40} > topic{i}" for i in range(400)],
        [f"ns{i % 5}::name{i}" for i in range(400)],
        [f"Surname{i} - Given{i % 20}" for i in range(400)],
        [f"C{i}++" for i in range(400)],
    ],
)
def test_separators_in_names_are_not_suspicious(tmp_path, names):
    for n_labels in (1, 2):
        labels = ([names[(i + j) % len(names)] for j in range(n_labels)] for i in range(400))
        lines = (json.dumps({"text": f"word{i % 7}", "labels": row}) for i, row in enumerate(labels))
        (tmp_path / "d.jsonl").write_text("\n".join(lines))
        assert describe_data(read_data(tmp_path / "d.jsonl"))["warnings"] == []


@pytest.mark.parametrize(
    ("header", "start"), [("id\tlabels\ttext", "7\t"), ("Labels\tText", ""), ("tags\tdocument text", "")]
)
def test_the_header_of_a_tsv_file_is_noticed(run, tmp_path, header, start):
    path = tmp_path / "d.tsv"
    lines = [f"{start.replace('7', str(i))}{b}\t{a}\n" for i, (a, b) in enumerate(rows(" "))]
    path.write_text(f"{header}\n{''.join(lines)}")
    (warning,) = describe_data(read_data(path))["warnings"]
    assert warning.startswith("The first document looks like a header line: its label is ")
    assert warning.endswith("use format='csv', separator=' '.")
    assert "remove it, or use --data-format csv --label-separator ' '." in run("estimate", path, "-q")[2]
    if "labels" in header:
        right = read_data(path, format="csv", separator=" ")
        assert (right.n_instances, describe_data(right)["warnings"]) == (60, [])


@pytest.mark.parametrize(
    "first", ["labels\tHow to print labels", "sea0\ttext", "labels sea0\ttext", "topic\t1"]
)
def test_other_first_lines_are_not_suspicious(tmp_path, first):
    path = tmp_path / "d.tsv"
    path.write_text(f"{first}\n" + "".join(f"{b}\t{a}\n" for a, b in rows(" ")))
    assert describe_data(read_data(path))["warnings"] == []


BLANK = {
    "d.csv": 'text,labels\n,b\nred apple,a\n \u3000,b\n"",a\npear,b\n',
    "d.tsv": "1\tb\t\n2\ta\tred apple\n3\tb\t \u3000\n4\ta\t\t\r\n5\tb\tpear",
    "d.jsonl": "".join(
        json.dumps({"labels": label, **text}) + "\n"
        for label, text in [
            ("b", {}),
            ("a", {"text": "red apple"}),
            ("b", {"text": " \u3000"}),
            ("a", {"text": None}),
            ("b", {"text": "pear"}),
        ]
    ),
}


@pytest.mark.parametrize("name", BLANK)
def test_a_blank_text_is_skipped_in_every_format(run, refused, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BLANK[name].encode())
    data = read_data(path)
    assert (data.n_instances, data.n_skipped) == (2, 3)
    assert data.Y.toarray().tolist() == [[1, 0], [0, 1]]
    assert data.text.names == ("apple", "pear", "red")
    assert read_data(path, require_labels=False).n_instances == 5
    assert "the document has no text" in refused("estimate", path, "--strict", "-q")
    assert run("train", path, tmp_path / "m", "--clusters", 2, "-q")[0] == 0
    found = json.loads(run("evaluate", tmp_path / "m", path, "--json")[1])
    assert (found["P@1"], found["skipped_rows"]) == (1, 3)
    out = run("predict", tmp_path / "m", path, "--format", "jsonl", "--top", 1, "-q")[1]
    assert [json.loads(line)["labels"] for line in out.splitlines()] == [[], ["a"], [], [], ["b"]]
    assert run("convert", path, tmp_path / "c.npz", "--model", tmp_path / "m", "-q")[0] == 0
    with np.load(tmp_path / "c.npz") as arrays:
        assert arrays["labels_indptr"].tolist() == [0, 1, 2, 3, 4, 5]
    code, out, err = run("threshold", tmp_path / "m", path, "--json")
    assert code == 0
    assert "3 rows without text skipped" in err
    assert (json.loads(out)["skipped_rows"], json.loads(out)["unknown_labels"]) == (3, 0)


def test_columns_of_jsonl_may_be_missing_from_the_first_line(tmp_path):
    (tmp_path / "d.jsonl").write_text(
        '{"labels": "a"}\n{"text": "word"}\n{"text": "word two", "labels": "b"}\n'
    )
    data = read_data(tmp_path / "d.jsonl")
    assert (data.n_instances, data.n_skipped) == (2, 1)
    (tmp_path / "w.jsonl").write_text('{"labels": "a"}\n{"body": "x y"}\n')
    with pytest.raises(InputError, match=r"w.jsonl:1: the object has no 'text', only 'labels', 'body'"):
        read_data(tmp_path / "w.jsonl")


def test_arguments_of_another_type_are_refused(model, tmp_path):
    path = write_csv(tmp_path / "d.csv", rows(","))
    with pytest.raises(InputError, match="separator is empty"):
        labeltree.train(path, path=tmp_path / "m", separator="")
    X = model.text.transform(["text2"])
    calls = (
        model.evaluate,
        lambda X: labeltree.train(X, path=tmp_path / "m"),
        lambda X: labeltree.tune(X, path=tmp_path / "t"),
    )
    for call in calls:
        with pytest.raises(InputError, match="the labels are missing; pass a matrix of labels, or those of"):
            call(X)
    assert not (tmp_path / "m").exists()
    with pytest.raises(InputError, match="threshold is "):
        model.predict(X, threshold=np.zeros(84))
    with pytest.raises(InputError, match="threshold is 'half'"):
        model.predict(X, threshold="half")
    assert model.predict([]) == ([], [])
    assert model.predict(np.array([], dtype=object)) == ([], [])
    assert model.predict_matrix([]).shape == (0, model.n_labels)


def test_rows_before_an_invalid_line_are_predicted(run, model, tmp_path):
    (tmp_path / "t.csv").write_text("text,labels\ntext2,\ncommon word1,\nx,y,z\n")
    code, out, err = run("predict", model.path, tmp_path / "t.csv", "--format", "jsonl", "-q")
    assert code == 2
    assert "t.csv:4:" in err
    assert [json.loads(line)["row"] for line in out.splitlines()] == [0, 1]
