"""`labeltree estimate`: the size of a model, before it is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeltree.base.display import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text
from labeltree.errors import ResourceError


def estimate(
    data: str,
    *,
    training: options.Training,
    text: Text,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Report a model's size and whether it fits on this machine.

    With the same options, `labeltree train` writes a model of exactly this size; with --prune, of at most
    this size.
    """
    from labeltree.training.train import build_plan
    from labeltree.trees.tree import depth_cells

    settings = training.model_settings()
    source = DataFile(data, text)
    stages = Stages(quiet or json)
    dataset = source.read(stages, threads)
    summary = source.show(dataset, quiet=quiet or json)
    dataset = training.rows_of(dataset, quiet=quiet or json)
    with printing.warnings_as_notes():
        plan = build_plan(
            dataset,
            settings.tree,
            settings.solver,
            settings.storage,
            normalize=settings.normalize,
            threads=threads,
            stage=stages.stage,
        )
    report = plan.report()
    try:
        plan.check_resources(Path("."), memory_limit)
        fits, verdict = True, "It fits."
        if plan.model_bytes > report["free_disk_bytes"]:  # a bound, or it would not fit
            verdict = "It fits in memory, and on disk if enough weights are pruned."
    except ResourceError as error:
        fits, verdict = False, f"It does not fit: {error.message(options.spelled)}."
    rows = [depth_cells(row) for row in report["depths"]]
    depths = printing.table(list(rows[0]), (list(row.values()) for row in rows))
    lines = [*_summary(report, memory_limit), "", *depths, "", verdict]
    if report["ovr_ratio"] is not None and report["ovr_ratio"] > 1:
        trees = "The tree is" if report["trees"] == 1 else f"The {report['trees']} trees together are"
        larger = f"{trees} {report['ovr_ratio'] - 1:.1%} larger than one-vs-rest (--max-depth 1)."
        lines.insert(-1, larger)
    figures = {**report, "memory_limit_bytes": memory_limit, "fits": fits, "data": summary}
    printing.show(figures, lines, json)


def _summary(report: dict[str, Any], memory_limit: int | None) -> list[str]:
    memory = report["available_memory_bytes"] if memory_limit is None else memory_limit
    tree, ovr = human_bytes(report["paper_tree_bytes"]), human_bytes(report["paper_ovr_bytes"])
    return printing.facts(
        [
            ("model", _size(report)),
            *printing.one_vs_rest(report),
            ("paper", f"{tree} as a sparse tree, {ovr} as one-vs-rest, ratio {report['ratio']:.3g}"),
            (
                "memory",
                f"{human_bytes(report['training_memory_bytes'])} needed, {human_bytes(memory)} "
                + ("available" if memory_limit is None else "allowed"),
            ),
            (
                "disk",
                f"{'at most ' * (report['model_bytes'] is None)}{human_bytes(report['model_bytes_at_most'])} "
                f"needed, {human_bytes(report['free_disk_bytes'])} free",
            ),
            ("data", printing.shape(report)),
            ("trees", f"{printing.forest(report)}, {printing.plural(report['weights'], 'weight')}"),
        ]
    )


def _size(report: dict[str, Any]) -> str:
    most, per_weight = report["model_bytes_at_most"], report["bytes_per_weight"]
    if report["model_bytes"] is None:
        return f"at most {human_bytes(most)} on disk ({most:,} bytes, if no weight is pruned)"
    more = f", {per_weight:.2f} bytes per weight" if per_weight else ""
    return f"{human_bytes(most)} on disk (exactly {most:,} bytes{more})"
