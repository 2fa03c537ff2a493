"""Successive halving: many variants on few rows, the better ones on more, the best on all rows."""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from labeltree.base import limits
from labeltree.base.display import Progress, Stages, escaped, human_seconds
from labeltree.base.files import temporary_directory
from labeltree.base.system import human_bytes
from labeltree.data.dataset import Dataset
from labeltree.errors import ResourceError
from labeltree.evaluation import metrics
from labeltree.evaluation.paired import METRIC, RANKED, row_metrics
from labeltree.model.labeled_data import validation_data
from labeltree.model.manifest import storage_of
from labeltree.settings import MAX_ACCEPTED
from labeltree.training.fill import train_model
from labeltree.training.plan import Plan
from labeltree.tuning.result import best_trial
from labeltree.tuning.rows import TuningRows
from labeltree.tuning.trial import Changes, TrialJournal, TuningTrial, describe, expected_seconds, gain

# What is tried instead of the defaults, one setting at a time.
_FACTORS = (0.5, 2.0)  # of the cost, and of that of positive instances
_CLUSTERS = (32, 250)
_TREES = 3
_FOREIGN_COSTS = (0.2, 1.0)
_TERMS = (([1, 1], 2), ([1, 2], 2), ([1, 2], 5))  # n-grams and min_df

# Shares of the training rows in the rounds, unless a share has too few rows to learn from.
_SHARES = (0.25, 0.5, 1.0)
_FEWEST_ROWS = 1000
# Variants that go on to the second round and to the last one, besides the defaults and combinations.
_SECOND, _LAST = 3, 2
# A variant is skipped if training it takes so many times the work of the defaults.
_MOST_WORK = 30
# Times are predicted from earlier trials; this factor keeps the limit when they are exceeded.
_CAUTION = 1.3


@dataclass(frozen=True)
class Goal:
    """The metric to maximize, and the budget.

    A model of all rows may take `max_size` bytes; the search and training the final model, `max_time`
    seconds.
    """

    metric: str
    max_size: int | None = None
    max_time: float | None = None

    def __post_init__(self) -> None:
        table = {"max_size": limits.Optional(limits.MAX_SIZE), "max_time": limits.Optional(limits.MAX_TIME)}
        limits.check_fields(self, {"metric": METRIC, **table})


def single_changes(defaults: Changes, n_labels: int, depth: int) -> Iterator[Changes]:
    """Return variants that differ from the defaults in one setting.

    With a maximum depth below that of the tree with the defaults, it becomes wider; 1 is one-vs-rest.
    """
    yield from ({"cost": factor * defaults["cost"]} for factor in _FACTORS)
    yield from ({"positive_cost": factor} for factor in _FACTORS)
    yield from ({"clusters": clusters} for clusters in _CLUSTERS if clusters < n_labels)
    if depth > 1:
        yield {"trees": _TREES}
        yield from ({"hard_negatives": 10, "foreign_cost": factor} for factor in _FOREIGN_COSTS)
        yield from ({"max_depth": smaller} for smaller in sorted({1, depth - 1}))
    if "ngrams" in defaults:
        terms = ({"ngrams": ngrams, "min_df": min_df} for ngrams, min_df in _TERMS)
        yield from (change for change in terms if {**defaults, **change} != defaults)


def combined(several: Iterable[Changes]) -> Changes:
    """Return all changes together; the first that changes a setting decides."""
    found: Changes = {}
    for changes in several:
        found = {**changes, **found}
    if found.get("max_depth") == 1:  # one-vs-rest has no clusters, and every tree would be the same
        return {name: value for name, value in found.items() if name not in ("clusters", "trees")}
    return found


