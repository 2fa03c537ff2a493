"""Progress of long work: what a callback looks like, and how a part of the work reports to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

# Called periodically with the fraction of the work that is done, from 0 to 1.
Progress = Callable[[float], None]
# Shows one stage of long work: takes its name and a description, and gives the stage's progress callback.
Stage = Callable[[str, str], AbstractContextManager[Progress]]


def ignore(done: float) -> None:
    """Report no progress."""


@contextmanager
def silent(name: str, description: str) -> Iterator[Progress]:
    """Show nothing: the stage of callers that give none."""
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
