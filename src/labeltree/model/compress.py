"""Compact copies of a float32 model: how large they are, what they lose, and which a budget allows."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.display import Progress, part_of, warn
from labeltree.base.files import temporary_directory
from labeltree.base.system import human_bytes, threads_to_use
from labeltree.base.table import Table
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.evaluation.losses import PairedLosses
from labeltree.model.blocks import TreeBlocks
from labeltree.model.directory import publish
from labeltree.model.pack import check_source, dense_bytes, sparse_bytes
from labeltree.settings import DEFAULT_RANKS, StorageSettings

if TYPE_CHECKING:
    from labeltree.model.model import Model

# Thresholds are round numbers: how many per power of ten, and how many powers below the largest weight.
PER_DECADE = 24
DECADES = 4
REPORTED_LOSS = 0.001  # a report marks the smallest form that is allowed to lose so much
# If losses are measured, it is for so many thresholds per power of ten, each at most this share of the bytes
# of the one before; with a loss budget, until one costs clearly too much.
_MEASURED_PER_DECADE, _STEP = 12, 0.9
_LEAST_KEPT = 0.0005  # a report ends at this share of the weights
# With a byte budget, these of the forms that fit are evaluated, counted from the one that loses least.
_FITTING = (0, 1, 2, 4, 8, 16, 32)


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
            raise InputError(what, hint="add {training} or {validation}, or use {max_size}")


@dataclass(frozen=True)
class Trial:
    """One way to store a model, its size, and its P@1, P@3 and P@5 if they were measured."""

    storage: StorageSettings
    model_bytes: int  # of the model directory without its manifest
    n_nonzeros: int | None = None  # the weights that are stored, if small ones are dropped
    precision: tuple[float, ...] = (math.nan,) * len(DEFAULT_RANKS)
    errors: tuple[float, ...] = (math.nan,) * len(DEFAULT_RANKS)  # standard errors of what each loses
    at_most: float = math.nan  # an upper bound of the largest loss, if there is a budget

    def report(self) -> dict[str, Any]:
        """Return all figures under the names that the command line prints."""
        figures = {f"P@{k}": value for k, value in zip(DEFAULT_RANKS, self.precision, strict=True)}
        figures |= {f"P@{k}_error": value for k, value in zip(DEFAULT_RANKS, self.errors, strict=True)}
        figures["loss_at_most"] = self.at_most
        return {
            "model_bytes": self.model_bytes,
            "threshold": self.storage.prune,
            "weights": self.storage.weight_type,
            "nonzeros": self.n_nonzeros,
            **{name: round(value, 6) if math.isfinite(value) else None for name, value in figures.items()},
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


def sized(model: Model, storages: Sequence[StorageSettings], threads: int) -> list[Trial]:
    """Return ways to store a float32 model with their sizes."""
    other_bytes = model.bytes - dense_bytes(model.trees, "float32")
    thresholds = np.array([storage.prune for storage in storages if storage.prune is not None])
    sizes, counts = (iter(found.tolist()) for found in sparse_bytes(model.trees, thresholds, threads))
    return [
        Trial(storage, other_bytes + dense_bytes(model.trees, storage.codec))
        if storage.prune is None
        else Trial(storage, other_bytes + next(sizes), next(counts))
        for storage in storages
    ]


def list_forms(model: Model, threads: int, per_decade: int = PER_DECADE) -> list[Trial]:
    """Return the ways to store a float32 model, from the largest to the smallest.

    What loses more comes later, and is left out if it is not smaller than all that lose less.
    """
    storages = [StorageSettings(codec) for codec in ("float32", "float16", "int8")]
    storages += [StorageSettings(prune=t) for t in (0.0, *threshold_grid(model.trees, per_decade))]
    smaller: list[Trial] = []
    for form in sized(model, storages, threads):
        if not smaller or form.model_bytes < smaller[-1].model_bytes:
            smaller.append(form)
    return smaller


def measured_forms(model: Model, threads: int, least_kept: float = 0.0) -> list[Trial]:
    """Return the forms whose losses are measured: those clearly smaller than the one before."""
    least, forms = least_kept * model.manifest["weights"], list[Trial]()
    for form in list_forms(model, threads, _MEASURED_PER_DECADE):
        is_smaller = not form.storage.prune or form.model_bytes <= _STEP * forms[-1].model_bytes
        if is_smaller and (form.n_nonzeros is None or form.n_nonzeros >= least):
            forms.append(form)
    return forms


@dataclass(frozen=True, eq=False)
class Unseen:
    """A float32 model, and labeled rows that it was not trained on."""

    model: Model
    X: sp.csr_matrix
    truth: sp.csr_matrix

    def hits(self, storage: StorageSettings, work: Path, threads: int) -> NDArray[np.int8]:
        """Return the hits at ranks of the model in some form, which is written for this: rows x ranks."""
        top, copy = max(DEFAULT_RANKS), self.model
        if storage.codec != "float32":
            copy = self.model.write_copy(work / "copy", storage, threads, None)
        labels, _ = copy.predict(self.X, top=top, threads=threads)
        shutil.rmtree(work / "copy", ignore_errors=True)
        hits = metrics.hits(self.truth, metrics.pad_labels(labels, top), top).cumsum(axis=1, dtype=np.int8)
        return hits[np.diff(self.truth.indptr) > 0][:, np.array(DEFAULT_RANKS) - 1]


def measure(
    forms: Sequence[Trial],
    sources: tuple[Iterable[Unseen], int],  # and how many they are
    work: Path,
    threads: int,
    progress: Progress | None,
    max_loss: float | None = None,
    stops: bool = True,
) -> tuple[list[Trial], PairedLosses]:
    """Measure what forms lose compared with the first one, which is float32, on the rows of all sources.

    With a loss budget, what follows a form that costs clearly too much on the first source is left out.
    """
    lost, n_hits = list[NDArray[np.int8]](), np.zeros(len(DEFAULT_RANKS))
    for number, unseen in enumerate(sources[0]):
        hits: list[NDArray[np.int8]] = []
        for form in forms:
            hits.append(unseen.hits(form.storage, work, threads))
            if progress is not None:
                progress((number + len(hits) / len(forms)) / sources[1])
            if not stops or max_loss is None or lost or not len(hits[0]):
                continue
            if PairedLosses([(hits[0] - hits[-1])[:, None]]).costs_too_much(max_loss)[0]:
                break
        forms = forms[: len(hits)]
        lost.append(hits[0][:, None] - np.stack(hits, axis=1))
        n_hits += hits[0].sum(axis=0)
    losses = PairedLosses(lost)
    precision = n_hits / (losses.n_rows * np.array(DEFAULT_RANKS)) - losses.mean
    bounds = np.full(len(forms), np.nan) if max_loss is None else losses.upper(max_loss).max(axis=1)
    found = zip(forms, precision.tolist(), losses.error.tolist(), bounds.tolist(), strict=True)
    trials = [replace(f, precision=tuple(p), errors=tuple(e), at_most=bound) for f, p, e, bound in found]
    return trials, losses


def _smallest(trials: Sequence[Trial], losses: PairedLosses, max_loss: float) -> int:
    """Return which form a loss budget allows; to round all weights to float16 or int8 is harmless."""
    return losses.smallest(max_loss, np.array([max_loss > 0 and not t.storage.prune for t in trials]))


def compress_model(
    model: Model,
    path: Path,
    storage: StorageSettings,
    budget: Budget,
    sources: tuple[Iterable[Unseen], int] | None,
    overwrite: bool,
    threads: int,
    progress: Progress | None,
    report: Callable[[Trial], None] | None,
) -> None:
    """Write a compact copy of a float32 model, as `storage` or a budget says; see `Model.compress`."""
    max_loss = budget.max_loss
    if max_loss is not None:
        forms = measured_forms(model, threads)
    elif budget.max_size is not None:
        listed = list_forms(model, threads)
        budget.check_least(listed[-1].model_bytes)
        fitting = [form for form in listed if form.model_bytes <= budget.max_size]
        forms = [fitting[k] for k in _FITTING if k < len(fitting)]
    else:
        forms = sized(model, [storage], threads)
    chosen, trials, parts = 0, forms[:1], 1 if sources is None else 2
    with temporary_directory(path.parent, f".{path.name}.") as work:
        if sources is not None:
            first = int(forms[0].storage.codec != "float32")  # others are compared with the model itself
            forms = [*sized(model, [StorageSettings()] * first, threads), *forms]
            trials, losses = measure(forms, sources, work, threads, part_of(progress, 0, 2), max_loss)
            if max_loss is None:  # what changes the model least, unless another is better beyond chance
                worst = (losses.mean + losses.error).sum(axis=1)[first:]
                worst[0] = losses.mean[first].sum()
                chosen = first + int(np.argmin(worst))
            else:
                chosen = _smallest(trials, losses, max_loss)
                if chosen and (error := 100 * max(trials[chosen].errors)) > 100 * max_loss:
                    what = f"a loss of {100 * max_loss:g} points (the standard error is {error:.2g})"
                    warn(f"too few rows to measure {what}: the choice relies on what stronger pruning loses")
        if report is not None:
            for trial in trials:
                report(trial)
        place = work / "model"
        model.write_copy(place, trials[chosen].storage, threads, part_of(progress, parts - 1, parts))
        publish(place, path, overwrite)


def measure_forms(
    model: Model, unseen: Unseen, max_loss: float, threads: int | None, progress: Progress | None
) -> Table:
    """Evaluate a float32 model in many forms; see `Model.frontier`."""
    check_source(model.path, model.trees)
    threads = threads_to_use(threads)
    forms = measured_forms(model, threads, _LEAST_KEPT)
    with temporary_directory(Path(tempfile.gettempdir()), ".labeltree-") as work:
        trials, losses = measure(forms, ([unseen], 1), work, threads, progress, max_loss, stops=False)
    chosen = trials[_smallest(trials, losses, max_loss)]
    rows = [{"trees": len(model.trees), **t.report(), "chosen": t is chosen} for t in trials]
    return Table({name: [row[name] for row in rows] for name in rows[0]})
