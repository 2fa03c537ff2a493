"""Display: names and durations in messages, tables in notebooks, and the progress of long work."""

from __future__ import annotations

import inspect
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from html import escape

# Characters that a terminal interprets instead of showing: controls, line and paragraph separators, and marks
# that change the direction of the text; and halves of characters, which stand for bytes in file names.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return a name, path or term as it can be shown: characters that a terminal would obey are escaped.

    Examples
    --------
    >>> escaped("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_list(name: str) -> str:
    """Return a name as it is shown in a list of names: in quotes if it contains a comma.

    Examples
    --------
    >>> in_list("man"), in_list("man, old")
    ('man', "'man, old'")
    """
    return repr(name) if "," in name else name


def human_seconds(seconds: float) -> str:
    """Return a duration with units.

    Examples
    --------
    >>> human_seconds(0.0123), human_seconds(75), human_seconds(7265)
    ('0.01 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def text_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 0) -> list[str]:
    """Return the lines of a table with the first `left` columns left-aligned, the others right-aligned."""
    cells = [[escaped(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            f"{cell:<{width}}" if i < left else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def warn(message: str) -> None:
    """Warn at the line outside this package that led here."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "labeltree":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table below a title, all text escaped."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<p>{escape(title)}</p><table>{''.join(lines)}</table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


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
    """Return the progress of one of ``total`` equal parts of the work, numbered from 0."""
    if progress is None:
        return None
    return lambda done: progress((number + done) / total)


# Between two plain lines there is at least this fraction of the work, and this much time.
_MIN_STEP = 0.1
_MIN_SECONDS = 2.0


class Stages:
    """The stages of a command, shown unless `quiet`; `seconds` has how long each took, by its name."""

    def __init__(self, quiet: bool) -> None:
        self.seconds: dict[str, float] = {}
        self._quiet = quiet

    @contextmanager
    def stage(self, name: str, description: str) -> Iterator[Progress]:
        """Show and time a stage: `name` is its key in `seconds`, `description` what is shown."""
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
def shown(progress: bool | Progress | None, description: str) -> Iterator[Progress]:
    """Show a stage if `progress` is true; a function is called with the progress instead."""
    if callable(progress):
        yield progress
        return
    with Stages(quiet=not progress).stage("", description) as report:
        yield report


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
