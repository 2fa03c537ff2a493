"""Trials: a variant of the defaults, trained on some rows and evaluated on others; and their journal."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.base.json import parse_json
from labeltree.errors import InputError
from labeltree.evaluation import metrics

# A variant of the default settings: what it changes.
Changes = dict[str, Any]
# Trials of another version are not comparable.
_VERSION = 8


@dataclass(frozen=True)
class TuningTrial:
    """A variant of the defaults that was trained on a share of the training rows, or skipped for the given
    reason.

    The model takes ``model_bytes`` in the form that was evaluated: its ``weights``, and the threshold to
    ``prune`` them. Metrics are those on the validation rows, as fractions; ``error`` is the standard error of
    the metric that is searched for, and ``rows`` is what each validation row contributes to it. The ``work``
    is in multiply-adds of one pass of the solver over all nodes.
    """

    changes: Changes
    share: float
    skipped: str = ""
    model_bytes: int = 0
    weights: str | None = None
    prune: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    error: float = 0.0
    rows: list[float] = field(default_factory=list, repr=False)
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    work: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return all figures of the trial as one row of a table."""
        names = ("share", "skipped", "model_bytes", "weights", "prune", "error", "seconds")
        figures = {name: getattr(self, name) for name in names}
        return {"settings": describe(self.changes), **figures, **self.metrics}

    def value(self, metric: str) -> str:
        """Return the metric that is searched for and its standard error, in percent."""
        return f"{100 * self.metrics[metric]:.2f} ± {100 * self.error:.2f}"


def describe(changes: Changes) -> str:
    """Describe a variant.

    Examples
    --------
    >>> describe({"cost": 2.0, "ngrams": [1, 2]}), describe({"max_depth": 1}), describe({})
    ('cost 2, ngrams 1,2', 'one-vs-rest', 'defaults')
    """
    shown = (
        "one-vs-rest"
        if (name, value) == ("max_depth", 1)
        else f"{name} {','.join(map(str, value)) if isinstance(value, list) else f'{value:g}'}"
        for name, value in changes.items()
    )
    return ", ".join(shown) or "defaults"


def expected_seconds(trials: Sequence[TuningTrial], changes: Changes, work: float) -> float:
    """Return how long a trial takes at most, if training takes a fixed time and more for each multiply-add.

    Earlier trials of the same variant show it, or else those of the defaults.
    """
    same = [[trial for trial in trials if trial.changes == known] for known in (changes, {})]
    return min(
        trial.seconds + (trial.seconds - trial.evaluation_seconds) * max(0.0, work / trial.work - 1)
        for trial in same[0] or same[1] or trials
    )


def gain(trial: TuningTrial, other: TuningTrial) -> tuple[float, float]:
    """Return by how much a trial is better on the same rows, and the standard error of that."""
    mean, error = metrics.paired_gain(np.array(trial.rows) - np.array(other.rows))
    return float(mean), float(error)


class TrialJournal:
    """Finished trials, each on a line of its own, so that a killed search continues.

    A search is `described` by what it depends on: data, seed, metric, size. The journal of another search is
    refused.
    """

    def __init__(self, path: Path, described: Mapping[str, Any]) -> None:
        self._path = path
        self.trials: list[TuningTrial] = []
        header = json.dumps({"search": {"version": _VERSION, **described}})
        if path.exists():
            self._read(json.loads(header)["search"])
        else:
            path.write_text(header + "\n", "utf-8")

    def _read(self, described: Mapping[str, Any]) -> None:
        lines = self._path.read_bytes().split(b"\n")
        whole = lines[:-1]  # what follows the last line break was being written when the search was killed
        try:
            before = parse_json(whole[0])["search"]
            self.trials = [TuningTrial(**parse_json(line)) for line in whole[1:]]
        except (IndexError, KeyError, TypeError, ValueError):
            hint = "remove the file to start again"
            raise InputError("the file is not the journal of a search", file=self._path, hint=hint) from None
        for name, value in described.items():
            if before.get(name) != value:
                what = name.replace("_", " ")
                different = f"different {what}" if what.endswith("data") else f"a different {what}"
                what = f"the search in this directory was started with {different}"
                hint = "use the same data and options, or another directory"
                raise InputError(what, file=self._path.parent, hint=hint)
        if lines[-1]:
            with open(self._path, "rb+") as file:
                file.truncate(sum(len(line) + 1 for line in whole))

    @property
    def trained(self) -> list[TuningTrial]:
        """The trials that were not skipped."""
        return [trial for trial in self.trials if trial.rows]

    def find(self, changes: Changes, share: float) -> TuningTrial | None:
        """Return a trial that is done."""
        return next((t for t in self.trials if (t.changes, t.share) == (changes, share)), None)

    def add(self, trial: TuningTrial) -> None:
        """Record a trial; it is on disk when this returns."""
        with open(self._path, "ab") as file:
            file.write(json.dumps(asdict(trial)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.trials.append(trial)
