"""`labeltree threshold`: choose which labels a model accepts, and store the choice in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.cli.places import own_place
from labeltree.cli.reading import DataFile, Reading, open_model


def threshold(
    model: Annotated[Path, own_place],
    validation: list[str],
    *,
    reading: Reading,
    metric: Annotated[str | None, limits.F1] = None,
    min_precision: Annotated[float | None, limits.TARGET] = None,
    min_recall: Annotated[float | None, limits.TARGET] = None,
    calibrate: bool | None = None,
    threads: options.Threads = None,
    display: printing.Display,
) -> None:
    """Choose which labels a model accepts, and store the choice in it.

    Finds the threshold with the best F1 over all labels (micro_f1), on average over the labels of the model
    (macro_f1, with thresholds per label where that helps) or over rows (row_f1), or with a minimum precision
    or recall. `labeltree predict --accepted` uses it. With --calibrate, scores become probabilities; the
    ranking stays the same.

    Parameters
    ----------
    model
        Model directory.
    validation
        Labeled data that the model was not trained on.
    calibrate
        Fit and store a map from scores to probabilities, or remove it. Default: keep it.

    Goal
    ----
    metric
        The F1 to maximize. Default: micro_f1.
    min_precision
        Accept as many labels as possible with a precision of at least X, such as 0.9.
    min_recall
        Accept labels as precisely as possible with a recall of at least X, such as 0.8.
    """
    from labeltree.model.labeled_data import Labeled, goal_of

    goal_of(metric, min_precision, min_recall)
    opened = open_model(display, model)
    dataset = DataFile(validation, reading, opened).read(display, threads)
    with display.stage("choose", "choosing a threshold"):
        choice = opened.choose_threshold(
            dataset,
            metric=metric,  # type: ignore[arg-type]  # checked above
            min_precision=min_precision,
            min_recall=min_recall,
            calibrate=calibrate,
            save=True,
            threads=threads,
        )
    labeled = Labeled.of(dataset, opened)
    for note in (*labeled.unknown_note("--label-separator"), *labeled.rows_note()):
        printing.note(note)
    if calibrate and choice.calibration is None:
        printing.note("Calibration does not make the scores better, so they stay as they are.")
    figures, cross_validated = choice.figures(), choice.cross_validated()
    report = {"model": str(model), **choice.to_dict(), **labeled.missed}
    percent = {name: f"{100 * value:.2f}%" for name, value in figures.items()}
    counts = f"{figures['labels_per_row']:.2f} per row, none for {percent['rows_without']} of the rows"
    facts = [
        ("model", str(model)),
        ("threshold", str(choice.decision)),
        ("scores", "not calibrated" if choice.calibration is None else "calibrated"),
        ("precision", f"{percent['precision']}, recall {percent['recall']}"),
        ("F1", f"micro {percent['micro_f1']}, macro {percent['macro_f1']}, per row {percent['row_f1']}"),
        ("labels", f"{counts}, {percent['coverage']} of the labels found at least once"),
        ("measured", "on the rows that the choice was made on, which is optimistic"),
    ]
    if cross_validated is not None:
        micro, macro = (f"{100 * cross_validated[name]:.2f}%" for name in ("micro_f1", "macro_f1"))
        facts.append(("expected", f"F1 micro {micro}, macro {macro} on other rows, by cross-validation"))
    display.show(report, printing.facts(facts))
