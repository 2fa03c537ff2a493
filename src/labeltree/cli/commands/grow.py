"""`labeltree grow`: build the trees of a work directory in parts."""

from __future__ import annotations

from functools import partial

from labeltree.cli import options, printing
from labeltree.cli.sharing import run_part


def grow(
    work: options.WorkPath,
    part: options.Part = "1/1",
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    sync: options.Sync = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Build a part of the trees of a work directory.

    The directory is made by `labeltree plan` with its option --grow. The nodes of a depth are divided among
    the parts, so all parts are run once per depth, until the trees are complete. What is done already is
    skipped.
    """
    from labeltree.training.growing import grow_part

    run = partial(grow_part, work, threads=threads, memory_limit=memory_limit, sync=sync)
    run_part(work, part, "grow", "growing", run, _message, quiet, json)


def _message(part: str, missing: int) -> str:
    if not missing:
        return "the trees are complete; labeltree fill trains them"
    nodes = printing.plural(missing, "node")
    return f"{part} is done so far; other parts have {nodes} left; then run it again"
