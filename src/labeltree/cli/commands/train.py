"""`labeltree estimate` and `labeltree train`: the size of a model before it is trained, and the model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.base.limits import AUTO
from labeltree.base.system import human_bytes, peak_memory
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text
from labeltree.errors import InputError, ResourceError

if TYPE_CHECKING:
    from labeltree.model.model import Model


def estimate(
    data: list[str],
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
    lines = [*_estimated(report, memory_limit), "", *depths, "", verdict]
    if report["ovr_ratio"] is not None and report["ovr_ratio"] > 1:
        trees = "The tree is" if report["trees"] == 1 else f"The {report['trees']} trees together are"
        larger = f"{trees} {report['ovr_ratio'] - 1:.1%} larger than one-vs-rest (--max-depth 1)."
        lines.insert(-1, larger)
    figures = {**report, "memory_limit_bytes": memory_limit, "fits": fits, "data": summary}
    printing.show(figures, lines, json)


def _estimated(report: dict[str, Any], memory_limit: int | None) -> list[str]:
    memory = report["available_memory_bytes"] if memory_limit is None else memory_limit
    tree, ovr = human_bytes(report["paper_tree_bytes"]), human_bytes(report["paper_ovr_bytes"])
    return printing.facts(
        [
            ("model", _estimated_size(report)),
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


def _estimated_size(report: dict[str, Any]) -> str:
    most, per_weight = report["model_bytes_at_most"], report["bytes_per_weight"]
    if report["model_bytes"] is None:
        return f"at most {human_bytes(most)} on disk ({most:,} bytes, if no weight is pruned)"
    more = f", {per_weight:.2f} bytes per weight" if per_weight else ""
    return f"{human_bytes(most)} on disk (exactly {most:,} bytes{more})"


def train(
    data: list[str],
    model: Path,
    *,
    training: options.Training,
    text: Text,
    settings: options.SettingsFile = None,
    max_size: Annotated[int | None, limits.MAX_SIZE] = None,
    holdout: Annotated[float | None, limits.VALIDATION_SHARE] = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    force: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    sync: bool = True,
    dask: str | None = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Train a model.

    Before training starts, the size of the model and the memory needed are compared with what is available.
    An interrupted run leaves the directory MODEL.work; the same command with --resume continues it. With
    --dask, the data is read and the trees are built here, and the workers train the classifiers. With
    --max-size, all weights are kept in MODEL.full until the model is pruned to fit.

    Parameters
    ----------
    model
        Model directory to write.
    settings : FILE
        JSON file with settings, such as the one that `labeltree tune` writes. Options that are given as well
        take precedence.
    dask : ADDRESS (rare)
        Train on the Dask cluster with this scheduler, such as tcp://host:8786. All workers must see the
        directory of MODEL.

    holdout : SHARE
        Train without this share of the rows, such as 0.1; evaluate the model on them, and choose its
        threshold there.

    Stored weights
    --------------
    max_size
        Prune the trained weights just enough for the model to fit in SIZE, such as 50MB.
    """
    from labeltree.model.compress import Budget
    from labeltree.model.directory import check_target, directory_bytes
    from labeltree.model.pack import dense_bytes
    from labeltree.training.train import train_dataset
    from labeltree.training.work import check_run, resumable, work_path

    # Refuse what is wrong with the options before the data is read.
    chosen = training.model_settings()
    budget = Budget(None, max_size)
    budget.check(training.weights, training.prune, validated=False)
    if model.is_file():
        what, hint = "is a file, expected the directory of a model", "pass the data first, then the directory"
        raise InputError(what, file=model, hint=hint)
    source = DataFile(data, text, settings=settings)
    if max_size is not None:
        check_target(model, overwrite)
    target = model if max_size is None else model.with_name(f"{model.name}.full")
    check_run(target, overwrite, resume)
    stages = Stages(quiet or json)
    client = None
    try:
        if dask is not None:
            from labeltree.dask.cluster import connect

            client = connect(dask)
        if holdout is None:
            dataset, test = source.read(stages, threads), None
        else:
            dataset, test = source.held_out(stages, holdout, chosen.tree.seed, threads)
        summary = source.show(dataset, quiet=quiet or json)
        dataset = training.rows_of(dataset, quiet=quiet or json)
        with printing.warnings_as_notes(), resumable(target):
            plan, trained = train_dataset(
                dataset,
                target,
                chosen,
                threads=threads,
                memory_limit=memory_limit,
                force=force,
                overwrite=overwrite,
                resume=resume,
                sync=sync,
                dask=client,
                check=lambda plan: budget.check_least(plan.least_bytes),
                stage=stages.stage,
            )
    except ResourceError as error:
        raise error.replace(hint=f"{error.hint}, or use --force to train anyway") from None
    except KeyboardInterrupt as stop:
        outcome = "stopped; nothing was written"
        if (work := work_path(target)).exists():
            outcome = f"stopped; the same command with --resume continues, from {work}"
        raise KeyboardInterrupt(str(stop) or outcome) from None
    finally:
        if client is not None:
            client.close()
    if max_size is not None:
        trained = _fitted(trained, model, max_size, overwrite, threads, stages)
    if test is not None:
        rows = printing.plural(test.n_instances, "row")
        with printing.warnings_as_notes(), stages.stage("evaluate", f"evaluating on {rows} held out"):
            trained.choose_threshold(test, save=True, threads=threads)
            trained.holdout = trained.evaluate(test, threads=threads)
    figures: dict[str, Any] = {
        "model": str(model),
        **printing.counts(plan),
        "trees": len(plan.trees),
        "nodes": plan.n_nodes,
        "depth": plan.depth,
        "weights": plan.n_weights,
        "codec": trained.codec,
        "nonzeros": trained.manifest["weights"] if trained.codec == "sparse" else None,
        "normalized": plan.normalized,
        "cost": plan.cost,
        "not_converged": trained.manifest["not_converged"],
        "score": trained.manifest["score"],
        "threads": plan.threads,
        "seconds": stages.seconds,
        "planned_bytes": plan.model_bytes,
        "max_size": max_size,
        "model_bytes": directory_bytes(model),
        "peak_memory_bytes": peak_memory(),
        "data": summary,
        "holdout": None if trained.holdout is None else trained.holdout.to_dict(),
    }
    lines = _summary(figures, chosen.score == AUTO)
    if chosen.storage.codec == "float32" and max_size is None:
        small = trained.bytes - dense_bytes(trained.trees, "float32") + dense_bytes(trained.trees, "int8")
        if small < trained.bytes:
            lines.append(f"`labeltree compress` would reduce it to {human_bytes(small)} or less.")
    printing.show(figures, lines, json, quiet)


