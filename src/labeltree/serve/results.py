"""What was measured about a model, as files in its directory: frontier, and precision of each label."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base.files import read_pieces
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.model.model import Model

# Names of the files in a model directory. Neither is part of the model: other readers ignore them.
FRONTIER = "frontier.csv"
PRECISION = "precision.csv"
_PRECISION_COLUMNS = ("label", "predicted", "correct")
_MOST_POINTS = 10_000


@dataclass(frozen=True, eq=False)
class LabelHits:
    """How often each label was predicted for some labeled data, and how often correctly.

    Attributes
    ----------
    predicted, correct : ndarray of int64
    """

    predicted: NDArray[np.int64]
    correct: NDArray[np.int64]

    @classmethod
    def count(cls, labels: NDArray[np.int32], hits: NDArray[np.bool_], n_labels: int) -> LabelHits:
        """Count predictions, given which of them are correct; missing ones are -1."""
        hits = hits & (labels >= 0)
        return cls(
            np.bincount(labels[labels >= 0], minlength=n_labels),
            np.bincount(labels[hits], minlength=n_labels),
        )

    def precision(self, labels: NDArray[Any]) -> float | None:
        """Return the share of the predictions of some labels that are correct; None if there are none."""
        predicted = int(self.predicted[labels].sum())
        return int(self.correct[labels].sum()) / predicted if predicted else None

    def to_csv(self) -> bytes:
        """Return a table of the labels that were predicted."""
        labels = np.flatnonzero(self.predicted)
        rows = np.column_stack([labels, self.predicted[labels], self.correct[labels]])
        lines = [",".join(_PRECISION_COLUMNS), *(",".join(map(str, row)) for row in rows.tolist())]
        return ("\n".join(lines) + "\n").encode()


def read_label_hits(path: Path, n_labels: int) -> LabelHits:
    """Read the table that `labeltree evaluate --per-label` writes."""
    predicted, correct = np.zeros(n_labels, np.int64), np.zeros(n_labels, np.int64)
    for line, row in _rows(path, _PRECISION_COLUMNS, n_labels):
        try:
            label, n_predicted, n_correct = (int(row[name]) for name in _PRECISION_COLUMNS)
        except (TypeError, ValueError):
            raise InputError("expected three whole numbers", file=path, line=line) from None
        if not (0 <= label < n_labels and 0 <= n_correct <= n_predicted < 2**62):
            what = f"expected a label from 0 to {n_labels - 1}, and at most as many correct as predicted"
            raise InputError(what, file=path, line=line, hint="evaluate the model again")
        predicted[label], correct[label] = n_predicted, n_correct
    return LabelHits(predicted, correct)


def read_frontier(path: Path) -> list[dict[str, Any]]:
    """Read the table that `labeltree frontier` writes, as points with numbers."""
    points = []
    for line, row in _rows(path, ("trees", "weights", "model_bytes", "P@1", "P@3", "P@5"), _MOST_POINTS):
        try:
            n_bytes = int(row["model_bytes"])
            precision = {name: float(row[name]) for name in ("P@1", "P@3", "P@5")}
            threshold = float(row["threshold"]) if row.get("threshold") else None
            trees = int(row["trees"])
        except (TypeError, ValueError):
            n_bytes = 0
        if n_bytes < 1 or not all(map(math.isfinite, [*precision.values(), threshold or 0.0])):
            raise InputError("not a point of a frontier", file=path, line=line, hint="measure it again")
        point: dict[str, Any] = {"trees": trees, "weights": row["weights"], "threshold": threshold}
        point |= {"bytes": n_bytes, **precision, "chosen": row.get("chosen") == "True"}
        points.append(point)
    return points


def known_results(
    model: Model, frontier: list[dict[str, Any]] | None = None, hits: LabelHits | None = None
) -> tuple[list[dict[str, Any]] | None, LabelHits | None]:
    """Read what is not given from the files in the directory of a model; None if it is not there."""
    if model.path is not None:
        if frontier is None and (model.path / FRONTIER).is_file():
            frontier = read_frontier(model.path / FRONTIER)
        if hits is None and (model.path / PRECISION).is_file():
            hits = read_label_hits(model.path / PRECISION, model.n_labels)
    return frontier, hits


def _rows(path: Path, columns: tuple[str, ...], most: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Read a CSV file that has these columns, and at most so many rows."""
    pieces = [piece.tobytes() for piece, _ in read_pieces(path, 1 << 20)]
    try:
        reader = csv.DictReader(io.StringIO(b"".join(pieces).decode()))
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"the column {missing[0]!r} is missing", file=path)
        for number, row in enumerate(reader):
            if number == most:
                raise InputError(f"there are more than {most:,} rows", file=path)
            yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not a table in CSV ({error})", file=path) from None
