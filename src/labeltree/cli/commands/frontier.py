"""`labeltree frontier`: the size of a model against its precision, as a table and as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.base import limits
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing, text_options
from labeltree.cli.progress import Stages
from labeltree.cli.reading import Source

if TYPE_CHECKING:
    from labeltree.model.frontier import PointReport

_NAMES = ("frontier.csv", "frontier.png", "frontier.svg")


@options.takes(text=text_options.Reading)
def frontier(
    model: options.ModelPath,
    validation: Annotated[
        str,
        typer.Argument(metavar="VALIDATION", help="Labeled data that the model was not trained on."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Directory for frontier.csv, .png and .svg.")
    ],
    text: text_options.Reading,
    max_loss: Annotated[
        float,
        options.limited(
            "--max-loss",
            limits.MAX_LOSS,
            "X",
            "Mark the smallest model whose P@1, P@3 and P@5 each lose at most X percentage points",
        ),
    ] = 0.1,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    one_based: options.OneBasedLikeModel = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Show how much precision each size of a model costs.

    Evaluates the model with float32, float16 and int8 weights, and without weights below a range of
    thresholds; if it has several trees, also with the first trees alone. No other model is kept.
    If DIR is MODEL, the page of the model shows the result.
    """
    from labeltree.base import plots as figures
    from labeltree.base.files import check_output
    from labeltree.model.compress import check_source
    from labeltree.model.frontier import chosen_points, measure
    from labeltree.model.labeled import Validation
    from labeltree.model.model import load

    figures.require()
    stages = Stages(quiet or json)
    if out.exists() or not out.parent.is_dir():  # else it is created
        for name in _NAMES:
            check_output(out / name, overwrite)
    with stages.stage("load", f"opening {model}"):
        opened = load(model)
    check_source(model, opened.trees)
    source = Source(validation, text, one_based, opened)
    dataset = source.read(stages, threads)
    source.note_suspicions(dataset)
    # The results may go into the model, where its page finds them; copies of the model may not.
    inside = out.resolve().is_relative_to(model.resolve())
    work = model.resolve().parent if inside else out if out.is_dir() else out.parent
    try:
        with printing.warnings_as_notes(), stages.stage("evaluate", f"evaluating {model}") as progress:
            data = Validation.of(dataset, opened)
            points = measure(opened, data, work, threads=threads, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; nothing was written") from None
    chosen = chosen_points(points, max_loss)
    rows = [point.report(point in chosen) for point in points]
    _write(rows, out)
    if json:
        files = [str(out / name) for name in _NAMES]
        printing.print_json(
            {
                "model": str(model),
                "max_loss": max_loss,
                "points": rows,
                "files": files,
                "seconds": stages.seconds,
            }
        )
    elif not quiet:
        print(*_table(rows), "", f"* the smallest model that loses at most {max_loss:g} points", sep="\n")
        print(f"figure {printing.escaped(str(out / 'frontier.png'))}")


def _write(rows: list[PointReport], out: Path) -> None:
    """Write the table and the figure."""
    from labeltree.base import plots as figures
    from labeltree.base.files import write_whole
    from labeltree.base.plots.frontier import frontier_figure

    counts = dict.fromkeys(row["trees"] for row in rows)
    curves: dict[str, list[Any]] = {
        f"{printing.plural(n, 'tree')}, pruned": [row for row in rows if row["trees"] == n] for n in counts
    }
    figure = frontier_figure({"": curves})
    contents = (figures.table(rows), figures.png(figure), figures.svg(figure))
    out.mkdir(exist_ok=True)
    for name, content in zip(_NAMES, contents, strict=True):
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
