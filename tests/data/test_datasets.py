"""The paper's datasets: their table, their cache, their checks, and the command."""

import bz2
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from download_server import NAMES, PAGE, kept, published, same
from helpers import PATIENCE, shell
from scipy import sparse

import labeltree
from labeltree import Dataset, InputError, write_svm
from labeltree.data.published import SOURCES, cache_directory, fetch

# The table


def test_the_table_has_the_published_numbers():
    rows = {
        name: (source.n_instances, source.n_features, source.n_labels, source.x_nnz, source.y_nnz)
        for name, source in SOURCES.items()
    }
    assert rows == {
        "eur-lex": (15449, 186104, 3956, 4194123, 82265),
        "wiki10-31k": (14146, 104374, 30938, 9526572, 263705),
        "amazoncat-13k": (1186239, 203882, 13330, 84415397, 5979439),
        "amazon-670k": (490449, 135909, 670091, 37119040, 2674356),
        "wiki-500k": (1779881, 2381304, 501070, 689526754, 8446236),
        "amazon-3m": (1717899, 337067, 2812281, 84600285, 61916857),
    }
    assert [name for name, source in SOURCES.items() if source.n_pecos_features] == ["wiki10-31k"]
    assert {name for name, source in SOURCES.items() if not source.train_file} == {"wiki-500k", "amazon-3m"}
    for source in SOURCES.values():
        assert bool(source.train_file) == bool(source.test_file) != bool(source.title)


# Fetching


def test_fetched_once_and_read_again(tiny):
    found = fetch("eur-lex", tiny.directory)
    assert same(found.train, tiny.train)
    assert same(found.test, tiny.test)
    assert kept(tiny.directory) == sorted([*NAMES, *(f"{name}.sha256" for name in NAMES)])
    for name in NAMES:
        assert (tiny.directory / name).read_bytes() == tiny.server.files[name]
    assert [name for name, _, _ in tiny.server.requests] == list(NAMES)
    again = labeltree.datasets.fetch("eur-lex", str(tiny.directory))
    assert same(again.train, tiny.train)
    assert len(tiny.server.requests) == 2


def test_a_mirror_can_be_passed(tiny, monkeypatch):
    monkeypatch.setenv("LABELTREE_MIRROR", "http://127.0.0.1:1/nobody")
    for slash in ("", "/"):
        found = fetch("eur-lex", tiny.directory / f"x{slash}", mirror=tiny.server.address + slash)
        assert same(found.train, tiny.train)


def test_the_cache_can_be_moved(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "moved"))
    assert fetch("eur-lex").files == tuple(tmp_path / "moved" / name for name in NAMES)
    monkeypatch.delenv("LABELTREE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory().is_relative_to(tmp_path)
    assert cache_directory().name == "labeltree"
    assert cache_directory("~/data") == tmp_path / "home/data"


def test_file_permissions_follow_the_umask(tiny):
    before = os.umask(0o027)
    try:
        fetch("eur-lex", tiny.directory)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tiny.directory / NAMES[0]).stat().st_mode) == 0o640


def test_progress_increases_to_the_end(tiny):
    seen = {}

    class Stage:
        def __init__(self, name, what):
            self.name = name
            seen[name] = []

        def __enter__(self):
            return seen[self.name].append

        def __exit__(self, *_):
            pass

    tiny.server.troubles[NAMES[0]] = ["half"]
    fetch("eur-lex", tiny.directory, stage=Stage)
    assert list(seen) == ["download_train", "read_train", "download_test", "read_test"]
    for part in ("download_train", "download_test"):
        assert seen[part][-1] == 1
        assert len(seen[part]) > 3
    assert seen["download_train"] == sorted(seen["download_train"])  # the second try resumes the first


# Checks


def checks_of(tiny, monkeypatch, **changes):
    monkeypatch.setitem(SOURCES, "eur-lex", published(tiny.train, tiny.test, **changes))
    found = fetch("eur-lex", tiny.directory)
    return {check.what: check for check in found.checks}


def test_every_number_is_met(tiny, monkeypatch):
    checks = checks_of(tiny, monkeypatch)
    assert all(check.met for check in checks.values())
    assert list(checks) == [
        *("instances", "test instances", "features", "labels", "non-zeros", "labels of instances")
    ]
    assert {check.source for check in checks.values()} == {
        *("the paper and PECOS", "the repositories", "PECOS")
    }


