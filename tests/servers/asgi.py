"""Requests to an ASGI application in this process, without a network."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace


@asynccontextmanager
async def running(app):
    """Start an application as a server does, and stop it afterwards."""
    asked, told = asyncio.Queue(), asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    assert (await told.get())["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        await asked.put({"type": "lifespan.shutdown"})
        assert (await told.get())["type"] == "lifespan.shutdown.complete"
        await life


async def ask(app, method, path, body=b"", headers=(), pieces=None):
    """Send a request; a body that is not bytes is sent as JSON. Return status, headers and content."""
    path, _, query = path.partition("?")
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    parts = [body] if pieces is None else list(pieces)
    sent = []

    async def receive():
        if not parts:
            await asyncio.Event().wait()  # nothing more is sent
        part = parts.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(parts) or pieces is not None}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)
    if not sent:
        return None
    start, *rest = sent
    assert start["type"] == "http.response.start"
    content = b"".join(message.get("body", b"") for message in rest)
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return SimpleNamespace(
        status=start["status"],
        headers=found,
        content=content,
        json=json.loads(content) if found.get("content-type") == "application/json" else None,
    )


def talk(app, *requests):
    """Start an application, send requests one after the other, and return the answers."""

    async def run():
        async with running(app):
            return [await ask(app, *request) for request in requests]

    return asyncio.run(run())
