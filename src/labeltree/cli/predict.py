"""`labeltree predict`: the best labels for each row of a data file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from labeltree import limits
from labeltree.cli import options, printing, text_options
from labeltree.cli.prediction import Predictions, Search, predict_file
from labeltree.cli.progress import Stages
from labeltree.settings import DEFAULT_TOP

_ROWS_AT_ONCE = 10_000  # converted to Python objects at a time
_FORMATS = limits.OneOf(("tsv", "svm"))

# The number of a row, and its best labels with their scores as text.
Row = tuple[int, list[tuple[Any, str]]]


@options.takes(search=Search, text=text_options.Reading)
def predict(
    model: options.ModelPath,
    data: options.Data,
    search: Search,
    text: text_options.Reading,
    top: options.Top = DEFAULT_TOP,
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

    The data needs no labels. A model trained on text also reads plain lines of text, one row per line, for
    instance from a pipe. The `tsv` format is a table with the columns row (from 0), label and score; the
    `svm` format has one line per row with label:score pairs, best first. By default, text is read with
    the same columns and separators as in training.
    """
    from labeltree.files import check_output

    if output is not None:
        check_output(output, overwrite)
    stages = Stages(quiet or json)
    found = predict_file(
        stages, model, data, text, one_based, search, top=top, threads=threads, require_labels=False
    )
    names = found.model.label_names
    if names is not None and output is None and not json and sys.stdout.isatty():
        names = tuple(map(printing.escaped, names))
    rows = _rows(found, names)
    figures: dict[str, Any] = {**found.speed}
    if json and output is None:
        figures["predictions"] = [
            {"row": row, "labels": [name for name, _ in best], "scores": [float(score) for _, score in best]}
            for row, best in rows
        ]
    else:
        with _opened(output) as file:
            for lines in _formatted(rows, format):
                file.write(lines.encode())
    if json:
        printing.print_json(figures if output is None else {**figures, "output": str(output)})


def _rows(found: Predictions, names: tuple[str, ...] | None) -> Iterator[Row]:
    """Yield each row with its labels, by name if they have names."""
    for first in range(0, len(found.labels), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        pairs = zip(found.labels[part].tolist(), found.scores[part].tolist(), strict=True)
        for row, (labels, scores) in enumerate(pairs, first):
            yield (
                row,
                [
                    (label if names is None else names[label], f"{score:.6g}")
                    for label, score in zip(labels, scores, strict=True)
                    if label >= 0
                ],
            )


def _formatted(rows: Iterator[Row], format: str) -> Iterator[str]:
    if format == "tsv":
        yield "row\tlabel\tscore\n"
        for row, best in rows:
            yield "".join(f"{row}\t{label}\t{score}\n" for label, score in best)
    else:
        for _, best in rows:
            yield " ".join(f"{label}:{score}" for label, score in best) + "\n"


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes] | Any]:
    from labeltree.files import write_whole

    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with write_whole(output) as file:
        yield file
