"""Training on a Dask cluster: tasks carry paths, workers share nothing but files."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from labeltree.base.display import Progress, Stage, ignore, part_of, silent
from labeltree.base.extras import optional
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.model.directory import check_target
from labeltree.model.model import Model
from labeltree.training.parts import READY, fill_part, join_parts, open_parts, write_parts
from labeltree.training.plan import Plan
from labeltree.training.work import WorkDirectory, work_path

Result = TypeVar("Result")

# A task that fails, perhaps because of its machine, is tried again so many times. One whose worker is lost is
# always run by another.
_RETRIES = 3
# A task uses one thread, so that the scheduler decides what runs where. There are several per thread, so that
# workers that join or leave get their share, up to as many as work of this amount allows.
_PARTS_PER_THREAD, _MIN_PARTS = 8, 64
_PART_WORK = 200_000_000
_CONNECT_SECONDS = 10
_REPORT_SECONDS = 1.0


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address such as ``tcp://host:8786``."""
    distributed = optional("distributed")
    try:
        return distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, asyncio.TimeoutError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        hint = "check the address, such as tcp://host:8786, and that the scheduler runs"
        raise InputError(f"no Dask scheduler can be reached at {address!r} ({reason})", hint=hint) from None


def choose_parts(n_threads: int, n_strips: int, work: int) -> int:
    """Return how many parts to divide strips into, given the threads of the cluster as it is now."""
    threads = max(1, n_threads)
    wanted = min(max(_MIN_PARTS, _PARTS_PER_THREAD * threads), work // _PART_WORK)
    # A multiple of the threads, so that none is idle at the end.
    return max(1, min(-(-wanted // threads) * threads, n_strips))


def train_on_cluster(
    client: Any,
    dataset: Dataset,
    path: Path,
    described: dict[str, Any],
    build: Callable[[WorkDirectory | None], Plan],
    *,
    threads: int | None = None,
    overwrite: bool = False,
    sync: bool = True,
    stage: Stage = silent,
) -> tuple[Plan, Model]:
    """Plan a model here with `build`, fill its work directory on a cluster, and join it here.

    The work directory is next to the model, and is continued if it exists; `described` is what the model
    depends on, from ``describe_run``. The rows of the dataset are those that are trained on.
    """
    work = work_path(path)
    check_target(path, overwrite)
    try:
        if work.exists():
            with WorkDirectory(work, described, resume=True, shared=True):
                plan = open_parts(work, threads=threads)[1]
        else:
            plan = build(None)
            with stage("write", f"writing {work}"):
                write_parts(dataset, plan, work, described, sync)
        of_workers = interruptible(client.nthreads)
        n_workers, strips = len(of_workers), [part.strips for part in plan.trees]
        workers = (
            f"{n_workers:,} worker{'s' * (n_workers != 1)}" if n_workers else "workers, when there are any"
        )
        what = f"training {plan.n_nodes:,} nodes on {workers}"
        with stage("train", what) as progress:
            amount = sum(int(tree.work.sum()) for tree in strips)
            n_parts = choose_parts(sum(of_workers.values()), sum(map(len, strips)), amount)
            # With hard negatives, a level can be trained when all parts have trained the one above it.
            n_rounds = plan.depth if plan.settings.hard_negatives else 1
            for number in range(n_rounds):
                done = part_of(progress, number, n_rounds)
                fill_on_cluster(client, work, n_parts, sync=sync, progress=done)
        with stage("join", "joining"):
            return plan, join_parts(work, path, overwrite=overwrite, threads=threads, sync=sync)
    except KeyboardInterrupt:
        if not (work / READY).exists():
            raise
        place, target = (os.path.relpath(file) for file in (work, path))
        raise KeyboardInterrupt(
            "stopped; the same command with --resume continues, and so do "
            f"`labeltree fill {place}` and `labeltree join {place} {target}`"
        ) from None


def fill_on_cluster(
    client: Any, path: Path, n_parts: int, *, sync: bool = True, progress: Progress | None = None
) -> None:
    """Train all blocks of a work directory that are not trained yet, on a file system that all workers see.

    A task that fails is tried again, on another worker if its own is lost. If this process is interrupted,
    the tasks end soon; what they have trained is recorded.
    """
    run = uuid.uuid4().hex
    numbers = range(1, n_parts + 1)
    futures: list[Any] = []

    def fill() -> None:
        with _watched(client, run, n_parts, progress or ignore) as finished:
            keys = [f"labeltree-fill-{run}-{number}" for number in numbers]
            same = {"path": str(path), "n_parts": n_parts, "run": run, "sync": sync}
            futures.extend(client.map(_fill, numbers, key=keys, pure=False, retries=_RETRIES, **same))
            _wait_for(futures, finished)

    try:
        interruptible(fill)
    except BaseException:
        _stop_file(path, run).touch()
        with suppress(Exception):  # the scheduler may be lost
            client.cancel(futures)
        raise
    finally:
        # A file that is mapped cannot be removed everywhere, and takes disk space until it is closed.
        with suppress(Exception):
            client.run(forget, on_error="ignore")


def interruptible(call: Callable[[], Result]) -> Result:
    """Call a function that talks to the cluster in another thread, and return its result.

    Ctrl-C then ends the waiting here. In a call of the client, it may reach Dask between two steps of its
    own, which logs a traceback.
    """
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="labeltree-cluster", daemon=True).start()
    return answer.result()


def _wait_for(futures: Sequence[Any], finished: Callable[[int], None]) -> None:
    """Call ``finished`` with each task that is done; errors of the cluster become errors the user can fix."""
    distributed = optional("distributed")
    places = {future.key: number for number, future in enumerate(futures)}
    try:
        for future in distributed.as_completed(futures, loop=futures[0].client.loop):
            future.result()
            finished(places[future.key])
    except distributed.KilledWorker as error:
        what = f"several workers were lost in turn while they ran the same task ({error.task})"
        raise InputError(what, hint="check the memory of the workers, and their logs") from None
    except distributed.CancelledError:
        what = "the connection to the Dask scheduler was lost"
        raise InputError(what, hint="check its log, start it again and continue") from None
    except ModuleNotFoundError as error:
        hint = "install the same version of labeltree on every worker, and see the log of the worker"
        raise InputError(f"a worker cannot import {error.name}", hint=hint) from None


@contextmanager
def _watched(client: Any, run: str, n_parts: int, progress: Progress) -> Iterator[Callable[[int], None]]:
    """Report the progress of tasks, which they log as events; yield what to call when a task is done."""
    done = [0.0] * n_parts
    lock = threading.Lock()

    def update(number: int, fraction: float) -> None:
        with lock:  # events arrive in another thread
            done[number] = max(done[number], fraction)
            progress(sum(done) / n_parts)

    topic = _topic(run)
    client.subscribe_topic(topic, lambda event: update(*event[1]))
    try:
        yield lambda number: update(number, 1.0)
    finally:
        client.unsubscribe_topic(topic)


def _topic(run: str) -> str:
    return f"labeltree-{run}"


def _stop_file(path: Path, run: str) -> Path:
    return path / f"stop-{run}"


class _Stopped(Exception):
    """The client was interrupted."""


def _fill(number: int, path: str, n_parts: int, run: str, sync: bool) -> int:
    """Train one part, in a task; return the number of strips that are not trained yet."""
    worker = optional("distributed").get_worker()
    if not Path(path).is_dir():
        what = f"the worker {worker.address} does not see the directory"
        raise InputError(what, file=path, hint="use a directory on a file system that all workers share")
    stop, reported = _stop_file(Path(path), run), 0.0

    def report(done: float) -> None:
        nonlocal reported
        now = time.monotonic()
        if now < reported + _REPORT_SECONDS:
            return
        reported = now
        if stop.exists() or not stop.parent.exists():
            raise _Stopped
        worker.log_event(_topic(run), (number - 1, done))

    with _open_lock:
        opened = _opened(path, stop.parent.stat().st_ino)
    return fill_part(path, number, n_parts, sync=sync, progress=report, opened=opened)


# Tasks that begin at the same time wait for the first to open the directory.
_open_lock = threading.Lock()


@lru_cache(maxsize=1)
def _opened(path: str, inode: int) -> tuple[Dataset, Plan]:
    """Open a work directory, recognized by its inode, once for all tasks of this worker."""
    return open_parts(path, threads=1)


def forget() -> None:
    """Close the work directory that this worker has opened."""
    _opened.cache_clear()