def test_either_of_two_published_numbers_will_do(tiny, monkeypatch):
    for paper, pecos, source in ((60, 58, "the paper"), (500, 60, "PECOS")):
        check = checks_of(tiny, monkeypatch, n_features=paper, n_pecos_features=pecos)["features"]
        assert (check.met, check.published, check.source) == (True, 60, source)
    monkeypatch.setitem(
        SOURCES, "eur-lex", published(tiny.train, tiny.test, n_features=500, n_pecos_features=70)
    )
    with pytest.raises(InputError, match="expected 70 features as published by PECOS, got 60"):
        fetch("eur-lex", tiny.directory)


def test_other_non_zeros_are_reported_but_accepted(tiny, monkeypatch):
    checks = checks_of(tiny, monkeypatch, x_nnz=tiny.train.X.nnz * 2, n_pecos_features=58)
    assert not checks["non-zeros"].met
    assert checks["non-zeros"].source == "PECOS, of 58 features"
    assert checks["features"].met


def counted(tiny, tmp_path, monkeypatch, train, test, **changes):
    for name, part in zip(NAMES, (train, test), strict=True):
        write_svm(tmp_path / name, part)
        tiny.server.files[name] = (tmp_path / name).read_bytes()
    monkeypatch.setitem(SOURCES, "eur-lex", published(train, test, **changes))
    for name in kept(tiny.directory):
        (tiny.directory / name).unlink()
    return {check.what: check for check in fetch("eur-lex", tiny.directory).checks}


def wide(rows, features, labels, unused=()):
    """Each instance has one feature and one label; the unused columns have no entries."""
    columns = [np.setdiff1d(np.arange(n), unused) for n in (features, labels)]
    picks = [c[np.arange(rows) % c.size] for c in columns]
    ones = np.ones(rows, np.float32)
    return Dataset.from_matrices(
        *(
            sparse.csr_matrix((ones, (np.arange(rows), pick)), (rows, n))
            for pick, n in zip(picks, (features, labels), strict=True)
        )
    )


def test_columns_may_be_counted_in_both_files(tiny, tmp_path, monkeypatch):
    train, test = wide(900, 400, 300), wide(902, 402, 301)
    checks = counted(tiny, tmp_path, monkeypatch, train, test, n_features=402, n_labels=301)
    for what, number in (("features", 402), ("labels", 301)):
        assert checks[what].met
        assert (checks[what].found, checks[what].counted) == (number, "both files")


def test_columns_may_be_those_that_occur(tiny, tmp_path, monkeypatch):
    train = wide(900, 401, 301, unused=[0, 7])
    checks = counted(tiny, tmp_path, monkeypatch, train, train, n_features=399, n_labels=299)
    for what, number in (("features", 399), ("labels", 299)):
        assert checks[what].met
        assert (checks[what].found, checks[what].counted) == (number, "the training file, those that occur")
    both = wide(900, 401, 301, unused=[0])
    checks = counted(tiny, tmp_path, monkeypatch, train, both, n_features=400, n_labels=300)
    assert checks["labels"].counted == "both files, those that occur"


def test_slightly_different_counts_are_reported_but_accepted(tiny, tmp_path, monkeypatch):
    train = wide(900, 400, 300)
    checks = counted(tiny, tmp_path, monkeypatch, train, train, n_features=403, n_labels=302)
    assert not checks["features"].met
    assert checks["features"].found == 400
    assert not checks["labels"].met


def test_labels_that_are_names(tiny, tmp_path, monkeypatch):
    plain = wide(300, 40, 30)
    train = Dataset(plain.X, plain.Y, tuple(f"n{i}" for i in range(30)))
    test = Dataset(plain.X, plain.Y, tuple(f"n{i}" for i in range(1, 31)))
    checks = counted(tiny, tmp_path, monkeypatch, train, test, n_labels=30)
    assert checks["labels"].met


# Downloads by hand


