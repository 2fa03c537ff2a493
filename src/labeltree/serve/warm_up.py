"""Warm up: start the service and answer some requests, before the first client and before worker processes.

What Python makes when code first runs, and when it makes code faster that runs often, is then shared. Faster
code also changes fewer objects, and a worker copies the pages of those that it changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
import time
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from labeltree.base.json import to_json
from labeltree.serve.app import Service
from labeltree.serve.batching import THREADS
from labeltree.serve.registry import Served
from labeltree.serve.server import Server

# Python optimizes code that has run 8 times, or fewer since version 3.12.
_STARTS, _CONNECTIONS, _ROUNDS = 10, 4, 2
_SECONDS = 2  # of requests to each model, at most
# Answered by FastAPI, which makes its handlers for the first request, and not directly like predictions.
_HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def warm_up(service: Service, config: uvicorn.Config) -> None:
    """Start servers, and answer health checks and predictions of each model; they are not counted.

    Parameters
    ----------
    service : Service
    config : uvicorn.Config
        How connections to it are served.
    """
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the models are new
    left = dict.fromkeys((served.name for served in service.registry), float(_SECONDS))
    gc.collect()
    gc.freeze()  # each collection then looks only at what a server has made
    try:
        for number in range(_STARTS):
            _Rehearsal(service, config, number, left).run([])
            gc.collect()  # the event loop: the next one uses the same memory
    finally:
        signal.signal(signal.SIGHUP, hang_up)
    for thread in threading.enumerate():
        if thread.name.startswith(THREADS):
            thread.join()  # a process with threads must not be forked
    service.metrics.clear()


class _Rehearsal(Server):
    """A server without a socket and without signals, which stops once it has answered its own requests.

    Parameters
    ----------
    service, config
        As of `Server`.
    number : int
        Of this start; each sends other requests.
    left : dict
        By the name of a model: the seconds that its requests may take, which are reduced.
    """

    def __init__(self, service: Service, config: uvicorn.Config, number: int, left: dict[str, float]) -> None:
        super().__init__(service, config)
        self._number, self._left = number, left

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        made: Any = self.config.http_protocol_class
        connections = [made(self.config, ServerState(), {}) for _ in range(_CONNECTIONS)]
        nowhere = [_Nowhere() for _ in connections]
        for connection, transport in zip(connections, nowhere, strict=True):
            connection.connection_made(transport)
            connection.data_received(_HEALTH)
            await transport.written.wait()
        first = self._number * _ROUNDS * _CONNECTIONS
        for served in self.service.registry:
            for number in range(first, first + _ROUNDS * _CONNECTIONS, _CONNECTIONS):
                if self._left[served.name] <= 0:
                    break
                start = time.monotonic()
                for i, (connection, transport) in enumerate(zip(connections, nowhere, strict=True)):
                    transport.written.clear()
                    connection.data_received(_request(served, self.service.settings.token, number + i))
                for transport in nowhere:
                    await transport.written.wait()
                self._left[served.name] -= time.monotonic() - start
        for connection in connections:
            connection.connection_lost(None)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.shutdown()  # there are no connections to wait for


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
