"""The service as processes: workers, signals, connections, malformed requests, and replaced models."""

import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from serve_fuzz import fuzz
from serve_swap import swap
from serve_tools import address, exchange, family, get, post, running_server, serve_command
from test_serve import EXAMPLES, TEXT, tagger  # noqa: F401

from labeltree.cli import main

PATIENCE = 600
REQUEST = post("/predict", {"text": TEXT})


def metric(url, name):
    """Return the sum of a metric over its labels."""
    [(_, content)] = exchange(url, get("/metrics"))
    lines = re.findall(rf"^labeltree_{name}(?:{{.*}})? (\S+)$", content.decode(), re.MULTILINE)
    return sum(map(float, lines))


def test_workers(tagger, tmp_path):  # noqa: F811
    command = serve_command(tagger, "--workers", 2, "--allow-host", "b.example")
    environment = {"LABELTREE_TOKEN": "secret-token", "TMPDIR": str(tmp_path)}
    with running_server(command, env=environment) as (process, url):
        token = b"\r\nAuthorization: Bearer secret-token\r\n\r\n"
        allowed = get("/models").replace(b"\r\n\r\n", token)
        renamed = [allowed.replace(b"localhost", name) for name in (b"b.example", b"c.example")]
        answers = [exchange(url, request)[0][0] for request in (get("/models"), allowed, *renamed)]
        assert answers == [401, 200, 200, 403]
        for _ in range(20):
            assert exchange(url, REQUEST.replace(b"\r\n\r\n", token, 1))[0][0] == 200
        # The counters of both processes are added.
        [(_, metrics)] = exchange(url, get("/metrics").replace(b"\r\n\r\n", token))
        assert b'labeltree_requests_total{endpoint="/predict",status="200"} 20.0\n' in metrics
        # A worker that ends is started again.
        victim = workers_of(process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        assert any(f"worker {victim} ended with code -9" in line for line in process.stderr)
        assert exchange(url, get("/healthz"))[0][0] == 200
        process.send_signal(signal.SIGHUP)
        assert exchange(url, get("/readyz"))[0][0] == 200
        workers = workers_of(process.pid)
    assert process.returncode == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
    assert list(tmp_path.iterdir()) == []


def workers_of(process):
    """Return the worker processes, without Python's resource tracker."""
    return [pid for pid in family(process) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_connections(tagger):  # noqa: F811
    with running_server(serve_command(tagger, "--timeout", 4, "--max-body", "1MB")) as (process, url):
        lines = []
        threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True).start()

        def send(*pieces, read=True):
            with socket.create_connection(address(url), PATIENCE) as connection:
                for piece in pieces:
                    connection.sendall(piece)
                return connection.makefile("rb").readline()[9:12] if read else b""

        # A client that sends all of a long body before it reads.
        assert send(post("/predict", b" " * 20_000_000)) == b"413"
        chunked = b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert send(chunked, b"100000\r\n" + b" " * 2**20 + b"\r\n", b"0\r\n\r\n") == b"413"
        waiting = b"POST /predict HTTP/1.1\r\nContent-Length: 9000000\r\nExpect: 100-continue\r\n\r\n"
        assert send(waiting) == b"413"
        # A transfer encoding that is not undone.
        assert send(chunked.replace(b"chunked", b"gzip, chunked"), b"2\r\n{}\r\n0\r\n\r\n") == b"415"
        assert send(REQUEST[:-5]) == b"408"
        # Clients that go away, also with two requests on one connection.
        before = metric(url, "requests_total")
        send(REQUEST[:-5], read=False)
        send(REQUEST + REQUEST, read=False)
        end = time.monotonic() + PATIENCE
        while metric(url, "requests_total") < before + 3 and time.monotonic() < end:
            time.sleep(0.05)
        [(_, metrics)] = exchange(url, get("/metrics"))
        assert b'status="499"' in metrics
        assert b'status="5' not in metrics
        # A client that asks for megabytes and reads one byte of them.
        greedy = socket.create_connection(address(url), PATIENCE)
        greedy.sendall(post("/predict", {"texts": [TEXT] * 1000, "top": 84}))
        greedy.recv(1)
        assert exchange(url, get("/healthz"))[0][0] == 200
    greedy.close()
    assert process.returncode == 0
    # Only about the client that does not read, for which the server waits at the end.
    assert [line for line in lines if "graceful shutdown exceeded" not in line] == []


def test_a_running_request_is_finished(tagger):  # noqa: F811
    with running_server(serve_command(tagger), stop=False) as (process, url):
        with socket.create_connection(address(url), PATIENCE) as connection:
            connection.sendall(REQUEST[:-5])
            exchange(url, get("/healthz"))  # the first part has arrived
            process.send_signal(signal.SIGTERM)
            connection.sendall(REQUEST[-5:])
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
    assert process.returncode == 0


def test_malformed_requests(tagger):  # noqa: F811
    found = fuzz(tagger, 200, seed=1, timeout=5)
    assert (found["server_errors"], found["unanswered"], found["code"]) == (0, 0, 0)
    assert (found["alive"], found["same_answer"]) == (True, True)
    assert (sum(found["kinds"].values()), len(found["bytes"])) == (200, 4)


def test_a_model_is_replaced_under_load(tagger, tmp_path):  # noqa: F811
    other = tmp_path / "other"
    train = ["train", str(EXAMPLES / "catalog-train.tsv"), str(other), "--quiet", "--cost", "0.01"]
    assert main(train) == 0
    lines = (EXAMPLES / "catalog-test.tsv").read_text(encoding="utf-8").splitlines()[:60]
    texts = [line.split("\t", 2)[2] for line in lines]
    found = swap(tagger, other, texts, swaps=3, clients=4, workers=2)
    assert (found["swaps"], found["mixed"], found["failed"], found["code"]) == (3, 0, 0, 0)
    assert found["fewest_after_a_swap"] > 0
    assert found["reloads"] > 0


# The command


def test_a_port_that_is_taken(refused, tagger):  # noqa: F811
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = refused("serve", tagger, "--port", port)
    assert error.startswith("error: cannot listen on 127.0.0.1: Address already in use")
    assert error.endswith("; choose another --port")


@pytest.mark.parametrize("host", ["nonsense.invalid", "192.0.2.7", "", "x" * 70, "::g"])
def test_a_host_that_is_not_of_this_machine(refused, tagger, host):  # noqa: F811
    error = refused("serve", tagger, "--host", host, "--port", 0)
    assert error == f"error: {host!r} is not a name or address of this machine; choose another --host"


@pytest.mark.parametrize("token", ["", "short", "with a space", "größer-als-8"])
def test_bad_tokens(refused, tagger, tmp_path, token):  # noqa: F811
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    assert "the token is not 8 or more ASCII characters" in refused("serve", tagger, "--token-file", file)


def test_wrong_options(refused, tmp_path, tagger, monkeypatch):  # noqa: F811
    assert "no such model directory" in refused("serve", tmp_path / "none", "--port", 0, "--workers", 2)
    assert "no such file" in refused("serve", tagger, "--token-file", tmp_path / "none")
    assert "--timeout" in refused("serve", tagger, "--timeout", 0)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert refused("serve", tagger).endswith("install it with: pip install 'labeltree[serve]'")
