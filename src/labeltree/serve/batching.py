"""Batches: requests that arrive while others are searched are answered together."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.serve.errors import RequestError
from labeltree.serve.metrics import Metrics
from labeltree.serve.registry import Served

# Texts, or rows of features, of one request.
Queries: TypeAlias = list[str] | sp.csr_matrix
# The best labels and their scores, rows x top, as from `Model.predict`.
Found: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float32]]

# Texts of a batch, and their characters: a batch takes a few milliseconds. A request with more texts is
# answered by another thread, piece by piece, so that small requests do not wait for it.
BATCH_ROWS = 64
BATCH_LENGTH = 100_000
# A batch that is expected to take longer is searched by a thread. Handing a batch to a thread and back takes
# longer than a short search.
QUICK_SECONDS = 0.02
# How the names of the threads of the service begin.
THREADS = "labeltree"

NOTHING: Found = (np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))


class Answer(Protocol):
    """Who waits for a result, such as a future. It is done once it has one, or has given up."""

    def done(self) -> bool:
        """Return whether it needs no result any more."""

    def set_result(self, found: Found, /) -> None:
        """Take the best labels of each query, and their scores."""

    def set_exception(self, error: Exception, /) -> None:
        """Take the reason why there are none."""


class _Waiting(NamedTuple):
    """A request in the queue."""

    served: Served
    queries: Queries
    n_rows: int
    length: int
    top: int
    answer: Answer


class Batcher:
    """Predicts the queries of requests, in batches when there are many.

    A request is searched at once if no other is. Those that arrive meanwhile form the next batch, which
    starts when the current one ends: nobody waits for a timer, and the higher the load, the larger the batch.
    Requests with many texts have a lane of their own.

    Parameters
    ----------
    metrics : Metrics
    max_waiting : int
        Rows that may wait.
    """

    def __init__(self, metrics: Metrics, max_waiting: int) -> None:
        self._metrics, self._max_waiting = metrics, max_waiting
        self._threads = ThreadPoolExecutor(2, thread_name_prefix=f"{THREADS}-predict")
        self._lanes = (_Lane(self), _Lane(self))
        self.n_waiting = 0

    async def predict(self, served: Served, queries: Queries, top: int) -> Found:
        """Find the best labels of each query.

        Parameters
        ----------
        served : Served
        queries : list of str, or csr_matrix
        top : int

        Returns
        -------
        labels, scores : ndarray, queries x top
        """
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self.add(served, queries, top, answer)
        return await answer

    def add(self, served: Served, queries: Queries, top: int, answer: Answer) -> None:
        """Find the best labels of each query, and give them to somebody who waits.

        Raises
        ------
        RequestError
            If too many are waiting.
        """
        if isinstance(queries, list):
            n_rows, length = len(queries), sum(map(len, queries))
        else:
            n_rows, length = queries.shape[0], queries.nnz
        if self.n_waiting + n_rows > self._max_waiting:
            self._metrics.add("refused", 1)
            raise RequestError(503, "too many requests are waiting", hint="try again later")
        self.wait(n_rows)
        request = _Waiting(served, queries, n_rows, length, top, answer)
        self._lanes[n_rows > BATCH_ROWS or length > BATCH_LENGTH].add(request)

    def wait(self, n_rows: int) -> None:
        """Count rows that wait from now on; negative if they do not wait any more."""
        self.n_waiting += n_rows
        self._metrics.put("waiting", self.n_waiting)

    def search(self, lane: _Lane, batch: list[_Waiting]) -> None:
        """Search a batch: at once if that is quick, otherwise on a thread."""
        self._metrics.count_batch(sum(request.n_rows for request in batch))
        seconds = sum(request.n_rows * request.served.pace.per_row for request in batch)
        if lane is self._lanes[0] and seconds <= QUICK_SECONDS:
            lane.finish(batch, _search(batch))
            return
        loop = asyncio.get_running_loop()
        task = self._threads.submit(_search, batch)
        task.add_done_callback(lambda done: loop.call_soon_threadsafe(lane.finish, batch, done.result()))

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Lane:
    """A queue of requests, and the batch that is being searched."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._queue: deque[_Waiting] = deque()
        self._busy = False

    def add(self, request: _Waiting) -> None:
        """Put a request into the queue."""
        self._queue.append(request)
        if not self._busy:
            self._busy = True
            # Not yet: more requests may be read in this turn of the event loop.
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        batch: list[_Waiting] = []
        rows = length = 0
        queue = self._queue
        while queue:
            request = queue[0]
            if request.answer.done():  # given up: the time is over, or the client is gone
                self._batcher.wait(-queue.popleft().n_rows)
                continue
            rows, length = rows + request.n_rows, length + request.length
            if batch and (rows > BATCH_ROWS or length > BATCH_LENGTH):
                break
            batch.append(queue.popleft())
        self._busy = bool(batch)
        if batch:
            self._batcher.search(self, batch)

    def finish(self, batch: list[_Waiting], found: list[Found | Exception]) -> None:
        """Answer the requests of a batch, and start the next one."""
        self._batcher.wait(-sum(request.n_rows for request in batch))
        try:
            for request, result in zip(batch, found, strict=True):
                if request.answer.done():
                    continue
                if isinstance(result, Exception):
                    request.answer.set_exception(result)
                else:
                    request.answer.set_result(result)
        finally:
            self._busy = bool(self._queue)
            if self._busy:
                asyncio.get_running_loop().call_soon(self._start)


def _search(batch: list[_Waiting]) -> list[Found | Exception]:
    """Search the requests of a batch, those of the same model together."""
    results: dict[int, Found | Exception] = {}
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, request in enumerate(batch):
        groups.setdefault((id(request.served), isinstance(request.queries, list)), []).append(i)
    for (_, is_text), members in groups.items():
        requests = [batch[i] for i in members]
        try:
            found = _search_together(requests, is_text)
        except Exception as error:
            results |= dict.fromkeys(members, error)
            continue
        at = 0
        for i, request in zip(members, requests, strict=True):
            rows = slice(at, at + request.n_rows)
            results[i] = found[0][rows, : request.top], found[1][rows, : request.top]
            at = rows.stop
    return [results[i] for i in range(len(batch))]


def _search_together(requests: list[_Waiting], is_text: bool) -> Found:
    served = requests[0].served
    model, start = served.model, time.perf_counter()
    top = max(request.top for request in requests)
    given: list[Any] = [request.queries for request in requests]
    if is_text:
        assert model.text is not None
        X: Any = model.text.transform(list(chain.from_iterable(given)), threads=1)
    else:
        X = given[0] if len(given) == 1 else sp.vstack(given, "csr")
    labels, scores = [], []
    for at in range(0, X.shape[0], BATCH_ROWS):
        if all(request.answer.done() for request in requests):
            break
        part = X if X.shape[0] <= BATCH_ROWS else X[at : at + BATCH_ROWS]
        found = model.predict(part, top=top, threads=1)
        labels.append(found[0])
        scores.append(found[1])
    served.pace.learn(sum(map(len, labels)), time.perf_counter() - start)
    if len(labels) == 1:
        return labels[0], scores[0]
    return (np.concatenate(labels), np.concatenate(scores)) if labels else NOTHING
