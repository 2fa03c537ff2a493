"""`labeltree predict`: the best labels for each row of a data file."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading, open_model, speed_of
from labeltree.errors import InputError


def predict(
    model: options.ModelPath,
    data: str,
    *,
    search: options.Search,
    text: Reading,
    id_column: str | None = None,
    top: Annotated[int | None, limits.TOP] = None,
    threshold: Annotated[float | None, limits.THRESHOLD] = None,
    accepted: bool = False,
    output: Path | None = None,
    format: Annotated[str, limits.OneOf(("tsv", "csv", "jsonl", "svm"))] = "tsv",
    overwrite: bool = False,
    threads: options.Threads = None,
    one_based: bool | None = None,
    quiet: bool = False,
    json: bool = False,
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
        Number of labels per row. Default: 5, and up to 100 with --threshold or --accepted.
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
    shown = printing.escaped if on_terminal else str
    stages = Stages(quiet or json or on_terminal)
    opened = open_model(stages, model)
    source = DataFile(data, text, one_based, opened, id_column)
    minimum: float | Literal["stored"] | None = "stored" if accepted else threshold
    predictions: list[dict[str, Any]] = []
    rows, seconds = 0, 0.0
    with (
        printing.warnings_as_notes(),
        stages.stage("predict", f"predicting {source.name}") as progress,
        _opened(output) as file,
    ):
        for batch in source.batches(threads, progress):
            start = time.perf_counter()
            labels, scores = opened.predict(
                batch.X, top=top, threads=threads, threshold=minimum, **asdict(search)
            )
            seconds += time.perf_counter() - start
            ids = None if id_column is None else batch.ids
            answers = _answers(rows, ids, labels.tolist(), scores.tolist(), opened.label_names, shown)
            if json and output is None:
                predictions += (answer.as_json() for answer in answers)
            else:
                head = _head(format, id_column is not None) if rows == 0 else ""
                file.write((head + _formatted(answers, format)).encode())
                if output is None:
                    file.flush()
            rows += len(labels)
    if json:
        more = {"predictions": predictions} if output is None else {"output": str(output)}
        printing.print_json({**speed_of(rows, seconds), **more})


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


def _answers(
    first: int,
    ids: list[str] | None,
    labels: list[list[int]],
    scores: list[list[float]],
    names: tuple[str, ...] | None,
    shown: Callable[[str], str],
) -> Iterator[Answer]:
    """Yield rows with their labels, by name if they have names; `shown` makes names fit to be shown."""
    for number, (row, values) in enumerate(zip(labels, scores, strict=True)):
        best = [
            (label if names is None else shown(names[label]), f"{score:.6g}")
            for label, score in zip(row, values, strict=True)
            if label >= 0
        ]
        yield Answer(first + number, None if ids is None else shown(ids[number]), best)


def _head(format: str, with_id: bool) -> str:
    """Return the line with the names of the columns; empty in formats without one."""
    names = ["row", *(["id"] if with_id else []), "label", "score"]
    return {"tsv": "\t".join(names) + "\n", "csv": ",".join(names) + "\n"}.get(format, "")


def _formatted(rows: Iterable[Answer], format: str) -> str:
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
