"""`labeltree evaluate`: how good the predictions of a model are."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base.progress import Stages
from labeltree.cli import options, printing
from labeltree.cli.reading import Predictions, Reading, note_missed, predict_file
from labeltree.settings import DEFAULT_RANKS, MAX_ACCEPTED

if TYPE_CHECKING:
    from labeltree.evaluation.accepted import Candidates, Decision
    from labeltree.evaluation.calibration import ReliabilityBin
    from labeltree.model.labeled import Labeled

_MAX_RANK = max(DEFAULT_RANKS)
_F1 = {"micro_f1": "micro F1", "macro_f1": "macro F1", "row_f1": "row F1"}
_PERCENT = {"precision": "P", "recall": "R", **_F1, "coverage": "coverage", "rows_without": "no label"}


def evaluate(
    model: options.ModelPath,
    data: str,
    *,
    search: options.Search,
    text: Reading,
    per_label: Path | None = None,
    thresholds: bool = False,
    reliability: bool = False,
    threads: options.Threads = None,
    overwrite: bool = False,
    one_based: bool | None = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Measure the quality of a model's predictions on labeled data.

    Prints precision (P), recall (R), nDCG, and their propensity-scored variants (PSP, PSnDCG) at ranks 1, 3
    and 5, in percent; and F1 of the labels that the model accepts, if it has a threshold. By default, text is
    read with the same columns and separators as in training.

    Parameters
    ----------
    per_label : FILE
        Also write how often each label was predicted, and how often correctly, as CSV. As
        MODEL/precision.csv, the page of the model shows it.
    thresholds
        Also print precision, recall and F1 for a range of score thresholds.
    reliability
        Also compare scores with how often labels with such a score are correct.
    """
    from labeltree.base.files import check_output
    from labeltree.model.labeled import Labeled

    if per_label is not None:
        check_output(per_label, overwrite)
    is_ranked = thresholds or reliability
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
    figures, lines = _decisions(found, labeled, search, threads, thresholds, reliability)
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
    from labeltree.serve.measurements import LabelHits

    ranked = pad_labels(found.labels[:, :_MAX_RANK], _MAX_RANK)
    correct = hits(labeled.truth, ranked, _MAX_RANK)
    with write_whole(file) as stream:
        LabelHits.count(ranked, correct, found.model.n_labels).write(stream)


def _decisions(
    found: Predictions,
    labeled: Labeled,
    search: options.Search,
    threads: int | None,
    thresholds: bool,
    reliability: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Return what is printed about accepted labels and scores, as JSON and as lines."""
    from labeltree.evaluation import calibration
    from labeltree.evaluation.accepted import labeled_candidates

    model = found.model
    is_own = model.score.replace(search.score, search.score_scale) == model.score
    decision = model.decision if is_own else None
    is_ranked = thresholds or reliability
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
    return figures, lines


def _metric_table(percent: dict[str, float]) -> list[str]:
    """Return a table of metrics such as P@1: a row per name, a column per rank."""
    names = list(dict.fromkeys(key.split("@")[0] for key in percent))
    ranks = list(dict.fromkeys(key.split("@")[1] for key in percent))
    rows = ([name, *(f"{percent[f'{name}@{k}']:.2f}" for k in ranks)] for name in names)
    return printing.table(["%", *(f"@{k}" for k in ranks)], rows, left=1)


def _speed_line(speed: dict[str, Any]) -> str:
    rows, seconds = printing.plural(speed["rows"], "row"), printing.human_seconds(speed["seconds"])
    return f"{rows} in {seconds}, {speed['milliseconds_per_row']:.3f} ms per row"


def accepted_line(figures: dict[str, Any]) -> str:
    """Return a line with the F1 of the accepted labels, and the share of rows that get any, in percent."""
    return (
        f"accepted labels: micro F1 {figures['micro_F1']:.2f}%, macro F1 {figures['macro_F1']:.2f}%; "
        f"{figures['rows_with_accepted_label']:.2f}% of the labeled rows have at least one"
    )


def threshold_rows(candidates: Candidates, stored: Decision | None) -> list[dict[str, Any]]:
    """Return the figures over a grid of thresholds, with the best one of each F1 and the model's."""
    import numpy as np

    best = {name: candidates.below(_best(candidates, name)) for name in _F1}
    grid = [0.01, 0.02, *(np.arange(1, 20) / 20)]
    common = [] if stored is None or stored.thresholds is not None else [stored.threshold]
    thresholds = np.unique(np.array([*grid, *best.values(), *common]))
    figures = candidates.at(thresholds)
    rows = [
        {
            "threshold": float(threshold),
            **{name: float(values[number]) for name, values in figures.items()},
            "best": [name for name in _F1 if best[name] == threshold],
            "stored": threshold in common,
        }
        for number, threshold in enumerate(thresholds)
    ]
    if stored is not None and stored.thresholds is not None:
        rows.append({"threshold": None, **candidates.measure(stored), "best": [], "stored": True})
    return rows


def _best(candidates: Candidates, name: str) -> int:
    """Return how many candidates are accepted where an F1 is largest."""
    if candidates.ends.size == 0:
        return 0
    return int(candidates.ends[candidates.figures(candidates.ends)[name].argmax()])


def threshold_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of `threshold_rows`, in percent, and an explanation of its marks."""
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
    more = " stored: in the model." if any(row["stored"] for row in rows) else ""
    return [
        *printing.table(head, cells),
        "",
        "In percent; *: the best F1. coverage: labels that are found at least once; no label: rows for which",
        f"no label is accepted; labels: accepted per row.{more}",
    ]


def reliability_table(bins: list[ReliabilityBin], error: float) -> list[str]:
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
