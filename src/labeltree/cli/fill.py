"""`labeltree fill`: train a part of a work directory."""

from __future__ import annotations

from typing import TypedDict

from labeltree.cli import options, printing
from labeltree.cli.progress import Stages
from labeltree.system import peak_memory


class FillReport(TypedDict):
    """What ``labeltree fill --json`` prints."""

    work: str
    part: int
    parts: int
    missing: int
    seconds: dict[str, float]
    peak_memory_bytes: int


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
    from labeltree.parts import fill_part

    number, n_parts = options.parsed_part(part)
    stages = Stages(quiet or json)
    try:
        with stages.stage("fill", f"training part {number} of {n_parts}") as progress:
            missing = fill_part(work, number, n_parts, threads=threads, sync=sync, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues") from None
    report: FillReport = {
        "work": str(work),
        "part": number,
        "parts": n_parts,
        "missing": missing,
        "seconds": stages.seconds,
        "peak_memory_bytes": peak_memory(),
    }
    if json:
        printing.print_json(report)
    elif not quiet:
        left = f"{printing.plural(missing, 'panel')} not trained yet" if missing else "nothing is missing"
        print(f"part {number} of {n_parts} is trained; {left}")
