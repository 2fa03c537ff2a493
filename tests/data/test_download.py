"""Downloads that are interrupted, and files with the wrong content."""

import bz2
import hashlib
import socket

import pytest
from download_server import NAMES, PAGE, Handler, kept, same
from helpers import make_data

from labeltree import Dataset, InputError, write_svm
from labeltree.data.published import download, fetch

# Interrupted transfers


def test_an_interrupted_transfer_is_resumed(tiny):
    tiny.server.troubles[NAMES[0]] = ["half", 503, "half"]
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)
    sent = [request for request in tiny.server.requests if request[0] == NAMES[0]]
    assert sent[0] == (NAMES[0], None, None)
    starts = [int(wanted.removeprefix("bytes=").removesuffix("-")) for _, wanted, _ in sent[1:]]
    half = len(tiny.server.files[NAMES[0]]) // 2
    assert half - 100 <= starts[0] <= half
    assert starts[0] == starts[1] < starts[2]
    assert {version for _, _, version in sent[1:]} == {'"v1"'}


@pytest.mark.parametrize("second", ["restart", "another range", 416])
def test_a_server_that_cannot_resume_starts_again(tiny, second):
    tiny.server.troubles[NAMES[0]] = ["half", second]
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)
    assert tiny.server.requests[1][1].startswith("bytes=")
    assert (tiny.directory / NAMES[0]).read_bytes() == tiny.server.files[NAMES[0]]


def test_without_a_version_the_transfer_starts_again(tiny):
    tiny.server.tag = None
    tiny.server.troubles[NAMES[0]] = ["half", "half"]
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)
    assert {wanted for _, wanted, _ in tiny.server.requests} == {None}


def test_a_file_that_changed_meanwhile_is_not_mixed(tiny):
    tiny.server.troubles[NAMES[0]] = ["half"]
    changed = tiny.server.files[NAMES[0]]
    tiny.server.files[NAMES[0]] = 3 * changed  # half of it is longer than the new file
    do_get = Handler.do_GET

    def change(handler):
        do_get(handler)
        tiny.server.files[NAMES[0]], tiny.server.tag = changed, '"v2"'

    tiny.server.RequestHandlerClass = type("Changing", (Handler,), {"do_GET": change})
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)
    assert (tiny.directory / NAMES[0]).read_bytes() == changed


def test_temporary_errors_of_the_server(tiny):
    tiny.server.troubles = {NAMES[0]: [500, 502, 429], NAMES[1]: [503]}
    assert same(fetch("eur-lex", tiny.directory).test, tiny.test)


@pytest.mark.parametrize(
    ("troubles", "message", "requests"),
    [
        ([404], "404 Not Found", 1),
        ([403], "403 Forbidden", 1),
        ([500] * 9, "500 Internal Server Error", download.N_TRIES),
        (["half"] * 9, rf"failed {download.N_TRIES} times \(IncompleteRead", download.N_TRIES),
    ],
)
def test_permanent_errors(tiny, troubles, message, requests):
    tiny.server.troubles[NAMES[0]] = troubles
    with pytest.raises(InputError, match=rf"^{tiny.server.address}/{NAMES[0]}: the .*{message}"):
        fetch("eur-lex", tiny.directory)
    assert len(tiny.server.requests) == requests
    assert kept(tiny.directory) == []


def test_a_test_file_that_fails_leaves_the_training_file(tiny):
    tiny.server.troubles[NAMES[1]] = [404]
    with pytest.raises(InputError, match=NAMES[1]):
        fetch("eur-lex", tiny.directory)
    assert kept(tiny.directory) == [NAMES[0], f"{NAMES[0]}.sha256"]
    fetch("eur-lex", tiny.directory)
    assert kept(tiny.directory) == sorted([*NAMES, *(f"{name}.sha256" for name in NAMES)])


def test_no_server(tiny):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=r"failed 5 times \(\[Errno \d+\] Connection refused\)"):
            fetch("eur-lex", tiny.directory, mirror=address)
    assert kept(tiny.directory) == []


