"""`labeltree reproduce` on the command line, and its report."""

import bz2
import csv
import json
import re
import sys
from dataclasses import replace

import pytest
from helpers import make_data

from labeltree import write_svm
from labeltree.errors import ResourceError
from labeltree.paper.experiments import EXPERIMENTS


def sections(report):
    """Return the names of the experiments in a report."""
    return re.findall("^## (.*?): ", report.read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write two small datasets, one of them compressed and without a test file."""
    place = tmp_path_factory.mktemp("data")
    (place / "small <set>").mkdir()
    (place / "packed").mkdir()
    write_svm(place / "small <set>" / "train.svm", make_data(150))
    write_svm(place / "small <set>" / "test.svm", make_data(40, seed=1))
    plain = (place / "small <set>" / "train.svm").read_bytes()
    (place / "packed" / "train.svm.bz2").write_bytes(bz2.compress(plain))
    return place


def test_fixed_k(run, data, tmp_path):
    out = tmp_path / "out"
    places = data / "small <set>", data / "packed"
    code, summary, err = run("reproduce", "fixed-k", *places, "-o", out, "--seeds", "0,7", "--clusters", 5)
    assert code == 0
    assert summary.splitlines()[-1] == f"report {out / 'report.md'}"
    assert "tree bytes" in summary
    assert [line for line in err.splitlines() if line.endswith("...")] == [
        "reading small <set> ...",
        "reading packed ...",
        "fixed-k ...",
    ]
    names = {"fixed-k-seeds.csv", "fixed-k.csv", "fixed-k.png", "fixed-k.svg", "report.md"}
    assert {path.name for path in out.iterdir()} == names
    with (out / "fixed-k-seeds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 5
    assert {row["data"] for row in rows} == {"small <set>", "packed"}
    assert {row["seed"] for row in rows} == {"0", "7"}
    assert {row["clusters"] for row in rows} == {"5"}
    # The same data under two names
    ratios = [[row["ratio"] for row in rows if row["data"] == name] for name in ("small <set>", "packed")]
    assert ratios[0] == ratios[1]


def test_the_report_links_all_files(run, data, tmp_path):
    names = ["statistics", "fixed-k", "varied-k", "alpha"]
    command = ["reproduce", ",".join(names), data / "small <set>", "-o", tmp_path, "--seeds", "0", "--quiet"]
    assert run(*command)[0] == 0
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "small \\<set>" in text
    assert not re.search(r"(?<!\\)<set>", text)
    links = re.findall(r"\]\((.*?)\)", text)
    assert len(links) > 8
    assert all((tmp_path / link).is_file() for link in links)
    assert sections(tmp_path / "report.md") == names


def test_json_and_names(run, data, tmp_path):
    train = data / "small <set>" / "train.svm"
    code, out, err = run("reproduce", "statistics", train, "-o", tmp_path / "o", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["report"] == str(tmp_path / "o" / "report.md")
    row = found["statistics"]["tables"]["statistics"][0]
    assert (row["data"], row["instances"], row["test_instances"]) == ("small <set>", 150, None)
    write_svm(tmp_path / "mine.svm.gz", make_data(30))
    code, out, _ = run("reproduce", "statistics", tmp_path / "mine.svm.gz", "-o", tmp_path / "p", "--json")
    assert json.loads(out)["statistics"]["tables"]["statistics"][0]["data"] == "mine"


def test_warnings_name_one_of_several_datasets(run, tmp_path):
    files = [tmp_path / "one.csv", tmp_path / "other.csv"]
    for file in files:
        records = "".join(f"word{i % 7} text{i % 5},a{i % 4}|b{i % 3}\n" for i in range(60))
        file.write_text(f"text,labels\n{records}")
    code, _, err = run("reproduce", "statistics", *files, "-o", tmp_path / "o")
    assert code == 0
    assert "data    other\nrows    60 rows\n" in err
    assert "note: one: Every row has a single label, and many contain '|'" in err
    assert "note: other: Every row" in err


def test_all(run, data, tmp_path, monkeypatch):
    code, summary, _ = run(
        "reproduce", "all", data / "small <set>", "-o", tmp_path, "--seeds", "0", "--clusters", 5
    )
    assert code == 0
    assert sections(tmp_path / "report.md") == list(EXPERIMENTS)
    assert len(EXPERIMENTS) == 8
    for name in EXPERIMENTS:
        assert (tmp_path / f"{name}.csv").is_file() or list(tmp_path.glob(f"{name}-*.csv"))
        assert f"{name}: " in summary
    few = {name: EXPERIMENTS[name] for name in ("statistics", "pruning")}
    monkeypatch.setattr("labeltree.paper.experiments.EXPERIMENTS", few)
    code, summary, err = run("reproduce", "all", data / "packed", "-o", tmp_path / "b")
    assert code == 0
    assert "note: Skipping pruning: no dataset has test data." in err
    assert sections(tmp_path / "b" / "report.md") == ["statistics"]


def test_without_matplotlib_there_are_tables(run, data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("reproduce", "all", data / "packed", "-o", tmp_path, "--seeds", "0")
    assert code == 0
    assert err.count("note: Tables are written without figures: this needs matplotlib, which is not") == 1
    assert sections(tmp_path / "report.md") == [name for name in EXPERIMENTS if name != "pruning"]
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}
    assert "svg" not in (tmp_path / "report.md").read_text("utf-8")


def test_theory_needs_no_data(run, tmp_path):
    code, *_ = run(
        *("reproduce", "theory", "-o", tmp_path / "o", "--labels", 20_000, "--clusters", 10),
        *("--features", 1000, "--alphas", "0.2,0.5"),
    )
    assert code == 0
    assert "20,000" in (tmp_path / "o" / "report.md").read_text("utf-8")


def test_existing_results_are_not_replaced(run, refused, data, tmp_path):
    command = ["reproduce", "statistics", data / "packed", "-o", tmp_path / "o", "--quiet"]
    assert run(*command) == (0, "", "")
    (tmp_path / "o" / "statistics.csv").write_text("mine")
    assert "the file already exists; choose another name, or use --overwrite" in refused(*command)
    assert (tmp_path / "o" / "statistics.csv").read_text() == "mine"
    assert run(*command, "--overwrite") == (0, "", "")
    assert (tmp_path / "o" / "statistics.csv").read_text().startswith("data,")
    (tmp_path / "o" / "report.md").unlink()
    assert "statistics.csv: the file already exists" in refused(*command)
    (tmp_path / "f").write_text("")
    assert "f: is a file, not a directory" in refused("reproduce", "theory", "-o", tmp_path / "f")


def test_errors(refused, data, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path))
    small, packed, out = data / "small <set>", data / "packed", ("-o", tmp_path / "o")
    for message, *arguments in (
        ("no such experiment: 'fixed'", "fixed", small, *out),
        ("missing option '--out'", "fixed-k", small),
        ("fixed-k needs data", "fixed-k", *out),
        ("statistics needs data", "all", *out),
        ("nowhere: no such file or directory", "fixed-k", tmp_path / "nowhere", *out),
        ("no train.svm in this directory", "fixed-k", data, *out),
        ("eur-lex has not been downloaded yet; run: labeltree download eur-lex", "fixed-k", "eur-lex", *out),
        ("wiki-500k: no train.txt", "fixed-k", "wiki-500k", *out),
        ("two datasets are named 'packed'", "fixed-k", packed, packed, *out),
        ("pruning needs test data, found none in packed", "pruning", packed, *out),
        ("--seeds is 'a,b', expected numbers", "fixed-k", small, *out, "--seeds", "a,b"),
        ("the seeds are 1, 1, expected", "fixed-k", small, *out, "--seeds", "1,1"),
        ("the seeds are -1, expected", "fixed-k", small, *out, "--seeds=-1"),
        ("--clusters is 1, expected an integer of at least 2", "fixed-k", small, *out, "--clusters", 1),
        ("--labels is an option of theory, not of fixed-k", "fixed-k", small, *out, "--labels", 100),
        ("--alphas is 'x', expected numbers", "theory", *out, "--alphas", "x"),
        ("expected values between 0 and 1", "theory", *out, "--alphas", "1.5"),
        ("expected values between 0 and 1", "fixed-k,theory", small, *out, "--alphas", "1.5"),
        ("too few labels for a tree: labels is 199, expected at least 200", "theory", *out, "--labels", 199),
        ("train.svm: is a file", "fixed-k", small, "-o", small / "train.svm" / "o"),
    ):
        assert message in refused("reproduce", *arguments), message
    assert not (tmp_path / "o").exists()


def test_an_experiment_that_does_not_fit_is_skipped(run, data, tmp_path, monkeypatch):
    def no_memory(*_, **__):
        raise ResourceError("not enough memory", hint="use {threads}", parameters={"threads": 1})

    monkeypatch.setitem(EXPERIMENTS, "fixed-k", replace(EXPERIMENTS["fixed-k"], measure=no_memory))
    code, summary, err = run("reproduce", "statistics,fixed-k,theory", data / "packed", "-o", tmp_path / "o")
    assert code == 2
    assert "note: Skipping fixed-k: not enough memory; use --threads 1.\n" in err
    assert err.endswith("error: not enough memory or disk space for fixed-k\n")
    assert f"report {tmp_path / 'o' / 'report.md'}" in summary
    assert sections(tmp_path / "o" / "report.md") == ["theory", "statistics"]
    assert run("reproduce", "fixed-k", data / "packed", "-o", tmp_path / "p")[0] == 2
    assert not (tmp_path / "p").exists()


def test_warnings_are_printed_as_notes(run, data, tmp_path):
    small = tmp_path / "wide"
    small.mkdir()
    (small / "train.svm").write_bytes((data / "small <set>" / "train.svm").read_bytes())
    (small / "test.svm").write_text("1 1:1 5000:1\n2 2:1\n")
    code, _, err = run("reproduce", "pruning", small, "-o", tmp_path / "o", "--seeds", "0", "--quiet")
    assert code == 0
    assert err.count("note: The data has") == err.count("features") == len(err.splitlines()) == 1


def test_ctrl_c_keeps_finished_results(run, data, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "fixed-k", replace(EXPERIMENTS["fixed-k"], measure=stop))
    code, _, err = run("reproduce", "statistics,fixed-k", data / "packed", "-o", tmp_path / "o", "--quiet")
    assert code == 130
    assert err == f"stopped; results in {tmp_path / 'o'}: statistics\n"
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["statistics.csv"]
