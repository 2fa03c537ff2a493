"""Processes: one listening socket, and worker processes that share the models."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address

from labeltree.errors import InputError
from labeltree.serve.app import Service
from labeltree.serve.http import host_name
from labeltree.serve.metrics import Metrics
from labeltree.serve.registry import Registry
from labeltree.serve.server import BACKLOG, Server
from labeltree.serve.settings import ServiceSettings
from labeltree.serve.warm_up import warm_up

_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
# A worker that ends earlier is started again after a pause.
_SHORT_LIFE = 2.0


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket.

    Parameters
    ----------
    host : str
        A name or an address, of IPv4 or IPv6.
    port : int
        0 for any port that is free.

    Returns
    -------
    socket
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            made = stack.enter_context(socket.socket(family, kind, protocol))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(BACKLOG)
            stack.pop_all()  # it stays open if nothing failed
    except (OSError, UnicodeError, OverflowError) as error:
        what = f"cannot listen on {host}, port {port} ({getattr(error, 'strerror', None) or error})"
        raise InputError(what, hint="choose another {port}", parameters={"port": None}) from None
    return made


def address_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allowed_hosts(listening: socket.socket, own: Iterable[str], more: Iterable[str]) -> frozenset[str] | None:
    """Return the names by which clients may address the service.

    Parameters
    ----------
    listening : socket
    own : iterable of str
        The name of this machine that was given to listen on.
    more : iterable of str
        Other names that were given.

    Returns
    -------
    frozenset of str or None
        None for any name: if none is given, and the service can be reached from other machines.
    """
    more = [host_name(name) for name in more]
    if not (more or ip_address(listening.getsockname()[0]).is_loopback):
        return None
    return frozenset({"localhost", "127.0.0.1", "::1", *map(host_name, own), *more})


def run(
    registry: Registry,
    settings: ServiceSettings,
    listening: socket.socket,
    workers: int,
    report: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; running requests are finished. SIGHUP opens new versions of the models.

    Parameters
    ----------
    registry : Registry
    settings : ServiceSettings
    listening : socket
    workers : int
        Number of processes. With one, it is this process.
    report : callable
        Called with one line for what the operator should know.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    service = Service(registry, settings, Metrics(workers))
    server = Server(service)
    warm_up(service, server.config)
    gc.collect()
    gc.freeze()  # what exists now is never garbage; and the pages of the workers stay shared
    gc.set_threshold(2000)  # the command line collects garbage rarely, which suits short runs
    report(f"serving {', '.join(served.name for served in registry)} at {address_of(listening)}")
    if workers == 1:
        server.run([listening])
        return
    _Supervisor(server, listening, workers, report).run()


class _Supervisor:
    """Starts worker processes, starts one again if it ends, and passes signals on."""

    def __init__(
        self, server: Server, listening: socket.socket, workers: int, report: Callable[[str], None]
    ) -> None:
        self._server, self._listening, self._report = server, listening, report
        self._n_workers = workers
        self._workers: dict[int, tuple[int, float]] = {}

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, and until all workers have ended."""
        # Signals wait until they are asked for, so that none is lost between two steps.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for number in range(self._n_workers):
                self._start(number)
            while True:
                received = self._wait()
                if received == signal.SIGCHLD:
                    self._restart()
                elif received in (signal.SIGHUP, None):
                    if received is not None:
                        self._pass_on(signal.SIGHUP)
                    self._refresh()
                else:
                    break
        finally:
            self._pass_on(signal.SIGTERM)
            for pid in self._workers:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _wait(self) -> int | None:
        """Wait for a signal; return None when it is time to look for new models."""
        seconds = self._server.service.settings.watch
        if not (seconds and hasattr(signal, "sigtimedwait")):  # macOS does not have it
            return signal.sigwait(_SIGNALS)
        received = signal.sigtimedwait(_SIGNALS, seconds)
        return None if received is None else received.si_signo

    def _refresh(self) -> None:
        """Open new models here, too: old ones are not kept, and workers that start later share new ones."""
        registry = self._server.service.registry
        before = registry.reloads
        registry.refresh(quiet=True)
        if registry.reloads > before:
            gc.collect()
            gc.freeze()

    def _start(self, number: int) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._workers[pid] = number, time.monotonic()
            return
        code = 1
        try:
            for ours in _SIGNALS:
                signal.signal(ours, signal.SIG_DFL if ours != signal.SIGHUP else signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._server.service.metrics.use_row(number)
            self._server.parent = parent
            self._server.run([self._listening])
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        finally:
            # Nothing of the parent's is cleaned up here.
            sys.stderr.flush()
            os._exit(code)

    def _restart(self) -> None:
        """Start workers again that have ended."""
        for pid, (number, since) in list(self._workers.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._workers[pid]
                code = os.waitstatus_to_exitcode(status)
                self._report(f"worker {number} ended with code {code}; starting it again")
                if time.monotonic() - since < _SHORT_LIFE:
                    time.sleep(1)
                self._start(number)

    def _pass_on(self, number: signal.Signals) -> None:
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
