"""Small predictions without a task: read, batched and answered by callbacks, with one write each.

The tasks, events and messages of ASGI take several times as long as the search for the labels of a text.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from labeltree.serve import answers
from labeltree.serve.batching import NOTHING, Found
from labeltree.serve.http import Deadline, Headers, response
from labeltree.serve.settings import LARGE_BODY

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    from labeltree.serve.app import Service
    from labeltree.serve.requests import PredictRequest

_PATH = "/predict"
_TARGET = _PATH.encode()


class Exchange:
    """A prediction that is asked for on a connection, in the place of uvicorn's request-response cycle.

    Parameters
    ----------
    service : Service
    connection : HttpToolsProtocol
    length : int
        Bytes of the body.
    keep_alive : bool
        Whether the connection stays open after the answer.

    Attributes
    ----------
    body : bytes
        What has arrived of it.
    response_complete, disconnected, keep_alive, message_event
        What uvicorn looks at, or sets.
    """

    __slots__ = (
        *("_connection", "_length", "_request", "_service", "_start", "_timer"),
        *("body", "disconnected", "keep_alive", "received", "response_complete"),
    )
    message_event = asyncio.Event()  # nobody waits for it

    def __init__(
        self, service: Service, connection: HttpToolsProtocol, length: int, keep_alive: bool
    ) -> None:
        self._service, self._connection, self.keep_alive = service, connection, keep_alive
        self.body = b""
        self._length = length
        service.buffered.size += length
        self.received = self.response_complete = self.disconnected = False
        self._request: PredictRequest | None = None
        self._start = time.perf_counter()
        self._timer = connection.loop.call_later(service.settings.timeout, self._late)

    def complete(self) -> None:
        """Predict: the body has arrived."""
        if self.done():
            return
        self.received = True
        service = self._service
        try:
            service.admit(_PATH, self._connection.headers)
            request = self._request = service.reader.predict(self.body)
            if request.n_rows:
                service.batcher.add(request.served, request.queries, request.top, self)
            else:
                self.set_result(NOTHING)
        except Exception as error:
            self.set_exception(error)

    # What a batch expects of those who wait (`batching.Answer`)

    def done(self) -> bool:
        """Return whether the request is answered, or the client is gone."""
        return self.response_complete or self.disconnected

    def set_result(self, found: Found) -> None:
        """Send what was found."""
        request = self._request
        assert request is not None
        if request.is_large:
            job = self._service.on_thread(lambda: answers.prediction_json(request, found))
            job.add_done_callback(self._send_written)
            return
        try:
            content = answers.prediction_json(request, found)
        except Exception as error:
            self.set_exception(error)
        else:
            self._send(200, content)

    def set_exception(self, error: Exception) -> None:
        """Send an error."""
        wrong = self._service.error_of(error, f"POST {_PATH}")
        self._send(wrong.status, wrong.body(), wrong.headers())

    def lost(self) -> None:
        """Give up: the client is gone."""
        if not self.done():
            self.disconnected = True
            self._end(499)

    def _send_written(self, job: asyncio.Future[bytes]) -> None:
        """Send an answer that a thread has written."""
        if self.done() or job.cancelled():
            return
        error = job.exception()
        if isinstance(error, Exception):
            self.set_exception(error)
        else:
            self._send(200, job.result())

    def _late(self) -> None:
        if not self.done():
            self.set_exception(Deadline.error(self._service.settings.timeout, self.received))

    def _send(self, status: int, content: bytes, headers: Headers = ()) -> None:
        connection = self._connection
        if connection.transport.is_closing():
            return self.lost()
        if not self.received:
            self.keep_alive = False
        connection.transport.write(response(status, content, headers, close=not self.keep_alive))
        self.response_complete = True
        if not self.keep_alive:
            connection.transport.close()
        self._end(status)
        connection.on_response_complete()

    def _end(self, status: int) -> None:
        self._timer.cancel()
        self._service.buffered.size -= self._length
        self.body, self._request = b"", None  # the connection may stay open
        self._service.metrics.count_request("predict", status, time.perf_counter() - self._start)


class DirectPredictions:
    """Takes small predictions out of the requests of connections.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def take(self, connection: HttpToolsProtocol) -> Exchange | None:
        """Return an exchange if the headers that have arrived ask for a small prediction."""
        if connection.url != _TARGET or connection.parser.get_method() != b"POST":
            return None
        # What is pipelined, or sent to a client that does not read, has to wait.
        cycle = connection.cycle
        if not (cycle is None or cycle.response_complete) or connection.flow.write_paused:
            return None
        length = -1
        for name, value in connection.headers:
            if name == b"content-length":
                length = int(value) if value.isdigit() and len(value) < 10 else -1
            elif name in (b"transfer-encoding", b"expect"):
                return None
        service = self._service
        if not 0 <= length <= min(LARGE_BODY, service.settings.max_body):
            return None
        if not service.buffered.has_room(length):
            return None  # it is refused when it is read
        parser = connection.parser
        keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        return Exchange(service, connection, length, keep_alive)