class Halving:
    """Runs the rounds of a search; every finished trial is in the journal, and shown unless `quiet`.

    The directory `models` gets the models of trials on all rows, by the number of the trial. The search
    `started` at this ``time.perf_counter()``, less the seconds of recorded trials.
    """

    def __init__(
        self, rows: TuningRows, journal: TrialJournal, goal: Goal, models: Path, started: float, quiet: bool
    ) -> None:
        self._rows, self._journal, self._goal, self._models = rows, journal, goal, models
        self._started, self._quiet = started, quiet
        self.out_of_time = False

    def run(self) -> None:
        """Run all rounds, or as many trials as there is time for."""
        n_rows, n_labels = self._rows.train.n_instances, self._rows.train.n_labels
        first, second, last = (min(1.0, max(share, _FEWEST_ROWS / n_rows)) for share in _SHARES)
        depth = self._rows.plan({}, first)[1].depth
        ranked = self._round(single_changes(self._rows.defaults, n_labels, depth), first)
        better, clearly = self._better(ranked), self._better(ranked, errors=1.0)
        ranked = self._round([*better[:_SECOND], combined(better[:2]), combined(clearly)], second)
        self._round(self._better(ranked)[:_LAST], last)

    def _better(self, ranked: Sequence[TuningTrial], errors: float = 0.0) -> list[Changes]:
        """Return the variants that are better than the defaults by some standard errors, best first."""
        default = [trial for trial in ranked if not trial.changes]
        gains = [gain(trial, default[0]) if default else (1.0, 0.0) for trial in ranked]
        pairs = zip(ranked, gains, strict=True)
        return [
            trial.changes for trial, (gained, error) in pairs if trial.changes and gained > errors * error
        ]

    def _round(self, variants: Iterable[Changes], share: float) -> list[TuningTrial]:
        """Return the trials of the defaults and variants on a share of the rows, with results, best first."""
        every: list[Changes] = [{}, *variants]
        distinct = [changes for k, changes in enumerate(every) if changes not in every[:k]]
        texts = [self._rows.text_settings(changes) for changes in distinct]
        # Each text setting is read once.
        order = sorted(range(len(distinct)), key=lambda k: texts.index(texts[k]))
        found = []
        for changes in (distinct[k] for k in order):
            trial = self._journal.find(changes, share) or self._new_trial(changes, share)
            if trial is None:
                self.out_of_time = True
                kept = f"{human_seconds(self.reserved)} are kept for the final training"
                self._show(changes, share, f"left out for lack of time, {kept}")
                if not changes:  # there is nothing to compare with
                    return []
            else:
                found.append(trial)
        return sorted((t for t in found if t.rows), key=lambda t: t.metrics[self._goal.metric], reverse=True)

    def _new_trial(self, changes: Changes, share: float) -> TuningTrial | None:
        """Return the result of a trial, which is recorded; None if there is no time for it."""
        begin = time.perf_counter()
        if not self._has_time(changes, share, 0):
            return None
        with Stages(self._quiet).running(f"{describe(changes)}, {share:.0%} of the rows") as progress:
            dataset, plan = self._rows.plan(changes, share)
            work = max(1, sum(part.multiply_adds for part in plan.trees))
            trial = TuningTrial(changes, share, work=work)
            if not self._has_time(changes, share, work):
                return None
            size, skipped = self._size(trial, plan)
            if skipped:
                trial = replace(trial, skipped=skipped, model_bytes=size or 0)
            else:
                trial = self._trained(trial, dataset, plan, size, progress)
        trial = replace(trial, seconds=time.perf_counter() - begin)
        self._journal.add(trial)
        result = f"skipped, {trial.skipped}"
        if trial.rows:
            value = f"{self._goal.metric} {trial.value(self._goal.metric)}"
            default = self._journal.find({}, share)
            if changes and default is not None and default.rows:
                gained, error = gain(trial, default)
                value += f", {100 * gained:+.2f} ± {100 * error:.2f} from the defaults"
            result = f"{value}, {human_bytes(trial.model_bytes)}, {human_seconds(trial.seconds)}"
        self._show(changes, share, result)
        return trial

    def _show(self, changes: Changes, share: float, result: str) -> None:
        if not self._quiet:
            line = f"{share:.0%} of the rows, {describe(changes)}: {result}"
            print(escaped(line), file=sys.stderr, flush=True)

    def _size(self, trial: TuningTrial, plan: Plan) -> tuple[int | None, str]:
        """Return the bytes that a trial may take, and why it is not trained, if it is not.

        On a part of the rows, a model may take the same share of its planned weights as on all rows.
        """
        try:
            plan.check_resources(self._models)
        except ResourceError as error:
            return None, error.what
        default = self._journal.find({}, trial.share)
        if default is not None and trial.work > _MOST_WORK * default.work:
            return None, f"training takes more than {_MOST_WORK} times the work of the defaults"
        if self._goal.max_size is None:
            return None, ""
        whole = plan if trial.share >= 1 else self._rows.plan(trial.changes, 1.0)[1]
        if whole.model_bytes <= self._goal.max_size:
            return plan.model_bytes, ""
        if whole.least_bytes > self._goal.max_size:
            return (
                whole.least_bytes,
                f"a model takes {whole.least_bytes:,} bytes or more, however it is pruned",
            )
        kept = (self._goal.max_size - whole.least_bytes) / (whole.model_bytes - whole.least_bytes)
        return plan.least_bytes + max(0, int(kept * (plan.model_bytes - plan.least_bytes))), ""

    def _trained(
        self, trial: TuningTrial, dataset: Dataset, plan: Plan, size: int | None, progress: Progress
    ) -> TuningTrial:
        """Train a variant, store it in the form that fits, and evaluate it."""
        metric, validation = self._goal.metric, self._rows.validation(trial.share)
        with temporary_directory(self._models, ".trial-") as work, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # problems that did not converge count by what they predict
            model = train_model(dataset, plan, work / "model", sync=False, progress=progress)
            if size is not None and model.bytes > size:
                model = model.compress(work / "small", max_size=size, threads=plan.threads)
            begin = time.perf_counter()
            data = validation_data(validation, model)
            top = MAX_ACCEPTED if metric == "F1" else RANKED
            labels, scores = model.predict(data.dataset.X, top=top, threads=plan.threads)
            propensities = metrics.propensities(model.label_counts, model.n_instances)
            names = METRIC.values if metric == "F1" else METRIC.values[:-1]
            found = row_metrics(data.truth, labels, scores, propensities, names)
            if trial.share >= 1:
                place = self._models / str(len(self._journal.trials))  # of the next trial
                shutil.rmtree(place, ignore_errors=True)  # of a trial that was killed before it was recorded
                assert model.path is not None
                model.path.rename(place)
        return replace(
            trial,
            model_bytes=model.bytes,
            **asdict(storage_of(model.manifest)),
            evaluation_seconds=time.perf_counter() - begin,
            metrics={name: round(value.fraction, 6) for name, value in found.items()},
            error=round(found[metric].error, 6),
            rows=found[metric].rows.round(6).tolist(),
        )

    @property
    def reserved(self) -> float:
        """Seconds that are kept for training the best model so far on all rows."""
        best = best_trial(self._journal.trained, self._goal.metric)
        return self._seconds(best.changes, best.work / best.share)

    def _seconds(self, changes: Changes, work: float) -> float:
        return _CAUTION * (self._rows.seconds + expected_seconds(self._journal.trained, changes, work))

    def _has_time(self, changes: Changes, share: float, work: int) -> bool:
        """Return whether there is time for a trial, and then for training it, or the best model, on all rows.

        The first trial is always run: its settings are better than none.
        """
        if self._goal.max_time is None or not self._journal.trained:
            return True
        left = self._goal.max_time - (time.perf_counter() - self._started)
        return self._seconds(changes, work) + max(self.reserved, self._seconds(changes, work / share)) <= left
