"""The benchmark of waiting for the disk: both kinds of runs alternate, and ratios are those of pairs."""

import json

import pytest
import sync_cost
from helpers import random_data

from labeltree import write_svm


def test_pairs_and_their_summary(tmp_path, monkeypatch, capsys):
    write_svm(tmp_path / "train.svm", random_data(0, instances=40))
    commands, real = [], sync_cost.subprocess.run

    def run(command, **options):
        commands.append(command)
        return real(command, **options)

    monkeypatch.setattr(sync_cost.subprocess, "run", run)
    monkeypatch.setattr(
        "sys.argv",
        [
            "sync_cost.py",
            str(tmp_path / "train.svm"),
            "--pairs",
            "1",
            "--threads",
            "1",
            "--out",
            str(tmp_path),
        ],
    )
    sync_cost.main()
    report = json.loads(capsys.readouterr().out)
    assert [command[6] for command in commands] == ["--sync", "--no-sync"]
    assert report["cpu_ratio"]["standard_error"] is None
    (pair,) = report["pairs"]
    assert report["wall_ratio"]["mean"] == pair["sync"]["wall"] / pair["no-sync"]["wall"]
    assert all(seconds > 0 for kind in pair.values() for seconds in kind.values())
    assert [path.name for path in tmp_path.iterdir()] == ["train.svm"]


def test_ratios_have_a_standard_error():
    pairs = [
        {"sync": {"cpu": 11, "wall": 2}, "no-sync": {"cpu": 10, "wall": 2}},
        {"sync": {"cpu": 13, "wall": 2}, "no-sync": {"cpu": 10, "wall": 2}},
    ]
    found = sync_cost.summary(pairs)
    assert found["cpu_ratio"] == pytest.approx({"mean": 1.2, "standard_error": 0.1})
    assert found["wall_ratio"] == {"mean": 1.0, "standard_error": 0.0}
