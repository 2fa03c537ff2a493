"""`labeltree compress`: a smaller copy of a model, stored as options say or as a budget allows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.progress import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.model.compress import Trial
    from labeltree.model.frontier import PointReport
    from labeltree.model.model import Model

_REPORT_FILES = ("frontier.csv", "frontier.png", "frontier.svg")
# The loss whose smallest model a report marks, in percentage points.
_REPORTED_LOSS = 0.1
_HEAD = ("weights", "threshold", "non-zeros", "bytes", "P@1", "P@3", "P@5")
_WIDTHS = (8, 9, 15, 15, 6, 6, 6)


def compress(
    model: options.ModelPath,
    out: Path | None = None,
    *,
    text: Reading,
    weights: Annotated[str | None, limits.SMALL_WEIGHTS] = None,
    prune: Annotated[float | None, limits.PRUNE] = None,
    max_loss: Annotated[float | None, limits.MAX_LOSS] = None,
    max_size: Annotated[int | None, limits.MAX_SIZE] = None,
    validation: str | None = None,
    report: Path | None = None,
    threads: options.Threads = None,
    overwrite: bool = False,
    one_based: bool | None = None,
    quiet: bool = False,
    json: bool = False,
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
        Find the smallest model whose P@1, P@3 and P@5 each lose at most X percentage points on the validation
        data.
    max_size
        Find the best model that fits in SIZE, such as 50MB.
    validation : DATA
        Labeled data that the model was not trained on.
    report : DIR
        Evaluate the model in every form on the validation data, and write frontier.csv, .png and .svg with
        their sizes and precisions. If DIR is MODEL, the page of the model shows them.
    """
    from labeltree.model.compress import Budget, check_apart, check_source
    from labeltree.model.directory import check_target, directory_bytes, read_manifest
    from labeltree.model.manifest import storage_of
    from labeltree.model.model import load
    from labeltree.settings import StorageSettings

    # Refuse what is wrong with the options before anything is read.
    if out is None and report is None:
        raise InputError("no output is given", hint="add OUT, or --report DIR")
    if report is not None and validation is None:
        raise InputError("--report needs validation data", hint="add --validation DATA")
    if out is not None:
        Budget(max_loss, max_size).check(weights, prune, validation is not None)
        StorageSettings(weights, prune)
    read_manifest(model)
    if out is not None:
        check_apart(model, out)
        check_target(out, overwrite)
    if report is not None:
        check_report(report, overwrite)
    stages = Stages(quiet or json)
    tried: list[Trial] = []

    def show(trial: Trial) -> None:
        tried.append(trial)
        if validation is not None and not (quiet or json):
            if len(tried) == 1:
                print(_line(_HEAD), file=sys.stderr)
            print(_line(_cells(trial)), file=sys.stderr, flush=True)

    with stages.stage("load", f"opening {model}"):
        opened = load(model, verify=False)  # each block is verified before it is compressed
    check_source(model, opened.trees)
    dataset = None
    if validation is not None:
        dataset = DataFile(validation, text, one_based, opened).read(stages, threads)
    points: list[PointReport] = []
    loss = _REPORTED_LOSS if max_loss is None else max_loss
    if report is not None:
        assert dataset is not None
        points = report_sizes(model, opened, dataset, report, loss, threads, stages)
        if not (quiet or json):
            print(*report_lines(points, report, loss), sep="\n")
    if out is None:
        if json:
            printing.print_json({"model": str(model), "points": points, "seconds": stages.seconds})
        return
    try:
        with printing.warnings_as_notes(), stages.stage("compress", f"compressing {model}") as progress:
            small = opened.compress(
                out,
                weights=weights,
                prune=prune,
                max_loss=max_loss,
                max_size=max_size,
                validation=dataset,
                overwrite=overwrite,
                threads=threads,
                progress=progress,
                report=show,
            )
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(str(stop) or "stopped; nothing was written") from None
    stored = storage_of(small.manifest)
    chosen = next(
        trial
        for trial in tried
        if (trial.form.storage.codec, trial.form.storage.prune) == (stored.codec, stored.prune)
    )
    figures: dict[str, Any] = {
        "model": str(model),
        "out": str(out),
        "bytes_before": opened.bytes,
        **chosen.report(),
        "model_bytes": directory_bytes(out),
        "tried": [trial.report() for trial in tried],
        **({"points": points} if points else {}),
        "seconds": stages.seconds,
    }
    if max_loss is not None and figures["weights"] == "float32":
        printing.note(f"No smaller form loses at most {max_loss:g} points, so all weights are still float32.")
    if json:
        printing.print_json(figures)
    elif not quiet:
        print(*_summary(figures), sep="\n")


