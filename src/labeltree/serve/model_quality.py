"""What was measured about a model: its size against its precision, and how often each label was correct.

Other commands write these tables, which may be in the directory of the model. Neither is part of the model:
other readers ignore them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
_MOST_POINTS = 10_000


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
        numbers = {
            name: label for label, name in enumerate(map(str, range(n_labels)) if names is None else names)
        }
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
    """What was measured about a model, and what is wrong with the files that cannot be read."""

    frontier: list[dict[str, Any]] | None = None
    hits: LabelHits | None = None
    faults: list[str] = field(default_factory=list)
    written: str | None = None  # the time when the model was written

    @classmethod
    def read(cls, model: Model, frontier: Path | None = None, precision: Path | None = None) -> Measurements:
        """Read given files, and those in the directory of the model instead of what is not given."""
        if model.path is not None:
            own = [
                path if path.is_file() else None for path in (model.path / FRONTIER, model.path / PRECISION)
            ]
            frontier, precision = frontier or own[0], precision or own[1]
        return cls(
            None if frontier is None else read_frontier(frontier),
            None if precision is None else LabelHits.read(precision, model.n_labels, model.label_names),
            written=_time_written(model),
        )

    @classmethod
    def of(cls, model: Model) -> Measurements:
        """Read the files in the directory of a model; a damaged one is a fault."""
        try:
            return cls.read(model)
        except InputError as error:
            name = Path(error.file or "").name
            return cls(faults=[str(error.replace(file=name))], written=_time_written(model))


def _time_written(model: Model) -> str | None:
    """Return when the manifest was written, which is the last file of a model."""
    if model.path is None:
        return None
    try:
        seconds = (model.path / MANIFEST).stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def read_frontier(path: Path) -> list[dict[str, Any]]:
    """Read a table of size against precision, as points with numbers; precision in percent."""
    points = []
    for line, row in _rows(path, _FRONTIER_COLUMNS, _MOST_POINTS):
        try:
            point: dict[str, Any] = {
                "trees": int(row["trees"]),
                "weights": row["weights"],
                "threshold": float(row["threshold"]) if row.get("threshold") else None,
                "bytes": int(row["model_bytes"]),
                **{name: 100 * float(row[name]) for name in ("P@1", "P@3", "P@5")},
                "chosen": row.get("chosen") == "True",
            }
            is_finite = all(math.isfinite(value) for value in point.values() if isinstance(value, float))
        except (TypeError, ValueError):
            is_finite = False
        if not is_finite or point["bytes"] < 1 or max(point["P@1"], point["P@3"], point["P@5"]) > 100:
            raise InputError("not a point of a frontier", file=path, line=line, hint="measure it again")
        points.append(point)
    return points


def _rows(
    path: Path, columns: tuple[str, ...], most: int | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read a CSV file that has these columns, and at most so many rows if given."""
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
