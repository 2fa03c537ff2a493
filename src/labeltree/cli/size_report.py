"""`labeltree compress --report`: the size of a model against its precision, as a table and as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base.progress import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import printing

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.model.frontier import PointReport
    from labeltree.model.model import Model

NAMES = ("frontier.csv", "frontier.png", "frontier.svg")


def check_report(out: Path, overwrite: bool) -> None:
    """Refuse a directory that the report cannot be written to."""
    from labeltree.base import plots as figures
    from labeltree.base.files import check_output

    figures.require()
    if out.exists() or not out.parent.is_dir():  # else it is created
        for name in NAMES:
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
    for name, content in zip(NAMES, contents, strict=True):
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