def test_a_server_that_never_answers(tiny, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(download, "N_TRIES", 2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(InputError, match=r"failed 2 times \(.*timed out"),
    ):
        fetch("eur-lex", tiny.directory, mirror=f"http://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.parametrize("mirror", ["nonsense", "http://", "nothttp://127.0.0.1"])
def test_invalid_addresses(tiny, mirror):
    with pytest.raises(InputError, match="not a valid web address"):
        fetch("eur-lex", tiny.directory, mirror=mirror)


def test_an_interrupt_leaves_nothing(tiny, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download._Transfer, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch("eur-lex", tiny.directory)
    assert kept(tiny.directory) == []


# Wrong files


def wrong_files():
    other = make_data(299)
    narrow, few = make_data(300, features=40), make_data(300, labels=20)
    lines = "".join(f"{i % 40} {i % 60 + 1}:1\n" for i in range(300)).encode()
    return [
        (PAGE, "got a web page"),
        (b"\n <HTML>" + PAGE, "got a web page"),
        (b"", "expected a bzip2 file, got b'' ..."),
        (b"0 1:1\n", "expected a bzip2 file"),
        (lambda right: right[: len(right) // 2], "truncated or damaged"),
        (lambda right: right[:200] + b"\0" * 9 + right[209:], "truncated or damaged"),
        (bz2.compress(b"one two three\n"), ":1: expected"),
        (bz2.compress(b"# nothing\n"), "the input is empty"),
        (other, "expected 300 instances as published by the paper and PECOS, got 299"),
        (narrow, "expected 60 features as published by the paper and PECOS, got 40"),
        (few, "expected 40 labels as published by the paper and PECOS, got 20"),
        (bz2.compress(lines), "as published by PECOS, got 300"),
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
        fetch("eur-lex", tiny.directory)
    sentence = str(caught.value)
    assert sentence.startswith(f"{tiny.server.address}/{NAMES[0]}:")
    assert message in sentence
    assert "tmp" not in sentence.replace(str(tmp_path), "").replace(tiny.server.address, "")
    assert kept(tiny.directory) == []
    # The same file in the cache: refused as well, and not deleted.
    tiny.directory.mkdir(exist_ok=True)
    (tiny.directory / NAMES[0]).write_bytes(wrong)
    with pytest.raises(InputError, match=str(tiny.directory / NAMES[0])):
        fetch("eur-lex", tiny.directory)
    assert (tiny.directory / NAMES[0]).read_bytes() == wrong
    (tiny.directory / NAMES[0]).unlink()
    tiny.server.files[NAMES[0]] = right
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)


def test_a_cut_file_of_unknown_length(tiny):
    tiny.server.troubles[NAMES[0]] = ["no length"]
    with pytest.raises(InputError, match="truncated"):
        fetch("eur-lex", tiny.directory)
    assert kept(tiny.directory) == []


def test_the_training_file_in_place_of_the_test_file(tiny):
    tiny.server.files[NAMES[1]] = tiny.server.files[NAMES[0]]
    with pytest.raises(InputError, match=r"not the test data of eur-lex: expected 60 instances .*, got 300"):
        fetch("eur-lex", tiny.directory)
    assert kept(tiny.directory) == [NAMES[0], f"{NAMES[0]}.sha256"]


def test_the_test_file_counts_features_as_the_training_file_does(tiny, tmp_path):
    without_first = tiny.test.X.toarray()
    without_first[:, 0] = 0
    cut = Dataset.from_matrices(without_first, tiny.test.Y)
    write_svm(tmp_path / NAMES[1], cut, one_based=False)
    # Features from 0, but without feature 0: on its own, it would be read as one-based.
    text = bz2.decompress((tmp_path / NAMES[1]).read_bytes()).replace(b" 0:0", b"")
    write_svm(tmp_path / NAMES[0], tiny.train, one_based=False)
    tiny.server.files = {NAMES[0]: (tmp_path / NAMES[0]).read_bytes(), NAMES[1]: bz2.compress(text)}
    found = fetch("eur-lex", tiny.directory)
    assert same(found.train, tiny.train)
    assert found.test.one_based is False
    assert same(found.test, cut)


# What protects the files


def test_a_file_that_changed_after_the_download_is_refused(tiny):
    fetch("eur-lex", tiny.directory)
    for name in NAMES:
        digest, file = (tiny.directory / f"{name}.sha256").read_text().split()
        assert (digest, file) == (hashlib.sha256(tiny.server.files[name]).hexdigest(), name)
    fetch("eur-lex", tiny.directory)
    assert len(tiny.server.requests) == 2
    # The same rows, so that only the hash shows the change.
    rows = bz2.decompress(tiny.server.files[NAMES[1]])
    (tiny.directory / NAMES[1]).write_bytes(bz2.compress(rows, 1))
    with pytest.raises(InputError, match=r"test\.svm\.bz2: the file has changed since it was downloaded"):
        fetch("eur-lex", tiny.directory)
    for suffix in ("", ".sha256"):
        (tiny.directory / (NAMES[1] + suffix)).unlink()
    assert same(fetch("eur-lex", tiny.directory).test, tiny.test)
    (tiny.directory / f"{NAMES[0]}.sha256").unlink()  # such as a file that was saved by hand
    assert same(fetch("eur-lex", tiny.directory).train, tiny.train)
    (tiny.directory / f"{NAMES[0]}.sha256").write_bytes(b"")
    with pytest.raises(InputError, match="has changed"):
        fetch("eur-lex", tiny.directory)


def test_http_is_refused(tiny):
    with pytest.raises(
        InputError, match=r"^http://example\.org/data: http:// is not protected .*; use https://"
    ):
        fetch("eur-lex", tiny.directory, mirror="http://example.org/data")
    assert kept(tiny.directory) == []


def test_a_redirect_to_http_is_refused(tiny):
    tiny.server.RequestHandlerClass = type(
        "Redirecting",
        (Handler,),
        {
            "do_GET": lambda handler: (
                handler.send_response(302),
                handler.send_header("Location", "http://example.org/other"),
                handler.end_headers(),
            )
        },
    )
    with pytest.raises(InputError, match=r"^http://example\.org/other: http:// is not protected"):
        fetch("eur-lex", tiny.directory)
    assert kept(tiny.directory) == []


def test_a_redirect_within_the_machine_is_followed(tiny):
    moved = tiny.server.address.replace("/data", "/moved")
    do_get = Handler.do_GET

    def redirect(handler):
        if handler.path.startswith("/data/"):
            return do_get(handler)
        handler.send_response(302)
        handler.send_header("Location", handler.path.replace("/moved/", "/data/"))
        handler.end_headers()

    tiny.server.RequestHandlerClass = type("Redirecting", (Handler,), {"do_GET": redirect})
    assert same(fetch("eur-lex", tiny.directory, mirror=moved).train, tiny.train)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [("https://other.org/x", True), ("http://other.org/x", False), ("http://127.0.0.1/x", False)],
)
def test_https_is_never_left(url, allowed):
    transfer = download._Transfer("https://example.org/train", None, None)
    if allowed:
        transfer._check_redirect(url)
    else:
        with pytest.raises(InputError, match="not protected against changes on the way"):
            transfer._check_redirect(url)
