"""The application: which function answers which request, and what all answers have in common."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from labeltree.base.json import to_json
from labeltree.errors import InputError
from labeltree.serve import answers
from labeltree.serve.batching import NOTHING, THREADS, Batcher
from labeltree.serve.errors import FAILED, RequestError
from labeltree.serve.http import (
    SAFETY,
    Buffered,
    ClientGone,
    Deadline,
    Headers,
    Receive,
    Scope,
    Send,
    check_host,
    check_token,
    read_body,
    send_bytes,
    send_error,
)
from labeltree.serve.metrics import Metrics
from labeltree.serve.registry import Registry
from labeltree.serve.requests import Reader
from labeltree.serve.routes import make_routes
from labeltree.serve.settings import LARGE_BODY, ServiceSettings

# Paths that need no token: the page, which asks for one, and what machines ask before they send requests.
_OPEN = ("/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico")
# Explanations that may wait at a time.
_MOST_EXPLANATIONS = 64

log = logging.getLogger("labeltree.serve")
T = TypeVar("T")


class Service:
    """An ASGI application that serves models.

    Predictions and explanations are answered here; what is not called thousands of times per second is left
    to FastAPI (`routes.py`). Small predictions need not come here: `direct.py` answers them.

    Parameters
    ----------
    registry : Registry
    settings : ServiceSettings
    metrics : Metrics, optional
        Shared by all worker processes.
    """

    def __init__(
        self, registry: Registry, settings: ServiceSettings | None = None, metrics: Metrics | None = None
    ) -> None:
        self.registry, self.settings = registry, settings or ServiceSettings()
        self.metrics = metrics or Metrics()
        self.buffered = Buffered(self.settings.max_buffered)
        self.reader = Reader(registry, self.settings)
        self._routes = make_routes(registry, lambda: self.metrics.text(registry))
        self._posts: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "/predict": self._predict,
            "/explain": self._explain,
        }
        self._explanations = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    # The life of a worker process

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and stop what runs beside the requests."""
        await receive()
        self.batcher = Batcher(self.metrics, self.settings.max_waiting)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix=f"{THREADS}-answer")
        self._refreshing: asyncio.Task[None] | None = None
        watching = asyncio.create_task(self._watch()) if self.settings.watch else None
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in (watching, self._refreshing):
            if task is not None:
                task.cancel()
        self.batcher.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.watch)
            await self._refresh()

    def refresh_soon(self) -> None:
        """Open the new version of every model that has one, without waiting for it."""
        self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        registry = self.registry
        reloads, failures = registry.reloads, registry.failures
        # A thread of its own: the others may be busy with requests.
        try:
            await asyncio.to_thread(self.registry.refresh)
        except Exception as error:
            _log_failure("opening new models", error)
        self.metrics.add("reloads", registry.reloads - reloads)
        self.metrics.add("reload_failures", registry.failures - failures)

    # Requests

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        path, method = scope["path"], scope["method"]
        status = 500
        try:
            self.admit(path, scope["headers"])
            post = self._posts.get(path)
            if post is None and path.endswith("/suggest") and path.startswith("/models/"):
                name = path[len("/models/") : -len("/suggest")]
                post = lambda body: self._suggest(name, body)  # noqa: E731
            if post is not None:
                if method != "POST":
                    raise RequestError(405, f"{method} is not supported here", "use POST")
                with Deadline(self.settings.timeout) as deadline, self.buffered.holding() as hold:
                    body = await read_body(scope, receive, self.settings.max_body, hold)
                    deadline.received = True
                    content = await post(body)
                status = 200
                await send_bytes(send, 200, content)
            else:
                status = await self._forward(scope, receive, send)
        except ClientGone:
            status = 499
        except Exception as error:
            wrong = self.error_of(error, f"{method} {path[:200]!a}")
            status = wrong.status
            await send_error(send, wrong)
        finally:
            self.metrics.count_request(_endpoint(path), status, time.perf_counter() - start)

    def admit(self, path: str, headers: Headers) -> None:
        """Raise a RequestError if a request may not be answered."""
        if self.settings.hosts is not None:
            check_host(headers, self.settings.hosts)
        if self.settings.token is not None and not _is_open(path):
            check_token(headers, self.settings.token)

    def error_of(self, error: Exception, what: str) -> RequestError:
        """Return the answer to a request that failed; what is a fault of the service is logged."""
        if isinstance(error, RequestError):
            return error
        if isinstance(error, InputError):
            return RequestError.of(error)
        _log_failure(what, error)
        return FAILED

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Let FastAPI answer; return the status."""
        status = 500

        async def send_safely(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                known = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in SAFETY if pair[0] not in known),
                ]
            await send(message)

        try:
            await self._routes(scope, receive, send_safely)
        except Exception as error:  # it has been answered (`routes.py`)
            _log_failure(f"{scope['method']} {scope['path'][:200]!a}", error)
        return status

    async def _predict(self, body: bytes) -> bytes:
        request = await self._maybe_on_thread(len(body) > LARGE_BODY, self.reader.predict, body)
        if not request.n_rows:
            return answers.prediction_json(request, NOTHING)
        found = await self.batcher.predict(request.served, request.queries, request.top)
        return await self._maybe_on_thread(request.is_large, answers.prediction_json, request, found)

    async def _explain(self, body: bytes) -> bytes:
        request = await self._maybe_on_thread(len(body) > LARGE_BODY, self.reader.explain, body)
        if self._explanations >= _MOST_EXPLANATIONS:
            raise RequestError(503, "too many requests are waiting", hint="try again later")
        self._explanations += 1
        try:
            return await self.on_thread(lambda: to_json(answers.explanation(request)).encode())
        finally:
            self._explanations -= 1

    async def _suggest(self, name: str, body: bytes) -> bytes:
        request = await self._maybe_on_thread(len(body) > LARGE_BODY, self.reader.suggest, name, body)
        found = await self.batcher.predict(request.served, [request.text], request.limit)
        return to_json(answers.suggestions(request.served, found)).encode()

    async def _maybe_on_thread(self, large: bool, call: Callable[..., T], *arguments: Any) -> T:
        return await self.on_thread(lambda: call(*arguments)) if large else call(*arguments)

    def on_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function on a thread of its own."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)


def _log_failure(what: str, error: Exception) -> None:
    log.error("%s failed\n%s", what, "".join(traceback.format_exception(error)))


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith("/page/")


def _endpoint(path: str) -> str:
    """Return what a path is counted as."""
    first, _, rest = path[1:].partition("/")
    if first == "models" and rest:
        kind = rest.partition("/")[2].partition("/")[0]
        return kind if kind in ("labels", "tree", "suggest") else "models"
    return _KINDS.get(first, "other")


_KINDS = {
    **{name: name for name in ("predict", "explain", "models", "metrics")},
    "": "page",
    "page": "page",
    "docs": "page",
    "healthz": "health",
    "readyz": "health",
}
