"""Warm up: answer some requests before the first client sends one, and before worker processes are started.

What Python makes when code first runs, and when it makes code faster that runs often, is then shared.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from labeltree.serve.app import Service
from labeltree.serve.batching import THREADS
from labeltree.serve.registry import Served
from labeltree.strict_json import to_json

_CONNECTIONS, _ROUNDS = 4, 20
_SECONDS = 2  # for each model, at most
# Answered by FastAPI, which makes its handlers for the first request, and not directly like predictions.
_HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def warm_up(service: Service, config: uvicorn.Config) -> None:
    """Answer health checks, and predictions of each model; they are not counted.

    Parameters
    ----------
    service : Service
    config : uvicorn.Config
        How connections to it are served.
    """
    make_loop = config.get_loop_factory()  # imports modules, as a worker would
    assert make_loop is not None
    loop = make_loop()
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the models are new
    try:
        loop.run_until_complete(_rehearse(service, config))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
        signal.signal(signal.SIGHUP, hang_up)
    for thread in threading.enumerate():
        if thread.name.startswith(THREADS):
            thread.join()  # a process with threads must not be forked
    service.metrics.clear()


async def _rehearse(service: Service, config: uvicorn.Config) -> None:
    asked: asyncio.Queue[Any] = asyncio.Queue()
    ready = asyncio.Event()

    async def say(message: Any) -> None:
        ready.set()

    life = asyncio.create_task(service({"type": "lifespan"}, asked.get, say))
    await asked.put({"type": "lifespan.startup"})
    await ready.wait()
    made: Any = config.http_protocol_class
    connections = [made(config, ServerState(), {}) for _ in range(_CONNECTIONS)]
    nowhere = [_Nowhere() for _ in connections]
    for connection, transport in zip(connections, nowhere, strict=True):
        connection.connection_made(transport)
        connection.data_received(_HEALTH)
        await transport.written.wait()
    for served in service.registry:
        end = time.monotonic() + _SECONDS
        for number in range(_ROUNDS):
            if time.monotonic() > end:
                break
            for first, (connection, transport) in enumerate(zip(connections, nowhere, strict=True)):
                transport.written.clear()
                connection.data_received(
                    _request(served, service.settings.token, number * _CONNECTIONS + first)
                )
            for transport in nowhere:
                await transport.written.wait()
    for connection in connections:
        connection.connection_lost(None)
    await asked.put({"type": "lifespan.shutdown"})
    await life


def _request(served: Served, token: str | None, number: int) -> bytes:
    """Return a small prediction, of other features for each number: each reaches other nodes of the trees."""
    model = served.model
    query: dict[str, Any] = {"rows": [{"indices": [number % model.n_features], "values": [1.0]}]}
    if model.text is not None:
        step = len(model.text.names) // 50 + 1
        query = {"text": " ".join(model.text.names[number % step :: step])}
    body = to_json({"model": served.name, **query}).encode()
    access = "" if token is None else f"Authorization: Bearer {token}\r\n"
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\n{access}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class _Nowhere(asyncio.Transport):
    """A connection without a client."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written.set()

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    pause_reading = resume_reading = close
