"""HTTP without a framework: read a body within limits, send bytes, and keep a time limit."""

from __future__ import annotations

import asyncio
import hmac
from types import TracebackType
from typing import Any, TypeAlias

from labeltree.serve.errors import RequestError

Scope: TypeAlias = Any
Receive: TypeAlias = Any
Send: TypeAlias = Any

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
            within = f"within {self._seconds:g} seconds"
            if self.received:
                raise RequestError(503, f"the request was not answered {within}") from None
            raise RequestError(408, f"the request did not arrive {within}") from None


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """Read the body of a request.

    Raises
    ------
    RequestError
        If it is longer than `most` bytes.
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
        parts.append(part)
        more = message.get("more_body", False)
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)


def _too_long(most: int) -> RequestError:
    return RequestError(413, f"the body is too long, expected at most {most:,} bytes")


async def send_bytes(
    send: Send, status: int, content: bytes, kind: bytes = JSON_TYPE, *more: tuple[bytes, bytes]
) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(content)).encode()),
        *SAFETY,
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def send_error(send: Send, error: RequestError) -> None:
    """Send an error. What is left of the request's body is not read: the connection is closed."""
    more = []
    if error.status in (408, 413):
        more.append((b"connection", b"close"))
    if error.status == 503:
        more.append((b"retry-after", b"1"))
    if error.status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    await send_bytes(send, error.status, error.body(), JSON_TYPE, *more)


def check_token(scope: Scope, token: str) -> None:
    """Raise an error with status 401 if the request does not have the bearer token."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, value = (given[0] if len(given) == 1 else b"").partition(b" ")
    # The comparison takes the same time wherever the difference is.
    if not (hmac.compare_digest(value.strip(), token.encode()) and kind.lower() == b"bearer"):
        raise RequestError(401, "the bearer token is missing or wrong", "send Authorization: Bearer TOKEN")
