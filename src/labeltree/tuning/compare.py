"""Compare models on the same rows: metrics, paired significance, bytes and speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.evaluation.metrics import RowMetric
from labeltree.evaluation.paired import Difference, paired_differences, row_metrics
from labeltree.model.model import Model
from labeltree.settings import DEFAULT_BEAM, MAX_ACCEPTED

# Rounds in which the models take turns to predict all rows; the fastest counts.
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Compared:
    """One of the models that were compared.

    Attributes
    ----------
    model : Model
    metrics : dict of str to RowMetric
        F1 is that of the labels that the model accepts; if it has no threshold, the one that makes F1
        largest on these rows is used.
    differences : dict of str to Difference
        Against the first model; empty for the first model itself.
    milliseconds_per_row : float
        Time to predict all rows together, the shortest of several rounds.
    """

    model: Model
    metrics: dict[str, RowMetric]
    differences: dict[str, Difference]
    milliseconds_per_row: float


def compare_models(
    models: Sequence[Model],
    datasets: Dataset | Sequence[Dataset],
    *,
    beam: int = DEFAULT_BEAM,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Compared]:
    """Compare models with the first of them on the same rows.

    Parameters
    ----------
    models : sequence of Model
    datasets : Dataset or sequence of Dataset
        Labeled data that no model was trained on; one for all, or one per model if the models read it
        differently. Rows and labels must be the same. Rows without labels are left out.
    beam : int, default 10
    seed : int, default 0
        Of the resampling.
    threads : int, optional
        Default: all CPUs.
    progress : callable, optional

    Returns
    -------
    list of Compared
        In the order of the models.
    """
    data = [datasets] * len(models) if isinstance(datasets, Dataset) else list(datasets)
    if len(models) < 2:
        raise InputError("there is nothing to compare with", hint="pass two or more models")
    if len({item.n_instances for item in data}) != 1:
        raise InputError("the models have data with different numbers of rows", hint="pass the same rows")
    if data[0].Y.nnz == 0:
        raise InputError("the data has no labels", hint="use labeled data")
    found: list[dict[str, RowMetric]] = []
    seconds = [math.inf] * len(models)
    for turn in range(ROUNDS):
        for number, (model, rows) in enumerate(zip(models, data, strict=True)):
            start = time.perf_counter()
            labels, scores = model.predict(rows.X, top=MAX_ACCEPTED, beam=beam, threads=threads)
            seconds[number] = min(seconds[number], time.perf_counter() - start)
            if turn == 0:
                truth = rows.align(model.label_names, model.n_labels).Y
                propensities = metrics.propensities(model.label_counts, model.n_instances)
                found.append(row_metrics(truth, labels, scores, propensities, decision=model.decision))
            if progress is not None:
                progress((turn * len(models) + number + 1) / (ROUNDS * len(models)))
    n_rows = data[0].n_instances
    return [
        Compared(
            model,
            found[number],
            {} if number == 0 else paired_differences(found[0], found[number], seed),
            1000 * seconds[number] / n_rows,
        )
        for number, model in enumerate(models)
    ]
