"""`labeltree fill`: train a part of a work directory."""

from __future__ import annotations

import re
from typing import TypedDict

from labeltree.base.progress import Stages
from labeltree.base.system import peak_memory
from labeltree.cli import options, printing
from labeltree.errors import InputError


class PartReport(TypedDict):
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
    from labeltree.training.parts import fill_part

    number, n_parts = _parsed(part)
    stages = Stages(quiet or json)
    try:
        with stages.stage("fill", f"training part {number} of {n_parts}") as progress:
            missing = fill_part(work, number, n_parts, threads=threads, sync=sync, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues") from None
    report: PartReport = {
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


def _parsed(part: str) -> tuple[int, int]:
    """Return the number of a part and the number of parts, from an option such as 3/8."""
    found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", part.strip())
    number, n_parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= n_parts:
        raise InputError(f"--part is {part!r}, expected a part and the number of parts, such as 3/8")
    return number, n_parts
