"""The paper's datasets: their table, downloads, their checks, and the command."""

import bz2
import json
import os
import socket
import stat
import sys

import numpy as np
import pytest
from download_server import NAMES, PAGE, kept, published, same
from helpers import make_data
from scipy import sparse

import labeltree
from labeltree import Dataset, InputError, fetch_data, write_svm
from labeltree.base.system import cache_directory
from labeltree.data.published import SOURCES

FILES = sorted(NAMES)


# Downloads


def test_downloaded_once_and_read_again(tiny):
    before = os.umask(0o027)
    try:
        found = fetch_data("eur-lex", tiny.directory)
    finally:
        os.umask(before)
    assert same(found.train, tiny.train)
    assert same(found.test, tiny.test)
    assert kept(tiny.directory) == FILES
    for name in NAMES:
        content = tiny.server.files[name]
        assert (tiny.directory / name).read_bytes() == content
        assert stat.S_IMODE((tiny.directory / name).stat().st_mode) == 0o640
    assert tiny.server.requests == list(NAMES)
    assert same(labeltree.fetch_data("eur-lex", str(tiny.directory)).train, tiny.train)
    assert len(tiny.server.requests) == 2


def test_directories_and_mirrors(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "moved"))
    monkeypatch.setenv("LABELTREE_MIRROR", "http://127.0.0.1:1/nobody")
    found = fetch_data("eur-lex", mirror=tiny.server.address + "/")
    assert found.files == tuple(tmp_path / "moved" / name for name in NAMES)
    monkeypatch.delenv("LABELTREE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory("data").is_relative_to(tmp_path)
    assert cache_directory("data", "~/data") == tmp_path / "home/data"


def test_a_failed_download_is_tried_again_and_leaves_no_part(tiny):
    tiny.server.troubles = {NAMES[0]: ["half", 503], NAMES[1]: ["half"] * 9}
    with pytest.raises(
        InputError, match=rf"^{tiny.server.address}/{NAMES[1]}: the download failed \(.*; check"
    ):
        fetch_data("eur-lex", tiny.directory)
    assert kept(tiny.directory) == FILES[1:]
    tiny.server.troubles.clear()
    assert same(fetch_data("eur-lex", tiny.directory).test, tiny.test)
    assert kept(tiny.directory) == FILES


@pytest.mark.parametrize(
    ("mirror", "message"),
    [
        ("{}/absent", "404"),
        ("http://127.0.0.1:{closed}", "Connection refused"),
        ("nonsense", "the download failed"),
        ("http://example.org/data", "does not use https"),
    ],
)
def test_addresses_that_do_not_work(tiny, mirror, message):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = mirror.format(tiny.server.address, closed=taken.getsockname()[1])
        with pytest.raises(InputError, match=message):
            fetch_data("eur-lex", tiny.directory, mirror=address)
    assert kept(tiny.directory) == []


def test_progress_reaches_the_end(tiny):
    seen = {}

    class Stage:
        def __init__(self, name, what):
            self.name = name
            seen[name] = []

        def __enter__(self):
            return seen[self.name].append

        def __exit__(self, *_):
            pass

    fetch_data("eur-lex", tiny.directory, stage=Stage)
    assert list(seen) == ["download_train", "read_train", "download_test", "read_test"]
    assert seen["download_train"] == sorted(seen["download_train"])
    assert seen["download_train"][-1] == seen["download_test"][-1] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PAGE, ":1: expected index:value, got .*; remove the file and download it again"),
        (b"", "the input is empty"),
        (lambda right: right[: len(right) // 2], "truncated or damaged"),
        (lambda right: right[:200] + b"\0" * 9 + right[209:], "truncated or damaged"),
        (bz2.compress(b"one two three\n"), ":1: expected"),
        (make_data(299), "expected 300 instances, got 299"),
        (
            bz2.compress("".join(f"{i % 40} {i % 60 + 1}:1\n" for i in range(300)).encode()),
            "labels of instances, got 300",
        ),
    ],
)
def test_wrong_files_are_refused(tiny, tmp_path, content, message):
    if isinstance(content, Dataset):
        write_svm(tmp_path / NAMES[0], content)
        content = (tmp_path / NAMES[0]).read_bytes()
    tiny.server.files[NAMES[0]] = content(tiny.server.files[NAMES[0]]) if callable(content) else content
    with pytest.raises(InputError, match=message) as caught:
        fetch_data("eur-lex", tiny.directory)
    assert str(caught.value).startswith(f"{tiny.directory / NAMES[0]}:")


