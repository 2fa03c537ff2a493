"""The order of the trials: cheap ones first, better ones on more rows, within a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from labeltree.base.progress import Progress
from labeltree.errors import ResourceError
from labeltree.tuning.bench import Bench
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.forms import Target
from labeltree.tuning.journal import TrialJournal
from labeltree.tuning.trial import Trial, multiply_adds, run_trial

# Shares of the training rows in the first two rounds, unless that leaves too few rows to learn from.
_SCREEN, _CONFIRM = 0.25, 0.5
_FEWEST_ROWS = 5_000
# Candidates that are trained on all rows, and how many trees each gets; if the best uses all of them, more.
_FINALISTS = 2
_TREES, _MORE_TREES = 3, 5
# While a screening trial has one tree, it gets the bytes that one of so many trees would have.
_EXPECTED_TREES = 2
# A change counts if it gains more than this share of a standard error.
_GAIN = 0.25
# Times are predicted from earlier ones; this factor keeps the promise when they are exceeded.
_CAUTION = 1.3
# After so many trials, only what they found is trained on all rows, with several trees.
MOST_TRIALS = 60


@dataclass(frozen=True)
class Goal:
    """What is searched for.

    Attributes
    ----------
    metric : str
    max_size : int or None
    max_time : float or None
        Seconds for the search and for training the final model.
    """

    metric: str
    max_size: int | None
    max_time: float | None


class SearchEnd(Exception):
    """No further trial is run."""


class OutOfTime(SearchEnd):
    """The next trial would not leave enough time to train the final model."""


class Search:
    """Runs trials in stages, each recorded in the journal.

    Parameters
    ----------
    bench : Bench
    journal : TrialJournal
    goal : Goal
    directory : Path
        Where trained models are kept while they are evaluated.
    started : float
        ``time.perf_counter()`` when the search began.
    stage : callable
        Shows one trial: takes its description, and gives a progress callback.
    report : callable
        Called with each trial, new or recorded.
    """

    def __init__(
        self,
        bench: Bench,
        journal: TrialJournal,
        goal: Goal,
        directory: Path,
        started: float,
        stage: Callable[[str], AbstractContextManager[Progress]],
        report: Callable[[Trial], None],
    ) -> None:
        self._bench, self._journal, self._goal, self._directory = bench, journal, goal, directory
        self._stage, self._report = stage, report
        # Recorded trials count with the time that they took.
        self._started = started - sum(trial.seconds for trial in journal.trials)
        self._shown: set[int] = set()
        self.out_of_time = False

    def run(self) -> None:
        """Search until nothing is left to try, or until the time is up."""
        try:
            self._run()
        except SearchEnd as end:
            self.out_of_time = isinstance(end, OutOfTime)
        if not any(trial.trees > 1 for trial in self.finished_trials()):
            self._rescue()

    def finished_trials(self) -> list[Trial]:
        """Return the trials on all training rows."""
        return [trial for trial in self._journal.trials if trial.share >= 1 and trial.points]

    def _run(self) -> None:
        start = self._bench.start
        n_rows = self._bench.data(start)[0].n_instances
        screen, confirm = (min(1.0, max(share, _FEWEST_ROWS / n_rows)) for share in (_SCREEN, _CONFIRM))
        first = self._try(start, screen)
        depth = self._bench.plan(start, screen, 1)[1].depth if first.points else 0
        others = start.single_changes(self._bench.sample(start, screen).n_labels, depth)
        changed = [self._try(other, screen) for other in others]
        helpful = [trial for trial in self._ranked(changed) if self._gain(trial, first) > 0]
        better = [trial.candidate for trial in helpful if self._is_gain(trial, first)]
        pool = [start, *(trial.candidate for trial in helpful[:2])]
        if len(better) > 1:
            pool += [start.combined(*better), start.combined(*better[:2])]
        confirmed = self._ranked(self._try(candidate, confirm) for candidate in _distinct(pool))
        for trial in confirmed[:_FINALISTS]:
            self._finish(trial.candidate)
        # Walk on from the best while that helps: further in what it changes, and to what else may help.
        possible = [trial.candidate for trial in changed if self._is_possible(trial, first)]
        tried = set(pool)
        while confirmed:
            best = confirmed[0]
            steps = [
                *best.candidate.further(start),
                *(best.candidate.added(other, start) for other in possible),
            ]
            steps = [other for other in _distinct(steps) if other not in tried]
            tried |= set(steps)
            found, end = self._try_all(steps, confirm)
            confirmed = self._ranked(trial for trial in found if self._is_gain(trial, best))
            if confirmed:
                self._finish(confirmed[0].candidate)
            if end is not None:
                raise end

    def _try_all(self, candidates: Iterable[Candidate], share: float) -> tuple[list[Trial], SearchEnd | None]:
        """Return the results of trials, up to the end of the search."""
        found: list[Trial] = []
        try:
            for candidate in candidates:
                found.append(self._try(candidate, share))  # noqa: PERF401 - kept if a later one raises
        except SearchEnd as end:
            return found, end
        return found, None

    def _finish(self, candidate: Candidate) -> None:
        """Train a candidate on all rows, with several trees; with more if the best point uses them all."""
        for trees in (_TREES, _MORE_TREES):
            trial = self._try(candidate, 1.0, trees)
            best = trial.best(self._goal.metric)
            if best is None or best.trees < trees or self._incumbent() != (candidate, trees):
                break

    def _incumbent(self) -> tuple[Candidate, int]:
        """Return the candidate of the best trial on all rows, and how many trees it has."""
        best = max(self.finished_trials(), key=self._value)
        return best.candidate, best.trees

    def _rescue(self) -> None:
        """With little time, train the best candidate so far with as many trees as there is time for."""
        ranked = self._ranked(self._journal.trials)
        candidate = ranked[0].candidate if ranked else self._bench.start
        for trees in range(_TREES, 0, -1):
            try:
                self._try(candidate, 1.0, trees, in_time=trees > 1)
                break
            except OutOfTime:
                continue

    def _value(self, trial: Trial) -> float:
        best = trial.best(self._goal.metric)
        return -math.inf if best is None else best.metrics[self._goal.metric]

    def _ranked(self, trials: Iterable[Trial]) -> list[Trial]:
        """Return the trials that have results, the best first."""
        return sorted((trial for trial in trials if trial.points), key=self._value, reverse=True)

    def _gain(self, trial: Trial, first: Trial) -> float:
        return self._value(trial) - self._value(first) if first.points else math.inf

    def _is_gain(self, trial: Trial, first: Trial) -> bool:
        best = trial.best(self._goal.metric)
        return best is not None and self._gain(trial, first) > _GAIN * best.error

    def _is_possible(self, trial: Trial, first: Trial) -> bool:
        """Whether a change may still help together with others: it is not clearly worse."""
        best = trial.best(self._goal.metric)
        return best is not None and self._gain(trial, first) > -best.error

    def growth(self, rows: int, n_rows: int) -> float:
        """Return by how much bytes grow from some rows to all, as trials on fewer rows show."""
        slopes = []
        done = [trial for trial in self._journal.trials if trial.sizes]
        for small in done:
            for large in done:
                if small.candidate == large.candidate and small.rows < large.rows:
                    pairs = zip(small.sizes, large.sizes, strict=True)
                    ratios = [math.log(b / a) for a, b in pairs if a > 0 and b > 0]
                    if ratios:
                        slopes.append(sum(ratios) / len(ratios) / math.log(large.rows / small.rows))
        slope = min(1.0, max(0.3, max(slopes))) if slopes else 1.0
        return float((n_rows / rows) ** slope)

    def _try(self, candidate: Candidate, share: float, trees: int = 1, in_time: bool = True) -> Trial:
        """Return the result of a trial, which is run unless it was run before."""
        known = self._journal.find(candidate, share, trees)
        if known is None:
            if trees == 1 and in_time and len(self._journal.trials) >= MOST_TRIALS:
                raise SearchEnd
            known = self._run_trial(candidate, share, trees, in_time)
            self._journal.add(known)
        if id(known) not in self._shown:
            self._shown.add(id(known))
            self._report(known)
        return known

    def _run_trial(self, candidate: Candidate, share: float, trees: int, in_time: bool) -> Trial:
        begin = time.perf_counter()
        trial = Trial(candidate, share, trees)
        rows = "all rows" if share >= 1 else f"{share:.0%} of the rows"
        label = f"{candidate.describe(self._bench.start)}, {rows}, {trees} tree{'s' * (trees > 1)}"
        with self._stage(label) as progress:
            try:
                if in_time:
                    self._check_time(trial, None)
                planning = time.perf_counter()
                dataset, plan = self._bench.plan(candidate, share, trees)
                tree_seconds = time.perf_counter() - planning
                plan.check_resources(self._directory)
            except ResourceError as error:
                return replace(trial, skipped=error.what, seconds=time.perf_counter() - begin)
            least = replace(plan, trees=plan.trees[:1]).least_bytes
            if self._goal.max_size is not None and least > self._goal.max_size:
                skipped = f"a model takes {least:,} bytes or more, however it is pruned"
                spent = time.perf_counter() - begin
                return replace(trial, skipped=skipped, least_bytes=least, seconds=spent)
            if in_time:
                self._check_time(trial, multiply_adds(plan))
            validation = self._bench.validation(candidate, share)
            screening = share < 1 or trees == 1
            target = Target(
                self._goal.metric,
                self._goal.max_size,
                self.growth(dataset.n_instances, self._bench.n_rows),
                _EXPECTED_TREES if screening and in_time else 1,
            )
            done = run_trial(trial, dataset, plan, validation, target, self._directory, progress)
        return replace(done, tree_seconds=tree_seconds, seconds=time.perf_counter() - begin)

    def _check_time(self, trial: Trial, work: float | None) -> None:
        """Raise `OutOfTime` if a trial does not leave enough time to train the final model."""
        if self._goal.max_time is None:
            return
        left = self._goal.max_time - (time.perf_counter() - self._started)
        done = [other for other in self._journal.trials if other.work > 0]
        if not done:
            if left <= 0:
                raise OutOfTime
            return
        same = [other for other in done if other.candidate == trial.candidate] or done[-3:]
        likely = sorted(self.finished_trials(), key=self._value)[-1:] or same
        final = max(self._final_seconds(other) for other in likely)
        if trial.trees == 1:  # what it finds is still to be trained on all rows, with several trees
            several = [other.seconds for other in self.finished_trials() if other.trees > 1]
            final += several[-1] if several else final * _TREES / _EXPECTED_TREES
        if work is None:
            scale = max(trial.share * trial.trees / (other.share * other.trees) for other in same[-1:])
            expected = same[-1].seconds * scale
        else:
            expected = max(other.training_seconds / other.work for other in same) * work
        if _CAUTION * (expected + final) > left:
            raise OutOfTime

    def _final_seconds(self, trial: Trial) -> float:
        """Return how long the final model takes to train, if it is like a trial."""
        best = trial.best(self._goal.metric)
        trees = best.trees if best is not None and trial.share >= 1 else _EXPECTED_TREES
        rows = self._bench.n_rows / trial.rows
        return (trial.training_seconds + trial.tree_seconds) * trees / trial.trees * rows


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    return list(dict.fromkeys(candidates))
