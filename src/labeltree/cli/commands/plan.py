"""`labeltree plan`: from a data file to a work directory that any number of processes can fill."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict

from labeltree.base.limits import AUTO
from labeltree.base.progress import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing, text_options
from labeltree.cli.reading import Source
from labeltree.cli.training_options import Training

if TYPE_CHECKING:
    from labeltree.data.summary import DataSummary


class WorkReport(TypedDict):
    """What ``labeltree plan --json`` prints."""

    work: str
    instances: int
    features: int
    labels: int
    trees: int
    nodes: int
    panels: int
    planned_bytes: int
    data: DataSummary
    seconds: dict[str, float]


@options.takes(training=Training, text=text_options.Text)
def plan(
    data: options.Data,
    work: options.NewWorkPath,
    training: Training,
    text: text_options.Text,
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
    report: WorkReport = {
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
