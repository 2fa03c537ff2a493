"""Reading for a command: opens its model, reads its data, and predicts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from labeltree.base.progress import Stages
from labeltree.cli import printing
from labeltree.cli.options import Reading, Search, Text, refuse_base_for_text
from labeltree.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labeltree.base.progress import Progress
    from labeltree.data.columns import Columns
    from labeltree.data.dataset import Dataset
    from labeltree.data.documents import Batch
    from labeltree.data.summary import DataSummary
    from labeltree.model.labeled import Labeled, Missed
    from labeltree.model.model import Model
    from labeltree.settings import TextSettings


def _as_options(separator: str, format: str | None) -> str:
    option = f"--label-separator '{separator}'"
    return option if format is None else f"--data-format {format} {option}"


class Source:
    """A data file and how to read it; options that do not match it are refused before it is read.

    Parameters
    ----------
    data : str
        The file; "-" for standard input.
    options : Reading
        How to read text; a `Text` if the data is for training.
    one_based : bool or None
        Whether the first feature of a LIBSVM file has the index 1; None to detect it.
    model : Model, optional
        The model that will use the data: it decides on features, columns and the first index.
    id_column : str, optional
        The column that identifies a document.

    Attributes
    ----------
    name : str
        The name of the file for messages.
    is_text : bool
        Whether it contains documents.
    """

    def __init__(
        self,
        data: str,
        options: Reading,
        one_based: bool | None,
        model: Model | None = None,
        id_column: str | None = None,
        settings: Path | None = None,
    ) -> None:
        from labeltree.base.files import display_name
        from labeltree.data.read import resolve_format

        self._data, self.name = data, display_name(data)
        self._model, self._strict, self._one_based = model, options.strict, one_based
        self._given = options.format(data)
        self._format = resolve_format(data, self._given, model)
        self.is_text = self._format != "svm"
        self._columns: Columns | None = None
        self._settings: TextSettings | None = None
        if not self.is_text:
            options.refuse_for_svm(id_column, settings)
            return
        from labeltree.data.columns import Columns as Default

        refuse_base_for_text(one_based)
        default = Default() if model is None or model.text is None else model.text.columns
        self._columns = options.columns(self._format, default, id_column)
        self._settings = options.settings() if isinstance(options, Text) else None

    def read(self, stages: Stages, threads: int | None, *, require_labels: bool = True) -> Dataset:
        """Read the data as one stage of the command."""
        with stages.stage("read", f"reading {self.name}") as progress:
            return self.dataset(threads, progress, require_labels=require_labels)

    @staticmethod
    def show(dataset: Dataset, *, quiet: bool, name: str | None = None) -> DataSummary:
        """Show on standard error what was read, if not quiet, and note what looks wrong; return it all.

        The name tells one of several datasets from the others.
        """
        from labeltree.data.summary import summarize, summary_lines

        summary = summarize(dataset, _as_options)
        if not quiet:
            lines = [f"data    {name}"] * (name is not None) + summary_lines(summary)
            print(*map(printing.escaped, lines), sep="\n", file=sys.stderr, flush=True)
        for warning in summary["warnings"]:
            printing.note(warning if name is None else f"{name}: {warning}")
        return summary

    def note_suspicions(self, dataset: Dataset) -> None:
        """Note what looks as if the data had been read wrongly."""
        from labeltree.data.summary import suspicions

        for warning in suspicions(dataset, _as_options, self._model):
            printing.note(warning)

    def dataset(self, threads: int | None, progress: Progress, *, require_labels: bool = True) -> Dataset:
        """Read the data as part of a stage."""
        from labeltree.data.read import read_data

        return read_data(
            self._data,
            self._given,
            self._columns,
            settings=self._settings,
            like=self._model,
            one_based=self._one_based,
            require_labels=require_labels,
            strict=self._strict,
            threads=threads,
            progress=progress,
        )

    def batches(self, threads: int | None, progress: Progress) -> Iterator[Batch]:
        """Read the rows without their labels, batch by batch; LIBSVM data is a single batch."""
        from labeltree.data.documents import Batch, read_batches

        if self._model is None or self._model.text is None:
            data = self.dataset(threads, progress, require_labels=False)
            yield Batch([""] * data.n_instances, data.X)
            return
        empty = True
        for batch in read_batches(
            self._data,
            self._model.text,
            self._format,
            self._columns,
            strict=self._strict,
            threads=threads,
            progress=progress,
        ):
            yield batch
            empty = False
        if empty:
            raise InputError("the file contains no documents", file=self.name)


class Speed(TypedDict):
    """How long the search took."""

    rows: int
    seconds: float
    milliseconds_per_row: float


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
