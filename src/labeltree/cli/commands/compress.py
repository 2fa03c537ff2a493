"""`labeltree compress`: a smaller copy of a model, stored as options say or as a budget allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.model.compress import Trial


def compress(
    model: options.ModelPath,
    out: Path | None = None,
    *,
    reading: Reading,
    weights: Annotated[str | None, limits.SMALL_WEIGHTS] = None,
    prune: Annotated[float | None, limits.PRUNE] = None,
    max_loss: Annotated[float | None, limits.MAX_LOSS] = None,
    max_size: Annotated[int | None, limits.MAX_SIZE] = None,
    validation: str | None = None,
    data: str | None = None,
    report: Path | None = None,
    threads: options.Threads = None,
    overwrite: bool = False,
    display: printing.Display,
) -> None:
    """Write a smaller copy of a model.

    Weights are stored with a smaller type, and with --prune or a budget, small ones are dropped. The copy
    predicts, explains and serves like the original, and usually faster.

    Parameters
    ----------
    out
        Model directory to write. With --report, optional.
    weights : TYPE
        Store all weights with a smaller type. Default: int8.
    prune : T
        Drop weights with an absolute value below T, and store the others as int8.

    Budget
    ------
    max_loss
        Find the smallest model whose P@1, P@3 and P@5 each lose at most X percentage points, such as 0.1%, by
        an upper bound from the data; 0.001 is the same.
    max_size
        Find the best model that fits in SIZE, such as 50MB.
    validation : DATA
        Labeled data that the model was not trained on.
    data : TRAIN
        Instead: the training data. Five models like MODEL are trained, each on four fifths of the rows, and
        compared with their compact copies on the others.
    report : DIR
        Evaluate the model in every form on the validation data, and write their sizes and precisions as
        frontier.csv and, with matplotlib, .png and .svg. If DIR is MODEL, the page of the model shows them.
    """
    from labeltree.base import plots
    from labeltree.base.files import check_output
    from labeltree.model.compress import REPORTED_LOSS, Budget
    from labeltree.model.directory import check_apart, check_target, directory_bytes
    from labeltree.model.layout import REPORTS
    from labeltree.model.manifest import storage_of
    from labeltree.model.model import load
    from labeltree.model.pack import check_source
    from labeltree.settings import StorageSettings

    report_files = REPORTS[:3]
    # Refuse what is wrong with the options before the data is read.
    if out is None and report is None:
        raise InputError("no output is given", hint="add OUT, or --report DIR")
    if report is not None and validation is None:
        raise InputError("--report needs validation data", hint="add --validation DATA")
    if out is not None:
        Budget(max_loss, max_size).check(weights, prune, validation is not None or data is not None)
        StorageSettings(weights, prune)
    with display.stage("load", f"opening {model}"):
        opened = load(model, verify=False)  # each block is verified before it is compressed
    if out is not None:
        check_apart(model, out)
        check_target(out, overwrite)
    if report is not None and (report.exists() or not report.parent.is_dir()):  # else it is created
        for name in report_files:
            check_output(report / name, overwrite)
    check_source(model, opened.trees)
    dataset, train = (
        None if name is None else DataFile(name, reading, opened).read(display, threads)
        for name in (validation, data)
    )
    figures: dict[str, Any] = {"model": str(model)}
    lines: list[str] = []
    if report is not None and dataset is not None:
        loss = REPORTED_LOSS if max_loss is None else max_loss
        with display.stage("evaluate", f"evaluating {model}") as progress:
            points = list(opened.frontier(dataset, max_loss=loss, threads=threads, progress=progress))
        figure = plots.frontier_figure(points)
        report.mkdir(exist_ok=True)
        for name in report_files:  # without a figure, that of another table would stay
            (report / name).unlink(missing_ok=True)
        plots.save(report / Path(report_files[0]).stem, points, figure)
        figures["points"] = points
        lines += [*_table(points), "", f"* the smallest model that loses at most {100 * loss:g} points"]
        lines.append(f"report {printing.escaped(str(report / report_files[figure is not None]))}")
        if figure is None:
            printing.note(plots.missing())
    if out is not None:
        tried: list[Trial] = []
        with display.stage("compress", f"compressing {model}") as progress:
            small = opened.compress(
                out,
                weights=weights,
                prune=prune,
                max_loss=max_loss,
                max_size=max_size,
                validation=dataset,
                training=train,
                overwrite=overwrite,
                threads=threads,
                progress=progress,
                report=tried.append,
            )
        stored, trials = storage_of(small.manifest), [trial.report() for trial in tried]
        form = stored.weight_type, stored.prune
        chosen = next(trial for trial in trials if (trial["weights"], trial["threshold"]) == form)
        figures |= {"out": str(out), "bytes_before": opened.bytes, **chosen}
        figures |= {"model_bytes": directory_bytes(out), "tried": trials}
        if str(small.decision) != str(opened.decision):
            printing.note(f"The threshold was chosen again: {small.decision}.")
        if max_loss is not None and chosen["weights"] == "float32":
            points_lost = f"{100 * max_loss:g} points"
            printing.note(f"No smaller form loses at most {points_lost}: all weights are float32.")
        if trials[0]["P@1"] is not None:
            figures["before"] = trials[0]
            lines += [*_table({**trial, "chosen": trial is chosen} for trial in trials), ""]
        lines += _summary(figures, display.seconds["compress"])
    display.show(figures, lines)


def _table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return forms of a model as a table: those that were tried, or the points of a report."""
    forms = {"weights": "", "threshold": "g", "nonzeros": ",", "model_bytes": ","}
    percent = {"P@1": ".2f", "P@3": ".2f", "P@5": ".2f", "loss_at_most": ".3f"}
    cells = (
        [
            *("-" if row[key] is None else format(row[key], form) for key, form in forms.items()),
            *("-" if row[key] is None else format(100 * row[key], form) for key, form in percent.items()),
            "*" if row["chosen"] else "",
        ]
        for row in rows
    )
    head = ["weights", "threshold", "non-zeros", "bytes", "P@1", "P@3", "P@5", "loss at most", ""]
    return printing.table(head, cells)


def _summary(figures: dict[str, Any], seconds: float) -> list[str]:
    before, after = figures["bytes_before"], figures["model_bytes"]
    weights, threshold = figures["weights"], figures["threshold"]
    stored = f"all weights as {weights}"
    if threshold is not None:
        dropped = f"those below {threshold:g}" if threshold else "those that round to zero"
        stored = f"{printing.plural(figures['nonzeros'], 'weight')} kept as {weights}; {dropped} were dropped"
    losses = []
    for name in ("P@1", "P@3", "P@5") if "before" in figures else ():
        loss, error = 100 * (figures["before"][name] - figures[name]), 196 * figures[f"{name}_error"]
        losses.append(f"{name} {loss:.2f} ({loss - error:.2f} to {loss + error:.2f})")
    return printing.facts(
        [
            ("model", figures["out"]),
            ("weights", stored),
            *([("loss", f"{', '.join(losses)} points, with 95% intervals")] if losses else []),
            ("size", f"{human_bytes(before)} -> {human_bytes(after)} ({before:,} -> {after:,} bytes)"),
            ("time", printing.human_seconds(seconds)),
        ]
    )
