"""What the tests of the service share: a server as a subprocess, and a client with many connections."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 120  # seconds to wait for a server to start or stop


@contextlib.contextmanager
def running_server(command, *, stop=True, env=None):
    """Start a server, and yield the process and the address that it prints; it ends with SIGTERM."""
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        for line in process.stderr:
            found = re.search(r"http://\S+:\d+", line)
            if found:
                break
        else:
            raise RuntimeError(f"the server did not start (code {process.wait()})")
        yield process, found[0]
    finally:
        if stop and process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.stderr.close()


def await_server(url):
    """Wait until a server accepts connections."""
    end = time.monotonic() + PATIENCE
    with socket.socket() as probe:
        while probe.connect_ex(address(url)) and time.monotonic() < end:
            time.sleep(0.05)


def serve_command(model, *options):
    """Return the command that serves a model on any free port."""
    return [sys.executable, "-m", "labeltree", "serve", str(model), "--port", "0", *map(str, options)]


def post(path, content, kind="application/json"):
    """Return the bytes of a POST request."""
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\n\r\n".encode() + content


def get(path):
    """Return the bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def address(url):
    """Return host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname, parts.port


def exchange(url, *requests, timeout=PATIENCE):
    """Send requests over one connection, and return status and content of each answer."""
    answers = []
    with socket.create_connection(address(url), timeout) as connection:
        file = connection.makefile("rb")
        for request in requests:
            connection.sendall(request)
            status = int(file.readline().split()[1])
            length = 0
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            answers.append((status, file.read(length)))
    return answers


class Client(asyncio.Protocol):
    """One connection, which sends the next request as soon as the last one is answered."""

    def __init__(self, next_request, on_answer):
        self._next, self._on_answer = next_request, on_answer
        self._buffer = b""
        self._left = None
        self.closed = asyncio.get_running_loop().create_future()
        self.error = None

    def connection_made(self, transport):
        self._transport = transport
        self._send()

    def _send(self):
        request = self._next()
        if request is None:
            self._transport.close()
            return
        self._request = request
        self._start = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data):
        self._buffer += data
        if self._left is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            at = head.index(b"content-length:") + len(b"content-length:")
            length = int(head[at:].split(b"\r\n", 1)[0])
            self._status = int(head[9:12])
            self._left = end + 4 + length
            self._body_at = end + 4
        if len(self._buffer) >= self._left:
            seconds = time.perf_counter() - self._start
            body = self._buffer[self._body_at : self._left]
            self._buffer, self._left = b"", None
            self._request, request = None, self._request
            self._on_answer(request, self._status, body, seconds)
            self._send()

    _request = None

    def connection_lost(self, exc):
        if self._request is not None:
            self.error = exc or ConnectionError("closed before the answer")
        if not self.closed.done():
            self.closed.set_result(None)


async def load(url, n_clients, next_request, on_answer):
    """Run clients until `next_request` returns None for each; return the errors of connections."""
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(n_clients):
        _, client = await loop.create_connection(lambda: Client(next_request, on_answer), *address(url))
        clients.append(client)
    await asyncio.gather(*(client.closed for client in clients))
    return [client.error for client in clients if client.error]


def family(pid):
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


def cpu_seconds(pid):
    """Return the CPU time that a process and its children have used."""
    ticks = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pid, model):
    """Return the bytes of a process and its children: shared pages counted once, and those of the model."""
    ours = of_model = 0
    where = str(Path(model).resolve())
    for member in family(pid):
        name = ""
        for line in Path(f"/proc/{member}/smaps").read_text().splitlines():
            head = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)", line)
            if head:
                name = head[1]
            elif line.startswith("Pss:"):
                size = 1024 * int(line.split()[1])
                if name.startswith(where):
                    of_model += size
                else:
                    ours += size
    return ours, of_model
