"""Settings files, sizes and times, as `labeltree train` and `tune` take them."""

import json
import re

import pytest
from helpers import disk_bytes

import labeltree
from labeltree.base.limits import MAX_TIME
from labeltree.tuning.settings_file import read_settings

TIMES = [("20min", 1200), ("90 s", 90), ("1.5h", 5400), (7, 7), ("8", 8)]
WRONG_TIMES = ["", "min", "-5s", "0", "1 week", True, None]


@pytest.mark.parametrize(("given", "seconds"), [*TIMES, *((given, None) for given in WRONG_TIMES)])
def test_times(given, seconds):
    assert MAX_TIME.plain(given) == seconds


def test_settings_files(run, refused, folder, tmp_path):
    file, train = tmp_path / "s.json", folder / "train.svm"
    file.write_text(
        json.dumps({"clusters": 3, "cost": 2, "positive_cost": [0.5, 1], "trees": 2, "weights": None})
    )
    code, _, err = run("train", train, tmp_path / "m", "--settings", file, "--cost", 4, "-q")
    assert code == 0, err
    made = labeltree.load(tmp_path / "m").manifest
    assert (made["settings"]["cost"], made["settings"]["positive_cost"]) == (4, [0.5, 1])
    assert len(made["trees"]) == 2
    for content, message in (
        ('{"clusterz": 3}', "there is no setting named 'clusterz'"),
        ('{"clusters": 1}', "clusters is 1, expected an integer of at least 2"),
        ("[1]", "not a JSON object"),
        ("{", "not valid JSON"),
    ):
        file.write_text(content)
        assert f"{file}: " in refused("train", train, tmp_path / "n", "--settings", file)
        assert message in refused("train", train, tmp_path / "n", "--settings", file)
    assert "no such file" in refused("train", train, tmp_path / "n", "--settings", tmp_path / "no")
    settings = {"clusters": 5, "ngrams": [1, 2], "lowercase": False}
    file.write_text(json.dumps(settings))
    assert read_settings(file) == {**settings, "ngrams": (1, 2)}
    arguments = ("train", train, tmp_path / "n", "--settings", file)
    for content, message in (
        ('{"text": []}', "text is [], expected a string or"),
        ('{"labels": 3}', "labels is 3"),
    ):
        file.write_text(content)
        assert message in refused(*arguments)
    file.write_text('{"text": "title"}')
    assert (
        f"error: {file}: an option applies only to CSV, JSONL, Parquet or Arrow, but the data is in LIBSVM"
        in refused(*arguments)
    )
    file.write_text(json.dumps(settings))
    what = "an option applies only to text, but the data is in LIBSVM format; remove --ngrams"
    assert refused(*arguments) == f"error: {file}: {what}, or set --data-format"
    assert "remove --analyzer" in refused(*arguments, "--analyzer", "char")


def test_training_to_a_size(run, refused, folder, tmp_path):
    train, model = folder / "train.svm", tmp_path / "m"
    code, out, err = run("train", train, model, "--max-size", "4kB", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["codec"] == "sparse"
    assert labeltree.load(model).bytes <= 4000 == report["max_size"]
    assert report["model_bytes"] == disk_bytes(model)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    error = refused("train", train, tmp_path / "n", "--max-size", 100)
    least = int(
        re.search(r"the smallest possible size is .* \((.*) bytes\); use a larger", error)[1].replace(",", "")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert f"({least:,} bytes)" in refused("train", train, tmp_path / "n", "--max-size", least - 1)
    assert run("train", train, tmp_path / "n", "--max-size", least, "--quiet")[0] == 0
    assert labeltree.load(tmp_path / "n").bytes == least
    assert "remove --prune or --max-size" in refused(
        "train", train, tmp_path / "o", "--max-size", "4kB", "--prune", 0.1
    )
