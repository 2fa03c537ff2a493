"""The paper's data sets, fetched from a server that this file starts: whole, broken, and wrong."""

import bz2
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import make_data, shell
from scipy import sparse

import labeltree
from labeltree import Dataset, InputError, datasets, transfer, write_svm
from labeltree.datasets import SETS, Source, fetch, obtain

NAMES = ("train.svm.bz2", "test.svm.bz2")
PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>\n"


class Server(ThreadingHTTPServer):
    """Files by name, and for each name how the next requests go wrong; afterwards all goes well."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.troubles, self.requests, self.tag = {}, {}, [], '"v1"'
        self.address = f"http://127.0.0.1:{self.server_port}/data"

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.removeprefix("/data/")
        wanted = self.headers.get("Range")
        self.server.requests.append((name, wanted, self.headers.get("If-Range")))
        content = self.server.files.get(name)
        troubles = self.server.troubles.get(name, [])
        trouble = troubles.pop(0) if troubles else None
        if content is None or isinstance(trouble, int):
            return self.send_error(trouble or 404)
        first = 0
        if wanted and self.server.tag and self.headers["If-Range"] == self.server.tag and trouble != "anew":
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            first += trouble == "another range"
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        if trouble != "no length":
            self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        rest = content[first:]
        self.wfile.write(rest[: len(rest) // 2] if trouble in ("half", "no length") else rest)
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(transfer, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(transfer, "_CHUNK_BYTES", 100)  # as many pieces as a large file has
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("LABELTREE_MIRROR", running.address)
        yield running
        running.shutdown()
        thread.join()


def published(train, test, /, **changes):
    facts = {
        "instances": train.instances,
        "features": train.features,
        "labels": train.labels,
        "nonzeros": train.X.nnz,
        "tags": train.Y.nnz,
        "test_instances": test.instances,
        "train": NAMES[0],
        "test": NAMES[1],
    }
    return Source(**(facts | changes))


@pytest.fixture
def tiny(server, tmp_path, monkeypatch):
    """A small data set under the name eur-lex, on the server; a folder for it that does not exist yet."""
    train, test = make_data(300), make_data(60, seed=1)
    made = tmp_path / "made"
    made.mkdir()
    for name, part in zip(NAMES, (train, test), strict=True):
        write_svm(made / name, part)
        server.files[name] = (made / name).read_bytes()
    monkeypatch.setitem(SETS, "eur-lex", published(train, test))
    return SimpleNamespace(train=train, test=test, folder=tmp_path / "kept", server=server)


def same(one, other):
    return all(
        (getattr(one, name) != getattr(other, name)).nnz == 0
        and getattr(one, name).shape == getattr(other, name).shape
        for name in "XY"
    )


def kept(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# The table


def test_the_table_is_the_published_one():
    rows = {
        name: (source.instances, source.features, source.labels, source.nonzeros, source.tags)
        for name, source in SETS.items()
    }
    assert rows == {
        "eur-lex": (15449, 186104, 3956, 4194123, 82265),
        "wiki10-31k": (14146, 104374, 30938, 9526572, 263705),
        "amazoncat-13k": (1186239, 203882, 13330, 84415397, 5979439),
        "amazon-670k": (490449, 135909, 670091, 37119040, 2674356),
        "wiki-500k": (1779881, 2381304, 501070, 689526754, 8446236),
        "amazon-3m": (1717899, 337067, 2812281, 84600285, 61916857),
    }
    assert [name for name, source in SETS.items() if source.pecos_features] == ["wiki10-31k"]
    assert {name for name, source in SETS.items() if not source.train} == {"wiki-500k", "amazon-3m"}
    for source in SETS.values():
        assert bool(source.train) == bool(source.test) != bool(source.title)


# All goes well


def test_fetched_once_and_read_again(tiny):
    train, test = fetch("eur-lex", tiny.folder)
    assert same(train, tiny.train)
    assert same(test, tiny.test)
    assert kept(tiny.folder) == sorted(NAMES)
    for name in NAMES:
        assert (tiny.folder / name).read_bytes() == tiny.server.files[name]
    assert [name for name, _, _ in tiny.server.requests] == list(NAMES)
    again, _ = labeltree.datasets.fetch("eur-lex", str(tiny.folder))
    assert same(again, tiny.train)
    assert len(tiny.server.requests) == 2


def test_a_mirror_can_be_passed(tiny, monkeypatch):
    monkeypatch.setenv("LABELTREE_MIRROR", "http://127.0.0.1:1/nobody")
    for slash in ("", "/"):
        found = obtain("eur-lex", tiny.folder / f"x{slash}", mirror=tiny.server.address + slash)
        assert same(found.train, tiny.train)


def test_the_cache_can_be_moved(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "moved"))
    assert obtain("eur-lex").files == tuple(tmp_path / "moved" / name for name in NAMES)
    monkeypatch.delenv("LABELTREE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert datasets.cache_folder().is_relative_to(tmp_path)
    assert datasets.cache_folder().name == "labeltree"
    assert datasets.cache_folder("~/data") == tmp_path / "home/data"


def test_others_may_read_the_files_as_the_umask_says(tiny):
    before = os.umask(0o027)
    try:
        fetch("eur-lex", tiny.folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tiny.folder / NAMES[0]).stat().st_mode) == 0o640


def test_progress_rises_to_the_end(tiny, monkeypatch):
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
    obtain("eur-lex", tiny.folder, stage=Stage)
    assert list(seen) == ["download_train", "read_train", "download_test", "read_test"]
    for part in ("download_train", "download_test"):
        assert seen[part][-1] == 1
        assert len(seen[part]) > 3
    assert seen["download_train"] == sorted(seen["download_train"])  # the second half goes on


# Broken transfers


def test_a_broken_transfer_goes_on_where_it_stopped(tiny):
    tiny.server.troubles[NAMES[0]] = ["half", 503, "half"]
    assert same(fetch("eur-lex", tiny.folder)[0], tiny.train)
    asked = [request for request in tiny.server.requests if request[0] == NAMES[0]]
    assert asked[0] == (NAMES[0], None, None)
    starts = [int(wanted.removeprefix("bytes=").removesuffix("-")) for _, wanted, _ in asked[1:]]
    half = len(tiny.server.files[NAMES[0]]) // 2
    assert half - 100 <= starts[0] <= half
    assert starts[0] == starts[1] < starts[2]
    assert {version for _, _, version in asked[1:]} == {'"v1"'}


@pytest.mark.parametrize("second", ["anew", "another range", 416])
def test_a_server_that_cannot_go_on_begins_anew(tiny, second):
    tiny.server.troubles[NAMES[0]] = ["half", second]
    assert same(fetch("eur-lex", tiny.folder)[0], tiny.train)
    assert tiny.server.requests[1][1].startswith("bytes=")
    assert (tiny.folder / NAMES[0]).read_bytes() == tiny.server.files[NAMES[0]]


def test_a_server_without_versions_is_asked_anew(tiny):
    tiny.server.tag = None
    tiny.server.troubles[NAMES[0]] = ["half", "half"]
    assert same(fetch("eur-lex", tiny.folder)[0], tiny.train)
    assert {wanted for _, wanted, _ in tiny.server.requests} == {None}


def test_a_file_that_changed_meanwhile_is_not_glued_together(tiny):
    tiny.server.troubles[NAMES[0]] = ["half"]
    changed = tiny.server.files[NAMES[0]]
    tiny.server.files[NAMES[0]] = 3 * changed  # half of it is more than all of the new one
    do_get = Handler.do_GET

    def change(handler):
        do_get(handler)
        tiny.server.files[NAMES[0]], tiny.server.tag = changed, '"v2"'

    tiny.server.RequestHandlerClass = type("Changing", (Handler,), {"do_GET": change})
    assert same(fetch("eur-lex", tiny.folder)[0], tiny.train)
    assert (tiny.folder / NAMES[0]).read_bytes() == changed


def test_errors_of_the_server_that_pass(tiny):
    tiny.server.troubles = {NAMES[0]: [500, 502, 429], NAMES[1]: [503]}
    assert same(fetch("eur-lex", tiny.folder)[1], tiny.test)


@pytest.mark.parametrize(
    ("troubles", "message", "requests"),
    [
        ([404], "404 Not Found", 1),
        ([403], "403 Forbidden", 1),
        ([500] * 9, "500 Internal Server Error", transfer.TRIES),
        (["half"] * 9, rf"no whole file in {transfer.TRIES} tries \(IncompleteRead", transfer.TRIES),
    ],
)
def test_errors_that_stay(tiny, troubles, message, requests):
    tiny.server.troubles[NAMES[0]] = troubles
    with pytest.raises(InputError, match=rf"^{tiny.server.address}/{NAMES[0]}: got .*{message}"):
        fetch("eur-lex", tiny.folder)
    assert len(tiny.server.requests) == requests
    assert kept(tiny.folder) == []


def test_a_test_file_that_fails_leaves_the_training_file(tiny):
    tiny.server.troubles[NAMES[1]] = [404]
    with pytest.raises(InputError, match=NAMES[1]):
        fetch("eur-lex", tiny.folder)
    assert kept(tiny.folder) == [NAMES[0]]
    fetch("eur-lex", tiny.folder)
    assert kept(tiny.folder) == sorted(NAMES)


def test_nobody_answers(tiny):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            InputError, match=r"no whole file in 5 tries \(\[Errno \d+\] Connection refused\)"
        ):
            obtain("eur-lex", tiny.folder, mirror=address)
    assert kept(tiny.folder) == []


def test_silence_is_not_waited_for_for_ever(tiny, monkeypatch):
    monkeypatch.setattr(transfer, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(transfer, "TRIES", 2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(InputError, match=r"no whole file in 2 tries \(.*timed out"),
    ):
        obtain("eur-lex", tiny.folder, mirror=f"http://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.parametrize("mirror", ["nonsense", "http://", "nothttp://127.0.0.1"])
def test_what_is_no_address(tiny, mirror):
    with pytest.raises(InputError, match="an address that cannot be fetched"):
        obtain("eur-lex", tiny.folder, mirror=mirror)


def test_an_interrupt_leaves_nothing(tiny, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer._Transfer, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch("eur-lex", tiny.folder)
    assert kept(tiny.folder) == []


# Wrong files


def wrong_files():
    other = make_data(299)
    narrow, few = make_data(300, features=40), make_data(300, labels=20)
    lines = "".join(f"{i % 40} {i % 60 + 1}:1\n" for i in range(300)).encode()
    return [
        (PAGE, "got a web page"),
        (b"\n <HTML>" + PAGE, "got a web page"),
        (b"", "got b'' ..., expected a file packed with bzip2"),
        (b"0 1:1\n", "expected a file packed with bzip2"),
        (lambda right: right[: len(right) // 2], "cut short or damaged"),
        (lambda right: right[:200] + b"\0" * 9 + right[209:], "cut short or damaged"),
        (bz2.compress(b"one two three\n"), ":1: got"),
        (bz2.compress(b"# nothing\n"), "the file is empty"),
        (other, "got 299 instances, expected 300 as published by the paper and PECOS"),
        (narrow, "got 40 features, expected 60"),
        (few, "got 20 labels, expected 40"),
        (bz2.compress(lines), "got 300 labels of instances, expected"),
    ]


@pytest.mark.parametrize("case", range(len(wrong_files())))
def test_wrong_files_are_refused_and_not_kept(tiny, tmp_path, case):
    content, message = wrong_files()[case]
    right = tiny.server.files[NAMES[0]]
    if isinstance(content, Dataset):
        write_svm(tmp_path / NAMES[0], content)
        content = (tmp_path / NAMES[0]).read_bytes()
    wrong = content(right) if callable(content) else content
    tiny.server.files[NAMES[0]] = wrong
    with pytest.raises(InputError) as caught:
        fetch("eur-lex", tiny.folder)
    sentence = str(caught.value)
    assert sentence.startswith(f"{tiny.server.address}/{NAMES[0]}:")
    assert message in sentence
    assert "tmp" not in sentence.replace(str(tmp_path), "").replace(tiny.server.address, "")
    assert kept(tiny.folder) == []
    # The same under its own name, from wherever: refused as well, and left to its owner.
    tiny.folder.mkdir(exist_ok=True)
    (tiny.folder / NAMES[0]).write_bytes(wrong)
    with pytest.raises(InputError, match=str(tiny.folder / NAMES[0])):
        fetch("eur-lex", tiny.folder)
    assert (tiny.folder / NAMES[0]).read_bytes() == wrong
    (tiny.folder / NAMES[0]).unlink()
    tiny.server.files[NAMES[0]] = right
    assert same(fetch("eur-lex", tiny.folder)[0], tiny.train)


def test_a_cut_file_of_unknown_length(tiny):
    tiny.server.troubles[NAMES[0]] = ["no length"]
    with pytest.raises(InputError, match="cut short"):
        fetch("eur-lex", tiny.folder)
    assert kept(tiny.folder) == []


def test_the_training_file_in_place_of_the_test_file(tiny):
    tiny.server.files[NAMES[1]] = tiny.server.files[NAMES[0]]
    with pytest.raises(InputError, match=r"got 300 instances, expected 60 .* not the test data of eur-lex"):
        fetch("eur-lex", tiny.folder)
    assert kept(tiny.folder) == [NAMES[0]]


def test_the_test_file_counts_features_as_the_training_file_does(tiny, tmp_path):
    without_first = tiny.test.X.toarray()
    without_first[:, 0] = 0
    cut = Dataset.from_matrices(without_first, tiny.test.Y)
    write_svm(tmp_path / NAMES[1], cut, one_based=False)
    # Features from 0 and no feature 0 in sight: alone it would be read as counting from 1.
    text = bz2.decompress((tmp_path / NAMES[1]).read_bytes()).replace(b" 0:0", b"")
    write_svm(tmp_path / NAMES[0], tiny.train, one_based=False)
    tiny.server.files = {NAMES[0]: (tmp_path / NAMES[0]).read_bytes(), NAMES[1]: bz2.compress(text)}
    found_train, found_test = fetch("eur-lex", tiny.folder)
    assert same(found_train, tiny.train)
    assert found_test.one_based is False
    assert same(found_test, cut)


# What is met


def checks_of(tiny, monkeypatch, **changes):
    monkeypatch.setitem(SETS, "eur-lex", published(tiny.train, tiny.test, **changes))
    found = obtain("eur-lex", tiny.folder)
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
        check = checks_of(tiny, monkeypatch, features=paper, pecos_features=pecos)["features"]
        assert (check.met, check.published, check.source) == (True, 60, source)
    monkeypatch.setitem(SETS, "eur-lex", published(tiny.train, tiny.test, features=500, pecos_features=70))
    with pytest.raises(InputError, match="got 60 features, expected 70 as published by PECOS"):
        obtain("eur-lex", tiny.folder)


def test_other_non_zeros_are_told_and_not_refused(tiny, monkeypatch):
    checks = checks_of(tiny, monkeypatch, nonzeros=tiny.train.X.nnz * 2, pecos_features=58)
    assert not checks["non-zeros"].met
    assert checks["non-zeros"].source == "PECOS, of 58 features"
    assert checks["features"].met


def counted(tiny, tmp_path, monkeypatch, train, test, **changes):
    for name, part in zip(NAMES, (train, test), strict=True):
        write_svm(tmp_path / name, part)
        tiny.server.files[name] = (tmp_path / name).read_bytes()
    monkeypatch.setitem(SETS, "eur-lex", published(train, test, **changes))
    for name in kept(tiny.folder):
        (tiny.folder / name).unlink()
    return {check.what: check for check in obtain("eur-lex", tiny.folder).checks}


def wide(rows, features, labels, idle=()):
    """Each instance has one feature and one label; the idle columns have none."""
    columns = [np.setdiff1d(np.arange(n), idle) for n in (features, labels)]
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
    checks = counted(tiny, tmp_path, monkeypatch, train, test, features=402, labels=301)
    for what, number in (("features", 402), ("labels", 301)):
        assert checks[what].met
        assert (checks[what].found, checks[what].counted) == (number, "both files")


def test_columns_may_be_those_that_occur(tiny, tmp_path, monkeypatch):
    train = wide(900, 401, 301, idle=[0, 7])
    checks = counted(tiny, tmp_path, monkeypatch, train, train, features=399, labels=299)
    for what, number in (("features", 399), ("labels", 299)):
        assert checks[what].met
        assert (checks[what].found, checks[what].counted) == (number, "the training file, those that occur")
    both = wide(900, 401, 301, idle=[0])
    checks = counted(tiny, tmp_path, monkeypatch, train, both, features=400, labels=300)
    assert checks["labels"].counted == "both files, those that occur"


def test_nearly_as_many_columns_are_told_and_not_refused(tiny, tmp_path, monkeypatch):
    train = wide(900, 400, 300)
    checks = counted(tiny, tmp_path, monkeypatch, train, train, features=403, labels=302)
    assert not checks["features"].met
    assert checks["features"].found == 400
    assert not checks["labels"].met


def test_labels_that_are_names(tiny, tmp_path, monkeypatch):
    plain = wide(300, 40, 30)
    train = Dataset(plain.X, plain.Y, tuple(f"n{i}" for i in range(30)))
    test = Dataset(plain.X, plain.Y, tuple(f"n{i}" for i in range(1, 31)))
    checks = counted(tiny, tmp_path, monkeypatch, train, test, labels=30)
    assert checks["labels"].met


# By hand


def test_two_sets_are_fetched_by_hand(tiny, tmp_path, monkeypatch):
    source = published(tiny.train, tiny.test, train="", test="", title="Wiki-500K")
    monkeypatch.setitem(SETS, "wiki-500k", source)
    with pytest.raises(InputError) as caught:
        fetch("wiki-500k", tiny.folder)
    place = tiny.folder / "wiki-500k"
    for said in ("Wiki-500K", "https://github.com/yourh/AttentionXML", str(place), "train.txt", "test.txt"):
        assert said in str(caught.value)
    place.mkdir(parents=True)
    (place / "train_v1.txt").write_bytes(bz2.decompress(tiny.server.files[NAMES[0]]))
    with pytest.raises(InputError, match=r"has no test\.txt"):
        fetch("wiki-500k", tiny.folder)
    (place / "test.txt.bz2").write_bytes(tiny.server.files[NAMES[1]])
    train, test = fetch("wiki-500k", tiny.folder)
    assert same(train, tiny.train)
    assert same(test, tiny.test)
    assert tiny.server.requests == []
    (place / "train.txt").write_bytes(PAGE)
    with pytest.raises(InputError, match=r"train\.txt: got a web page"):
        fetch("wiki-500k", tiny.folder)
    assert kept(place) == ["test.txt.bz2", "train.txt", "train_v1.txt"]


# Mistakes, and the command


def test_unknown_names_and_bad_folders(tiny, tmp_path):
    with pytest.raises(
        InputError, match=r"unknown data set 'eurlex', expected one of eur-lex, amazoncat-13k"
    ):
        fetch("eurlex")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file, expected a folder"):
        fetch("eur-lex", tmp_path / "file")


def test_the_command(run, tiny):
    code, out, err = run("download", "eur-lex", "--folder", tiny.folder)
    assert code == 0
    assert [line.split()[0] for line in err.splitlines()] == ["downloading", "reading"] * 2
    assert str(tiny.folder / NAMES[0]) in out
    assert "300 instances, 60 features, 40 labels" in out
    assert "as published by the paper and PECOS" in out
    assert "not as" not in out
    code, out, err = run("download", "eur-lex", "--folder", tiny.folder, "--json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert list(figures) == ["name", "train", "test", "checks", "seconds"]
    assert figures["test"]["instances"] == 60
    assert figures["train"]["bytes"] == len(tiny.server.files[NAMES[0]])
    assert all(check["met"] for check in figures["checks"])
    assert set(figures["seconds"]) == {"read_train", "read_test"}
    assert run("download", "eur-lex", "--folder", tiny.folder, "-q") == (0, "", "")


def test_the_command_tells_what_differs(run, tiny, monkeypatch):
    monkeypatch.setitem(SETS, "eur-lex", published(tiny.train, tiny.test, nonzeros=1))
    code, out, _ = run("download", "eur-lex", "--folder", tiny.folder, "-q")
    assert (code, out) == (0, "")
    code, out, _ = run("download", "eur-lex", "--folder", tiny.folder)
    assert code == 0
    assert out.count("not as published by PECOS") == 1


def test_the_command_refuses(refused, tiny, tmp_path):
    assert "unknown data set" in refused("download", "imagenet")
    assert "NAME" in refused("download")
    assert "AttentionXML" in refused("download", "amazon-3m", "--folder", tiny.folder)
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refused("download", "eur-lex", "--folder", tmp_path / "file")
    assert "file" in refused("download", "eur-lex", "--folder", tmp_path / "file" / "below")
    tiny.server.files[NAMES[0]] = PAGE
    assert "got a web page" in refused("download", "eur-lex", "--folder", tiny.folder)
    tiny.server.files = {}
    assert "404 Not Found" in refused("download", "eur-lex", "--folder", tiny.folder)
    assert kept(tiny.folder) == []


def test_the_command_in_a_process_of_its_own(server, tmp_path):
    """The real table: a small file is not the real one, and the shell sees one sentence."""
    server.files[SETS["eur-lex"].train] = bz2.compress(b"0 1:1\n")
    process = shell("download", "eur-lex", "--folder", tmp_path / "data")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "got 1 instances, expected 15,449 as published by the paper and PECOS" in err.splitlines()[-1]
    assert kept(tmp_path / "data") == []


def test_pooch_is_not_imported_before_it_is_needed():
    script = (
        "import sys, labeltree.cli, labeltree.datasets; assert not {'pooch', 'requests'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
