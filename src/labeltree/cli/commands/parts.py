"""`labeltree plan`, `fill` and `join`: a model trained in parts, by any number of processes and machines."""

from __future__ import annotations

import re
import sys

from labeltree.base.limits import AUTO
from labeltree.base.progress import Stages
from labeltree.base.system import human_bytes, peak_memory
from labeltree.cli import options, printing
from labeltree.cli.reading import Source
from labeltree.errors import InputError


def plan(
    data: options.Data,
    work: options.NewWorkPath,
    training: options.Training,
    text: options.Text,
    score: options.StoredScore = AUTO,
    score_scale: options.StoredScoreScale = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    force: options.Force = False,
    sync: options.Sync = True,
    one_based: options.OneBased = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Prepare training in parts, on one machine or many.

    Builds the trees, and writes them with the data to a work directory. `labeltree fill` then trains the
    parts, each on any machine that sees the directory, and `labeltree join` completes the model.
    """
    from labeltree.model.directory import check_target
    from labeltree.settings import stored_score
    from labeltree.training.parts import plan_parts
    from labeltree.training.strips import TreePanels
    from labeltree.training.train import build_plan

    settings = training.model_settings(stored_score(score, score_scale))
    source = Source(data, text, one_based)
    check_target(work, overwrite=False)
    stages = Stages(quiet or json)
    dataset = source.read(stages, threads)
    summary = source.show(dataset, quiet=quiet or json)
    dataset = training.rows_of(dataset, quiet=quiet or json)
    limit = sys.maxsize if force else memory_limit
    with printing.warnings_as_notes():
        planned = build_plan(
            dataset,
            settings.tree,
            settings.solver,
            settings.storage,
            normalize=settings.normalize,
            threads=threads,
            memory_limit=limit,
            stage=stages.stage,
        )
    with stages.stage("write", f"writing {work}"):
        notes = settings.tree.notes()
        plan_parts(dataset, planned, work, score=settings.score, notes=notes, sync=sync)
    report = {
        "work": str(work),
        "instances": planned.n_instances,
        "features": planned.n_features,
        "labels": planned.n_labels,
        "trees": len(planned.trees),
        "nodes": planned.n_nodes,
        "panels": sum(len(TreePanels.of(part)) for part in planned.trees),
        "planned_bytes": planned.model_bytes,
        "data": summary,
        "seconds": stages.seconds,
    }
    if json:
        printing.print_json(report)
    elif not quiet:
        bound = "" if planned.is_exact else "at most "
        print(
            *printing.facts(
                [
                    ("work", str(work)),
                    ("data", printing.shape(report)),
                    ("panels", f"{report['panels']:,}, to be trained in any number of parts"),
                    ("model", f"{bound}{human_bytes(planned.model_bytes)} ({planned.model_bytes:,} bytes)"),
                    ("next", f"labeltree fill {work} --part 1/4, and the other parts; then labeltree join"),
                ]
            ),
            sep="\n",
        )


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
    report = {
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


def join(
    work: options.WorkPath,
    model: options.NewModelPath,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    sync: options.Sync = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Complete the model whose parts are trained.

    Every block is compared with its checksum. The model has the same bytes as that of `labeltree train`. The
    work directory is removed.
    """
    from labeltree import _native
    from labeltree.model.directory import directory_bytes
    from labeltree.training.parts import join_parts

    _native.return_memory_at_once()
    stages = Stages(quiet or json)
    with printing.warnings_as_notes(), stages.stage("join", f"joining {work}"):
        joined = join_parts(work, model, overwrite=overwrite, threads=threads, sync=sync)
    report = {
        "model": str(model),
        "model_bytes": directory_bytes(model),
        "not_converged": joined.manifest["not_converged"],
        "seconds": stages.seconds,
        "peak_memory_bytes": peak_memory(),
    }
    if json:
        printing.print_json(report)
    elif not quiet:
        size = report["model_bytes"]
        facts = [
            ("model", str(model)),
            ("size", f"{human_bytes(size)} ({size:,} bytes)"),
            ("memory", f"{human_bytes(report['peak_memory_bytes'])} at peak"),
        ]
        print(*printing.facts(facts), sep="\n")
