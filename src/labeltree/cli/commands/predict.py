"""`labeltree predict`: the best labels for each row of a data file."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from json import dumps
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

import typer

from labeltree.base import limits
from labeltree.base.progress import Stages
from labeltree.cli import options, printing
from labeltree.cli.reading import BatchPrediction, PredictedBatch, Source, open_model
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_TOP, MAX_ACCEPTED

_FORMATS = limits.OneOf(("tsv", "csv", "jsonl", "svm"))


def predict(
    model: options.ModelPath,
    data: options.Data,
    search: options.Search,
    text: options.Reading,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id-column",
            metavar="NAME",
            help="Column of CSV or JSONL to copy to the output; id for the first of three columns of TSV.",
            rich_help_panel=options.READING,
        ),
    ] = None,
    top: Annotated[
        int | None,
        options.limited(
            "--top",
            limits.TOP,
            "N",
            "Number of labels per row",
            default=f"{DEFAULT_TOP}, and up to {MAX_ACCEPTED} with --threshold or --accepted",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        options.limited(
            "--threshold", limits.THRESHOLD, "X", "Leave out labels with a score below X", default="none"
        ),
    ] = None,
    accepted: Annotated[
        bool,
        typer.Option(
            "--accepted", help="Leave out labels that the model does not accept; see `labeltree threshold`."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to FILE instead of standard output; compressed if it ends in .gz, .bz2 or .xz.",
        ),
    ] = None,
    format: Annotated[str, options.limited("--format", _FORMATS, "NAME", "Output format")] = "tsv",
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    one_based: options.OneBasedLikeModel = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Predict the best labels for each row.

    The data needs no labels. A model trained on text also reads plain lines of text, one row per line; from
    a pipe, each line is answered as soon as it arrives. The `tsv` and `csv` formats are a table with the
    columns row (from 0), label and score, best first, and a line with an empty label and score for a row
    without labels. `jsonl` has one object per row, and `svm` one line per row with label:score pairs. By
    default, text is read with the same columns and separators as in training.
    """
    from labeltree.base.files import check_output

    if threshold is not None and accepted:
        raise InputError("--threshold and --accepted exclude each other", hint="remove one of them")
    if output is not None:
        check_output(output, overwrite)
    if id_column is not None and format == "svm" and not json:
        raise InputError(
            "--format svm has no place for --id-column", hint="use --format tsv, csv or jsonl, or remove it"
        )
    on_terminal = output is None and not json and sys.stdout.isatty()
    stages = Stages(quiet or json or on_terminal)
    opened = open_model(stages, model)
    source = Source(data, text, one_based, opened, id_column)
    minimum: float | Literal["stored"] | None = "stored" if accepted else threshold
    found = BatchPrediction(stages, opened, source, search, top, threads, minimum)
    with_id, shown = id_column is not None, printing.escaped if on_terminal else str
    batches = (answers(batch, opened.label_names, with_id, shown) for batch in found)
    figures: dict[str, Any] = {}
    if json and output is None:
        figures["predictions"] = [answer.as_json() for rows in batches for answer in rows]
    else:
        with _opened(output) as file:
            for number, rows in enumerate(batches):
                lines = formatted(rows, format)
                file.write(((table_head(format, with_id) if number == 0 else "") + lines).encode())
                if output is None:
                    file.flush()
    if json:
        more = figures if output is None else {"output": str(output)}
        printing.print_json({**found.speed, **more})


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes] | Any]:
    from labeltree.base.files import write_whole

    if output is None:
        yield sys.stdout.buffer
        return
    with write_whole(output) as file:
        yield file


class Answer(NamedTuple):
    """A row, what identifies it (None if nothing does), and its labels with their scores, best first."""

    row: int
    id: str | None
    best: list[tuple[Any, str]]

    def as_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        labels, scores = [label for label, _ in self.best], [float(score) for _, score in self.best]
        known = {} if self.id is None else {"id": self.id}
        return {"row": self.row, **known, "labels": labels, "scores": scores}


def answers(
    batch: PredictedBatch,
    names: tuple[str, ...] | None,
    with_id: bool,
    shown: Callable[[str], str],
) -> Iterator[Answer]:
    """Yield every row of a batch with its labels, by name if they have names.

    Parameters
    ----------
    batch : PredictedBatch
    names : tuple of str or None
    with_id : bool
        Whether rows have something that identifies them.
    shown : callable
        Makes names and IDs fit to be shown.
    """
    kept = batch.labels >= 0
    rows = zip(batch.ids, batch.labels.tolist(), batch.scores.tolist(), kept.tolist(), strict=True)
    for row, (key, labels, scores, given) in enumerate(rows, batch.first):
        best = [
            (label if names is None else shown(names[label]), f"{score:.6g}")
            for label, score, is_given in zip(labels, scores, given, strict=True)
            if is_given
        ]
        yield Answer(row, shown(key) if with_id else None, best)


def table_head(format: str, with_id: bool) -> str:
    """Return the line with the names of the columns; empty in formats without one."""
    names = ["row", *(["id"] if with_id else []), "label", "score"]
    return {"tsv": "\t".join(names) + "\n", "csv": ",".join(names) + "\n"}.get(format, "")


def formatted(rows: Iterable[Answer], format: str) -> str:
    """Return the lines of some rows. In a table, a row without labels has a line with an empty label."""
    if format == "jsonl":
        return "".join(dumps(row.as_json(), ensure_ascii=False) + "\n" for row in rows)
    if format == "svm":
        return "".join(" ".join(f"{label}:{score}" for label, score in row.best) + "\n" for row in rows)
    cells = (
        (row.row, *(() if row.id is None else (row.id,)), label, score)
        for row in rows
        for label, score in row.best or [("", "")]
    )
    if format == "tsv":  # without quotes: the whitespace of an ID becomes single spaces
        return "".join("\t".join(" ".join(str(cell).split()) for cell in line) + "\n" for line in cells)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()
