"""`labeltree fill`: train a part of a work directory."""

from __future__ import annotations

from functools import partial

from labeltree.cli import options, printing
from labeltree.cli.sharing import run_part


def fill(
    work: options.WorkPath,
    part: options.Part = "1/1",
    threads: options.Threads = None,
    sync: options.Sync = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train a part of a work directory, made by `labeltree plan`.

    What is trained already is skipped. A part may run again, or twice at once; without --part, all that is
    missing is trained.
    """
    from labeltree.training.parts import fill_part

    run_part(
        work,
        part,
        "fill",
        "training",
        partial(fill_part, work, threads=threads, sync=sync),
        _message,
        quiet,
        json,
    )


def _message(part: str, missing: int) -> str:
    left = f"{printing.plural(missing, 'panel')} not trained yet" if missing else "nothing is missing"
    return f"{part} is trained; {left}"
