"""Before the first request: what workers can share is made, and nothing of it is counted."""

import gc
import signal
import threading
from collections import Counter

import pytest
import uvloop
from test_serve import registry, tagger  # noqa: F401

from labeltree.serve.app import Service
from labeltree.serve.batching import THREADS
from labeltree.serve.server import Server
from labeltree.serve.settings import ServiceSettings
from labeltree.serve.warm_up import warm_up


@pytest.fixture(autouse=True)
def thawed():
    """What the warm-up froze can be garbage in other tests."""
    yield
    gc.unfreeze()


@pytest.mark.parametrize("slow", [False, True])
def test_warm_up(registry, monkeypatch, slow):  # noqa: F811
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT)
    service = Service(registry, ServiceSettings(token="secret-token"))
    answered = []
    count = service.metrics.count_request
    monkeypatch.setattr(service.metrics, "count_request", lambda *args: (answered.append(args), count(*args)))
    for served in registry:
        monkeypatch.setattr(served.pace, "per_row", 1.0 if slow else 1e-6)
    warm_up(service, Server(service).config)
    counts = Counter((endpoint, status) for endpoint, status, _ in answered)
    assert counts == {("health", 200): 40, ("predict", 200): 3 * 80}
    assert "requests_total{" not in service.metrics.text(registry)
    assert not any(thread.name.startswith(THREADS) for thread in threading.enumerate())
    assert (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT)) == before


def test_the_warm_up_frees_event_loops(registry, monkeypatch):  # noqa: F811
    """A loop takes 256 kB: those of the warm-up are freed before the next one is made."""
    service = Service(registry, ServiceSettings())
    at_start, answer = [], Service._live

    async def live(self, receive, send):
        at_start.append(sum(isinstance(each, uvloop.Loop) for each in gc.get_objects()))
        await answer(self, receive, send)

    monkeypatch.setattr(Service, "_live", live)
    gc.disable()  # nothing else frees them
    try:
        warm_up(service, Server(service).config)
    finally:
        gc.enable()
    assert at_start == 10 * [1]
