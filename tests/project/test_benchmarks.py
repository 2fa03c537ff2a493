"""The benchmarks: every program starts, the small ones run, and the published tables are up to date."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kernels
import numpy as np
import optimum
import publish
import pytest
from helpers import random_data
from scipy import sparse

from labeltree import SolverSettings, build_tree, make_plan, metrics, train_model

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PEERS = BENCHMARKS / "peers"
# Modules that programs import; all others are programs.
PARTS = {
    "bounds",
    "extrapolate",
    "machine_peak",
    "program",
    "scale_report",
    "serve_tools",
    "sizes_figure",
    "training_work",
}
PROGRAMS = [path for path in sorted(BENCHMARKS.glob("*.py")) if path.stem not in PARTS]


@pytest.mark.parametrize("program", [*PROGRAMS, PEERS / "run.py", PEERS / "report.py"], ids=lambda p: p.stem)
def test_a_program_prints_its_help(program):
    done = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


def test_every_kernel_is_measured(monkeypatch, capsys):
    options = ["--scale", "0.01", "--repeats", "1", "--rows", "20", "--clusters", "5", "--threads", "1"]
    monkeypatch.setattr("sys.argv", ["kernels.py", *options, "--json"])
    kernels.main()
    measured = {row["name"]: row for row in json.loads(capsys.readouterr().out)["kernels"]}
    assert {"reader", "label vectors", "K-means", "plan", "training", "beam search, batch"} <= set(measured)
    assert all(row["seconds"] > 0 and row["processor_seconds"] >= 0 for row in measured.values())


def test_the_distance_to_the_optimum(tmp_path):
    data = random_data(0, instances=60, labels=9)
    tree = build_tree(data, clusters=3)
    tight = train_model(data, make_plan(data, tree, SolverSettings(tolerance=1e-10)), tmp_path / "tight")
    found = optimum.sample(data, tight, 1000)
    assert found.size == tree.children.size
    np.testing.assert_allclose(found, 0, atol=1e-5)
    with pytest.warns(UserWarning, match="did not converge"):
        rough = train_model(data, make_plan(data, tree, SolverSettings(max_iterations=1)), tmp_path / "rough")
    assert optimum.sample(data, rough, 1000).max() > 0.01


def test_the_tables_are_up_to_date():
    for path, text in publish.render(publish.load_results()).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make bench-tables`"


def test_the_precision_of_peers_is_that_of_labeltree(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    from measure import precision

    rng = np.random.default_rng(3)
    Y = sparse.csr_matrix(rng.random((40, 12)) < 0.2, dtype=np.float32)
    top = np.argsort(rng.random((40, 12)), axis=1)[:, :5].astype(np.int32)
    expected = {f"P@{k}": pytest.approx(100 * metrics.precision_at_k(Y, top, k)) for k in (1, 3, 5)}
    assert precision(Y, top) == expected


def test_the_comparison_runs_without_peers(tmp_path, folder):
    """The driver, the runner and --continue."""
    data, out = tmp_path / "data" / "toy", tmp_path / "out"
    data.mkdir(parents=True)
    for split in ("train", "test"):
        (data / f"{split}.svm").write_bytes((folder / f"{split}.svm").read_bytes())
    command = [sys.executable, PEERS / "run.py", data.parent, "--out", out, "--peers", "", "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for more in (["--rounds", "1"], ["--rounds", "2", "--continue"]):
        done = subprocess.run(
            [*command, "--no-plots", *more], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines() if line]
    assert [row["round"] for row in rows] == [1, 2]
    assert rows[0]["train_s"] >= rows[0]["tree_s"] > 0
    assert rows[0]["peak_bytes"] > rows[0]["above_bytes"] >= 0
    assert 0 < rows[0]["P@1"] <= 100
    results = json.loads((out / "results.json").read_text())
    assert results["datasets"]["toy"]["figures"]["labeltree"]["runs"] == 2
