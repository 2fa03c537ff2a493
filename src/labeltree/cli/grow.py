"""`labeltree grow`: build the trees of a work directory in parts."""

from __future__ import annotations

from typing import TypedDict

from labeltree.cli import options, printing
from labeltree.cli.progress import Stages
from labeltree.system import peak_memory


class GrowReport(TypedDict):
    """What ``labeltree grow --json`` prints."""

    work: str
    part: int
    parts: int
    missing: int
    seconds: dict[str, float]
    peak_memory_bytes: int


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
    from labeltree.growing import grow_part

    number, n_parts = options.parsed_part(part)
    stages = Stages(quiet or json)
    try:
        with stages.stage("grow", f"growing part {number} of {n_parts}") as progress:
            missing = grow_part(
                work,
                number,
                n_parts,
                threads=threads,
                memory_limit=memory_limit,
                sync=sync,
                progress=progress,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues") from None
    report: GrowReport = {
        "work": str(work),
        "part": number,
        "parts": n_parts,
        "missing": missing,
        "seconds": stages.seconds,
        "peak_memory_bytes": peak_memory(),
    }
    if json:
        printing.print_json(report)
    elif not quiet and missing:
        nodes = printing.plural(missing, "node")
        print(f"part {number} of {n_parts} is done so far; other parts have {nodes} left; then run it again")
    elif not quiet:
        print("the trees are complete; labeltree fill trains them")
