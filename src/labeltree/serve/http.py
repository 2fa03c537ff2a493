"""HTTP without a framework: read a body within limits, send bytes, and keep a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Any, TypeAlias

from labeltree.serve.errors import RequestError

Scope: TypeAlias = Any
Receive: TypeAlias = Any
Send: TypeAlias = Any
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

JSON_TYPE = b"application/json"
# A page may load only what the service itself sends, and a type is never guessed.
SAFETY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class ClientGone(Exception):
    """The client has closed the connection before its request was complete."""


class Deadline:
    """A block that is cancelled after some seconds, without a task of its own.

    Parameters
    ----------
    seconds : float

    Attributes
    ----------
    received : bool
        Whether the request has arrived, to be set within the block: the error depends on it.
    """

    __slots__ = ("_over", "_seconds", "_task", "_timer", "received")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._over = self.received = False

    def __enter__(self) -> Deadline:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)
        return self

    def _end(self) -> None:
        self._over = True
        if self._task is not None:
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._over and kind is asyncio.CancelledError:
            uncancel = getattr(self._task, "uncancel", None)  # Python 3.11
            if uncancel is not None:
                uncancel()
            raise self.error(self._seconds, self.received) from None

    @staticmethod
    def error(seconds: float, received: bool) -> RequestError:
        """Return the error of a request that took too long, to be answered or to arrive."""
        within = f"within {seconds:g} seconds"
        if received:
            return RequestError(503, f"the request was not answered {within}")
        return RequestError(408, f"the request did not arrive {within}")


class Buffered:
    """The bytes of bodies that are held at a time, of all requests.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._most, self.size = most, 0

    def has_room(self, size: int) -> bool:
        """Return whether so many more bytes may be held."""
        return self.size + size <= self._most

    @contextlib.contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Return a function that counts bytes until the block ends, or raises an error with status 503."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if not self.has_room(size):
                raise RequestError(503, "too many requests are arriving", "try again later")
            self.size += size
            held += size

        try:
            yield hold
        finally:
            self.size -= held


async def read_body(scope: Scope, receive: Receive, most: int, hold: Callable[[int], None]) -> bytes:
    """Read the body of a request.

    Parameters
    ----------
    scope, receive : as of ASGI
    most : int
        Bytes that it may have.
    hold : callable
        Called with the size of each part (`Buffered`).

    Raises
    ------
    RequestError
        If it is longer.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:19]) > most:
            raise _too_long(most)
    parts = []
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        length += len(part)
        if length > most:
            raise _too_long(most)
        hold(len(part))
        parts.append(part)
        more = message.get("more_body", False)
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)


def _too_long(most: int) -> RequestError:
    return RequestError(413, f"the body is too long, expected at most {most:,} bytes")


async def send_bytes(send: Send, status: int, content: bytes, headers: Headers = ()) -> None:
    """Send an answer in JSON."""
    length = (b"content-length", b"%d" % len(content))
    given = [(b"content-type", JSON_TYPE), length, *SAFETY, *headers]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": content})


async def send_error(send: Send, error: RequestError) -> None:
    """Send an error."""
    await send_bytes(send, error.status, error.body(), error.headers())


def response(status: int, content: bytes, headers: Headers = (), *, close: bool) -> bytes:
    """Return an answer in JSON as the bytes of a connection, which may be closed after it."""
    lines = [_START[status], b"%d\r\n" % len(content)]
    lines += [b"%b: %b\r\n" % pair for pair in headers if pair[0] != b"connection"]
    lines += [b"connection: close\r\n\r\n" if close else b"\r\n", content]
    return b"".join(lines)


def _start_of(status: HTTPStatus) -> bytes:
    """Return the beginning of an answer, up to the length of its content."""
    head = b"".join(b"%b: %b\r\n" % pair for pair in ((b"content-type", JSON_TYPE), *SAFETY))
    return b"HTTP/1.1 %d %b\r\n%bcontent-length: " % (status, status.phrase.encode(), head)


_START = {int(status): _start_of(status) for status in HTTPStatus}


def check_token(headers: Headers, token: str) -> None:
    """Raise an error with status 401 if the request does not have the bearer token."""
    given = [value for name, value in headers if name == b"authorization"]
    kind, _, value = (given[0] if len(given) == 1 else b"").partition(b" ")
    # The comparison takes the same time wherever the difference is.
    if not (hmac.compare_digest(value.strip(), token.encode()) and kind.lower() == b"bearer"):
        raise RequestError(401, "the bearer token is missing or wrong", "send Authorization: Bearer TOKEN")


def check_host(headers: Headers, allowed: frozenset[str]) -> None:
    """Raise an error with status 403 if the request addresses the service by another name.

    A request without a name does not come from a browser.
    """
    for name, value in headers:
        if name == b"host" and host_name(value.decode("latin-1")) not in allowed:
            raise RequestError(
                403, "the service is not known by this host name", "start it with --allow-host"
            )


def host_name(value: str) -> str:
    """Return the name in a Host header: without the port, in small letters."""
    host, _, port = value.strip().lower().rpartition(":")
    if not host or not (port.isdigit() or not port) or (":" in host and not host.endswith("]")):
        host = value.strip().lower()
    return host.strip("[]").rstrip(".")
