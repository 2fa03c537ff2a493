"""The HTTP protocol of uvicorn, with limits on the size of a request and the time that it takes to arrive."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from labeltree.serve.direct import DirectPredictions, Exchange
from labeltree.serve.errors import RequestError
from labeltree.serve.http import Deadline, response

# Bytes of the request line and the headers together.
MOST_HEAD = 32_768


def protocol_with(
    seconds: float, max_body: int, direct: DirectPredictions | None = None
) -> type[HttpToolsProtocol]:
    """Return the protocol class for uvicorn.

    Parameters
    ----------
    seconds : float
        Seconds until the head of a request is complete, from the connection or the first byte on; and
        until the rest of it has arrived, if it was answered before.
    max_body : int
        Bytes of the body of a request.
    direct : DirectPredictions, optional
        Takes the requests that need no task.

    Returns
    -------
    class
    """

    # Chunks have heads and trailers, too; and the application refuses a long body first, with a message.
    most_bytes = 2 * max_body + 2**20

    class LimitedProtocol(HttpToolsProtocol):
        """One connection."""

        _n_bytes = 0  # of the request that arrives
        _in_head = True
        _idle = False  # a request has been complete, and no other has begun
        _exchange: Exchange | None = None  # if the request needs no task
        _is_last = False  # what follows the request is not HTTP
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            if self._exchange is not None:
                self._exchange.lost()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.parser is None or self.transport.is_closing() or self._is_last:
                return  # refused already
            self._n_bytes += len(data)
            self._idle = False
            super().data_received(data)
            if self._in_head and not self._idle and self._timer is None:  # a part of the next request
                self._start_timer()
            if self._in_head and self._n_bytes > MOST_HEAD:
                self._refuse(RequestError(431, "the request line and headers are too long"))
            elif self._n_bytes > most_bytes:
                self.transport.close()

        def on_message_begin(self) -> None:
            self._idle = False
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            if self._in_head:  # trailers are not used
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._stop_timer()
            if not self.parser.should_upgrade():
                self._exchange = None if direct is None else direct.take(self)
                if self._exchange is None:
                    super().on_headers_complete()
                else:
                    self.cycle = self._exchange  # type: ignore[assignment]
                return
            # The parser takes what follows for another protocol, even if it is a body.
            self._is_last = True
            if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
                self._refuse(
                    RequestError(400, "a request with a body asks for an upgrade", "send it without Upgrade")
                )
            else:
                super().on_headers_complete()
                self.cycle.keep_alive = False

        def on_body(self, body: bytes) -> None:
            if self._exchange is not None:
                self._exchange.body += body
            else:
                super().on_body(body)

        def on_message_complete(self) -> None:
            self._in_head, self._idle, self._n_bytes = True, True, 0
            self._stop_timer()
            if self.transport.is_closing():
                return  # a request that was refused has no cycle
            if self._exchange is not None:
                self._exchange.complete()
            else:
                super().on_message_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not (self._in_head or self.pipeline):
                self._start_timer()  # the rest is not used, but another request may follow

        def _start_timer(self) -> None:
            self._stop_timer()
            self._timer = self.loop.call_later(seconds, self._late)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _late(self) -> None:
            self._timer = None
            if self.transport.is_closing():
                return
            if self._in_head:
                self._refuse(Deadline.error(seconds, received=False))
            else:
                self.transport.close()  # it was answered before

        def send_400_response(self, msg: str) -> None:
            self._refuse(RequestError(400, "the request is not valid HTTP"))

        def _refuse(self, error: RequestError) -> None:
            self._stop_timer()
            if self.cycle is not None and not self.cycle.response_complete:
                self.transport.close()  # an answer is on its way: another one would get into it
                return
            self.transport.write(response(error.status, error.body(), error.headers(), close=True))
            self.transport.close()

        def _unsupported_upgrade_warning(self) -> None:
            """Say nothing: the request is answered as if it did not ask for an upgrade."""

    return LimitedProtocol
