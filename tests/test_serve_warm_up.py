"""Before the first request: what workers can share is made, and nothing of it is counted."""

import threading
from collections import Counter

import pytest
from test_serve import registry, tagger  # noqa: F401

from labeltree.serve.app import Service
from labeltree.serve.batching import THREADS
from labeltree.serve.process import _Server
from labeltree.serve.settings import ServiceSettings
from labeltree.serve.warm_up import warm_up


@pytest.mark.parametrize("slow", [False, True])
def test_warm_up(registry, monkeypatch, slow):  # noqa: F811
    service = Service(registry, ServiceSettings(token="secret-token"))
    answered = []
    count = service.metrics.count_request
    monkeypatch.setattr(service.metrics, "count_request", lambda *args: (answered.append(args), count(*args)))
    for served in registry:
        monkeypatch.setattr(served.pace, "per_row", 1.0 if slow else 1e-6)
    warm_up(service, _Server(service).config)
    counts = Counter((endpoint, status) for endpoint, status, _ in answered)
    assert counts == {("health", 200): 4, ("predict", 200): 3 * 80}
    assert "requests_total{" not in service.metrics.text(registry)
    assert not any(thread.name.startswith(THREADS) for thread in threading.enumerate())
