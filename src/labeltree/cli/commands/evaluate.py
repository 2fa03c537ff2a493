"""`labeltree evaluate` and `labeltree compare`: how good the predictions of one or several models are."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.cli.places import local, model_place
from labeltree.cli.reading import DataFile, Reading, open_model, speed_of
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_BEAM, DEFAULT_RANKS, MAX_ACCEPTED

if TYPE_CHECKING:
    from labeltree.evaluation.accepted import Candidates, Decision
    from labeltree.model.labeled_data import Labeled

# Of the rows, those that occur in the training data.
_NOTED_SHARE = 0.01
_F1 = {"micro_f1": "micro F1", "macro_f1": "macro F1", "row_f1": "row F1"}
_PERCENT = {"precision": "P", "recall": "R", **_F1, "coverage": "coverage", "rows_without": "no label"}

_F1_NOTE = (
    "F1 counts the labels whose score reaches a threshold. stored: that of the model; best: the model has\n"
    "none, so the one with the largest F1 on these rows is used, which is optimistic."
)


def evaluate(
    model: options.ModelPath,
    data: list[str],
    *,
    search: options.Search,
    reading: Reading,
    per_label: Path | None = None,
    thresholds: bool = False,
    reliability: bool = False,
    threads: options.Threads = None,
    overwrite: bool = False,
    display: printing.Display,
) -> None:
    """Measure the quality of a model's predictions on labeled data.

    Prints precision (P), recall (R), R-precision (RP), nDCG, and propensity-scored variants (PSP, PSnDCG) at
    ranks 1, 3 and 5, in percent; and F1 of the labels that the model accepts, if it has a threshold. By
    default, text is read with the same columns and separators as in training.

    Parameters
    ----------
    per_label : FILE
        Also write precision, recall and F1 of each label as CSV, of the labels that the model accepts, or
        of the first 5 of a row if it has no threshold. The page of the model shows MODEL/precision.csv.
    thresholds
        Also print precision, recall and F1 for a range of score thresholds.
    reliability
        Also compare scores with how often labels with such a score are correct.
    """
    from labeltree.base import plots
    from labeltree.base.files import check_output, write_whole
    from labeltree.evaluation import calibration
    from labeltree.evaluation.accepted import labeled_candidates
    from labeltree.model.labeled_data import Labeled

    if per_label is not None:
        check_output(per_label, overwrite)
    opened = open_model(display, model)
    dataset = DataFile(data, reading, opened).read(display, threads)
    rows = printing.plural(dataset.n_instances, "row")
    own_score = opened.score.replace(search.score, search.score_scale) == opened.score
    decision = opened.decision if own_score else None
    top = max(DEFAULT_RANKS) if decision is None and not (thresholds or reliability) else MAX_ACCEPTED
    with display.stage("predict", f"predicting {rows}"):
        labels, scores = opened.predict(dataset.X, top=top, threads=threads, **asdict(search))
    labeled = Labeled.of(dataset, opened)
    found = labeled.evaluate(labels, scores=None if decision is None else scores)
    figures = found.to_dict()
    head, cells = found.ranks()
    lines = printing.table(head, cells, left=1)
    if per_label is not None:
        with write_whole(per_label) as stream:
            stream.write(plots.table(list(found.per_label), found.per_label.columns))
    for note in _notes(labeled):
        printing.note(note)
    if decision is not None:
        micro, macro, share = (
            f"{100 * found[name]:.2f}%" for name in ("micro_F1", "macro_F1", "rows_with_accepted_label")
        )
        accepting = f"{share} of the labeled rows have at least one accepted label"
        lines += ["", f"accepted labels: micro F1 {micro}, macro F1 {macro}; {accepting}"]
    if thresholds or reliability:
        candidates = labeled_candidates(labeled.truth, labels, scores, opened.n_labels)
    if thresholds:
        figures["thresholds"] = grid = _threshold_rows(candidates, decision)
        lines += ["", *_threshold_table(grid)]
    if reliability:
        figures["reliability"], figures["calibration_error"] = calibration.reliability(candidates)
        lines += ["", *_reliability_table(figures["reliability"], figures["calibration_error"])]
    speed = speed_of(dataset.n_instances, display.seconds["predict"])
    if not display.quiet:
        spent = printing.human_seconds(speed["seconds"])
        lines += ["", f"{rows} in {spent}, {speed['milliseconds_per_row']:.3f} ms per row"]
    printing.show({**figures, **speed}, lines, display.json)


def _threshold_rows(candidates: Candidates, stored: Decision | None) -> list[dict[str, Any]]:
    """Return the figures over a grid of thresholds, with the best one of each F1 and the model's."""
    from labeltree.evaluation.accepted import Decision
    from labeltree.evaluation.calibration import choose_threshold

    best = {name: choose_threshold(candidates, name).threshold for name in _F1}
    grid = {0.01, 0.02, *(number / 20 for number in range(1, 20)), *best.values()}
    common = stored.threshold if stored is not None and stored.thresholds is None else None
    if common is not None:
        grid.add(common)
    rows: list[dict[str, Any]] = [
        {
            "threshold": threshold,
            **candidates.measure(Decision(threshold)),
            "best": [name for name in _F1 if best[name] == threshold],
            "stored": threshold == common,
        }
        for threshold in sorted(grid)
    ]
    if stored is not None and common is None:
        rows.append({"threshold": None, **candidates.measure(stored), "best": [], "stored": True})
    return rows


