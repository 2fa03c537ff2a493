"""`labeltree evaluate`, `predict` and `info`: what a trained model is good for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from labeltree.cli import explaining, options, printing, text_options
from labeltree.cli.progress import Stages
from labeltree.errors import InputError
from labeltree.system import human_bytes, threads_to_use

if TYPE_CHECKING:
    from labeltree.data import Dataset
    from labeltree.model import Model

_ROWS_AT_ONCE = 10_000  # that are formatted before they are written


@text_options.takes(text_options.Reading)
def evaluate(
    model: options.ModelPath,
    data: options.Data,
    beam: options.Beam = 10,
    score: options.ScoreOption = options.Score.sigmoid,
    threads: options.Threads = None,
    one_based: options.OneBasedLikeModel = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    text: text_options.Reading = text_options.NOTHING,
) -> None:
    """Measure how good a model's predictions are, in percent."""
    stages = Stages(quiet or json)
    opened, dataset = open_with_data(stages, model, data, text, threads, one_based, require_labels=True)
    labels, _ = _search(stages, opened, dataset, 5, beam, score, threads)
    percent = {name: round(100 * value, 4) for name, value in opened.evaluate(dataset, labels).items()}
    figures = {**percent, **_speed(dataset, stages)}
    _note_unknown_labels(opened, dataset)
    if json:
        printing.print_json(figures)
        return
    print(*printing.metric_table(percent), "", _speed_line(figures), sep="\n")


@text_options.takes(text_options.Reading)
def predict(
    model: options.ModelPath,
    data: options.Data,
    top: options.Top = 5,
    beam: options.Beam = 10,
    score: options.ScoreOption = options.Score.sigmoid,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write there, not to standard output; .gz, .bz2 and .xz compress.",
        ),
    ] = None,
    format: Annotated[
        options.Format,
        typer.Option(help="tsv: row (from 0), label, score; svm: a line a row, label:score ..., best first."),
    ] = options.Format.tsv,
    threads: options.Threads = None,
    one_based: options.OneBasedLikeModel = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    text: text_options.Reading = text_options.NOTHING,
) -> None:
    """Predict the best labels of each row. The data need not have labels.

    A model of text takes plain lines of text too, for instance from a pipe: one line, one row.
    """
    from labeltree.files import check_place

    if output is not None:
        check_place(output)
    stages = Stages(quiet or json)
    opened, dataset = open_with_data(stages, model, data, text, threads, one_based, require_labels=False)
    labels, scores = _search(stages, opened, dataset, top, beam, score, threads)
    rows = _rows(opened, labels, scores)
    figures: dict[str, Any] = _speed(dataset, stages)
    if json and output is None:
        figures["predictions"] = [
            {"row": row, "labels": [name for name, _ in best], "scores": [float(text) for _, text in best]}
            for row, best in rows
        ]
    else:
        with _sink(output) as file:
            for lines in _formatted(rows, format):
                file.write(lines.encode())
    if json:
        printing.print_json(figures if output is None else {**figures, "output": str(output)})


def info(
    model: options.ModelPath,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this label's path, siblings, instances and words instead."),
    ] = None,
    words: options.Words = 5,
    json: options.Json = False,
) -> None:
    """Show what a model holds, or what it knows of a label. Its files are checked on the way."""
    from labeltree.explain.shape import tree_shape
    from labeltree.model import load

    opened = load(model)
    if label is not None:
        explaining.tell_label(opened, label, words, json)
        return
    manifest = opened.manifest
    figures: dict[str, Any] = {
        "model": str(model),
        "format_version": manifest["format_version"],
        "labeltree_version": manifest.get("labeltree_version"),
        "instances": opened.n_instances,
        "features": opened.n_features,
        "labels": opened.n_labels,
        "named_labels": opened.label_names is not None,
        "one_based": opened.one_based,
        "text": None if opened.text is None else asdict(opened.text.settings),
        "trees": len(opened.trees),
        "nodes": sum(part.tree.n_nodes for part in opened.trees),
        "depth": max(part.tree.depth for part in opened.trees),
        "weights": manifest.get("weights"),
        "model_bytes": opened.bytes,
        "settings": manifest["settings"],
        "notes": manifest.get("notes", {}),
        "pruned": manifest.get("pruned"),
        "depths": opened.depths(),
        "shapes": [tree_shape(opened, t) for t in range(len(opened.trees))],
    }
    if json:
        printing.print_json(figures)
        return
    settings = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in {**figures["notes"], **figures["settings"]}.items()
    )
    pruned = figures["pruned"]
    lines = printing.facts(
        [
            ("model", f"{model} (labeltree {figures['labeltree_version']})"),
            ("data", printing.shape(figures) + " with names" * figures["named_labels"]),
            ("trees", f"{printing.forest(figures)}, {printing.plural(figures['weights'], 'weight')}"),
            ("size", f"{human_bytes(opened.bytes)} ({opened.bytes:,} bytes)"),
            ("trained", settings),
            *([("text", _text_line(figures["text"]))] if opened.text else []),
            *([("pruned", f"weights below {pruned['threshold']:g}")] if pruned else []),
        ]
    )
    print(
        *lines,
        "",
        *printing.shape_lines(opened.bytes, figures["shapes"], text=opened.text is not None),
        sep="\n",
    )


