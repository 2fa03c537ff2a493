"""`labeltree plan`, `fill` and `join`: a model trained in parts, by any number of processes and machines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from labeltree.base.system import human_bytes, peak_memory
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text
from labeltree.cli.training import Training, read_and_plan
from labeltree.errors import InputError


def plan(
    data: list[str],
    work: Path,
    *,
    training: Training,
    text: Text,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    force: bool = False,
    sync: bool = True,
    display: printing.Display,
) -> None:
    """Prepare training in parts, on one machine or many.

    Builds the trees, and writes them with the data to a work directory. `labeltree fill` then trains the
    parts, each on any machine that sees the directory, and `labeltree join` completes the model.

    Parameters
    ----------
    work
        Work directory to make.
    """
    from labeltree.model.directory import check_target
    from labeltree.training.parts import plan_parts

    settings = training.model_settings()
    source = DataFile(data, text)
    check_target(work, overwrite=False)
    limit = sys.maxsize if force else memory_limit
    planned, dataset, summary = read_and_plan(
        settings, source, training, threads, display=display, memory_limit=limit
    )
    with display.stage("write", f"writing {work}"):
        notes = settings.tree.notes()
        plan_parts(dataset, planned, work, score=settings.score, notes=notes, sync=sync)
    report = {
        "work": str(work),
        **printing.counts(planned),
        "trees": len(planned.trees),
        "nodes": planned.n_nodes,
        "strips": sum(len(part.strips) for part in planned.trees),
        "planned_bytes": planned.model_bytes,
        "data": summary,
    }
    bound = "" if planned.is_exact else "at most "
    facts = [
        ("work", str(work)),
        ("data", printing.shape(report)),
        ("strips", f"{report['strips']:,}, to be trained in any number of parts"),
        ("model", bound + printing.size(planned.model_bytes)),
        ("next", f"labeltree fill {work} --part 1/4, and the other parts; then labeltree join"),
    ]
    display.show(report, printing.facts(facts))


def fill(
    work: Path,
    *,
    part: str = "1/1",
    threads: options.Threads = None,
    sync: bool = True,
    display: printing.Display,
) -> None:
    """Train a part of what `labeltree plan` prepared.

    Blocks that are already trained are skipped. A part can be run again, even twice at the same time. Without
    --part, everything that is missing is trained. With hard negatives, a level of the trees can be trained
    when all parts have trained the one above it: run all parts once for each level.

    Parameters
    ----------
    part
        The part, such as 3/8: the third of eight.
    """
    from labeltree.training.parts import fill_part
    from labeltree.training.work import read_description

    found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", part.strip())
    number, n_parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= n_parts:
        raise InputError(f"--part is {part!r}, expected a part and the number of parts, such as 3/8")
    try:
        with display.stage("fill", f"training part {number} of {n_parts}") as progress:
            missing = fill_part(work, number, n_parts, threads=threads, sync=sync, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues") from None
    report = {
        "work": str(work),
        "part": number,
        "parts": n_parts,
        "missing": missing,
        "peak_memory_bytes": peak_memory(),
    }
    left = f"{printing.plural(missing, 'strip')} not trained yet" if missing else "nothing is missing"
    if missing and read_description(work)["solver"]["hard_negatives"]:
        left += "; with hard negatives, run all parts once for each level"
    display.show(report, [f"part {number} of {n_parts} is trained; {left}"])


def join(
    work: Path,
    model: Path,
    *,
    threads: options.Threads = None,
    overwrite: bool = False,
    sync: bool = True,
    display: printing.Display,
) -> None:
    """Complete a model after all of its parts are trained.

    Every block is compared with its checksum. The model has the same bytes as that of `labeltree train`. The
    work directory is removed.

    Parameters
    ----------
    model
        Model directory to write.
    """
    from labeltree import _native
    from labeltree.model.directory import directory_bytes
    from labeltree.training.parts import join_parts

    _native.return_memory_at_once()
    with display.stage("join", f"joining {work}"):
        joined = join_parts(work, model, overwrite=overwrite, threads=threads, sync=sync)
    report = {
        "model": str(model),
        "model_bytes": directory_bytes(model),
        "not_converged": joined.manifest["not_converged"],
        "peak_memory_bytes": peak_memory(),
    }
    facts = [
        ("model", str(model)),
        ("size", printing.size(report["model_bytes"])),
        ("memory", f"{human_bytes(report['peak_memory_bytes'])} at peak"),
    ]
    display.show(report, printing.facts(facts))
