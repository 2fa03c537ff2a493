"""One connection to the service: limits on what arrives, and what may follow a request."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from labeltree.serve.protocol import protocol_with

MAX_BODY = 1000
CHUNKED = b"POST /now HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
GET = b"GET /now HTTP/1.1\r\n\r\n"


async def app(scope, receive, send):
    """Answer with the body of the request; /now does not wait for it."""
    body, more = b"", scope["path"] != "/now"
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    content = scope["path"].encode() + body
    length = (b"content-length", b"%d" % len(content))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": content})


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written, self.n_writes, self._closed = b"", 0, False

    def write(self, data):
        if not self._closed:
            self.written += data
            self.n_writes += 1

    def close(self):
        self._closed = True

    def is_closing(self):
        return self._closed

    def pause_reading(self):
        pass

    resume_reading = pause_reading


class Connection:
    """A connection to `app`, in a running loop."""

    def __init__(self, seconds=600):
        self.protocol = protocol_with(seconds, MAX_BODY)(
            uvicorn.Config(app, log_config=None, access_log=False, ws="none"), ServerState(), {}
        )
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    async def send(self, *segments):
        for segment in segments:
            self.protocol.data_received(segment)
            while self.protocol.tasks and not self.protocol.cycle.more_body:
                await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)

    @property
    def answers(self):
        return [int(part[:3]) for part in self.transport.written.split(b"HTTP/1.1 ")[1:]]

    @property
    def is_closed(self):
        return self.transport.is_closing()


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"0\r\n", b"x: yyyyyyyy\r\n" * 5000),
        (b"0\r\nx: ", b"y" * 65536),
        (b"1;x=", b"y" * 65536),
    ],
    ids=["trailers", "a long trailer", "a chunk extension"],
)
def test_what_is_not_the_body_has_a_limit(start, piece):
    async def run():
        connection = Connection()
        await connection.send(CHUNKED + start)
        for _ in range(2**21 // len(piece)):
            await connection.send(piece)
        assert (connection.answers, connection.is_closed) == ([200], True)
        assert connection.protocol.headers == [(b"transfer-encoding", b"chunked")]
        connection.protocol.connection_lost(None)

    asyncio.run(run())


@pytest.mark.parametrize("arrival", ["together", "apart", "before the answer"])
def test_nothing_follows_an_upgrade(arrival):
    ask = b"connection: upgrade\r\nupgrade: h2c\r\n"
    without = b"GET /now HTTP/1.1\r\n" + ask + b"\r\n"
    body = b"POST /body HTTP/1.1\r\n" + ask + b"content-length: %d\r\n\r\n" % len(GET)

    async def run():
        for head, status in ((without, 200), (body, 400)):
            connection = Connection()
            if arrival == "before the answer":
                connection.protocol.data_received(head)
                await connection.send(b"\0", GET)
            else:
                await connection.send(*((head, GET, GET) if arrival == "apart" else (head + GET + GET,)))
            assert (connection.answers, connection.is_closed) == ([status], True)

    asyncio.run(run())


def test_the_rest_of_an_answered_request_may_arrive():
    async def run():
        connection = Connection()
        await connection.send(b"POST /now HTTP/1.1\r\ncontent-length: 4\r\n\r\nab", b"cd", GET)
        assert (connection.answers, connection.is_closed) == ([200, 200], False)
        await connection.send(b"POST /body HTTP/1.1\r\ncontent-length: 4\r\n\r\nab", b"cd")
        assert connection.transport.written.endswith(b"/bodyabcd")
        connection.protocol.connection_lost(None)

    asyncio.run(run())


def test_the_rest_of_an_answered_request_must_arrive_in_time():
    async def run():
        connection = Connection(seconds=0.01)
        await connection.send(b"POST /now HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n")
        for _ in range(6000):
            if connection.is_closed:
                break
            await connection.send(b"x")
            await asyncio.sleep(0.005)
        assert (connection.answers, connection.is_closed) == ([200], True)
        connection.protocol.connection_lost(None)

    asyncio.run(run())