def _threshold_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of `_threshold_rows`, in percent, and an explanation of its marks."""
    head = ["threshold", *_PERCENT.values(), "labels", ""]
    cells = (
        [
            "per label" if row["threshold"] is None else f"{row['threshold']:.4g}",
            *(f"{100 * row[name]:.2f}" + "*" * (name in row["best"]) for name in _PERCENT),
            f"{row['labels_per_row']:.2f}",
            "stored" if row["stored"] else "",
        ]
        for row in rows
    )
    return [
        *printing.table(head, cells),
        "",
        "In percent; *: the best F1. coverage: labels that are found at least once; no label: rows for which",
        "no label is accepted; labels: accepted per row; stored: in the model.",
    ]


def _reliability_table(bins: list[dict[str, Any]], error: float) -> list[str]:
    """Return how often labels with a score are correct, and the expected calibration error."""
    cells = (
        [
            f"{row['low']:.1f}-{row['high']:.1f}",
            f"{row['labels']:,}",
            f"{row['mean_score']:.3f}",
            f"{row['observed']:.3f}",
        ]
        for row in bins
    )
    return [
        *printing.table(["score", "labels", "mean score", "correct"], cells),
        "",
        f"Expected calibration error {error:.4f}: how far scores are from the share of correct labels.",
    ]


def compare(
    paths: list[str],
    *,
    reading: Reading,
    beam: Annotated[int, limits.BEAM] = DEFAULT_BEAM,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    display: printing.Display,
) -> None:
    """Compare models on labeled data that none of them was trained on.

    Prints metrics, size and prediction time side by side. Differences from the first model have a 95%
    interval and a p-value of a paired bootstrap over the rows; an asterisk marks those with p < 0.05.

    Parameters
    ----------
    paths : MODEL MODEL... DATA
        Two or more model directories, or addresses such as hf://user/name, then files of labeled data.
    """
    from labeltree.tuning.compare import compare_models, read_alike

    first = next((at for at, path in enumerate(paths) if os.path.isfile(path)), len(paths) - 1)
    names, data = paths[:first], paths[first:]  # files are the data
    if len(names) < 2:
        hint = "pass two or more models, then the data: `labeltree compare MODEL MODEL DATA`"
        raise InputError("there is nothing to compare", hint=hint)
    if "-" in data:
        raise InputError("standard input can be read only once", hint="pass a file")
    models = [open_model(display, local(model_place(name), display)) for name in names]
    noted: list[str] = []
    datasets = read_alike(
        models, lambda model: DataFile(data, reading, model).read(display, threads, noted=noted)
    )
    with display.stage("compare", "comparing") as progress:
        found = compare_models(
            models, datasets, names=names, beam=beam, seed=seed, threads=threads, progress=progress
        )
    for note in found.notes(_notes):
        printing.note(note)
    printing.show(found.to_dict(), [repr(found), *([] if display.quiet else ["", _F1_NOTE])], display.json)


def _notes(data: Labeled, model: str = "the model") -> list[str]:
    """Describe what no prediction can get right, and rows that occur in the training data."""
    unknown = data.unknown_note("--label-separator", model)
    return [*unknown, *data.rows_note(), *data.training_note(name=model, least=_NOTED_SHARE)]
