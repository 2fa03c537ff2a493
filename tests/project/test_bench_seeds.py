"""The benchmark over seeds: a run equals the library's, and the summary equals NumPy's."""

import bz2
import json

import numpy as np
import pytest
import seeds
from helpers import random_data

from labeltree import InputError, SolverSettings, build_tree, make_plan, train_model, write_svm


@pytest.fixture
def folder(tmp_path):
    write_svm(tmp_path / "train.svm", random_data(0, instances=80))
    write_svm(tmp_path / "test.svm", random_data(1, instances=30))
    (tmp_path / "test.svm.bz2").write_bytes(bz2.compress((tmp_path / "test.svm").read_bytes()))
    (tmp_path / "test.svm").unlink()
    return tmp_path


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["seeds.py", *map(str, arguments)])
    seeds.main()
    return capsys.readouterr().out


@pytest.mark.parametrize("normalize", [True, False])
def test_runs_and_their_summary(folder, monkeypatch, capsys, tmp_path, normalize):
    options = ("--seeds", 3, "--first-seed", 5, "--clusters", 3, "--cost", 0.5, "--threads", 1)
    options += () if normalize else ("--no-normalize",)
    report = json.loads(run(monkeypatch, capsys, folder, *options, "--json"))
    assert [one["seed"] for one in report["runs"]] == [5, 6, 7]
    data, test = (seeds.read_svm(seeds.find(folder, name)) for name in ("train", "test"))
    data = data.normalize() if normalize else data
    plan = make_plan(data, build_tree(data, clusters=3, seed=6), SolverSettings(cost=0.5, seed=6))
    found = train_model(data, plan, tmp_path / "model").evaluate(test)
    assert report["runs"][1]["model_bytes"] == plan.model_bytes
    for name in seeds.METRICS:
        values = [one[name] for one in report["runs"]]
        assert values[1] == pytest.approx(100 * found[name])
        assert report["summary"][name]["mean"] == pytest.approx(np.mean(values))
        assert report["summary"][name]["error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    table = run(monkeypatch, capsys, folder, folder, *options).splitlines()
    assert len(table) == 4
    assert f"{report['summary']['P@1']['mean']:.2f} ± " in table[2]


def test_one_seed_has_no_standard_error(folder, monkeypatch, capsys):
    assert "±" not in run(monkeypatch, capsys, folder, "--seeds", 1, "--clusters", 3).splitlines()[2]


def test_what_is_wrong_is_reported_before_training(folder, monkeypatch, capsys):
    with pytest.raises(InputError, match="seeds is 0, expected at least 1"):
        run(monkeypatch, capsys, folder, "--seeds", 0)
    with pytest.raises(InputError, match=r"train\.svm: no such file"):
        run(monkeypatch, capsys, folder / "none")
