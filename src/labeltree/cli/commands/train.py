"""`labeltree estimate` and `labeltree train`: the size of a model before it is trained, and the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.limits import AUTO
from labeltree.base.system import human_bytes, peak_memory
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text
from labeltree.cli.training import Training, read_and_plan
from labeltree.errors import InputError, ResourceError

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.data.summary import DataSummary


def estimate(
    data: list[str],
    *,
    training: Training,
    text: Text,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    display: printing.Display,
) -> None:
    """Report a model's size and whether it fits on this machine.

    With the same options, `labeltree train` writes a model of exactly this size; with --prune, of at most
    this size.
    """
    from labeltree.trees.tree import depth_cells

    settings, source = training.model_settings(), DataFile(data, text)
    plan, _, summary = read_and_plan(settings, source, training, threads, display=display)
    report = plan.to_dict()
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
    printing.show(figures, lines, display.json)


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
            *(
                [("time", f"at most {1 + more:.1f} times that without hard negatives, and their routing")]
                if (more := report["foreign_work"])
                else []
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
    training: Training,
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
    display: printing.Display,
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
    from labeltree.model.directory import directory_bytes
    from labeltree.model.pack import dense_bytes
    from labeltree.training.train import place_of_training, train_source
    from labeltree.training.work import resumable, work_path

    # Refuse what is wrong with the options before the data is read.
    chosen = training.model_settings()
    if model.is_file():
        what, hint = "is a file, expected the directory of a model", "pass the data first, then the directory"
        raise InputError(what, file=model, hint=hint)
    source = DataFile(data, text, settings=settings)
    whole = place_of_training(model, max_size)
    again = f"`labeltree compress {whole} {model} --max-size SIZE` prunes the model that is trained already"
    summaries: list[DataSummary] = []

    def prepare(dataset: Dataset) -> Dataset:
        rows, summary = training.prepare(dataset, display)
        summaries.append(summary)
        return rows

    client = None
    try:
        if dask is not None:
            from labeltree.dask.cluster import connect

            client = connect(dask)
        with printing.warnings_as_notes(), resumable(whole):
            plan, trained = train_source(
                source.source,
                model,
                chosen,
                source.settings,
                prepare=prepare,
                min_label_count=source.least_rows,
                holdout=holdout,
                max_size=max_size,
                threads=threads,
                memory_limit=memory_limit,
                force=force,
                overwrite=overwrite,
                resume=resume,
                sync=sync,
                dask=client,
                stage=display.stage,
            )
    except ResourceError as error:
        raise error.replace(hint=f"{error.hint}, or use --force to train anyway") from None
    except InputError as error:
        if whole == model or not whole.exists():
            raise
        raise error.replace(hint=f"{error.hint}: {again}") from None
    except KeyboardInterrupt as stop:
        if str(stop):  # what Dask's workers leave
            raise
        if (work := work_path(whole)).exists():
            again = f"the same command with --resume continues, from {work}"
        elif whole == model or not whole.exists():
            raise
        raise KeyboardInterrupt(f"stopped; {again}") from None
    finally:
        if client is not None:
            client.close()
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
        "seconds": display.seconds,
        "planned_bytes": plan.model_bytes,
        "max_size": max_size,
        "model_bytes": directory_bytes(model),
        "peak_memory_bytes": peak_memory(),
        "data": summaries[0],
        "holdout": None if trained.holdout is None else trained.holdout.to_dict(),
    }
    lines = _summary(figures, chosen.score == AUTO)
    if chosen.storage.codec == "float32" and max_size is None:
        small = trained.bytes - dense_bytes(trained.trees, "float32") + dense_bytes(trained.trees, "int8")
        if small < trained.bytes:
            lines.append(f"`labeltree compress` would reduce it to {human_bytes(small)} or less.")
    display.show(figures, lines)


def _summary(figures: dict[str, Any], chosen: bool) -> list[str]:
    from labeltree.model.ranker import score_formula
    from labeltree.settings import ScoreSettings

    score = ScoreSettings(**figures["score"])
    weight = f", path weight {score.path_weight:g}" * (score.path_weight != 1)
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
            ("score", f"{score_formula(score)}{weight}{', chosen automatically' * chosen}"),
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
