"""How predictions are written: a table (tsv, csv), an object per row (jsonl), or label:score pairs (svm)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from labeltree.cli.prediction import PredictedBatch


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
        return "".join(json.dumps(row.as_json(), ensure_ascii=False) + "\n" for row in rows)
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
