"""The server of one process: uvicorn with our protocol, what signals do, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import uvicorn

from labeltree.serve.app import Service
from labeltree.serve.direct import DirectPredictions
from labeltree.serve.protocol import protocol_with

# Connections that wait to be accepted.
BACKLOG = 1024


class Server(uvicorn.Server):
    """A server that leaves the signals of its process as they were, and ends with its parent.

    Parameters
    ----------
    service : Service
    config : uvicorn.Config, optional
        Of another server of this service.

    Attributes
    ----------
    service : Service
    parent : int or None
        The process to end with.
    """

    def __init__(self, service: Service, config: uvicorn.Config | None = None) -> None:
        super().__init__(_config(service) if config is None else config)
        self.service = service
        self.parent: int | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop after SIGTERM and SIGINT; open new models after SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, self.service.refresh_soon)
        self.service.registry.refresh()  # models may have changed before, when the signal was ignored
        yield

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop. That of uvicorn also writes the date, which no answer has."""
        return self.should_exit or (self.parent is not None and os.getppid() != self.parent)


def _config(service: Service) -> uvicorn.Config:
    limits = service.settings
    settings: dict[str, Any] = {
        "http": protocol_with(limits.timeout, limits.max_body, DirectPredictions(service)),
        "loop": "uvloop",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "backlog": BACKLOG,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": max(1, round(limits.timeout)),
    }
    config = uvicorn.Config(service, **settings)
    config.load()
    return config