def _fitted(
    trained: Model, model: Path, max_size: int, overwrite: bool, threads: int | None, stages: Stages
) -> Model:
    """Prune a trained model to a size, and remove what it was pruned from."""
    assert trained.path is not None
    again = f"labeltree compress {trained.path} {model} --max-size SIZE"
    try:
        with stages.stage("compress", f"fitting the model in {human_bytes(max_size)}") as progress:
            fitted = trained.compress(
                model, max_size=max_size, overwrite=overwrite, threads=threads, progress=progress
            )
    except InputError as error:
        hint = f"{error.hint}: `{again}` prunes the model that is trained already"
        raise error.replace(hint=hint) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; `{again}` prunes the model that is trained already") from None
    shutil.rmtree(trained.path)
    return fitted


def _summary(figures: dict[str, Any], chosen: bool) -> list[str]:
    from labeltree.model.ranker import score_formula
    from labeltree.settings import ScoreSettings

    formula = score_formula(ScoreSettings(**figures["score"]))
    size, expected = figures["model_bytes"], figures["planned_bytes"]
    planned = "as planned" if size == expected else f"but {expected:,} were planned"
    weights = printing.plural(figures["weights"], "weight")
    if figures["nonzeros"] is not None:
        planned = f"planned: at most {expected:,}"
        weights += f", {figures['nonzeros']:,} of them kept"
    if figures["max_size"] is not None:
        planned = f"allowed: {figures['max_size']:,}"
    times = ", ".join(f"{name} {printing.human_seconds(spent)}" for name, spent in figures["seconds"].items())
    return printing.facts(
        [
            ("model", figures["model"]),
            ("data", printing.shape(figures)),
            ("trees", f"{printing.forest(figures)}, {weights}"),
            ("score", f"{formula}{', chosen automatically' * chosen}"),
            ("size", f"{human_bytes(size)} on disk ({size:,} bytes, {planned})"),
            ("time", f"{times} ({printing.plural(figures['threads'], 'thread')})"),
            ("memory", f"{human_bytes(figures['peak_memory_bytes'])} at peak"),
            *_held_out(figures["holdout"]),
        ]
    )


def _held_out(figures: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Describe how good the model is on rows that were held out."""
    if figures is None:
        return []
    names = ("P@1", "P@3", "P@5", "micro_F1", "macro_F1")
    shown = ", ".join(f"{name.replace('_', ' ')} {100 * figures[name]:.2f}%" for name in names)
    return [("held out", f"{shown} on {printing.plural(figures['rows'], 'row')}")]
