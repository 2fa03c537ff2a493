"""Successive halving: many variants on few rows, the better ones on more, the best on all rows."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from labeltree.base.progress import Progress
from labeltree.base.tempdirs import temporary_directory
from labeltree.data.dataset import Dataset
from labeltree.errors import ResourceError
from labeltree.model.layout import SPARSE
from labeltree.model.model import Model
from labeltree.training.fill import train_model
from labeltree.training.plan import Plan
from labeltree.tuning.rows import TuningRows
from labeltree.tuning.trial import Trial, TrialJournal, evaluate_rows, gain
from labeltree.tuning.variants import Changes, combined, describe, single_changes

# Shares of the training rows in the rounds, unless a share has too few rows to learn from.
_SHARES = (0.25, 0.5, 1.0)
_FEWEST_ROWS = 1000
# Variants that go on to the second round and to the last one, besides the defaults and combinations.
_SECOND, _LAST = 3, 2
# A variant is skipped if training it takes so many times the work of the defaults.
_MOST_WORK = 30
# Points of P@1, P@3 and P@5 that smaller weights may lose, if there is no size to keep to.
_MAX_LOSS = 0.1
# Times are predicted from earlier trials; this factor keeps the limit when they are exceeded.
_CAUTION = 1.3


@dataclass(frozen=True)
class Goal:
    """What is searched for.

    Attributes
    ----------
    metric : str
    max_size : int or None
        Bytes that the model of all rows may take.
    max_time : float or None
        Seconds for the search and for training the final model.
    """

    metric: str
    max_size: int | None = None
    max_time: float | None = None


class Halving:
    """Runs the rounds of a search; every finished trial is in the journal.

    Parameters
    ----------
    rows : TuningRows
    journal : TrialJournal
    goal : Goal
    models : Path
        An existing directory, which gets the models of trials on all rows, by the number of the trial.
    started : float
        ``time.perf_counter()`` when the search began.
    running : callable
        Shows one trial: takes its description, and gives a progress callback.
    report : callable
        Called with each new trial.
    """

    def __init__(
        self,
        rows: TuningRows,
        journal: TrialJournal,
        goal: Goal,
        models: Path,
        started: float,
        running: Callable[[str], AbstractContextManager[Progress]],
        report: Callable[[Trial], None],
    ) -> None:
        self._rows, self._journal, self._goal, self._models = rows, journal, goal, models
        self._running, self._report = running, report
        # Recorded trials count with the time that they took.
        self._started = started - sum(trial.seconds for trial in journal.trials)
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

    def _better(self, ranked: Sequence[Trial], errors: float = 0.0) -> list[Changes]:
        """Return the variants that are better than the defaults by some standard errors, best first."""
        default = next((trial for trial in ranked if not trial.changes), None)
        found = []
        for trial in ranked:
            points, error = (1.0, 0.0) if default is None else gain(trial, default)
            if trial.changes and points > errors * error:
                found.append(trial.changes)
        return found

    def _round(self, variants: Iterable[Changes], share: float) -> list[Trial]:
        """Return the trials of the defaults and variants on a share of the rows, with results, best first."""
        distinct: list[Changes] = [{}]
        for changes in variants:
            if changes not in distinct:
                distinct.append(changes)
        texts = [self._rows.text_settings(changes) for changes in distinct]
        # Each text setting is read once.
        order = sorted(range(len(distinct)), key=lambda k: texts.index(texts[k]))
        found = []
        for changes in (distinct[k] for k in order):
            trial = self._journal.find(changes, share) or self._new_trial(changes, share)
            if trial is None:
                self.out_of_time = True
                continue
            found.append(trial)
        return sorted((t for t in found if t.rows), key=lambda t: t.metrics[self._goal.metric], reverse=True)

    def _new_trial(self, changes: Changes, share: float) -> Trial | None:
        """Return the result of a trial, which is recorded; None if there is no time for it."""
        begin = time.perf_counter()
        if not self._has_time(0):
            return None
        rows = "all rows" if share >= 1 else f"{share:.0%} of the rows"
        with self._running(f"{describe(changes)}, {rows}") as progress:
            dataset, plan = self._rows.plan(changes, share)
            trial = Trial(changes, share, work=_multiply_adds(plan))
            if not self._has_time(trial.work):
                return None
            size, skipped = self._size(changes, share, plan)
            if skipped:
                trial = replace(trial, skipped=skipped, model_bytes=size or 0)
            else:
                trial = self._trained(trial, dataset, plan, size, progress)
        trial = replace(trial, seconds=time.perf_counter() - begin)
        self._journal.add(trial)
        self._report(trial)
        return trial

    def _size(self, changes: Changes, share: float, plan: Plan) -> tuple[int | None, str]:
        """Return the bytes that a trial may take, and why it is not trained, if it is not.

        On a part of the rows, a model may take the same share of its planned weights as on all rows.
        """
        default = self._journal.find({}, share)
        try:
            plan.check_resources(self._models)
        except ResourceError as error:
            return None, error.what
        if default is not None and _multiply_adds(plan) > _MOST_WORK * default.work:
            return None, f"training takes more than {_MOST_WORK} times the work of the defaults"
        if self._goal.max_size is None:
            return None, ""
        whole = plan if share >= 1 else self._rows.plan(changes, 1.0)[1]
        if whole.model_bytes <= self._goal.max_size:
            return plan.model_bytes, ""
        if whole.least_bytes > self._goal.max_size:
            what = f"a model takes {whole.least_bytes:,} bytes or more, however it is pruned"
            return whole.least_bytes, what
        kept = (self._goal.max_size - whole.least_bytes) / (whole.model_bytes - whole.least_bytes)
        return plan.least_bytes + max(0, int(kept * (plan.model_bytes - plan.least_bytes))), ""

    def _trained(
        self, trial: Trial, dataset: Dataset, plan: Plan, size: int | None, progress: Progress
    ) -> Trial:
        """Train a variant, store it in the form that fits, and evaluate it."""
        metric, validation = self._goal.metric, self._rows.validation(trial.share)
        with temporary_directory(self._models, ".trial-") as work, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # problems that did not converge count by what they predict
            model = train_model(dataset, plan, work / "model", sync=False, progress=progress)
            if size is not None and model.bytes > size:
                model = model.compress(work / "small", max_size=size, threads=plan.threads)
            elif size is None and trial.share >= 1:
                model = model.compress(
                    work / "small", max_loss=_MAX_LOSS, validation=validation, threads=plan.threads
                )
            found = evaluate_rows(model, validation, metric, plan.threads)
            if trial.share >= 1:
                self._keep(model)
        return replace(
            trial,
            model_bytes=model.bytes,
            storage={"prune": model.manifest["pruned"]["threshold"]}
            if model.codec == SPARSE
            else {"weights": model.codec},
            metrics={name: round(value.value, 4) for name, value in found.items()},
            error=round(found[metric].error, 4),
            rows=found[metric].rows.round(4).tolist(),
        )

    def _keep(self, model: Model) -> None:
        """Move a model to the place of the next trial."""
        assert model.path is not None
        place = self._models / str(len(self._journal.trials))
        shutil.rmtree(place, ignore_errors=True)  # of a trial that was killed before it was recorded
        model.path.rename(place)

    def _has_time(self, work: int) -> bool:
        """Return whether there is time for a trial, and then for training the best model on all rows.

        The first trial is always run: its settings are better than none.
        """
        done = [trial for trial in self._journal.trials if trial.rows]
        if self._goal.max_time is None or not done:
            return True
        left = self._goal.max_time - (time.perf_counter() - self._started)
        best = max(done, key=lambda trial: (trial.share, trial.metrics[self._goal.metric]))
        expected = max(trial.seconds / trial.work for trial in done) * work + best.seconds / best.share
        return _CAUTION * expected <= left


def _multiply_adds(plan: Plan) -> int:
    """Return the multiply-adds of one pass of the solver over all nodes."""
    return max(1, sum(int(part.nonzeros @ part.tree.child_count) for part in plan.trees))
