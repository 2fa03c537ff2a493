"""Small predictions that a connection answers without a task: the same answers, errors and limits."""

import asyncio
import json

import pytest
import uvicorn
from asgi import ask, running
from test_serve import TEXT, registry, tagger  # noqa: F401
from test_serve_protocol import Transport
from uvicorn.server import ServerState

from labeltree.serve import answers, batching
from labeltree.serve.app import Service
from labeltree.serve.direct import DirectPredictions, Exchange
from labeltree.serve.protocol import protocol_with
from labeltree.serve.settings import ServiceSettings


def post(body, *headers, version="1.1", path="/predict"):
    """Return the bytes of a request."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    if not any(header.lower().startswith("transfer-encoding") for header in headers):
        headers = (*headers, f"Content-Length: {len(body)}")
    return "\r\n".join([f"POST {path} HTTP/{version}", *headers, "", ""]).encode() + body


class Connection:
    """A connection to a service that is running."""

    def __init__(self, service):
        settings = service.settings
        made = protocol_with(settings.timeout, settings.max_body, DirectPredictions(service))
        config = uvicorn.Config(service, log_config=None, access_log=False, ws="none")
        self.protocol = made(config, ServerState(), {})
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    async def send(self, *segments, answers=1):
        """Send bytes, wait for answers, and return status, headers and content of each."""
        self.transport.written, self.transport.n_writes = b"", 0
        for segment in segments:
            self.protocol.data_received(segment)
        while len(found := self.answers()) < answers:
            await asyncio.sleep(0.001)
        return found

    def answers(self):
        found, rest = [], self.transport.written
        while b"\r\n\r\n" in rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            status, *lines = head.decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            length = int(headers["content-length"])
            if len(rest) < length:
                break
            found.append((int(status.split()[1]), headers, rest[:length]))
            rest = rest[length:]
        return found

    @property
    def is_direct(self):
        return isinstance(self.protocol.cycle, Exchange)


def connected(service, talk):
    """Run a coroutine function with a connection to a service, and close the connection."""

    async def run():
        async with running(service):
            connection = Connection(service)
            try:
                return await talk(connection)
            finally:
                connection.protocol.connection_lost(None)

    return asyncio.run(run())


@pytest.fixture
def service(registry):  # noqa: F811
    return Service(registry)


REQUESTS = [
    {"text": TEXT},
    {"texts": [TEXT, "tea", ""], "top": 2, "names": False},
    {"texts": []},
    {"text": TEXT, "threshold": 0.5, "scores": False},
    {"texts": ["tea"] * 40, "top": 30},  # a large answer, which a thread writes
    {"model": "model", "rows": [{"indices": [1, 0], "values": [1, 2.5]}]},
    {"model": "none", "text": TEXT},
    {"text": 5},
    {"text": TEXT, "top": 0},
    b"[",
]


def test_answers_are_those_of_the_application(service):
    async def talk(connection):
        for body in REQUESTS:
            wanted = await ask(service, "POST", "/predict", body)
            for segments in ([post(body)], [post(body)[:30], post(body)[30:-1], post(body)[-1:]]):
                [(status, headers, content)] = await connection.send(*segments)
                assert connection.is_direct
                assert (status, content) == (wanted.status, wanted.content)
                assert headers == wanted.headers
        assert connection.transport.n_writes == 1
        assert not connection.transport.is_closing()
        return service.metrics.text(service.registry)

    metrics = connected(service, talk)
    n_good = sum(isinstance(body, dict) for body in REQUESTS) - 3
    assert f'requests_total{{endpoint="predict",status="2xx"}} {3 * n_good}\n' in metrics
    assert f'requests_total{{endpoint="predict",status="4xx"}} {3 * 4}\n' in metrics
    assert "labeltree_waiting_rows 0\n" in metrics


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post(b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
        (post({"text": TEXT, "top": 3}, path="/predict?x=1"), 200),
        (post({"text": TEXT + " " * 70_000}), 200),
        (post(b" " * 200_000), 413),
        (post(b"text=tea", path="/models/tagger/suggest"), 200),
        (b"GET /predict HTTP/1.1\r\n\r\n", 405),
    ],
    ids=["chunked", "a query", "large", "too large", "another path", "another method"],
)
def test_other_requests_are_left_to_the_application(registry, request_bytes, status):  # noqa: F811
    async def talk(connection):
        [(found, _, _)] = await connection.send(request_bytes)
        assert (found, connection.is_direct) == (status, False)

    connected(Service(registry, ServiceSettings(max_body=100_000)), talk)


def test_a_client_that_waits_for_a_go_ahead(service):
    async def talk(connection):
        head, _, body = post({"text": TEXT}, "Expect: 100-continue").partition(b"\r\n\r\n")
        connection.protocol.data_received(head + b"\r\n\r\n")
        while connection.transport.written != b"HTTP/1.1 100 Continue\r\n\r\n":
            await asyncio.sleep(0.001)
        [(status, _, _)] = await connection.send(body)
        assert status == 200

    connected(service, talk)


@pytest.mark.parametrize(
    "request_bytes", [post({"text": TEXT}, "Connection: close"), post({"text": TEXT}, version="1.0")]
)
def test_the_last_request_of_a_connection(service, request_bytes):
    async def talk(connection):
        [(status, headers, _)] = await connection.send(request_bytes)
        assert (status, headers["connection"], connection.is_direct) == (200, "close", True)
        assert connection.transport.is_closing()

    connected(service, talk)


def test_pipelined_requests_are_answered_in_order(service):
    texts = [f"{TEXT} {i}" for i in range(4)]

    async def talk(connection):
        wanted = [
            (await ask(service, "POST", "/predict", {"text": text, "top": 9})).content for text in texts
        ]
        found = await connection.send(b"".join(post({"text": text, "top": 9}) for text in texts), answers=4)
        assert [content for _, _, content in found] == wanted
        [(_, _, again)] = await connection.send(post({"text": texts[0], "top": 9}))
        assert (again, connection.is_direct) == (wanted[0], True)

    connected(service, talk)


def test_tokens(registry):  # noqa: F811
    async def talk(connection):
        for headers, status in (((), 401), (("Authorization: Bearer secret-token",), 200)):
            [(found, _, _)] = await connection.send(post({"text": TEXT}, *headers))
            assert (found, connection.is_direct) == (status, True)

    connected(Service(registry, ServiceSettings(token="secret-token")), talk)


def test_host_names(registry):  # noqa: F811
    async def talk(connection):
        for host, status in (("localhost:1", 200), ("evil.example", 403)):
            [(found, _, _)] = await connection.send(post({"text": TEXT}, f"Host: {host}"))
            assert (found, connection.is_direct) == (status, True)

    connected(Service(registry, ServiceSettings(hosts=frozenset({"localhost"}))), talk)


def test_bodies_of_all_requests_have_a_limit(registry):  # noqa: F811
    service = Service(registry, ServiceSettings(max_buffered=100))

    async def talk(connection):
        other = Connection(service)
        other.protocol.data_received(post({"text": "x" * 60})[:-1])
        assert (service.buffered.size, other.is_direct) == (72, True)
        [(status, _, _)] = await connection.send(post({"text": "x" * 60}))
        assert (status, connection.is_direct) == (503, False)
        other.protocol.connection_lost(None)
        [(status, _, _)] = await connection.send(post({"text": "x" * 60}))
        assert (status, connection.is_direct, service.buffered.size) == (200, True, 0)

    connected(service, talk)


def test_a_body_that_does_not_arrive(registry):  # noqa: F811
    async def talk(connection):
        [(status, headers, _)] = await connection.send(post({"text": TEXT})[:-1])
        assert (status, headers["connection"]) == (408, "close")
        assert connection.transport.is_closing()

    connected(Service(registry, ServiceSettings(timeout=0.01)), talk)


def test_an_answer_that_takes_too_long(registry, monkeypatch):  # noqa: F811
    async def talk(connection):
        [(status, headers, _)] = await connection.send(post({"text": TEXT}))
        assert (status, headers["retry-after"]) == (503, "1")
        assert not connection.transport.is_closing()

    monkeypatch.setattr(batching._Lane, "_start", lambda self: None)
    connected(Service(registry, ServiceSettings(timeout=0.01)), talk)


@pytest.mark.parametrize("place", ["search", "answer", "large answer"])
def test_a_failure_is_not_shown(service, monkeypatch, caplog, place):
    def fail(*arguments):
        raise RuntimeError("secret")

    async def talk(connection):
        texts = ["tea"] * (40 if place == "large answer" else 1)
        [(status, _, content)] = await connection.send(post({"texts": texts, "top": 30}))
        assert (status, b"secret" in content) == (500, False)

    module, name = (batching, "_search_together") if place == "search" else (answers, "prediction_json")
    monkeypatch.setattr(module, name, fail)
    connected(service, talk)
    assert caplog.text.count("RuntimeError: secret") == 1


@pytest.mark.parametrize("arrived", [True, False])
def test_a_client_that_is_gone(service, monkeypatch, arrived):
    started = []

    async def talk(connection):
        request = post({"text": TEXT})
        connection.protocol.data_received(request if arrived else request[:-1])
        connection.transport.close()
        connection.protocol.connection_lost(None)
        if arrived:
            while service.batcher.n_waiting:
                await asyncio.sleep(0.001)
        assert connection.transport.written == b""
        return service.metrics.text(service.registry)

    monkeypatch.setattr(batching, "_search", started.append)
    metrics = connected(service, talk)
    assert 'requests_total{endpoint="predict",status="4xx"} 1\n' in metrics
    assert started == []


def test_a_running_request_is_finished(service):
    async def talk(connection):
        request = post({"text": TEXT})
        connection.protocol.data_received(request[:-1])
        connection.protocol.shutdown()
        [(status, headers, _)] = await connection.send(request[-1:])
        assert (status, headers["connection"], connection.transport.is_closing()) == (200, "close", True)

    connected(service, talk)
