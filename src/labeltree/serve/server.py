"""The server: one listening socket, and one or several processes that answer its requests."""

from __future__ import annotations

import errno
import logging
import math
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from ipaddress import ip_address
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import uvicorn

from labeltree.errors import InputError
from labeltree.serve.app import create_app
from labeltree.serve.guard import host_name
from labeltree.serve.models import Models
from labeltree.serve.prometheus import DIRECTORY, Metrics
from labeltree.serve.settings import ServiceSettings

# Connections that wait to be accepted.
_BACKLOG = 1024

log = logging.getLogger("labeltree.serve")


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; port 0 is any free one."""
    try:
        [(family, *_, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        made = socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if isinstance(error, socket.gaierror | UnicodeError) or number == errno.EADDRNOTAVAIL:
            what, hint = f"{host!r} is not a name or address of this machine", "choose another {host}"
        else:
            what, hint = f"cannot listen on {host}: {os.strerror(number or 0)}", "choose another {port}"
        raise InputError(what, hint=hint) from None
    # Accepted connections inherit it; asyncio sets it only for sockets that name their protocol. Without it,
    # small answers wait until earlier ones are acknowledged.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def allowed_hosts(listening: socket.socket, own: str, more: Sequence[str]) -> frozenset[str] | None:
    """Return the names by which clients may address the service at its `own` host; None for any name."""
    # Other machines may know the service by any name.
    if not (more or ip_address(listening.getsockname()[0]).is_loopback):
        return None
    return frozenset({"localhost", "127.0.0.1", "::1", *map(host_name, (own, *more))})


def run(
    paths: Sequence[Path],
    settings: ServiceSettings,
    listening: socket.socket,
    workers: int = 1,
    *,
    quiet: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, and finish running requests; SIGHUP opens new versions of the models."""
    _start_log(quiet)
    metrics = Metrics()
    models = Models(paths, metrics)
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log.info("serving %s at %s", ", ".join(served.name for served in models), address)
    if workers == 1:
        _serve(models, settings, metrics, listening)
        return
    del models  # every worker opens its own: it cannot inherit objects
    with tempfile.TemporaryDirectory(prefix="labeltree-metrics-") as folder:
        os.environ[DIRECTORY] = folder
        _supervise(workers, paths, settings, listening, quiet)


def _serve(models: Models, settings: ServiceSettings, metrics: Metrics, listening: socket.socket) -> None:
    """Answer requests in this process."""
    config = uvicorn.Config(
        create_app(models, settings, metrics),
        loop="asyncio",  # uvloop logs a traceback when a client goes away with a second request waiting
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1 + math.ceil(settings.timeout),  # running requests end before
    )
    # uvicorn stops after these, and then raises them once more, for the handlers that were there before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, lambda *_: models.check_soon())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    models.watch(settings.watch)
    uvicorn.Server(config).run([listening])


def _work(paths: Sequence[Path], settings: ServiceSettings, listening: socket.socket, quiet: bool) -> None:
    """Be a worker process."""
    _start_log(quiet)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    metrics = Metrics()
    _serve(Models(paths, metrics), settings, metrics, listening)


def _supervise(n_workers: int, *arguments: Any) -> None:
    """Run worker processes until SIGTERM or SIGINT; start one again if it ends, and pass signals on."""
    workers: list[SpawnProcess] = []
    stopping = threading.Event()

    def pass_on(number: int, *_: Any) -> None:
        for worker in workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    signal.signal(signal.SIGHUP, pass_on)
    while not stopping.is_set():
        # A worker that does not listen to SIGHUP yet would be ended by it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        while len(workers) < n_workers:
            worker = multiprocessing.get_context("spawn").Process(target=_work, args=arguments)
            worker.start()
            workers.append(worker)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        wait([worker.sentinel for worker in workers], timeout=0.2)
        for worker in [worker for worker in workers if not worker.is_alive()]:
            workers.remove(worker)
            log.warning("worker %s ended with code %s; starting it again", worker.pid, worker.exitcode)
            stopping.wait(1)  # before one that ends at once is started again
    pass_on(signal.SIGTERM)
    for worker in workers:
        worker.join()


def _start_log(quiet: bool) -> None:
    """Print what the operator should know on standard error, one line each."""
    logging.raiseExceptions = False  # nobody may read it any more
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    log.handlers[:] = [handler]
    log.setLevel(logging.ERROR if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
