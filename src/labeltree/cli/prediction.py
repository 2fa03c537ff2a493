"""Predicting for a command: opens the model, reads the data, and searches for the best labels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from labeltree.base.progress import Stages
from labeltree.cli import options, printing
from labeltree.cli.reading import Source
from labeltree.cli.text_options import Reading
from labeltree.settings import DEFAULT_BEAM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labeltree.data.dataset import Dataset
    from labeltree.model.labeled import Labeled, Missed
    from labeltree.model.model import Model


class Speed(TypedDict):
    """How long the search took."""

    rows: int
    seconds: float
    milliseconds_per_row: float


@dataclass(frozen=True)
class Search:
    """How to search for the best labels."""

    beam: options.Beam = DEFAULT_BEAM
    score: options.Score = None
    score_scale: options.ScoreScale = None


@dataclass(frozen=True, eq=False)
class Predictions:
    """The best labels for each row of a data file."""

    model: Model
    dataset: Dataset
    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    speed: Speed


@dataclass(frozen=True, eq=False)
class PredictedBatch:
    """The best labels of some successive rows: the number of the first, and what identifies each."""

    first: int
    ids: list[str]
    labels: NDArray[np.int32]
    scores: NDArray[np.float32]


def open_model(stages: Stages, path: Path) -> Model:
    """Open a model as one stage of the command."""
    from labeltree.model.model import load

    with stages.stage("load", f"opening {path}"):
        return load(path)


def predict_file(
    stages: Stages,
    path: Path,
    data: str,
    reading: Reading,
    one_based: bool | None,
    search: Search,
    *,
    top: int,
    threads: int | None,
) -> Predictions:
    """Open a model, read a labeled data file, and predict its rows."""
    model = open_model(stages, path)
    source = Source(data, reading, one_based, model)
    dataset = source.read(stages, threads)
    source.note_suspicions(dataset)
    rows = dataset.n_instances
    with printing.warnings_as_notes(), stages.stage("predict", f"predicting {printing.plural(rows, 'row')}"):
        labels, scores = model.predict(dataset.X, top=top, threads=threads, **asdict(search))
    return Predictions(model, dataset, labels, scores, speed_of(rows, stages.seconds["predict"]))


class BatchPrediction:
    """Predicts the rows of a file batch by batch, each as soon as it can be read.

    Parameters
    ----------
    stages : Stages
    model : Model
    source : Source
    search : Search
    top : int or None
        Labels per row.
    threads : int or None
    threshold : float, "stored" or None
        The labels to accept, as in `labeltree.Model.predict`.

    Attributes
    ----------
    rows : int
        The number of rows so far.
    seconds : float
        The time that the search took so far.
    """

    def __init__(
        self,
        stages: Stages,
        model: Model,
        source: Source,
        search: Search,
        top: int | None,
        threads: int | None,
        threshold: float | Literal["stored"] | None = None,
    ) -> None:
        self.rows, self.seconds = 0, 0.0
        self._stages, self._model, self._source = stages, model, source
        self._options: dict[str, Any] = {
            "top": top,
            "threads": threads,
            "threshold": threshold,
            **asdict(search),
        }

    def __iter__(self) -> Iterator[PredictedBatch]:
        with (
            printing.warnings_as_notes(),
            self._stages.stage("predict", f"predicting {self._source.name}") as progress,
        ):
            for batch in self._source.batches(self._options["threads"], progress):
                start = time.perf_counter()
                labels, scores = self._model.predict(batch.X, **self._options)
                self.seconds += time.perf_counter() - start
                first, self.rows = self.rows, self.rows + len(labels)
                yield PredictedBatch(first, batch.ids, labels, scores)

    @property
    def speed(self) -> Speed:
        """How long the search took."""
        return speed_of(self.rows, self.seconds)


def speed_of(rows: int, seconds: float) -> Speed:
    """Return how long the search took."""
    return {"rows": rows, "seconds": seconds, "milliseconds_per_row": 1000 * seconds / max(rows, 1)}


def note_unknown(labeled: Labeled, name: str = "the model", *, rows: bool = True) -> Missed:
    """Count what no prediction can get right; note unknown labels and, unless told not to, skipped rows."""
    for note in labeled.unknown_note("--label-separator", name):
        printing.note(note)
    if (skipped := labeled.missed["skipped_rows"]) and rows:
        printing.note(f"{printing.plural(skipped, 'row')} without text skipped.")
    return labeled.missed


def note_missed(labeled: Labeled, name: str = "the model", *, rows: bool = True) -> Missed:
    """Count and note what no prediction can get right; without `rows`, only labels are noted."""
    missed = note_unknown(labeled, name, rows=rows)
    if (unlabeled := missed["rows_without_labels"]) and rows:
        one, n_rows = unlabeled == 1, labeled.dataset.n_instances
        printing.note(
            f"{printing.plural(unlabeled, 'row')} of {n_rows:,} {'has' if one else 'have'} no "
            f"labels: {'it counts' if one else 'they count'} as 0 in P, R, nDCG and PSP, and "
            f"{'is' if one else 'are'} left out of F1."
        )
    return missed