def _text_line(settings: dict[str, Any]) -> str:
    """Say how text becomes features, in a line."""
    said = {**settings, "ngrams": "{}-{}".format(*settings["ngrams"])}
    said["stop_words"] = said["stop_words"] and f"{len(said['stop_words'])} words"
    return "TF-IDF, " + ", ".join(
        f"{name} {'no' if value is False else 'yes' if value is True else value}"
        for name, value in said.items()
        if value is not None
    )


def open_with_data(
    stages: Stages,
    path: Path,
    data: str,
    text: text_options.Reading,
    threads: int | None,
    one_based: bool | None,
    *,
    require_labels: bool,
) -> tuple[Model, Dataset]:
    """Open a model, and read data as the model counts its features."""
    from labeltree.files import display_name
    from labeltree.model import load
    from labeltree.svm import read_svm
    from labeltree.text.documents import read_documents

    with stages.stage("load", f"opening {path}"):
        model = load(path)
    format = text.format(data, "svm" if model.text is None else "txt")
    if (format == "svm") != (model.text is None):
        known = "LIBSVM data (svm)" if model.text is None else "text (tsv, csv, jsonl or txt)"
        raise InputError(
            f"{display_name(data)}: got {format} data, expected {known}, on which {path} was trained; "
            "pass such data, or say what it is with --data-format"
        )
    if model.text is not None:
        text_options.refuse_base(one_based)
        columns = text.columns(format, model.text.columns)
        with stages.stage("read", f"reading {display_name(data)}") as progress:
            dataset = read_documents(
                data,
                format,
                columns,
                features=model.text,
                require_labels=require_labels,
                progress=progress,
            )
        return model, dataset
    text.refuse()
    # A file that happens to lack its first feature does not show its base; the model knows it.
    base = model.one_based if one_based is None else one_based
    with stages.stage("read", f"reading {display_name(data)}"):
        dataset = read_svm(
            data, one_based=base, threads=threads_to_use(threads), require_labels=require_labels
        )
    return model, dataset


def _search(
    stages: Stages,
    model: Model,
    dataset: Dataset,
    top: int,
    beam: int,
    score: options.Score,
    threads: int | None,
) -> tuple[Any, Any]:
    what = f"predicting {printing.plural(dataset.n_instances, 'row')}"
    with printing.warnings_as_notes(), stages.stage("predict", what):
        return model.predict(dataset.X, top=top, beam=beam, score=score.value, threads=threads)


def _speed(dataset: Dataset, stages: Stages) -> dict[str, Any]:
    seconds = stages.seconds["predict"]
    return {
        "rows": dataset.n_instances,
        "seconds": seconds,
        "milliseconds_per_row": 1000 * seconds / dataset.n_instances,
    }


def _speed_line(figures: dict[str, Any]) -> str:
    took = printing.human_seconds(figures["seconds"])
    return (
        f"{printing.plural(figures['rows'], 'row')} in {took}, {figures['milliseconds_per_row']:.3f} ms a row"
    )


def _note_unknown_labels(model: Model, dataset: Dataset) -> None:
    import numpy as np

    labels = np.unique(dataset.align(model.label_names, model.n_labels).Y.indices)
    unknown = int((labels >= model.n_labels).sum())
    if unknown:
        printing.note(
            f"{unknown:,} of the {printing.plural(labels.size, 'label')} in the data are unknown to the "
            "model: they count as missed."
        )


def _rows(model: Model, labels: Any, scores: Any) -> Iterator[tuple[int, list[tuple[Any, str]]]]:
    """Yield each row's number and its labels with their scores; labels by name where the model has names."""
    names = model.label_names
    for first in range(0, len(labels), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        for row, (found, reached) in enumerate(
            zip(labels[part].tolist(), scores[part].tolist(), strict=True), first
        ):
            yield (
                row,
                [
                    (label if names is None else names[label], f"{value:.6g}")
                    for label, value in zip(found, reached, strict=True)
                    if label >= 0
                ],
            )


def _formatted(rows: Iterator[tuple[int, list[tuple[Any, str]]]], format: options.Format) -> Iterator[str]:
    if format is options.Format.tsv:
        yield "row\tlabel\tscore\n"
        for row, best in rows:
            yield "".join(f"{row}\t{label}\t{score}\n" for label, score in best)
    else:
        for _, best in rows:
            yield " ".join(f"{label}:{score}" for label, score in best) + "\n"


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[IO[bytes] | Any]:
    from labeltree.files import write_whole

    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with write_whole(output) as file:
        yield file
