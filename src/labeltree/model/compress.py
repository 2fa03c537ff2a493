"""Compact copies of a float32 model: how large they are, how they are written, and which a budget allows."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.base import limits
from labeltree.base.display import Progress, part_of
from labeltree.base.files import temporary_directory
from labeltree.base.system import human_bytes, threads_to_use
from labeltree.base.table import Table
from labeltree.errors import InputError
from labeltree.model.blocks import TreeBlocks
from labeltree.model.directory import publish
from labeltree.model.pack import check_source, dense_bytes, sparse_bytes
from labeltree.settings import StorageSettings

if TYPE_CHECKING:
    from labeltree.model.labeled_data import Labeled
    from labeltree.model.model import Model

# Thresholds are round numbers: how many per power of ten, and how many powers below the largest weight.
PER_DECADE = 24
DECADES = 4
REPORTED_LOSS = 0.001  # a report marks the smallest form that loses no more
# A report has so many thresholds per power of ten, which keep these shares of the weights.
_REPORTED_PER_DECADE = 8
_MOST_KEPT, _LEAST_KEPT = 0.9, 0.0005
# With a byte budget, these of the forms that fit are evaluated, counted from the one that loses least.
_FITTING = (0, 1, 2, 4, 8, 16, 32)
# With a loss budget, which smaller forms are tried after the first one that loses too much.
_MORE = (1, 2, 3, 5, 8, 12)
_ROUNDING = 1e-9  # two shares of the same counts may differ in their last bits


@dataclass(frozen=True)
class Budget:
    """What a compact model may lose, or how large it may be: the arguments of `Model.compress`."""

    max_loss: float | None = None
    max_size: int | None = None

    def __post_init__(self) -> None:
        limits.check_fields(
            self,
            {"max_loss": limits.Optional(limits.MAX_LOSS), "max_size": limits.Optional(limits.MAX_SIZE)},
        )
        if self.max_loss is not None and self.max_size is not None:
            what = "a loss budget cannot be combined with a byte budget"
            raise InputError(what, hint="remove {max_loss} or {max_size}")

    def __bool__(self) -> bool:
        return self.max_loss is not None or self.max_size is not None

    def check_least(self, least: int) -> None:
        """Refuse a size that the smallest form of a model exceeds."""
        if self.max_size is not None and least > self.max_size:
            raise InputError(
                f"the model cannot be compressed to {human_bytes(self.max_size)} ({self.max_size:,} bytes), "
                f"the smallest possible size is {human_bytes(least)} ({least:,} bytes)",
                hint="use a larger {max_size}",
            )

    def check(self, weights: str | None, prune: float | None, validated: bool) -> None:
        """Refuse settings that a budget is to choose, and a loss budget without data to measure the loss."""
        name = "max_size" if self.max_loss is None else "max_loss"
        for setting, value in (("weights", weights), ("prune", prune)):
            if self and value is not None:
                what = f"{setting} cannot be combined with a budget, which chooses it"
                raise InputError(what, hint=f"remove {{{setting}}} or {{{name}}}")
        if self.max_loss is not None and not validated:
            what = "a loss budget needs labeled data to measure the loss on"
            raise InputError(what, hint="add {validation}, or use {max_size}")


@dataclass(frozen=True)
class Form:
    """One way to store a model, and its size."""

    storage: StorageSettings
    model_bytes: int  # of the model directory without its manifest
    n_nonzeros: int | None = None  # the weights that are stored, if small ones are dropped


@dataclass(frozen=True)
class Trial:
    """A form of a model, and its P@1, P@3 and P@5 if they were measured."""

    form: Form
    precision: tuple[float, ...] | None = None

    def report(self) -> dict[str, Any]:
        """Return all figures under the names that the command line prints."""
        storage = self.form.storage
        measured = (None,) * 3 if self.precision is None else (round(p, 6) for p in self.precision)
        return {
            "model_bytes": self.form.model_bytes,
            "threshold": storage.prune,
            "weights": storage.weight_type,
            "nonzeros": self.form.n_nonzeros,
            **dict(zip(("P@1", "P@3", "P@5"), measured, strict=True)),
        }


def threshold_grid(trees: Sequence[TreeBlocks], per_decade: int = PER_DECADE) -> list[float]:
    """Return thresholds in increasing order; the last drops all weights of a float32 model."""
    stored = [part.weights for part in trees if part.weights.size]
    largest = max((max(float(w.max()), -float(w.min())) for w in stored), default=0.0)
    if not 0 < largest < math.inf:
        return []
    top = math.floor(per_decade * math.log10(largest)) + 2
    numbers = (float(f"{10 ** (k / per_decade):.2g}") for k in range(top - DECADES * per_decade, top + 1))
    return sorted({number for number in numbers if number < limits.LARGEST_VALUE})


def list_forms(
    trees: Sequence[TreeBlocks], other_bytes: int, threads: int, per_decade: int = PER_DECADE
) -> list[Form]:
    """Return the ways to store a float32 model, from the largest to the smallest.

    What loses more comes later, and is left out if it is not smaller than all that lose less. The other files
    of the model have `other_bytes`.
    """
    forms = [
        Form(StorageSettings(codec), other_bytes + dense_bytes(trees, codec))
        for codec in ("float32", "float16", "int8")
    ]
    thresholds = [0.0, *threshold_grid(trees, per_decade)]
    sizes, counts = sparse_bytes(trees, np.array(thresholds), threads)
    for threshold, size, stored in zip(thresholds, sizes, counts, strict=True):
        forms.append(Form(StorageSettings(prune=threshold), other_bytes + int(size), int(stored)))
    smaller = forms[:1]
    for form in forms[1:]:
        if form.model_bytes < smaller[-1].model_bytes:
            smaller.append(form)
    return smaller


@dataclass(eq=False)
class Trials:
    """Compact copies of a float32 model in a temporary directory, of which only the best so far is kept."""

    source: Model
    directory: Path
    validation: Labeled | None  # None: copies are not evaluated
    threads: int
    progress: Progress | None = None
    report: Callable[[Trial], None] | None = None  # called with each trial
    total: int = 1  # about how many there will be, for the progress
    _number: int = field(default=0, init=False)
    _copies: dict[Form, Path] = field(default_factory=dict, init=False)

    def measure(self, form: Form) -> Trial:
        """Evaluate the model itself, or a copy, which is written; return the form alone without data."""
        trial = Trial(form)
        if self.validation is not None:
            progress = part_of(self.progress, self._number, self.total)
            exact = form.storage.codec == "float32"
            copy = self.source if exact else self._written(form, part_of(progress, 0, 2))
            trial = Trial(form, self.validation.precision(copy, self.threads))
            self._number += 1
            if progress is not None:
                progress(1.0)
        if self.report is not None:
            self.report(trial)
        return trial

    def keep(self, form: Form) -> None:
        """Remove all copies but this one."""
        for other in [other for other in self._copies if other != form]:
            shutil.rmtree(self._copies.pop(other))

    def path(self, form: Form) -> Path:
        """Return the directory of a copy, which is written if it was not kept."""
        self.keep(form)
        if form not in self._copies:
            self._written(form, self.progress)
        return self._copies[form]

    def _written(self, form: Form, progress: Progress | None) -> Model:
        place = self._copies[form] = self.directory / f"{form.storage.codec}-{form.storage.prune or 0:g}"
        return self.source.write_copy(place, form.storage, self.threads, progress)


def choose(forms: Sequence[Form], budget: Budget, trials: Trials) -> Trial:
    """Return the form that a budget allows, of those of `list_forms`, and its precision if it is measured."""
    if budget.max_loss is not None:
        return _smallest(forms, budget.max_loss, trials)
    assert budget.max_size is not None
    budget.check_least(forms[-1].model_bytes)
    fitting = [form for form in forms if form.model_bytes <= budget.max_size]
    if trials.validation is None:
        return trials.measure(fitting[0])
    return _best(forms[0], fitting, trials)


def _smallest(forms: Sequence[Form], max_loss: float, trials: Trials) -> Trial:
    """Find the last form that loses at most `max_loss`.

    Later forms lose more, so bisection finds it; but not steadily, so a few more are tried after it.
    """
    trials.total = 1 + math.ceil(math.log2(len(forms))) + len(_MORE)
    best = original = trials.measure(forms[0])
    low, high = 0, len(forms)
    failed: set[int] = set()
    while high - low > 1:
        middle = (low + high) // 2
        trial = trials.measure(forms[middle])
        if loss(original, trial) <= max_loss + _ROUNDING:
            low, best = middle, trial
        else:
            high = middle
            failed.add(middle)
        trials.keep(best.form)
    for more in sorted({high + step for step in _MORE if high + step < len(forms)} - failed):
        trial = trials.measure(forms[more])
        if loss(original, trial) <= max_loss + _ROUNDING:
            best = trial
        trials.keep(best.form)
    return best


def _best(original: Form, fitting: Sequence[Form], trials: Trials) -> Trial:
    """Find the form with the largest sum of P@1, P@3 and P@5: pruning costs precision, but not steadily."""
    tried = [fitting[k] for k in _FITTING if k < len(fitting)]
    trials.total = len(tried) + (original not in tried)
    if original not in tried:  # to compare the others with
        trials.measure(original)
    best = trials.measure(tried[0])
    for form in tried[1:]:
        trial = trials.measure(form)
        if sum(trial.precision or ()) > sum(best.precision or ()):
            best = trial
        trials.keep(best.form)
    return best


def loss(original: Trial, trial: Trial) -> float:
    """Return what a trial loses of P@1, P@3 or P@5, whichever loses most."""
    assert original.precision is not None
    assert trial.precision is not None
    return max(a - b for a, b in zip(original.precision, trial.precision, strict=True))


def compress_model(
    model: Model,
    path: Path,
    storage: StorageSettings,
    budget: Budget,
    validation: Labeled | None,
    overwrite: bool,
    threads: int,
    progress: Progress | None,
    report: Callable[[Trial], None] | None,
) -> None:
    """Write a compact copy of a float32 model, as `storage` or a budget says; see `Model.compress`."""
    with temporary_directory(path.parent, f".{path.name}.") as work:
        trials = Trials(model, work, validation, threads, progress, report)
        other_bytes = model.bytes - dense_bytes(model.trees, "float32")
        if budget:
            forms = list_forms(model.trees, other_bytes, threads)
            form = choose(forms, budget, trials).form
        else:
            size, stored = dense_bytes(model.trees, storage.codec), None
            if storage.prune is not None:
                sizes, counts = sparse_bytes(model.trees, np.array([storage.prune]), threads)
                size, stored = int(sizes[0]), int(counts[0])
            form = Form(storage, other_bytes + size, stored)
            if validation is not None:
                trials.total = 2
                trials.measure(Form(StorageSettings(), model.bytes))
            trials.measure(form)
        publish(trials.path(form), path, overwrite)


def measure_forms(
    model: Model, validation: Labeled, max_loss: float, threads: int | None, progress: Progress | None
) -> Table:
    """Evaluate a float32 model in many forms; see `Model.frontier`.

    Thresholds that keep almost all weights, or almost none, are left out.
    """
    check_source(model.path, model.trees)
    threads = threads_to_use(threads)
    other_bytes = model.bytes - dense_bytes(model.trees, "float32")
    listed = list_forms(model.trees, other_bytes, threads, _REPORTED_PER_DECADE)
    most, least = _MOST_KEPT * model.manifest["weights"], _LEAST_KEPT * model.manifest["weights"]
    forms = [form for form in listed if not form.storage.prune or least <= (form.n_nonzeros or 0) <= most]
    found = []
    with temporary_directory(Path(tempfile.gettempdir()), ".labeltree-") as work:
        trials = Trials(model, work, validation, threads, progress, total=len(forms))
        for form in forms:
            found.append(trials.measure(form))
            trials.keep(forms[0])
    chosen = [trial for trial in found if loss(found[0], trial) <= max_loss + _ROUNDING][-1]
    rows = [{"trees": len(model.trees), **trial.report(), "chosen": trial is chosen} for trial in found]
    return Table({name: [row[name] for row in rows] for name in rows[0]})
