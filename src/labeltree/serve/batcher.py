"""Batches: requests that arrive while others are being predicted are predicted together."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.serve.errors import RequestError
from labeltree.serve.models import ServedModel
from labeltree.serve.prometheus import Metrics

# Texts, or rows of features, of one request.
Queries: TypeAlias = list[str] | sp.csr_matrix
# The best labels and their scores, rows x top, as from `Model.predict`.
Ranked: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float32]]

# Maximum number of rows and of characters per batch, which then takes a few milliseconds.
BATCH_ROWS = 64
BATCH_LENGTH = 100_000


class _Waiting(NamedTuple):
    """A request, or a piece of a large one, in a queue."""

    queries: Queries
    top: int
    ranked: asyncio.Future[Ranked]

    @property
    def length(self) -> int:
        return sum(map(len, self.queries)) if isinstance(self.queries, list) else int(self.queries.nnz)


class Batcher:
    """Predicts the queries of requests on one thread, in batches when there are many.

    A request is predicted at once if no other is. Those that arrive meanwhile form the next batch: batches
    grow with the load. A request with many rows is cut into pieces, so that small ones need not wait for all.
    There is a queue for the texts and one for the rows of each model; they take turns.
    """

    def __init__(self, metrics: Metrics, max_waiting: int) -> None:
        self._metrics, self._max_waiting = metrics, max_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="labeltree-predict")
        self._queues: dict[tuple[ServedModel, type], deque[_Waiting]] = {}
        self._running: asyncio.Task[None] | None = None
        self.n_waiting = 0

    async def predict(self, served: ServedModel, queries: Queries, top: int) -> Ranked:
        """Return the best labels of each query; a RequestError if too many are waiting."""
        size = n_rows(queries)
        if self.n_waiting + size > self._max_waiting:
            self._metrics.refused.inc()
            raise RequestError(503, "too many requests are waiting", "try again later")
        self.n_waiting += size
        try:
            pieces = [
                await self._add(served, queries[at : at + BATCH_ROWS], top)
                for at in range(0, size, BATCH_ROWS)
            ]
        finally:
            self.n_waiting -= size
        if not pieces:
            return np.empty((0, 0), np.int32), np.empty((0, 0), np.float32)
        labels, scores = zip(*pieces, strict=True)
        return np.concatenate(labels), np.concatenate(scores)

    def _add(self, served: ServedModel, queries: Queries, top: int) -> asyncio.Future[Ranked]:
        loop = asyncio.get_running_loop()
        request = _Waiting(queries, top, loop.create_future())
        self._queues.setdefault((served, type(queries)), deque()).append(request)
        if self._running is None:
            self._running = loop.create_task(self._run())
        return request.ranked

    async def _run(self) -> None:
        """Predict batches until the queues are empty."""
        loop = asyncio.get_running_loop()
        while self._queues:
            (served, kind), queue = next(iter(self._queues.items()))
            batch = _next_batch(queue)
            del self._queues[served, kind]
            if queue:
                self._queues[served, kind] = queue  # behind the others
            if not batch:
                continue
            self._metrics.rows.observe(sum(n_rows(request.queries) for request in batch))
            try:
                results = await loop.run_in_executor(self._thread, _predict, served, batch)
            except Exception as error:
                for request in batch:
                    if not request.ranked.done():
                        request.ranked.set_exception(error)
                continue
            for request, result in zip(batch, results, strict=True):
                if not request.ranked.done():
                    request.ranked.set_result(result)
        self._running = None

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def n_rows(queries: Queries) -> int:
    """Return the number of texts or rows."""
    return len(queries) if isinstance(queries, list) else int(queries.shape[0])


def _next_batch(queue: deque[_Waiting]) -> list[_Waiting]:
    """Take requests from a queue, as many as are predicted together."""
    batch: list[_Waiting] = []
    rows = length = 0
    while queue:
        request = queue[0]
        if not request.ranked.done():  # not cancelled after the time limit
            rows, length = rows + n_rows(request.queries), length + request.length
            if batch and (rows > BATCH_ROWS or length > BATCH_LENGTH):
                break
            batch.append(request)
        queue.popleft()
    return batch


def _predict(served: ServedModel, batch: list[_Waiting]) -> list[Ranked]:
    """Predict requests for the same model, all with texts or all with rows."""
    queries: list[Any] = [request.queries for request in batch]
    if isinstance(queries[0], list):
        assert served.model.text is not None
        X = served.model.text.transform(list(chain.from_iterable(queries)), threads=1)
    else:
        X = sp.vstack(queries, "csr")
    labels, scores = served.model.predict(X, top=max(request.top for request in batch), threads=1)
    at, results = 0, []
    for request in batch:
        rows = slice(at, at + n_rows(request.queries))
        results.append((labels[rows, : request.top], scores[rows, : request.top]))
        at = rows.stop
    return results
