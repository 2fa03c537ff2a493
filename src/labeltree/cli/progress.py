"""Tell how far long work has come: a bar on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from labeltree.cli.printing import human_seconds

Report = Callable[[float], None]

_LEAST_STEP = 0.1  # plain lines: a tenth of the work lies between two of them ...
_LEAST_SECONDS = 2.0  # ... and this much time


class Stages:
    """The stages of a command, one after the other, and the seconds that each took.

    Parameters
    ----------
    quiet : bool
        Measure only.

    Attributes
    ----------
    seconds : dict of str to float
        By the names that the stages were given.
    """

    def __init__(self, quiet: bool) -> None:
        self.seconds: dict[str, float] = {}
        self._quiet = quiet

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[Report]:
        """Show and time one stage.

        Parameters
        ----------
        name : str
            Its key in `seconds`.
        what : str
            What to tell the reader, such as "reading train.svm".

        Yields
        ------
        callable
            To be called with the fraction that is done, if the work can tell.
        """
        terminal = sys.stderr.isatty()
        shown = _silent() if self._quiet else _bar(what) if terminal else _lines(what)
        with shown as report:
            start = time.perf_counter()
            yield report
            self.seconds[name] = time.perf_counter() - start
        # In a log, the next stage's line tells that a short one is over.
        if not self._quiet and (terminal or self.seconds[name] >= 1):
            print(f"{what}: {human_seconds(self.seconds[name])}", file=sys.stderr)


@contextmanager
def _silent() -> Iterator[Report]:
    yield lambda done: None


@contextmanager
def _bar(what: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    # No markup: a file's name may hold brackets.
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    # Transient: the line with the seconds takes its place.
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done: progress.update(task, total=1.0, completed=done)


@contextmanager
def _lines(what: str) -> Iterator[Report]:
    start = told_at = time.perf_counter()
    told = 0.0

    def report(done: float) -> None:
        nonlocal told, told_at
        now = time.perf_counter()
        if done >= told + _LEAST_STEP and now >= told_at + _LEAST_SECONDS:
            told, told_at = done, now
            left = (now - start) * (1 - done) / done
            print(f"{what}: {done:.0%}, {human_seconds(left)} left", file=sys.stderr, flush=True)

    print(f"{what} ...", file=sys.stderr, flush=True)
    yield report
