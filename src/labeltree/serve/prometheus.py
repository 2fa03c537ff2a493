"""Metrics for Prometheus: of this process, or of all worker processes together."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

# With several processes, the directory of their counters; to be set before prometheus_client is imported.
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """What the service counts; the status 499 is for a client that left before the answer."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        labels = ("endpoint", "status")
        self.requests = Counter("labeltree_requests", "Requests.", labels, registry=registry)
        self.seconds = Histogram(
            "labeltree_request_seconds", "Time per request.", labels[:1], registry=registry, buckets=_SECONDS
        )
        self.rows = Histogram(
            "labeltree_batch_rows", "Texts and rows predicted together.", registry=registry, buckets=_ROWS
        )
        self.refused = Counter("labeltree_refused", "Requests refused: too many wait.", registry=registry)
        self.reloads = Counter("labeltree_reloads", "New models opened.", registry=registry)
        self.reload_failures = Counter(
            "labeltree_reload_failures", "New models that could not be opened.", registry=registry
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format, summed over the worker processes."""
        registry = self._registry
        if DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
