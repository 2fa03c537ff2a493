"""`labeltree join`: from a work directory whose parts are trained to a model directory."""

from __future__ import annotations

from typing import TypedDict

from labeltree.base.progress import Stages
from labeltree.base.system import human_bytes, peak_memory
from labeltree.cli import options, printing


class JoinReport(TypedDict):
    """What ``labeltree join --json`` prints."""

    model: str
    model_bytes: int
    not_converged: int
    seconds: dict[str, float]
    peak_memory_bytes: int


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
    report: JoinReport = {
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
