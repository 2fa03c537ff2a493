"""Predicting for a command: opens the model, reads the data, and searches for the best labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from labeltree.cli import options, printing
from labeltree.cli.progress import Stages
from labeltree.cli.reading import Source
from labeltree.cli.text_options import Reading
from labeltree.settings import DEFAULT_BEAM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labeltree.data import Dataset
    from labeltree.model import Model


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


def open_model(stages: Stages, path: Path) -> Model:
    """Open a model as one stage of the command."""
    from labeltree.model import load

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
    require_labels: bool,
) -> Predictions:
    """Open a model, read a data file, and predict its rows."""
    model = open_model(stages, path)
    dataset = Source(data, reading, one_based, model).read(stages, threads, require_labels=require_labels)
    rows = dataset.n_instances
    with printing.warnings_as_notes(), stages.stage("predict", f"predicting {printing.plural(rows, 'row')}"):
        labels, scores = model.predict(
            dataset.X,
            top=top,
            beam=search.beam,
            score=search.score,
            score_scale=search.score_scale,
            threads=threads,
        )
    seconds = stages.seconds["predict"]
    speed: Speed = {"rows": rows, "seconds": seconds, "milliseconds_per_row": 1000 * seconds / rows}
    return Predictions(model, dataset, labels, scores, speed)
