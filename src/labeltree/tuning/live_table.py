"""The live table of a search: a line for each finished trial, and the progress of the one that runs."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from labeltree.base.display import escaped, human_seconds
from labeltree.base.progress import Progress, Stages
from labeltree.base.system import human_bytes
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.trial import Point, Trial

# The widths of the columns must be known before their rows are.
_WIDTHS = (5, 5, 6, 9, 9, 8, 11)


class LiveTable:
    """Shows trials on standard error.

    Parameters
    ----------
    metric : str
    quiet : bool
        Show nothing.
    stages : Stages
    """

    def __init__(self, metric: str, quiet: bool, stages: Stages) -> None:
        self._metric, self._quiet, self._stages = metric, quiet, stages
        self._number = 0
        self._start: Candidate | None = None

    def stage(self, description: str) -> AbstractContextManager[Progress]:
        """Show the progress of a trial."""
        return self._stages.running(description)

    def report(self, trial: Trial) -> None:
        """Show a trial that is done."""
        if self._quiet:
            return
        if self._start is None:
            self._start = trial.candidate
            head = _line(["trial", "rows", "trees", "weights", "threshold", "size", self._metric])
            print(head, " time       settings", file=sys.stderr)
        self._number += 1
        point = trial.best(self._metric)
        # The best may have fewer trees than were trained.
        trees = str(trial.trees)
        if point is not None and point.trees < trial.trees:
            trees = f"{point.trees} of {trial.trees}"
        line = _line([str(self._number), f"{trial.share:.0%}", trees, *cells(point, self._metric)])
        note = f"  ({trial.skipped})" if trial.skipped else ""
        settings = escaped(trial.candidate.describe(self._start) + note)
        spent = f"{human_seconds(trial.seconds):<11}"
        print(line, "", spent, settings, file=sys.stderr, flush=True)


def cells(point: Point | None, metric: str) -> list[str]:
    """Describe the form of a model, its size and its metric."""
    if point is None:
        return ["-", "-", "-", "-"]
    threshold = "-" if point.threshold is None else f"{point.threshold:g}"
    return [point.weights, threshold, human_bytes(point.final_bytes), f"{point.metrics[metric]:.2f}"]


def _line(texts: list[str]) -> str:
    return "  ".join(f"{text:>{width}}" for text, width in zip(texts, _WIDTHS, strict=True))
