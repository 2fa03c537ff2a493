"""`labeltree predict`: IDs, output formats, thresholds, every row, and answers while a pipe is open."""

import csv
import io
import json
import subprocess
import sys

import pytest

ROWS = [
    ("a1", "apple pear plum", "fruit"),
    ("b2", "whale shark fish", "sea,fish"),
    ("c3", "hammer saw nail", "tools"),
    ("d4", "plum apple jam", "fruit,kitchen"),
]


def table(rows, delimiter=","):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([("key", "text", "labels"), *rows])
    return text.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from labeltree.cli import main

    folder = tmp_path_factory.mktemp("predict")
    (folder / "train.csv").write_text(table(ROWS * 3))
    assert main(["train", str(folder / "train.csv"), str(folder / "m"), "--clusters", "2", "-q"]) == 0
    (folder / "test.csv").write_text(table([*ROWS, ('e "5"\n,x', "nothing known", "")]))
    return folder


def test_ids_are_copied_and_every_row_is_in_the_output(run, place):
    command = ("predict", place / "m", place / "test.csv", "--id-column", "key", "--top", 1, "-q", "--format")
    code, out, err = run(*command, "jsonl")
    assert (code, err) == (0, "")
    objects = [json.loads(line) for line in out.splitlines()]
    assert [row["id"] for row in objects] == ["a1", "b2", "c3", "d4", 'e "5"\n,x']
    assert [row["row"] for row in objects] == [0, 1, 2, 3, 4]
    assert objects[0]["labels"] == ["fruit"]
    assert 0 < objects[0]["scores"][0] <= 1
    assert (objects[4]["labels"], objects[4]["scores"]) == ([], [])
    head, *lines = list(csv.reader(io.StringIO(run(*command, "csv")[1])))
    assert head == ["row", "id", "label", "score"]
    assert [line[:3] for line in (lines[0], lines[4])] == [["0", "a1", "fruit"], ["4", 'e "5"\n,x', ""]]
    assert lines[4][3] == ""
    tsv = run(*command, "tsv")[1].splitlines()
    assert tsv[0] == "row\tid\tlabel\tscore"
    assert tsv[5] == '4\te "5" ,x\t\t'


def test_formats_without_ids(run, place):
    command = ("predict", place / "m", place / "test.csv", "--top", 2, "-q", "--format")
    assert run(*command, "svm")[1].split("\n")[4:] == ["", ""]
    assert run(*command, "tsv")[1].splitlines()[-1] == "4\t\t"
    assert "id" not in json.loads(run(*command, "jsonl")[1].splitlines()[0])


def test_threshold(run, place):
    command = ("predict", place / "m", place / "test.csv", "--top", 5, "--json")
    every = json.loads(run(*command)[1])["predictions"]
    some = json.loads(run(*command, "--threshold", 0.4)[1])["predictions"]
    assert len(some) == len(every) == 5
    for row, all_of_row in zip(some, every, strict=True):
        assert row["scores"] == [score for score in all_of_row["scores"] if score >= 0.4]
    assert sum(len(row["labels"]) for row in some) < sum(len(row["labels"]) for row in every)


def test_ids_in_tsv_and_jsonl(run, place, tmp_path):
    (tmp_path / "t.tsv").write_text("x7\t\tapple\nx8\t\twhale\n")
    out = run("predict", place / "m", tmp_path / "t.tsv", "--id-column", "id", "--format", "jsonl", "-q")[1]
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["x7", "x8"]
    (tmp_path / "t.jsonl").write_text('{"text": "apple", "n": 12}\n{"text": null, "n": "z"}\n{"n": null}\n')
    out = run("predict", place / "m", tmp_path / "t.jsonl", "--id-column", "n", "--format", "jsonl", "-q")[1]
    found = [json.loads(line) for line in out.splitlines()]
    assert [row["id"] for row in found] == ["12", "z", ""]
    assert [bool(row["labels"]) for row in found] == [True, False, False]


def test_refused(refused, place, tmp_path):
    (tmp_path / "t.csv").write_text("text\napple\n")
    message = refused("predict", place / "m", tmp_path / "t.csv", "--id-column", "nope")
    assert "no column 'nope', only 'text'; set the name of the ID column (--id-column)" in message
    (tmp_path / "t.tsv").write_text("x7\t\tapple\n")
    (tmp_path / "t.svm").write_text("1 1:1\n")
    start = ("predict", place / "m")
    assert "have no names" in refused(*start, tmp_path / "t.tsv", "--id-column", "key", "-q")
    assert "'nokey'" in refused(*start, place / "test.csv", "--id-column", "nokey", "-q")
    assert "no place for --id-column" in refused(
        *start, place / "test.csv", "--id-column", "key", "--format", "svm"
    )
    assert "--threshold is 2.0" in refused(*start, place / "test.csv", "--threshold", 2)
    (tmp_path / "empty.csv").write_text("text,labels\n")
    assert "no documents" in refused(*start, tmp_path / "empty.csv", "-o", tmp_path / "out.tsv", "-q")
    (tmp_path / "wrong.csv").write_text("text,labels\napple,fruit\nx,y,z\n")
    assert ":3:" in refused(*start, tmp_path / "wrong.csv", "-o", tmp_path / "out.tsv", "-q")
    assert not (tmp_path / "out.tsv").exists()


@pytest.mark.parametrize(
    ("options", "lines", "expected"),
    [
        (("--format", "jsonl"), ["apple\n", "whale\n"], ['"row": 0', '"row": 1']),
        (("--format", "svm", "--data-format", "tsv"), ["x\tapple\n\n", "x\twhale\n"], ["fruit:", ":"]),
        (
            ("--format", "jsonl", "--data-format", "csv"),
            ["key,text\n1,apple\n", '2,"wh\nale"\n'],
            ['"row": 0', '"row": 1'],
        ),
    ],
)
def test_a_line_is_answered_before_the_next_is_sent(place, options, lines, expected):
    command = [sys.executable, "-m", "labeltree", "predict", str(place / "m"), "-", "--top", "1", "-q"]
    with subprocess.Popen(
        [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for line, answer in zip(lines, expected, strict=True):
            process.stdin.write(line)
            process.stdin.flush()
            # Waits for the answer: if it came only after the end of the input, this would wait forever.
            assert answer in process.stdout.readline()
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