def test_the_test_file_counts_features_as_the_training_file_does(tiny, tmp_path):
    without_first = tiny.test.X.toarray()
    without_first[:, 0] = 0
    cut = Dataset.from_matrices(without_first, tiny.test.Y)
    write_svm(tmp_path / NAMES[1], cut, one_based=False)
    # Features from 0, but without feature 0: on its own, it would be read as one-based.
    text = bz2.decompress((tmp_path / NAMES[1]).read_bytes()).replace(b" 0:0", b"")
    write_svm(tmp_path / NAMES[0], tiny.train, one_based=False)
    tiny.server.files = {NAMES[0]: (tmp_path / NAMES[0]).read_bytes(), NAMES[1]: bz2.compress(text)}
    assert same(fetch_data("eur-lex", tiny.directory).test, cut)


def test_two_datasets_are_downloaded_by_hand(tiny, monkeypatch):
    source = published(tiny.train, tiny.test, train_file="", test_file="", title="Wiki-500K")
    monkeypatch.setitem(SOURCES, "wiki-500k", source)
    place = tiny.directory / "wiki-500k"
    with pytest.raises(InputError) as caught:
        fetch_data("wiki-500k", tiny.directory)
    for part in ("Wiki-500K", "https://github.com/yourh/AttentionXML", str(place), "train.txt", "test.txt"):
        assert part in str(caught.value)
    place.mkdir(parents=True)
    (place / "train_v1.txt").write_bytes(bz2.decompress(tiny.server.files[NAMES[0]]))
    (place / "test.txt.bz2").write_bytes(tiny.server.files[NAMES[1]])
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert same(fetch_data("wiki-500k", tiny.directory).test, tiny.test)
    assert tiny.server.requests == []


# Checks


def wide(rows, features, labels):
    """Each instance has one feature and one label."""
    ones, row = np.ones(rows, np.float32), np.arange(rows)
    return Dataset.from_matrices(
        *(sparse.csr_matrix((ones, (row, row % n)), (rows, n)) for n in (features, labels))
    )


@pytest.mark.parametrize(
    ("changes", "found", "met"),
    [
        ({"n_features": 400, "n_labels": 300}, (400, 300), True),  # as in the training file
        ({"n_features": 402, "n_labels": 301}, (402, 301), True),  # as in both files
        ({"n_features": 404, "n_labels": 302}, (402, 301), False),  # close enough
    ],
)
def test_checks_use_the_closest_count(tiny, tmp_path, monkeypatch, changes, found, met):
    train, test = wide(900, 400, 300), wide(902, 402, 301)
    for name, part in zip(NAMES, (train, test), strict=True):
        write_svm(tmp_path / name, part)
        tiny.server.files[name] = (tmp_path / name).read_bytes()
    monkeypatch.setitem(SOURCES, "eur-lex", published(train, test, x_nnz=1, **changes))
    checks = {check.what: check for check in fetch_data("eur-lex", tiny.directory).checks}
    assert list(checks) == [
        *("instances", "test instances", "features", "labels", "non-zeros", "labels of instances")
    ]
    assert (checks["features"].found, checks["labels"].found) == found
    assert checks["features"].met == checks["labels"].met == met
    assert not checks["non-zeros"].met  # reported, but accepted


# The command


def test_the_command(run, tiny, monkeypatch):
    code, out, err = run("download", "eur-lex", "--directory", tiny.directory)
    assert code == 0
    assert [line.split()[0] for line in err.splitlines()] == ["downloading", "reading"] * 2
    assert "300 instances, 60 features, 40 labels" in out
    assert (out.count("equal"), out.count("differs")) == (6, 0)
    code, out, err = run("download", "eur-lex", "--directory", tiny.directory, "--json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert list(figures) == ["name", "train", "test", "checks", "seconds"]
    assert figures["train"]["bytes"] == len(tiny.server.files[NAMES[0]])
    assert all(check["met"] for check in figures["checks"])
    monkeypatch.setitem(SOURCES, "eur-lex", published(tiny.train, tiny.test, x_nnz=1))
    assert run("download", "eur-lex", "--directory", tiny.directory, "-q") == (0, "", "")
    assert run("download", "eur-lex", "--directory", tiny.directory)[1].count("differs") == 1


def test_the_command_refuses(refused, tiny, tmp_path):
    (tmp_path / "file").write_text("mine")
    for arguments, message in (
        (["imagenet"], "NAME is 'imagenet', expected one of eur-lex"),
        ([], "NAME"),
        (["amazon-3m", "--directory", tiny.directory], "AttentionXML"),
        (["eur-lex", "--directory", tmp_path / "file"], "is a file, not a directory"),
        (["eur-lex", "--directory", tmp_path / "file" / "below"], "file"),
    ):
        assert message in refused("download", *arguments)
    with pytest.raises(InputError, match=r"unknown dataset 'eurlex', expected one of eur-lex, amazoncat-13k"):
        fetch_data("eurlex")
