"""`labeltree evaluate`: how good the predictions of a model are."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base.display import Stages
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading, note_missed, open_model, speed_of
from labeltree.settings import DEFAULT_RANKS, MAX_ACCEPTED

if TYPE_CHECKING:
    from labeltree.evaluation.accepted import Candidates, Decision
    from labeltree.evaluation.calibration import ReliabilityBin

_MAX_RANK = max(DEFAULT_RANKS)
_F1 = {"micro_f1": "micro F1", "macro_f1": "macro F1", "row_f1": "row F1"}
_PERCENT = {"precision": "P", "recall": "R", **_F1, "coverage": "coverage", "rows_without": "no label"}


def evaluate(
    model: options.ModelPath,
    data: str,
    *,
    search: options.Search,
    reading: Reading,
    per_label: Path | None = None,
    thresholds: bool = False,
    reliability: bool = False,
    threads: options.Threads = None,
    overwrite: bool = False,
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
        Also write how often each label was predicted, and how often correctly, as CSV. The
        page of the model shows MODEL/precision.csv.
    thresholds
        Also print precision, recall and F1 for a range of score thresholds.
    reliability
        Also compare scores with how often labels with such a score are correct.
    """
    from labeltree.base.files import check_output, write_whole
    from labeltree.evaluation import calibration
    from labeltree.evaluation.accepted import labeled_candidates
    from labeltree.evaluation.metrics import hits, pad_labels
    from labeltree.model.labeled import Labeled
    from labeltree.serve.measurements import LabelHits

    if per_label is not None:
        check_output(per_label, overwrite)
    stages = Stages(quiet or json)
    opened = open_model(stages, model)
    dataset = DataFile(data, reading, opened).read(stages, threads)
    rows = printing.plural(dataset.n_instances, "row")
    own_score = opened.score.replace(search.score, search.score_scale) == opened.score
    decision = opened.decision if own_score else None
    with printing.warnings_as_notes(), stages.stage("predict", f"predicting {rows}"):
        labels, scores = opened.predict(dataset.X, top=_MAX_RANK, threads=threads, **asdict(search))
    labeled = Labeled.of(dataset, opened)
    figures: dict[str, Any] = _percent(labeled.metrics(labels, DEFAULT_RANKS))
    names = dict.fromkeys(key.split("@")[0] for key in figures)
    cells = ([name, *(f"{figures[f'{name}@{k}']:.2f}" for k in DEFAULT_RANKS)] for name in names)
    lines = printing.table(["%", *(f"@{k}" for k in DEFAULT_RANKS)], cells, left=1)
    if per_label is not None:
        ranked = pad_labels(labels, _MAX_RANK)
        correct = hits(labeled.truth, ranked, _MAX_RANK)
        with write_whole(per_label) as stream:
            LabelHits.count(ranked, correct, opened.n_labels).write(stream)
    missed = note_missed(labeled)
    if decision is not None or thresholds or reliability:
        # More labels take longer, so this prediction is not the one that is timed.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they have been noted
            labels, scores = opened.predict(dataset.X, top=MAX_ACCEPTED, threads=threads, **asdict(search))
    if decision is not None:
        accepted = _percent(labeled.accepted(labels, scores, decision))
        micro, macro, share = (
            accepted[name] for name in ("micro_F1", "macro_F1", "rows_with_accepted_label")
        )
        f1 = f"micro F1 {micro:.2f}%, macro F1 {macro:.2f}%"
        lines += ["", f"accepted labels: {f1}; {share:.2f}% of the labeled rows have at least one"]
        figures |= accepted
    if thresholds or reliability:
        candidates, _ = labeled_candidates(labeled.truth, labels, scores)
    if thresholds:
        figures["thresholds"] = grid = _threshold_rows(candidates, decision)
        lines += ["", *_threshold_table(grid)]
    if reliability:
        figures["reliability"], figures["calibration_error"] = calibration.reliability(candidates)
        lines += ["", *_reliability_table(figures["reliability"], figures["calibration_error"])]
    speed = speed_of(dataset.n_instances, stages.seconds["predict"])
    if not quiet:
        spent = printing.human_seconds(speed["seconds"])
        lines += ["", f"{rows} in {spent}, {speed['milliseconds_per_row']:.3f} ms per row"]
    printing.show({**figures, **speed, **missed}, lines, json)


def _percent(fractions: dict[str, float]) -> dict[str, float]:
    return {name: round(100 * value, 4) for name, value in fractions.items()}


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


def _reliability_table(bins: list[ReliabilityBin], error: float) -> list[str]:
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
