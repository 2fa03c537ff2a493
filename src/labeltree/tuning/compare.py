"""Compare models on the same rows: metrics, paired significance, bytes and speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labeltree.base.display import html_table, text_table
from labeltree.base.system import human_bytes
from labeltree.base.table import Table
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.evaluation.metrics import RowMetric
from labeltree.evaluation.paired import Difference, paired_differences, row_metrics
from labeltree.model.labeled_data import Labeled
from labeltree.model.model import Model
from labeltree.settings import DEFAULT_BEAM, MAX_ACCEPTED

# Rounds in which the models take turns to predict all rows; the fastest counts.
ROUNDS = 3
_NAME = "\0"  # in a note, before it is known which models it is about


@dataclass(frozen=True, eq=False)
class Compared:
    """One of the models that were compared.

    ``data`` has the labels as the model, ``data.model``, numbers them. The F1 among the metrics is that of
    the labels that the model accepts; if it has no threshold, the one that makes F1 largest on these rows is
    used. The differences are those to the first model, which has none. The time is that of predicting all
    rows together, the shortest of several rounds.
    """

    name: str
    data: Labeled
    metrics: dict[str, RowMetric]
    differences: dict[str, Difference]
    milliseconds_per_row: float

    def figures(self) -> dict[str, Any]:
        """Return what a table of the models shows; metrics are fractions."""
        return {
            "model": self.name,
            "model_bytes": self.data.model.bytes,
            "milliseconds_per_row": self.milliseconds_per_row,
            **{metric: value.fraction for metric, value in self.metrics.items()},
            "F1_threshold": "best" if self.data.model.decision is None else "stored",
        }


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Models compared on the same rows; it shows tables in percent.

    Attributes
    ----------
    models : list of Compared
    """

    models: list[Compared]

    @property
    def table(self) -> Table:
        """A row per model: its bytes, the time per row in milliseconds, and metrics as fractions."""
        return _as_table([item.figures() for item in self.models])

    @property
    def differences(self) -> Table:
        """A row per model after the first and metric: the difference, its 95% interval and p-value."""
        gaps = ((item.name, metric, gap) for item in self.models for metric, gap in item.differences.items())
        return _as_table([{"model": name, "metric": metric, **asdict(gap)} for name, metric, gap in gaps])

    def notes(self, describe: Callable[[Labeled, str], Iterable[str]]) -> Iterator[str]:
        """Return what a function notes about the data and the name of a model, for several models once."""
        found: dict[str, list[str]] = {}
        for item in self.models:
            for note in describe(item.data, _NAME):
                found.setdefault(note, []).append(item.name)
        for note, names in found.items():
            all_of_them = len(names) == len(self.models)
            yield note.replace(_NAME, "every model" if all_of_them else " and ".join(names))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, as ``labeltree compare --json`` prints them."""
        models = [
            {
                **item.figures(),
                "differences": {metric: asdict(gap) for metric, gap in item.differences.items()},
                **item.data.missed,
                "rows_in_training": item.data.rows_in_training,
            }
            for item in self.models
        ]
        rows = self.models[0].data.dataset.n_instances
        return {"rows": rows, "test": "paired bootstrap", "models": models}

    def _shown(self) -> list[tuple[str, list[str], list[list[str]]]]:
        names = list(self.models[0].metrics)
        rows = []
        for item in self.models:
            marks = {metric: "*" if gap.significant else " " for metric, gap in item.differences.items()}
            values = item.metrics.items()
            cells = [f"{100 * value.fraction:.2f}{marks.get(metric, ' ')}" for metric, value in values]
            size, threshold = human_bytes(item.data.model.bytes), item.figures()["F1_threshold"]
            rows.append([item.name, size, f"{item.milliseconds_per_row:.3f}", *cells, threshold])
        gaps = []
        for row in self.differences:
            points = [f"{100 * row[name]:+.2f}" for name in ("value", "low", "high")]
            gaps.append([row["model"], row["metric"], *points, f"{row['p_value']:.3f}"])
        data = self.models[0].data
        n_rows, unlabeled = data.dataset.n_instances, data.missed["rows_without_labels"]
        left_out = f", {unlabeled:,} without labels left out" if unlabeled else ""
        title = f"{n_rows:,} row{'s' * (n_rows != 1)}{left_out}; metrics in percent"
        test = "differences from the first model, by a paired bootstrap over rows"
        return [
            (title, ["model", "size", "ms/row", *(f"{name} " for name in names), "threshold"], rows),
            (test, ["model", "metric", "points", "95% from", "to", "p"], gaps),
        ]

    def __repr__(self) -> str:
        parts = [
            [f"{title}:", *text_table(head, rows, left=left)]
            for left, (title, head, rows) in enumerate(self._shown(), 1)
        ]
        return "\n".join([*parts[0], "", *parts[1]])

    def _repr_html_(self) -> str:
        return "".join(html_table(*part) for part in self._shown())


def _as_table(rows: list[dict[str, Any]]) -> Table:
    return Table({name: [row[name] for row in rows] for name in rows[0]})


def compare_models(
    models: Sequence[Model],
    datasets: Dataset | Sequence[Dataset],
    *,
    names: Sequence[str] | None = None,
    beam: int = DEFAULT_BEAM,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Comparison:
    """Compare models with the first of them on the same rows.

    The datasets are labeled data that no model was trained on: one for all, or one per model if the models
    read it differently, with the same rows and labels. Rows without labels are left out. Models are called by
    their directories, if no names are given. The seed is that of the resampling.
    """
    data = [datasets] * len(models) if isinstance(datasets, Dataset) else list(datasets)
    if len(models) < 2:
        raise InputError("there is nothing to compare with", hint="pass two or more models")
    if len({item.n_instances for item in data}) != 1:
        raise InputError("the models have data with different numbers of rows", hint="pass the same rows")
    if data[0].Y.nnz == 0:
        raise InputError("the data has no labels", hint="use labeled data")
    labeled = [Labeled.of(item, model) for item, model in zip(data, models, strict=True)]
    if names is None:
        names = [str(model.path or f"model {number}") for number, model in enumerate(models, 1)]
    found: list[dict[str, RowMetric]] = []
    seconds = [math.inf] * len(models)
    for turn in range(ROUNDS):
        for number, (model, rows) in enumerate(zip(models, labeled, strict=True)):
            start = time.perf_counter()
            labels, scores = model.predict(rows.dataset.X, top=MAX_ACCEPTED, beam=beam, threads=threads)
            seconds[number] = min(seconds[number], time.perf_counter() - start)
            if turn == 0:
                propensities = metrics.propensities(model.label_counts, model.n_instances)
                found.append(row_metrics(rows.truth, labels, scores, propensities, decision=model.decision))
            if progress is not None:
                progress((turn * len(models) + number + 1) / (ROUNDS * len(models)))
    differences = [{}, *(paired_differences(found[0], other, seed) for other in found[1:])]
    milliseconds = (1000 * s / rows.dataset.n_instances for s, rows in zip(seconds, labeled, strict=True))
    compared = zip(names, labeled, found, differences, milliseconds, strict=True)
    return Comparison([Compared(*values) for values in compared])


def read_alike(models: Sequence[Model], read: Callable[[Model], Dataset]) -> list[Dataset]:
    """Read data for each model; models with the same features, columns and first index share it."""
    datasets: list[Dataset] = []
    for model in models:
        known = zip(models, datasets, strict=False)
        shared = next((dataset for other, dataset in known if _reads_alike(other, model)), None)
        datasets.append(read(model) if shared is None else shared)
    return datasets


def _reads_alike(one: Model, other: Model) -> bool:
    if one.text is None or other.text is None:
        return (one.text, one.one_based, one.n_features) == (other.text, other.one_based, other.n_features)
    return one.text.contents == other.text.contents
