"""The benchmark of compact models: the threshold is chosen on held-out rows, the rest is the library's."""

import json

import compact
import numpy as np
import pytest
from helpers import make_data

from labeltree import InputError, write_svm


@pytest.fixture
def folder(tmp_path):
    write_svm(tmp_path / "train.svm", make_data(300))
    write_svm(tmp_path / "test.svm", make_data(40, seed=1))
    return tmp_path


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["compact.py", *map(str, arguments)])
    compact.main()
    return capsys.readouterr().out


def test_held_out_rows_are_a_tenth_and_not_trained_on():
    data = make_data(105)
    fitted, held_out = compact.hold_out(data, 0)
    assert (fitted.n_instances, held_out.n_instances) == (95, 10)
    assert fitted.X.shape[1] == held_out.X.shape[1] == data.n_features
    both = np.vstack([fitted.X.toarray(), held_out.X.toarray()])
    assert sorted(map(tuple, both)) == sorted(map(tuple, data.X.toarray()))


def test_a_run(folder, monkeypatch, capsys):
    options = ("--clusters", 5, "--threads", 1, "--max-loss", 2, "--work", folder)
    result = json.loads(run(monkeypatch, capsys, folder, *options, "--json"))
    names = [row["name"] for row in result["rows"]]
    assert names == ["float32", "float16", "int8", "compact", "3 compact trees"]
    assert [row["as_planned"] for row in result["rows"]] == [True, True, True, None, None]
    sizes = [row["model_bytes"] for row in result["rows"]]
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]
    assert sizes[4] > sizes[3]
    first, *tried = result["tried"]
    assert result["threshold"] in [trial["threshold"] for trial in tried]
    assert first["weights"] == "float32"
    timed = [row["name"] for row in result["rows"] if "single_p50_us" in row]
    assert timed == ["float32", "compact"]
    assert sorted(path.name for path in folder.iterdir()) == ["test.svm", "train.svm"]
    table = run(monkeypatch, capsys, folder, *options).splitlines()
    assert f"threshold {result['threshold']:g}, chosen in {len(tried) + 1} evaluations" in table[0]
    assert [line[2:17].strip() for line in table[2:7]] == names


def test_missing_files_are_reported_before_training(folder, monkeypatch, capsys):
    with pytest.raises(InputError, match=r"train\.svm: no such file"):
        run(monkeypatch, capsys, folder, folder / "none")
