"""`labeltree evaluate`: how good the predictions of a model are."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.base.progress import Stages
from labeltree.cli import options, printing, text_options
from labeltree.cli.decisions import (
    accepted_line,
    check_plot,
    reliability_table,
    threshold_rows,
    threshold_table,
    write_plot,
)
from labeltree.cli.prediction import Predictions, Search, Speed, note_missed, predict_file
from labeltree.settings import DEFAULT_RANKS, MAX_ACCEPTED

if TYPE_CHECKING:
    from labeltree.model.labeled import Labeled

_MAX_RANK = max(DEFAULT_RANKS)


@options.takes(search=Search, text=text_options.Reading)
def evaluate(
    model: options.ModelPath,
    data: options.Data,
    search: Search,
    text: text_options.Reading,
    per_label: Annotated[
        Path | None,
        typer.Option(
            "--per-label",
            metavar="FILE",
            help="Also write how often each label was predicted, and how often correctly, as CSV. As "
            "MODEL/precision.csv, the page of the model shows it.",
        ),
    ] = None,
    thresholds: Annotated[
        bool,
        typer.Option(
            "--thresholds", help="Also print precision, recall and F1 for a range of score thresholds."
        ),
    ] = False,
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Also print how often labels with a score are correct.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw precision, recall and F1 over the threshold (.png or .svg, and .csv)."
        ),
    ] = None,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    one_based: options.OneBasedLikeModel = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Measure the quality of a model's predictions on labeled data.

    Prints precision (P), recall (R), nDCG, and their propensity-scored variants (PSP, PSnDCG) at ranks 1, 3
    and 5, in percent; and F1 of the labels that the model accepts, if it has a threshold. By default, text is
    read with the same columns and separators as in training.
    """
    from labeltree.base.files import check_output
    from labeltree.model.labeled import Labeled

    if per_label is not None:
        check_output(per_label, overwrite)
    check_plot(plot, overwrite)
    is_ranked = thresholds or reliability or plot is not None
    found = predict_file(
        Stages(quiet or json),
        model,
        data,
        text,
        one_based,
        search,
        top=MAX_ACCEPTED if is_ranked else _MAX_RANK,
        threads=threads,
    )
    labeled = Labeled.of(found.dataset, found.model)
    percent = _percent(labeled.metrics(found.labels, DEFAULT_RANKS))
    if per_label is not None:
        _write_per_label(found, labeled, per_label)
    counts = note_missed(labeled)
    figures, lines = _decisions(found, labeled, search, threads, thresholds, reliability, plot)
    if json:
        printing.print_json({**percent, **figures, **found.speed, **counts})
        return
    print(*_metric_table(percent), *lines, sep="\n")
    if not quiet:
        print("", _speed_line(found.speed), sep="\n")


def _percent(fractions: dict[str, float]) -> dict[str, float]:
    return {name: round(100 * value, 4) for name, value in fractions.items()}


def _write_per_label(found: Predictions, labeled: Labeled, file: Path) -> None:
    from labeltree.base.files import write_whole
    from labeltree.evaluation.metrics import hits, pad_labels
    from labeltree.serve.page_data import LabelHits

    ranked = pad_labels(found.labels[:, :_MAX_RANK], _MAX_RANK)
    correct = hits(labeled.truth, ranked, _MAX_RANK)
    with write_whole(file) as stream:
        stream.write(LabelHits.count(ranked, correct, found.model.n_labels).to_csv())


def _decisions(
    found: Predictions,
    labeled: Labeled,
    search: Search,
    threads: int | None,
    thresholds: bool,
    reliability: bool,
    plot: Path | None,
) -> tuple[dict[str, Any], list[str]]:
    """Return what is printed about accepted labels and scores, as JSON and as lines."""
    from labeltree.evaluation import calibration
    from labeltree.evaluation.accepted import labeled_candidates

    model = found.model
    is_own = model.score.replace(search.score, search.score_scale) == model.score
    decision = model.decision if is_own else None
    is_ranked = thresholds or reliability or plot is not None
    if decision is None and not is_ranked:
        return {}, []
    labels, scores = found.labels, found.scores
    if labels.shape[1] < min(MAX_ACCEPTED, model.n_labels):
        # More labels take longer, so this prediction is not the one that is timed.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they have been noted
            labels, scores = model.predict(
                found.dataset.X, top=MAX_ACCEPTED, threads=threads, **asdict(search)
            )
    figures: dict[str, Any] = {}
    lines: list[str] = []
    if decision is not None:
        figures |= _percent(labeled.accepted(labels, scores, decision))
        lines += ["", accepted_line(figures)]
    if not is_ranked:
        return figures, lines
    candidates, _ = labeled_candidates(labeled.truth, labels, scores)
    if thresholds:
        figures["thresholds"] = rows = threshold_rows(candidates, decision)
        lines += ["", *threshold_table(rows)]
    if reliability:
        figures["reliability"], figures["calibration_error"] = calibration.reliability(candidates)
        lines += ["", *reliability_table(figures["reliability"], figures["calibration_error"])]
    if plot is not None:
        write_plot(candidates, plot)
        figures["plot"] = str(plot)
        lines += ["", f"figure {printing.escaped(str(plot))}"]
    return figures, lines


def _metric_table(percent: dict[str, float]) -> list[str]:
    """Return a table of metrics such as P@1: a row per name, a column per rank."""
    names = list(dict.fromkeys(key.split("@")[0] for key in percent))
    ranks = list(dict.fromkeys(key.split("@")[1] for key in percent))
    rows = ([name, *(f"{percent[f'{name}@{k}']:.2f}" for k in ranks)] for name in names)
    return printing.table(["%", *(f"@{k}" for k in ranks)], rows, left=1)


def _speed_line(speed: Speed) -> str:
    rows, seconds = printing.plural(speed["rows"], "row"), printing.human_seconds(speed["seconds"])
    return f"{rows} in {seconds}, {speed['milliseconds_per_row']:.3f} ms per row"
