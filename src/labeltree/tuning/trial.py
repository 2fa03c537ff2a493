"""One trial: train a candidate once, then evaluate it with fewer trees, other thresholds and other scores."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.base.progress import Progress
from labeltree.base.tempdirs import temporary_directory
from labeltree.data.dataset import Dataset
from labeltree.evaluation import metrics
from labeltree.evaluation.row_metrics import (
    METRIC,
    RowMetric,
    labels_needed,
    row_metrics,
)
from labeltree.model.compress import sparse_bytes
from labeltree.model.frontier import first_trees
from labeltree.model.labeled import Validation
from labeltree.model.model import Model
from labeltree.settings import ScoreSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import Plan
from labeltree.training.score import CANDIDATES
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.forms import Forms, Target

# Another score function than the default must be better by so many standard errors: the best of four others
# is better by one of them by chance.
_CLEARLY = 2.0
# Thresholds at which sizes are recorded, to see how bytes grow with rows.
_SIZED_AT = (0.03, 0.1, 0.3)
_EVERYTHING = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Point:
    """A trained model in one form, and its metrics on the validation data.

    Attributes
    ----------
    trees : int
    weights : str
        Type of the stored weights.
    threshold : float or None
        Smaller weights are dropped.
    score : str
    score_scale : float
    model_bytes : int
        Bytes of the model of the trial.
    final_bytes : int
        Bytes expected of a model of all rows.
    metrics : dict of str to float
        In percent.
    error : float
        Standard error of the metric that is searched for, in points.
    """

    trees: int
    weights: str
    threshold: float | None
    score: str
    score_scale: float
    model_bytes: int
    final_bytes: int
    metrics: dict[str, float]
    error: float


@dataclass(frozen=True)
class Trial:
    """A candidate that was trained on some rows.

    Attributes
    ----------
    candidate : Candidate
    share : float
        Share of the training rows.
    trees : int
        Trees that were trained.
    points : tuple of Point
        Empty if it was not trained.
    skipped : str
        Why it was not trained.
    seconds : float
        All that it took.
    training_seconds, work : float
        Time to train, and multiply-adds of one pass of the solver, to predict other times.
    tree_seconds : float
        Time to build and plan the trees.
    rows : int
        Rows that it was trained on.
    sizes : tuple of int
        Bytes of the weights of the first tree, pruned at fixed thresholds.
    least_bytes : int
        If no form fits: the bytes of a model without weights.
    """

    candidate: Candidate
    share: float
    trees: int
    points: tuple[Point, ...] = ()
    skipped: str = ""
    seconds: float = 0.0
    training_seconds: float = 0.0
    tree_seconds: float = 0.0
    work: float = 0.0
    rows: int = 0
    sizes: tuple[int, ...] = field(default=())
    least_bytes: int = 0

    def best(self, metric: str) -> Point | None:
        """Return the point with the largest value of a metric."""
        return max(self.points, key=lambda point: point.metrics[metric], default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        return {**asdict(self), "candidate": self.candidate.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Trial:
        """Return the trial that `to_dict` described."""
        return cls(
            **{
                **content,
                "candidate": Candidate.from_dict(content["candidate"]),
                "points": tuple(Point(**point) for point in content["points"]),
                "sizes": tuple(content["sizes"]),
            }
        )


def multiply_adds(plan: Plan) -> float:
    """Return the multiply-adds of one pass of the solver over all nodes."""
    return float(sum(int(part.nonzeros @ part.tree.child_count) for part in plan.trees))


def run_trial(
    trial: Trial,
    dataset: Dataset,
    plan: Plan,
    validation: Validation,
    target: Target,
    directory: Path,
    progress: Progress | None = None,
) -> Trial:
    """Train a candidate, and evaluate it in the forms that fit.

    Parameters
    ----------
    trial : Trial
        Without results.
    dataset : Dataset
        The rows to train on.
    plan : Plan
        Of the model.
    validation : Validation
    target : Target
    directory : Path
        Where the model is kept while it is evaluated.
    progress : callable, optional

    Returns
    -------
    Trial
        With results; the times do not include building the trees.
    """
    start = time.perf_counter()
    with temporary_directory(directory, ".trial-") as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # problems that did not converge count by what they predict
        model = train_model(
            dataset, plan, work / "model", score=ScoreSettings(), sync=False, progress=progress
        )
        trained = time.perf_counter()
        points = _evaluate(model, validation, target, work, plan.threads)
        sizes, _ = sparse_bytes(model.trees[:1], np.array([*_SIZED_AT, _EVERYTHING]), plan.threads)
    return replace(
        trial,
        points=tuple(points),
        skipped="" if points else "does not fit in the size, however it is pruned",
        seconds=time.perf_counter() - start,
        training_seconds=trained - start,
        work=multiply_adds(plan),
        rows=dataset.n_instances,
        sizes=tuple(int(size - sizes[-1]) for size in sizes[:-1]),
        least_bytes=0 if points else replace(plan, trees=plan.trees[:1]).least_bytes,
    )


def _evaluate(model: Model, validation: Validation, target: Target, work: Path, threads: int) -> list[Point]:
    """Evaluate a model in the forms that fit, with every number of trees and the best score function."""
    forms = Forms.of(model, target, threads)
    judge = _Judge(model, validation, target.metric, threads)
    scores: dict[int, ScoreSettings] = {}
    points = []
    for number, storage in forms.chosen():
        copy = model
        if storage.codec != "float32":
            weights = None if storage.prune is not None else storage.weights
            copy = model.compress(work / "copy", weights=weights, prune=storage.prune, overwrite=True)
        for trees in range(1, len(model.trees) + 1):
            final = forms.final_bytes(number, trees)
            if target.max_size is not None and final > target.max_size:
                continue
            part = first_trees(copy, trees)
            if trees not in scores:
                # Screening compares candidates with the same function; the choice is left to the end.
                scores[trees] = ScoreSettings() if forms.screening else judge.best_score(part)
            score = scores[trees]
            found = judge.measure(part, score)
            points.append(
                Point(
                    trees,
                    storage.weight_type,
                    storage.prune,
                    score.function,
                    score.scale,
                    part.bytes,
                    final,
                    {name: round(metric.value, 4) for name, metric in found.items()},
                    round(found[target.metric].error, 4),
                )
            )
    return points


class _Judge:
    """Measures models on the validation data."""

    def __init__(self, model: Model, validation: Validation, metric: str, threads: int | None) -> None:
        self._validation, self._metric, self._threads = validation, metric, threads
        self._propensities = metrics.propensities(model.label_counts, model.n_instances)
        self._names = METRIC.values if metric == "F1" else tuple(n for n in METRIC.values if n != "F1")

    def measure(self, model: Model, score: ScoreSettings) -> dict[str, RowMetric]:
        labels, scores = model.predict(
            self._validation.X,
            top=labels_needed(self._metric),
            score=score.function,
            score_scale=score.scale,
            threads=self._threads,
        )
        return row_metrics(self._validation.truth, labels, scores, self._propensities, self._names)

    def best_score(self, model: Model) -> ScoreSettings:
        """Return the score function with the largest metric; another than the default must be clearly better.

        Clearly means by more than two standard errors of the paired differences.
        """
        rows = [self.measure(model, score)[self._metric].rows for score in CANDIDATES]
        gains, errors = metrics.paired_gain(np.array(rows) - rows[0])
        clear = [gain if gain > _CLEARLY * error else 0.0 for gain, error in zip(gains, errors, strict=True)]
        return CANDIDATES[int(np.argmax(clear))]
