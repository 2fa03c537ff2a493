"""Progress of long work: callbacks, and stages shown as a bar on a terminal or as plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from labeltree.base.display import escaped, human_seconds

# Called periodically with the fraction of the work that is done, from 0 to 1.
Progress = Callable[[float], None]
# Shows one stage of long work: takes its name and a description, and gives the stage's progress callback.
Stage = Callable[[str, str], AbstractContextManager[Progress]]


def ignore(done: float) -> None:
    """Report no progress."""


@contextmanager
def silent(name: str, description: str) -> Iterator[Progress]:
    """Show nothing, the default."""
    yield ignore


def part_of(progress: Progress | None, number: int, total: int) -> Progress | None:
    """Return the progress of one of several equal parts of the work.

    Parameters
    ----------
    progress : callable or None
        Takes the fraction of all the work that is done.
    number : int
        The part, from 0.
    total : int
        How many parts there are.

    Returns
    -------
    callable or None
        Takes the fraction of the part that is done; None if ``progress`` is None.
    """
    if progress is None:
        return None
    return lambda done: progress((number + done) / total)


# Between two plain lines there is at least this fraction of the work, and this much time.
_MIN_STEP = 0.1
_MIN_SECONDS = 2.0


class Stages:
    """The stages of a command, and how many seconds each took.

    Parameters
    ----------
    quiet : bool
        Measure, but show nothing.

    Attributes
    ----------
    seconds : dict of str to float
        By the names of the stages.
    """

    def __init__(self, quiet: bool) -> None:
        self.seconds: dict[str, float] = {}
        self._quiet = quiet

    @contextmanager
    def stage(self, name: str, description: str) -> Iterator[Progress]:
        """Show and time one stage.

        Parameters
        ----------
        name : str
            Its key in `seconds`.
        description : str
            What is shown, such as "reading train.svm".

        Yields
        ------
        callable
            Takes the fraction that is done, if the work reports it.
        """
        terminal, description = sys.stderr.isatty(), escaped(description)
        show = (
            silent(name, description)
            if self._quiet
            else _bar(description)
            if terminal
            else _lines(description)
        )
        with show as progress:
            start = time.perf_counter()
            yield progress
            self.seconds[name] = time.perf_counter() - start
        # In a log, the line of the next stage shows that a short one has ended.
        if not self._quiet and (terminal or self.seconds[name] >= 1):
            print(f"{description}: {human_seconds(self.seconds[name])}", file=sys.stderr)

    def running(self, description: str) -> AbstractContextManager[Progress]:
        """Show the progress of one of many steps on a terminal, and nothing about it afterwards."""
        shown = sys.stderr.isatty() and not self._quiet
        return _bar(escaped(description)) if shown else silent("", description)


@contextmanager
def _bar(description: str) -> Iterator[Progress]:
    from rich import progress as rich
    from rich.console import Console

    # No markup: the name of a file may contain brackets.
    text = rich.TextColumn("{task.description}", markup=False)
    columns = (text, rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
    # Transient: the line with the seconds replaces it.
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done: bar.update(task, total=1.0, completed=done)


@contextmanager
def _lines(description: str) -> Iterator[Progress]:
    start = last_time = time.perf_counter()
    first_done, last_done = None, 0.0

    def report(done: float) -> None:
        nonlocal first_done, last_done, last_time
        now = time.perf_counter()
        if first_done is None:  # more than 0 if an interrupted run is continued
            first_done = last_done = done
        if done >= last_done + _MIN_STEP and now >= last_time + _MIN_SECONDS:
            last_done, last_time = done, now
            left = (now - start) * (1 - done) / (done - first_done)
            print(f"{description}: {done:.0%}, {human_seconds(left)} left", file=sys.stderr, flush=True)

    print(f"{description} ...", file=sys.stderr, flush=True)
    yield report