def test_two_datasets_are_downloaded_by_hand(tiny, monkeypatch):
    source = published(tiny.train, tiny.test, train_file="", test_file="", title="Wiki-500K")
    monkeypatch.setitem(SOURCES, "wiki-500k", source)
    with pytest.raises(InputError) as caught:
        fetch("wiki-500k", tiny.directory)
    place = tiny.directory / "wiki-500k"
    for part in ("Wiki-500K", "https://github.com/yourh/AttentionXML", str(place), "train.txt", "test.txt"):
        assert part in str(caught.value)
    place.mkdir(parents=True)
    (place / "train_v1.txt").write_bytes(bz2.decompress(tiny.server.files[NAMES[0]]))
    with pytest.raises(InputError, match=r"no test\.txt"):
        fetch("wiki-500k", tiny.directory)
    (place / "test.txt.bz2").write_bytes(tiny.server.files[NAMES[1]])
    found = fetch("wiki-500k", tiny.directory)
    assert same(found.train, tiny.train)
    assert same(found.test, tiny.test)
    assert tiny.server.requests == []
    (place / "train.txt").write_bytes(PAGE)
    with pytest.raises(InputError, match=r"train\.txt: .*got a web page"):
        fetch("wiki-500k", tiny.directory)
    assert kept(place) == ["test.txt.bz2", "train.txt", "train_v1.txt"]


# Errors, and the command


def test_unknown_names_and_bad_directories(tiny, tmp_path):
    with pytest.raises(InputError, match=r"unknown dataset 'eurlex', expected one of eur-lex, amazoncat-13k"):
        fetch("eurlex")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file, not a directory"):
        fetch("eur-lex", tmp_path / "file")


def test_the_command(run, tiny):
    code, out, err = run("download", "eur-lex", "--directory", tiny.directory)
    assert code == 0
    assert [line.split()[0] for line in err.splitlines()] == ["downloading", "reading"] * 2
    assert str(tiny.directory / NAMES[0]) in out
    assert "300 instances, 60 features, 40 labels" in out
    assert "as published by the paper and PECOS" in out
    assert "not as" not in out
    code, out, err = run("download", "eur-lex", "--directory", tiny.directory, "--json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert list(figures) == ["name", "train", "test", "checks", "seconds"]
    assert figures["test"]["instances"] == 60
    assert figures["train"]["bytes"] == len(tiny.server.files[NAMES[0]])
    assert all(check["met"] for check in figures["checks"])
    assert set(figures["seconds"]) == {"read_train", "read_test"}
    assert run("download", "eur-lex", "--directory", tiny.directory, "-q") == (0, "", "")


def test_the_command_reports_differences(run, tiny, monkeypatch):
    monkeypatch.setitem(SOURCES, "eur-lex", published(tiny.train, tiny.test, x_nnz=1))
    code, out, _ = run("download", "eur-lex", "--directory", tiny.directory, "-q")
    assert (code, out) == (0, "")
    code, out, _ = run("download", "eur-lex", "--directory", tiny.directory)
    assert code == 0
    assert out.count("not as published by PECOS") == 1


def test_the_command_refuses(refused, tiny, tmp_path):
    assert "NAME is 'imagenet', expected one of eur-lex" in refused("download", "imagenet")
    assert "NAME" in refused("download")
    assert "AttentionXML" in refused("download", "amazon-3m", "--directory", tiny.directory)
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refused("download", "eur-lex", "--directory", tmp_path / "file")
    assert "file" in refused("download", "eur-lex", "--directory", tmp_path / "file" / "below")
    tiny.server.files[NAMES[0]] = PAGE
    assert "got a web page" in refused("download", "eur-lex", "--directory", tiny.directory)
    tiny.server.files = {}
    assert "404 Not Found" in refused("download", "eur-lex", "--directory", tiny.directory)
    assert kept(tiny.directory) == []


def test_the_command_in_a_separate_process(server, tmp_path):
    """With the real table, a small file is refused with one message."""
    server.files[SOURCES["eur-lex"].train_file] = bz2.compress(b"0 1:1\n")
    with shell("download", "eur-lex", "--directory", tmp_path / "data") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert "expected 15,449 instances as published by the paper and PECOS, got 1" in err.splitlines()[-1]
    assert kept(tmp_path / "data") == []


def test_pooch_is_not_imported_before_it_is_needed():
    modules = "{'pooch', 'requests'}"
    script = f"import sys, labeltree.cli, labeltree.data.published; assert not {modules} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("package", ["pooch", "requests"])
def test_a_missing_package_is_reported_before_any_work(tiny, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs {package}.*pip install 'labeltree\[download\]'"):
        fetch("eur-lex", tiny.directory)
    assert tiny.server.requests == []
    assert not tiny.directory.exists()


def test_files_in_the_cache_need_no_package(tiny, monkeypatch):
    fetch("eur-lex", tiny.directory)
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)