def _cells(trial: Trial) -> list[str]:
    """Return one line of the table of trials."""
    form = trial.form
    return [
        form.storage.weight_type,
        "-" if form.storage.prune is None else f"{form.storage.prune:g}",
        "-" if form.n_nonzeros is None else f"{form.n_nonzeros:,}",
        f"{form.model_bytes:,}",
        *(f"{value:.2f}" for value in trial.precision or ()),
    ]


def _line(cells: Any) -> str:
    first, *rest = (f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=False))
    return "  ".join([first.strip().ljust(_WIDTHS[0]), *rest])


def _summary(figures: dict[str, Any]) -> list[str]:
    before, after = figures["bytes_before"], figures["model_bytes"]
    pairs = [
        ("model", figures["out"]),
        ("weights", described(figures["weights"], figures["threshold"], figures["nonzeros"])),
        ("size", f"{human_bytes(before)} -> {human_bytes(after)} ({before:,} -> {after:,} bytes)"),
    ]
    original = figures["tried"][0]
    for name in ("P@1", "P@3", "P@5") if figures["P@1"] is not None else ():
        old, new = original[name], figures[name]
        pairs.append((name, f"{old:.2f} -> {new:.2f} ({new - old:+.2f}) on the validation data"))
    pairs.append(("time", printing.human_seconds(figures["seconds"]["compress"])))
    return printing.facts(pairs)


def described(weights: str, threshold: float | None, nonzeros: int | None) -> str:
    """Describe how weights are stored."""
    if threshold is None:
        return f"all weights as {weights}"
    small = (
        "those that round to zero were dropped"
        if not threshold
        else f"those below {threshold:g} were dropped"
    )
    return f"{printing.plural(nonzeros or 0, 'weight')} kept as {weights}; {small}"


def check_report(out: Path, overwrite: bool) -> None:
    """Refuse a directory that the report cannot be written to."""
    from labeltree.base import plots as figures
    from labeltree.base.files import check_output

    figures.require()
    if out.exists() or not out.parent.is_dir():  # else it is created
        for name in _REPORT_FILES:
            check_output(out / name, overwrite)


def report_sizes(
    model: Path,
    opened: Model,
    dataset: Dataset,
    out: Path,
    max_loss: float,
    threads: int | None,
    stages: Stages,
) -> list[PointReport]:
    """Evaluate a model in every form, and write the sizes and precisions as a table and a figure.

    Returns
    -------
    list of PointReport
        One per form: float32, float16, int8 and a range of thresholds, with the first trees alone, too.
    """
    from labeltree.model.frontier import chosen_points, measure
    from labeltree.model.labeled import Validation

    # The results may go into the model, where its page finds them; copies of the model may not.
    inside = out.resolve().is_relative_to(model.resolve())
    work = model.resolve().parent if inside else out if out.is_dir() else out.parent
    try:
        with printing.warnings_as_notes(), stages.stage("evaluate", f"evaluating {model}") as progress:
            points = measure(opened, Validation.of(dataset, opened), work, threads=threads, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; nothing was written") from None
    chosen = chosen_points(points, max_loss)
    rows = [point.report(point in chosen) for point in points]
    _write(rows, out)
    return rows


def report_lines(rows: list[PointReport], out: Path, max_loss: float) -> list[str]:
    """Return the table of a report, and where its figure is."""
    explained = f"* the smallest model that loses at most {max_loss:g} points"
    figure = f"figure {printing.escaped(str(out / 'frontier.png'))}"
    return [*_table(rows), "", explained, figure]


def _write(rows: list[PointReport], out: Path) -> None:
    """Write the table and the figure."""
    from labeltree.base import plots as figures
    from labeltree.base.files import write_whole

    counts = dict.fromkeys(row["trees"] for row in rows)
    curves: dict[str, list[Any]] = {
        f"{printing.plural(n, 'tree')}, pruned": [row for row in rows if row["trees"] == n] for n in counts
    }
    figure = figures.frontier_figure(curves)
    contents = (figures.table(rows), figures.png(figure), figures.svg(figure))
    out.mkdir(exist_ok=True)
    for name, content in zip(_REPORT_FILES, contents, strict=True):
        with write_whole(out / name) as file:
            file.write(content)


def _table(rows: list[PointReport]) -> list[str]:
    head = ["trees", "weights", "threshold", "non-zeros", "size", "P@1", "P@3", "P@5", ""]
    cells = (
        [
            str(row["trees"]),
            row["weights"],
            "-" if row["threshold"] is None else f"{row['threshold']:g}",
            "-" if row["nonzeros"] is None else f"{row['nonzeros']:,}",
            human_bytes(row["model_bytes"]),
            *(f"{row[name]:.2f}" for name in ("P@1", "P@3", "P@5")),
            "*" if row["chosen"] else "",
        ]
        for row in rows
    )
    return printing.table(head, cells)
