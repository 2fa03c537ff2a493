"""`labeltree predict`: the best labels for each row of a data file."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading, open_model, speed_of
from labeltree.errors import InputError


def predict(
    model: options.ModelPath,
    data: list[str],
    *,
    search: options.Search,
    reading: Reading,
    id_column: str | None = None,
    top: Annotated[int | None, limits.TOP] = None,
    threshold: Annotated[float | None, limits.THRESHOLD] = None,
    accepted: bool = False,
    output: Path | None = None,
    format: Annotated[str, limits.OneOf(("tsv", "csv", "jsonl", "svm"))] = "tsv",
    overwrite: bool = False,
    threads: options.Threads = None,
    display: printing.Display,
) -> None:
    """Predict the best labels for each row.

    The data needs no labels. A model trained on text also reads plain lines of text, one row per line; from
    a pipe, each line is answered as soon as it arrives. The `tsv` and `csv` formats are a table with the
    columns row (from 0), label and score, best first, and a line with an empty label and score for a row
    without labels. `jsonl` has one object per row, and `svm` one line per row with label:score pairs. By
    default, text is read with the same columns and separators as in training.

    Parameters
    ----------
    top
        Number of labels per row. Default: {DEFAULT_TOP}, and up to {MAX_ACCEPTED} with --threshold or
        --accepted.
    threshold
        Leave out labels with a score below X. Default: none.
    accepted
        Leave out labels that the model does not accept; see `labeltree threshold`.
    output : FILE
        Write to FILE instead of standard output; compressed if it ends in .gz, .bz2 or .xz.
    format
        Output format.

    Text input
    ----------
    id_column : NAME
        Column of CSV or JSONL to copy to the output; id for the first of three columns of TSV.
    """
    from labeltree.base.files import check_output, write_whole

    if threshold is not None and accepted:
        raise InputError("--threshold and --accepted exclude each other", hint="remove one of them")
    if output is not None:
        check_output(output, overwrite)
    if id_column is not None and format == "svm" and not display.json:
        what = "--format svm has no place for --id-column"
        raise InputError(what, hint="use --format tsv, csv or jsonl, or remove it")
    on_terminal = output is None and not display.json and sys.stdout.isatty()
    shown = printing.escaped if on_terminal else str
    display = replace(display, quiet=display.quiet or on_terminal)
    opened = open_model(display, model)
    source = DataFile(data, reading, opened, id_column)
    minimum: float | Literal["stored"] | None = "stored" if accepted else threshold
    predictions: list[dict[str, Any]] = []
    rows, seconds = 0, 0.0
    with (
        display.stage("predict", f"predicting {source.name}") as progress,
        contextlib.nullcontext(sys.stdout.buffer) if output is None else write_whole(output) as file,
    ):
        for row_ids, X in source.batches(threads, progress):
            start = time.perf_counter()
            labels, scores = opened.predict(X, top=top, threads=threads, threshold=minimum, **asdict(search))
            seconds += time.perf_counter() - start
            ids = None if id_column is None else row_ids
            answers = _answers(rows, ids, labels.tolist(), scores.tolist(), opened.label_names, shown)
            if display.json and output is None:
                predictions += answers
            else:
                columns = ["row", *(["id"] if ids is not None else []), "label", "score"]
                head = columns if rows == 0 else None
                file.write(_formatted(answers, format, head).encode())
                if output is None:
                    file.flush()
            rows += len(labels)
    if display.json:
        more = {"predictions": predictions} if output is None else {"output": str(output)}
        printing.print_json({**speed_of(rows, seconds), **more})


def _answers(
    first: int,
    ids: list[str] | None,
    labels: list[list[int]],
    scores: list[list[float]],
    names: tuple[str, ...] | None,
    shown: Callable[[str], str],
) -> Iterator[dict[str, Any]]:
    """Yield rows with their labels, by name if they have names; `shown` makes names fit to be shown."""
    for number, (row, values) in enumerate(zip(labels, scores, strict=True)):
        found = [label for label in row if label >= 0]
        yield {
            "row": first + number,
            **({} if ids is None else {"id": shown(ids[number])}),
            "labels": found if names is None else [shown(names[label]) for label in found],
            "scores": [float(f"{score:.6g}") for label, score in zip(row, values, strict=True) if label >= 0],
        }


def _formatted(rows: Iterable[dict[str, Any]], format: str, head: list[str] | None) -> str:
    """Return the lines of some rows. In a table, a row without labels has a line with an empty label."""
    if format == "jsonl":
        return "".join(dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if format == "svm":
        return "".join(" ".join(f"{label}:{score}" for label, score in _best(row)) + "\n" for row in rows)
    cells = [
        *([] if head is None else [head]),
        *(
            (*(row[name] for name in ("row", "id") if name in row), *best)
            for row in rows
            for best in _best(row) or [("", "")]
        ),
    ]
    if format == "tsv":  # without quotes: the whitespace of an ID becomes single spaces
        return "".join("\t".join(" ".join(str(cell).split()) for cell in line) + "\n" for line in cells)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def _best(row: dict[str, Any]) -> list[tuple[Any, str]]:
    """Return the labels of a row with their scores as text."""
    return [(label, f"{score:.6g}") for label, score in zip(row["labels"], row["scores"], strict=True)]
