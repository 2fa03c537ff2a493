"""The HTTP protocol of uvicorn, with limits on the head of a request: its size, and the time it takes."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from labeltree.serve.errors import RequestError

# Bytes of the request line and the headers together.
MOST_HEAD = 32_768


def protocol_with(head_seconds: float) -> type[HttpToolsProtocol]:
    """Return the protocol class for uvicorn.

    Parameters
    ----------
    head_seconds : float
        Seconds until the head of a request is complete, from the connection or the first byte on.

    Returns
    -------
    class
    """

    class LimitedProtocol(HttpToolsProtocol):
        """One connection."""

        _head_bytes = 0
        _in_head = True
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._timer = self.loop.call_later(head_seconds, self._late)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.parser is None or self.transport.is_closing():
                return  # refused already
            if self._in_head:
                self._head_bytes += len(data)
                if self._timer is None:  # the first byte of another request
                    self._timer = self.loop.call_later(head_seconds, self._late)
            super().data_received(data)
            if self._in_head and self._head_bytes > MOST_HEAD:
                self._refuse(RequestError(431, "the request line and headers are too long"))

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._stop_timer()
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._in_head, self._head_bytes = True, 0

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _late(self) -> None:
            self._timer = None
            if self._in_head and not self.transport.is_closing():
                what = f"the request has not arrived within {head_seconds:g} seconds"
                self._refuse(RequestError(408, what))

        def send_400_response(self, msg: str) -> None:
            self._refuse(RequestError(400, "the request is not valid HTTP"))

        def _refuse(self, error: RequestError) -> None:
            self._stop_timer()
            if self.cycle is not None and not self.cycle.response_complete:
                self.transport.close()  # an answer is on its way: another one would get into it
                return
            body = error.body()
            headers: list[Any] = [
                *(b"content-type: application/json\r\n", b"connection: close\r\n"),
                b"content-length: %d\r\n\r\n" % len(body),
            ]
            self.transport.write(b"".join([STATUS_LINE[error.status], *headers, body]))
            self.transport.close()

        def _unsupported_upgrade_warning(self) -> None:
            """Say nothing: the request is answered as if it did not ask for an upgrade."""

    return LimitedProtocol
