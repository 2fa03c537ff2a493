"""What the commands `grow` and `fill` share: they work on a part of a work directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from labeltree.base.system import peak_memory
from labeltree.cli import printing
from labeltree.cli.progress import Stages
from labeltree.errors import InputError


class PartReport(TypedDict):
    """What ``labeltree grow --json`` and ``labeltree fill --json`` print."""

    work: str
    part: int
    parts: int
    missing: int
    seconds: dict[str, float]
    peak_memory_bytes: int


def run_part(
    work: Path,
    part: str,
    name: str,
    verb: str,
    run: Callable[..., int],
    message: Callable[[str, int], str],
    quiet: bool,
    json: bool,
) -> None:
    """Run a part of the work, and report what is missing.

    Parameters
    ----------
    work : Path
    part : str
        The option --part.
    name, verb : str
        The name of the step in the report, and what the progress bar says is done.
    run : callable
        Works on a part, given its number, the number of parts and ``progress``; returns what is missing.
    message : callable
        Returns what to print, given the part ("part 1 of 2") and what is missing.
    quiet, json : bool
    """
    number, n_parts = parsed_part(part)
    described = f"part {number} of {n_parts}"
    stages = Stages(quiet or json)
    try:
        with stages.stage(name, f"{verb} {described}") as progress:
            missing = run(number, n_parts, progress=progress)
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
        print(message(described, missing))


def parsed_part(part: str) -> tuple[int, int]:
    """Return the number of a part and the number of parts, from an option such as 3/8."""
    found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", part.strip())
    number, n_parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= n_parts:
        raise InputError(f"--part is {part!r}, expected a part and the number of parts, such as 3/8")
    return number, n_parts
