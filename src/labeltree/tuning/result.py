"""The result of a search: the choice, its settings, and the files that show them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from labeltree.base import plots
from labeltree.base.display import html_table
from labeltree.base.files import remove_directory, write_whole
from labeltree.base.system import human_bytes
from labeltree.base.table import Table
from labeltree.tuning.trial import TuningTrial, describe, gain

SETTINGS, TABLE, BEST, MODELS = "settings.json", "trials.csv", "best", "models"


@dataclass(frozen=True, eq=False, repr=False)
class TuningResult:
    """What `labeltree.tune` found.

    Attributes
    ----------
    trials : list of TuningTrial
        In the order in which they were run.
    chosen : TuningTrial
    settings : dict of str to object
        Of the final model, and how its data is read: ``labeltree.train(data, **settings)``, and what
        ``labeltree train --settings`` takes.
    metric : str
    max_size : int or None
    seconds : float
        How long the search took, without its interruptions.
    reserved : float
        Seconds that training the final model is expected to take at most, which a time limit keeps free.
    ended : {"complete", "out of time", "stopped"}
        Why the search ended.
    directory : Path
        Where the settings, the table of trials and the best model are.
    """

    trials: list[TuningTrial]
    chosen: TuningTrial
    settings: dict[str, Any]
    metric: str
    max_size: int | None
    seconds: float
    reserved: float
    ended: str
    directory: Path

    def __repr__(self) -> str:
        values = [f"{self.metric}={self.chosen.metrics[self.metric]:.4f}±{self.chosen.error:.4f}"]
        if self.defaults is not None:
            values.append(f"defaults={self.defaults.metrics[self.metric]:.4f}")
        size = human_bytes(self.chosen.model_bytes)
        rest = f"size={size!r}, trials={len(self.trials)}, settings={self.settings}"
        return f"TuningResult({', '.join(values)}, {rest})"

    def _repr_html_(self) -> str:
        return html_table(f"{self.metric}, {len(self.trials)} trials", *self.comparison())

    @property
    def settings_path(self) -> Path:
        """The settings file."""
        return self.directory / SETTINGS

    @property
    def best_model(self) -> Path | None:
        """The model of the chosen trial, without the validation rows; None if it was not on all rows."""
        path = self.directory / BEST
        return path if self.chosen.share >= 1 and path.exists() else None

    @property
    def defaults(self) -> TuningTrial | None:
        """The trial of the defaults on the same rows as the chosen one; None if they do not fit."""
        return self._defaults().get(self.chosen.share)

    def _defaults(self) -> dict[float, TuningTrial]:
        return {trial.share: trial for trial in self.trials if trial.rows and not trial.changes}

    def comparison(self) -> tuple[list[str], list[list[str]]]:
        """Return a table for people: the defaults and the choice, each with all metrics in percent."""
        of = f" (on {self.chosen.share:.0%} of the rows)" * (self.chosen.share < 1)
        both = {"defaults": self.defaults, "chosen": self.chosen}
        if self.defaults is self.chosen:
            both = {"defaults, chosen": self.chosen}
        rows = []
        for name, trial in both.items():
            if trial is not None:
                values = (f"{100 * value:.2f}" for value in trial.metrics.values())
                rows.append([name + of, *values, human_bytes(trial.model_bytes)])
        return ["", *self.chosen.metrics, "size"], rows

    @property
    def table(self) -> Table:
        """All trials, with their differences from the defaults on the same rows and standard errors.

        Trials on different shares of the rows have different validation rows: only differences compare.
        """
        rows, defaults = [], self._defaults()
        for number, trial in enumerate(self.trials):
            is_compared = trial.rows and trial.changes and trial.share in defaults
            gained, error = gain(trial, defaults[trial.share]) if is_compared else (None, None)
            found = {"difference": gained, "difference_error": error, "chosen": trial == self.chosen}
            rows.append({"trial": number, **trial.to_dict(), **found})
        keys = dict.fromkeys(key for row in rows for key in row)
        return Table({key: [row.get(key) for row in rows] for key in keys})

    def to_dict(self) -> dict[str, Any]:
        """Return every figure, as ``labeltree tune --json`` prints it."""
        return {
            "metric": self.metric,
            "max_size": self.max_size,
            "seconds": round(self.seconds, 2),
            "reserved": round(self.reserved, 2),
            "ended": self.ended,
            "chosen": self.chosen.to_dict(),
            "defaults": None if self.defaults is None else self.defaults.to_dict(),
            "settings": self.settings,
            "settings_file": str(self.settings_path),
            "best_model": None if self.best_model is None else str(self.best_model),
            "trials": list(self.table),
        }

    def write(self) -> None:
        """Write the settings file and the table of trials, and keep the best model of those on all rows."""
        settings = f"{json.dumps(self.settings, indent=2)}\n".encode()
        for name, content in ((SETTINGS, settings), (TABLE, plots.table(list(self.table)))):
            with write_whole(self.directory / name) as file:
                file.write(content)
        models, best = self.directory / MODELS, self.directory / BEST
        chosen = models / str(self.trials.index(self.chosen))
        if chosen.exists():
            if best.exists():
                remove_directory(best)
            os.replace(chosen, best)
        if self.ended == "complete":
            shutil.rmtree(models, ignore_errors=True)


def best_trial(trained: Sequence[TuningTrial], metric: str) -> TuningTrial:
    """Return the best trial of the last round that compared any, unless chance may explain it.

    It must be better than the defaults, and than variants with fewer changes, by two standard errors, or so
    many that of as many variants without effect, one would be that much better in 5% of all searches.
    """
    n_variants = len({describe(trial.changes) for trial in trained if trial.changes})
    errors = max(2.0, NormalDist().inv_cdf(1 - 0.05 / max(1, n_variants)))

    def is_better(trial: TuningTrial, other: TuningTrial) -> bool:
        gained, error = gain(trial, other)
        return gained > errors * error

    rounds = ([t for t in trained if t.share == share] for share in sorted({t.share for t in trained})[::-1])
    compared = next((some for some in rounds if len(some) > 1), trained)
    if default := next((trial for trial in compared if not trial.changes), None):
        compared = [default, *(trial for trial in compared if is_better(trial, default))]
    leader = max(compared, key=lambda trial: trial.metrics[metric])
    close = [trial for trial in compared if not is_better(leader, trial)]
    chosen = min(close, key=lambda trial: (len(trial.changes), -trial.metrics[metric]))
    # If no variant was better in the round before the last, the last one has only the defaults.
    return max((t for t in trained if t.changes == chosen.changes), key=lambda trial: trial.share)
