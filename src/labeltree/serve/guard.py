"""What holds for every request: host name, token, limits on body and time, metrics, and safe headers."""

from __future__ import annotations

import hmac
import time
import zlib

import anyio
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from labeltree.serve.errors import RequestError
from labeltree.serve.prometheus import Metrics
from labeltree.serve.settings import ServiceSettings

# Paths that need no token: the health checks, and the page, which asks for the token.
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/favicon.ico"})
# Bytes beyond the limit that are read and dropped, so that a client that sends first gets the answer.
_DISCARDED = 64_000_000
# A type is never guessed, and other sites do not learn addresses.
_SAFETY = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class Guard:
    """Middleware that lets only permitted requests pass, with their whole body, and counts all of them."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self._app = GZipMiddleware(app, minimum_size=1000, compresslevel=4)
        self._settings, self._metrics = settings, metrics
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        exchange = _Exchange(scope, receive, send)
        try:
            await self._answer(exchange)
        except RequestError as error:
            await error.response()(scope, receive, exchange.send)
        except ClientDisconnect:  # before its request was complete
            exchange.status = 499
        finally:
            endpoint = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(endpoint, exchange.status).inc()
            self._metrics.seconds.labels(endpoint).observe(time.perf_counter() - start)

    async def _answer(self, exchange: _Exchange) -> None:
        request, seconds = exchange.request, self._settings.timeout
        self._admit(request)
        try:
            with anyio.move_on_after(seconds) as limit:
                await self._read(exchange)
                await self._app(request.scope, exchange.replay, exchange.send)
        finally:
            self._buffered -= exchange.size
        if limit.cancelled_caught and not exchange.started:
            what, status = ("was not answered", 504) if exchange.complete else ("did not arrive", 408)
            raise RequestError(status, f"the request {what} within {seconds:g} seconds")

    def _admit(self, request: Request) -> None:
        """Raise an error if a request may not be answered."""
        hosts, token = self._settings.hosts, self._settings.token
        path, headers = request.scope["path"], request.headers
        # A request without a host does not come from a browser.
        if hosts is not None and "host" in headers and host_name(headers["host"]) not in hosts:
            what = "the service is not known by this host name"
            raise RequestError(403, what, "start it with --allow-host")
        if token is not None and path not in OPEN_PATHS and not path.startswith("/page/"):
            given = headers.getlist("authorization")
            kind, _, value = (given[0] if len(given) == 1 else "").partition(" ")
            # The comparison takes the same time wherever the difference is.
            same = hmac.compare_digest(value.strip().encode("latin-1"), token.encode())
            if not same or kind.lower() != "bearer":
                what = "the bearer token is missing or wrong"
                raise RequestError(401, what, "send Authorization: Bearer TOKEN")
        for name, known in (("transfer-encoding", ("chunked",)), ("content-encoding", ("gzip", "identity"))):
            encoding = ", ".join(headers.getlist(name)).strip().lower()
            if name in headers and encoding not in known:
                what = f"the {name.replace('-', ' ')} {encoding[:100]!r} is not supported"
                raise RequestError(415, what, "send the body as it is, or with Content-Encoding: gzip")

    async def _read(self, exchange: _Exchange) -> None:
        """Read the body of a request, within the limits: as it arrives, and as it is without gzip."""
        headers, most = exchange.request.headers, self._settings.max_body
        too_long = RequestError(413, f"the body is too long, expected at most {most:,} bytes")
        if "expect" in headers and int(headers.get("content-length", "0")[:19]) > most:
            raise too_long  # the client waits for this before it sends the body
        received = 0
        async for part in exchange.request.stream():
            received += len(part)
            if received > most + _DISCARDED:
                break
            if received <= most:
                self._keep(exchange, part)
        if received > most:
            raise too_long
        if headers.get("content-encoding", "").strip().lower() == "gzip" and received:
            content = _decompressed(bytes(exchange.body), most + 1)
            if len(content) > most:
                raise too_long
            exchange.body.clear()
            self._keep(exchange, content)
        exchange.complete = True

    def _keep(self, exchange: _Exchange, part: bytes) -> None:
        """Keep a part of a body, unless those of all requests take too much memory."""
        if self._buffered + len(part) > self._settings.max_buffered:
            raise RequestError(503, "too many requests are arriving", "try again later")
        self._buffered += len(part)
        exchange.size += len(part)
        exchange.body += part


def _decompressed(body: bytes, most: int) -> bytes:
    """Return a body without gzip; of a longer one at most so many bytes."""
    gzip = zlib.decompressobj(16 + zlib.MAX_WBITS)  # the format of gzip, with one member
    try:
        content = gzip.decompress(body, most)
        is_whole = len(content) == most or gzip.eof
    except zlib.error:
        is_whole = False
    if gzip.unused_data or not is_whole:
        raise RequestError(400, "the body is not compressed with gzip")
    return content


class _Exchange:
    """A request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.request = Request(scope, receive)
        self._send = send
        self.body = bytearray()
        self.size = 0  # bytes that count as buffered
        self.complete = self.replayed = self.started = False
        self.status = 500

    async def replay(self) -> Message:
        """Return the body that has been read, and later whether the client is gone."""
        if self.replayed:
            return await self.request.receive()
        self.replayed, body = True, bytes(self.body)
        self.body.clear()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            gone = self.complete and await self.request.is_disconnected()
            self.status, self.started = 499 if gone else message["status"], True
            message["headers"] = [*message["headers"], *_SAFETY]
        await self._send(message)


def host_name(value: str) -> str:
    """Return the name in a Host header: without the port, in lowercase."""
    host, _, port = value.strip().lower().rpartition(":")
    if not host or not (port.isdigit() or not port) or (":" in host and not host.endswith("]")):
        host = value.strip().lower()
    return host.strip("[]").rstrip(".")
