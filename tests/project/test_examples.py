"""The examples run as their docstrings describe, and report errors with one message."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import read_documents

from labeltree import synthesize, write_svm

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments, code=0):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("planning") / "train.svm"
    write_svm(path, synthesize("eur-lex", scale=0.05)[0])
    return path


def test_text_tagging_finds_the_labels_of_the_catalog():
    out = run("text_tagging.py")
    planned, taken = re.findall(r"([\d.]+ kB)\.\n", out)
    assert planned == taken
    assert float(re.search(r"P@1 ([\d.]+)%", out)[1]) > 90
    assert re.search(r"Boots .*\n    outdoor .*shoes", out)


def test_text_tagging_keeps_its_model_and_tags_given_documents(tmp_path):
    out = run("text_tagging.py", "--model", tmp_path / "model", "A pot for tea, hot under its lid.", "Xyzzy.")
    assert (tmp_path / "model" / "manifest.json").is_file()
    assert re.search(r"under its lid\.\n    .*tea", out)
    assert out.endswith("Xyzzy.\n    no label\n")


def test_the_catalog():
    train, test = (read_documents(EXAMPLES / f"catalog-{part}.tsv") for part in ("train", "test"))
    assert (train.n_instances, test.n_instances) == (400, 100)
    assert set(test.label_names) <= set(train.label_names)
    assert min(train.Y.getnnz(axis=1)) >= 2
    lines = [(EXAMPLES / f"catalog-{part}.tsv").read_text().splitlines() for part in ("train", "test")]
    assert len({line.split("\t")[2] for part in lines for line in part}) == 500


def test_size_planning_gives_exact_sizes_and_good_advice(data, tmp_path):
    out = run("size_planning.py", data, "--clusters", "5", "20", "--budget", "10", "--threads", "1")
    head, one_vs_rest, *rows, advice = out.splitlines()
    assert head.split()[:3] == ["K", "depth", "nodes"]
    assert one_vs_rest.split()[:3] == ["-", "1", "1"]
    assert {row.split()[0] for row in rows} == {"5", "20"}
    assert any(row.endswith("fits") for row in rows)
    arguments = re.search(r"(--clusters \d+ --max-depth \d+)", advice)[1].split()
    command = [sys.executable, "-m", "labeltree", "train", data, tmp_path / "model", "--quiet", "--json"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    size = int(re.search(r'"model_bytes": (\d+)', done.stdout)[1])
    assert size <= 10_000_000
    assert f"{size / 1e6:.1f} MB of 10.0 MB" in advice


def test_size_planning_when_nothing_fits():
    """It reads documents, too."""
    options = ["--clusters", "5", "--threads", "1", "--budget", "0.1"]
    out = run("size_planning.py", EXAMPLES / "catalog-train.tsv", *options)
    assert out.splitlines()[1].split()[:3] == ["-", "1", "1"]
    assert "No model fits 0.1 MB" in out


def test_grid_search_reads_the_test_file_like_the_training_file():
    out = run("grid_search.py", *(EXAMPLES / f"catalog-{part}.tsv" for part in ("train", "test")))
    assert len(out.splitlines()) == 7
    assert float(out.split()[-1]) > 70


def test_errors_of_an_example(tmp_path):
    assert run("size_planning.py", tmp_path / "missing.svm", code=1).startswith("error: ")
    assert run("text_tagging.py", "--train", tmp_path / "missing.tsv", code=1).startswith("error: ")


def test_mlflow_model(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, str(EXAMPLES / "mlflow_model.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"Keeps tea hot.*\n.*label +score\n +tea ", done.stdout)
