"""The service as a process: workers, signals, malformed requests, and models that are replaced under load."""

import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from serve_fuzz import fuzz
from serve_swap import swap
from serve_tools import address, exchange, family, get, post, running_server, serve_command
from test_serve import TEXT, tagger  # noqa: F401

from labeltree.cli import main

PATIENCE = 600
needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps"), reason="there is no /proc to find processes and memory in"
)


@needs_proc
def test_workers_share_a_socket_and_stop(tagger):  # noqa: F811
    with running_server(serve_command(tagger, "--workers", 2)) as (process, url):
        [(status, content), (_, metrics)] = exchange(url, post("/predict", {"text": TEXT}), get("/metrics"))
        assert (status, b'"predictions"' in content) == (200, True)
        assert b"labeltree_workers 2\n" in metrics
        _, *workers = family(process.pid)
        assert len(workers) == 2
        # A worker that ends is started again.
        os.kill(workers[0], signal.SIGKILL)
        assert any("worker" in line and "starting it again" in line for line in process.stderr)
        assert exchange(url, get("/healthz"))[0][0] == 200
        process.send_signal(signal.SIGHUP)
        assert exchange(url, get("/readyz"))[0][0] == 200
    assert process.returncode == 0
    assert not any(os.path.exists(f"/proc/{worker}") for worker in workers)


@needs_proc
def test_the_supervisor_does_not_keep_the_old_model(tagger, tmp_path):  # noqa: F811
    path = tmp_path / "tagger"
    shutil.copytree(tagger, path)
    with running_server(serve_command(path, "--workers", 2)) as (process, url):
        exchange(url, get("/readyz"))
        shutil.copytree(tagger, tmp_path / "new")
        path.rename(tmp_path / "old")
        (tmp_path / "new").rename(path)
        process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while any(str(tmp_path / "old") in maps_of(pid) for pid in family(process.pid)):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert str(path) in maps_of(process.pid)
    assert process.returncode == 0


def maps_of(pid):
    """Return the files that a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text()


def test_host_names_of_a_local_service(tagger):  # noqa: F811
    other = get("/models").replace(b"Host: localhost", b"Host: tagger.example")
    with running_server(serve_command(tagger, "--allow-host", "b.example")) as (_, url):
        allowed = other.replace(b"tagger.example", b"b.example")
        assert [status for status, _ in exchange(url, get("/models"), other, allowed)] == [200, 403, 200]


def test_a_running_request_is_finished(tagger):  # noqa: F811
    request = post("/predict", {"text": TEXT})
    with running_server(serve_command(tagger), stop=False) as (process, url):
        with socket.create_connection(address(url), PATIENCE) as connection:
            connection.sendall(request[:-5])
            exchange(url, get("/healthz"))  # the first part has arrived
            process.send_signal(signal.SIGTERM)
            connection.sendall(request[-5:])
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
    assert process.returncode == 0


def test_slow_heads_are_closed(tagger):  # noqa: F811
    with running_server(serve_command(tagger, "--timeout", "0.2")) as (_, url):
        for start in (b"", b"POST /predict HTTP/1.1\r\nhost: a"):
            with socket.create_connection(address(url), PATIENCE) as connection:
                connection.sendall(start)
                assert connection.makefile("rb").read().startswith(b"HTTP/1.1 408 ")


@needs_proc
def test_malformed_requests(tagger):  # noqa: F811
    found = fuzz(tagger, 200, seed=1, timeout=2)
    assert (found["server_errors"], found["unanswered"], found["alive"], found["same_answer"]) == (
        0,
        0,
        True,
        True,
    )
    assert found["code"] == 0
    assert sum(found["kinds"].values()) == 200
    assert len(found["bytes"]) == 4


def test_a_model_is_replaced_under_load(tagger, tmp_path):  # noqa: F811
    from test_serve import EXAMPLES

    other = tmp_path / "other"
    assert (
        main(["train", str(EXAMPLES / "catalogue-train.tsv"), str(other), "--quiet", "--cost", "0.01"]) == 0
    )
    lines = (EXAMPLES / "catalogue-test.tsv").read_text(encoding="utf-8").splitlines()[:60]
    texts = [line.split("\t", 2)[2] for line in lines]
    found = swap(tagger, other, texts, swaps=3, clients=4, workers=2)
    assert (found["swaps"], found["mixed"], found["failed"], found["code"]) == (3, 0, 0, 0)
    assert found["fewest_after_a_swap"] > 0
    assert found["reloads"] >= 3


# The command


def test_a_port_that_is_taken(refused, tagger):  # noqa: F811
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = (
            f"error: cannot listen on 127.0.0.1, port {port} (Address already in use); choose another --port"
        )
        assert refused("serve", tagger, "--port", port) == message


@pytest.mark.parametrize("token", ["", "short", "with a space", "größer-als-8"])
def test_bad_tokens(refused, tagger, tmp_path, token):  # noqa: F811
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    assert "the token is not 8 or more ASCII characters" in refused("serve", tagger, "--token-file", file)


def test_missing_files(refused, tmp_path, tagger):  # noqa: F811
    assert "no such model directory" in refused("serve", tmp_path / "none", "--port", 0)
    assert "no such file" in refused("serve", tagger, "--token-file", tmp_path / "none")


def test_the_token_of_the_environment(tagger):  # noqa: F811
    with running_server(serve_command(tagger), env={"LABELTREE_TOKEN": "secret-token"}) as (_, url):
        allowed = get("/models").replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer secret-token\r\n\r\n")
        assert [status for status, _ in exchange(url, get("/models"), allowed)] == [401, 200]


def test_the_service_needs_its_extra(refused, tagger, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    error = refused("serve", tagger)
    assert error.endswith("install it with: pip install 'labeltree[serve]'")
