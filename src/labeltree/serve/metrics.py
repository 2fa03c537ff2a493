"""Metrics in the text format of Prometheus, added up over all worker processes."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from labeltree.serve.registry import Registry

# What requests are counted by. A path that does not exist is "other".
ENDPOINTS = (
    *("predict", "explain", "suggest", "models", "labels", "tree", "page", "health", "metrics", "other"),
)
STATUSES = ("2xx", "3xx", "4xx", "5xx")
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64)

_REQUESTS = len(ENDPOINTS) * len(STATUSES)
# For each endpoint: the buckets, those beyond all, and the sum.
_TIMES = len(ENDPOINTS) * (len(SECONDS) + 2)
_BATCHES = len(ROWS) + 2
_OTHERS = ("refused", "reloads", "reload_failures", "waiting")
_PLACES = {name: i for i, name in enumerate(_OTHERS)}
_FIRST = {name: i for i, name in enumerate(ENDPOINTS)}
_SIZE = _REQUESTS + _TIMES + _BATCHES + len(_OTHERS)


class Metrics:
    """Counters in memory that all worker processes share; each writes to its own row.

    Parameters
    ----------
    workers : int
    """

    def __init__(self, workers: int = 1) -> None:
        self._memory = mmap.mmap(-1, 8 * _SIZE * workers)
        self._all = np.frombuffer(self._memory, np.float64).reshape(workers, _SIZE)
        self._rows = [_parts(row) for row in self._all]
        self.use_row(0)

    def use_row(self, worker: int) -> None:
        """Write to the row of a worker; a worker that is started again continues its row."""
        self._requests, self._times, self._batches, self._others = self._rows[worker]
        self.put("waiting", 0)

    def clear(self) -> None:
        """Begin to count."""
        self._all[:] = 0

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        at = _FIRST[endpoint]
        self._requests[at * len(STATUSES) + min(max(status // 100, 2), 5) - 2] += 1
        start = at * (len(SECONDS) + 2)
        self._times[start + bisect_left(SECONDS, seconds)] += 1
        self._times[start + len(SECONDS) + 1] += seconds

    def count_batch(self, rows: int) -> None:
        """Count a batch."""
        self._batches[bisect_left(ROWS, rows)] += 1
        self._batches[len(ROWS) + 1] += rows

    def put(self, name: str, value: float) -> None:
        """Set one of the other figures of this worker."""
        self._others[_PLACES[name]] = value

    def add(self, name: str, value: float) -> None:
        """Add to one of the other figures of this worker."""
        self._others[_PLACES[name]] += value

    def text(self, registry: Registry) -> str:
        """Return all metrics."""
        return "\n".join([*self._lines(registry), ""])

    def _lines(self, registry: Registry) -> Iterator[str]:
        total = self._all.sum(axis=0).tolist()
        yield from _head("requests_total", "counter", "Requests answered.")
        for e, endpoint in enumerate(ENDPOINTS):
            for s, status in enumerate(STATUSES):
                count = total[e * len(STATUSES) + s]
                if count:
                    labels = f'endpoint="{endpoint}",status="{status}"'
                    yield f"labeltree_requests_total{{{labels}}} {count:.0f}"
        yield from _head("request_seconds", "histogram", "Time until a request was answered.")
        for e, endpoint in enumerate(ENDPOINTS):
            start = _REQUESTS + e * (len(SECONDS) + 2)
            part = total[start : start + len(SECONDS) + 2]
            if sum(part):
                yield from _histogram("request_seconds", f'endpoint="{endpoint}",', SECONDS, part)
        yield from _head("batch_rows", "histogram", "Texts and rows predicted together.")
        start = _REQUESTS + _TIMES
        yield from _histogram("batch_rows", "", ROWS, total[start : start + _BATCHES])
        refused, reloads, failures, waiting = total[-len(_OTHERS) :]
        for name, kind, text, value in (
            ("refused_total", "counter", "Requests refused because too many were waiting.", refused),
            ("reloads_total", "counter", "New models that workers opened.", reloads),
            ("reload_failures_total", "counter", "New models that could not be opened.", failures),
            ("waiting_rows", "gauge", "Texts and rows that are waiting or being searched.", waiting),
            ("workers", "gauge", "Worker processes.", len(self._all)),
        ):
            yield from _head(name, kind, text)
            yield f"labeltree_{name} {value:.0f}"
        yield from _head("model_bytes", "gauge", "Size of a model on disk.")
        yield from (f"labeltree_model_bytes{_named(s.name)} {s.model.bytes}" for s in registry)
        yield from _head("model_modified_seconds", "gauge", "When a model was written.")
        for served in registry:
            time = served.modified.timestamp()
            yield f"labeltree_model_modified_seconds{_named(served.name)} {time:.3f}"


def _parts(row: Any) -> tuple[Any, Any, Any, Any]:
    """Return views of a row in which single figures are quick to change: requests, times, batches, others."""
    view = memoryview(row)
    ends = list(accumulate((_REQUESTS, _TIMES, _BATCHES)))
    return view[: ends[0]], view[ends[0] : ends[1]], view[ends[1] : ends[2]], view[ends[2] :]


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP labeltree_{name} {text}", f"# TYPE labeltree_{name} {kind}"


def _histogram(name: str, labels: str, bounds: tuple[float, ...], part: list[float]) -> Iterator[str]:
    *counts, total = part
    upto = list(accumulate(counts))
    for bound, count in zip([*map(str, bounds), "+Inf"], upto, strict=True):
        yield f'labeltree_{name}_bucket{{{labels}le="{bound}"}} {count:.0f}'
    end = f"{{{labels.rstrip(',')}}}" if labels else ""
    yield f"labeltree_{name}_sum{end} {total:.6g}"
    yield f"labeltree_{name}_count{end} {upto[-1]:.0f}"


def _named(name: str) -> str:
    plain = name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{model="{plain}"}}'
