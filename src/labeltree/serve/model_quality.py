"""What other commands measured about a model: size against precision, and the hits of each label."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base.files import read_pieces
from labeltree.errors import InputError
from labeltree.model.layout import FRONTIER, MANIFEST, PRECISION

if TYPE_CHECKING:
    from labeltree.model.model import Model

_PRECISION_COLUMNS = ("label", "predicted", "correct")  # of more
_FRONTIER_COLUMNS = ("trees", "weights", "model_bytes", "P@1", "P@3", "P@5")


@dataclass(frozen=True, eq=False)
class LabelHits:
    """How often each label was accepted for some labeled data, and how often correctly."""

    predicted: NDArray[np.int64]
    correct: NDArray[np.int64]

    def precision(self, labels: NDArray[Any] | None = None) -> float | None:
        """Return the share of correct predictions, of some labels or all; None if there are none."""
        where: Any = slice(None) if labels is None else labels
        predicted = int(self.predicted[where].sum())
        return int(self.correct[where].sum()) / predicted if predicted else None

    @classmethod
    def read(cls, path: Path, n_labels: int, names: Sequence[str] | None = None) -> LabelHits:
        """Read the table that `labeltree evaluate --per-label` writes; other labels were never predicted."""
        predicted, correct = np.zeros(n_labels, np.int64), np.zeros(n_labels, np.int64)
        known = map(str, range(n_labels)) if names is None else names
        numbers = {name: label for label, name in enumerate(known)}
        for line, row in _rows(path, _PRECISION_COLUMNS):
            label = numbers.get(row["label"])
            try:
                n_predicted, n_correct = int(row["predicted"]), int(row["correct"])
                is_valid = 0 <= n_correct <= n_predicted < (2**62 if label is not None else 1)
            except (TypeError, ValueError):
                is_valid = False
            if not is_valid:
                what = "not the counts of a label of the model"
                raise InputError(what, file=path, line=line, hint="evaluate the model again")
            if label is not None:
                predicted[label], correct[label] = n_predicted, n_correct
        return cls(predicted, correct)


@dataclass(frozen=True, eq=False)
class Measurements:
    """What was measured about a model: its size against its precision, and the hits of its labels."""

    frontier: list[dict[str, Any]] | None = None
    hits: LabelHits | None = None
    written: str | None = None  # the time when the model was written

    @classmethod
    def read(cls, model: Model, frontier: Path | None = None, precision: Path | None = None) -> Measurements:
        """Read given files, and those in the directory of the model instead of what is not given."""
        written = None
        if model.path is not None:
            own = [
                path if path.is_file() else None for path in (model.path / FRONTIER, model.path / PRECISION)
            ]
            frontier, precision = frontier or own[0], precision or own[1]
            seconds = (model.path / MANIFEST).stat().st_mtime  # the last file of a model that is written
            written = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
        return cls(
            None if frontier is None else read_frontier(frontier),
            None if precision is None else LabelHits.read(precision, model.n_labels, model.label_names),
            written,
        )


def read_frontier(path: Path) -> list[dict[str, Any]]:
    """Read a table of size against precision, as points with numbers; precision in percent."""
    points = []
    for line, row in _rows(path, _FRONTIER_COLUMNS):
        try:
            threshold = float(row["threshold"]) if row.get("threshold") else None
            sizes = {"trees": int(row["trees"]), "bytes": int(row["model_bytes"])}
            precision = {name: 100 * float(row[name]) for name in ("P@1", "P@3", "P@5")}
            is_valid = sizes["bytes"] > 0 and math.isfinite(threshold or 0.0)
            is_valid = is_valid and all(0 <= value <= 100 for value in precision.values())
        except (TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise InputError("not a point of a frontier", file=path, line=line, hint="measure it again")
        chosen = row.get("chosen") == "True"
        points.append(
            {"weights": row["weights"], "threshold": threshold, "chosen": chosen, **sizes, **precision}
        )
    return points


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Read a CSV file that has these columns."""
    pieces = [piece.tobytes() for piece, _ in read_pieces(path, 1 << 20)]
    try:
        reader = csv.DictReader(io.StringIO(b"".join(pieces).decode()))
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"the column {missing[0]!r} is missing", file=path)
        for row in reader:
            yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not a table in CSV ({error})", file=path) from None
