"""Compact copies of a float32 model: how large they are, how they are written, and which a budget allows."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.progress import Progress, part_of
from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.model.blocks import TreeBlocks
from labeltree.model.files import ModelWriter
from labeltree.model.labeled import Validation
from labeltree.model.layout import SPARSE, ArrayFile, Layout, float32_threshold, is_scaled
from labeltree.model.pack import pack_blocks, remove_loose, reserve_blocks, write_small
from labeltree.settings import StorageSettings

if TYPE_CHECKING:
    from labeltree.model.model import Model

# Thresholds are round numbers: how many per power of ten, and how many powers below the largest weight.
PER_DECADE = 24
DECADES = 4
# With a byte budget, these of the forms that fit are evaluated, counted from the one that loses least.
_FITTING = (0, 1, 2, 4, 8, 16, 32)
# With a loss budget, which smaller forms are tried after the first one that loses too much.
_MORE = (1, 2, 3, 5, 8, 12)
# Two shares of the same counts may differ in their last bits.
_ROUNDING = 1e-9


def check_source(path: Path | None, trees: Sequence[TreeBlocks]) -> None:
    """Refuse a model whose weights are not float32 any more."""
    codec = trees[0].codec
    if is_scaled(codec):
        what = f"the model is already compact: its weights are {'pruned' if codec == SPARSE else codec}"
        raise InputError(what, file=path, hint="compress the float32 model that it was made from")


def write_compact(
    writer: ModelWriter,
    trees: Sequence[TreeBlocks],
    storage: StorageSettings,
    threads: int,
    progress: Progress | None = None,
) -> int:
    """Write the trees of a float32 model with another codec; return the non-zero weights, if pruned.

    Memory does not grow with the model.
    """
    n_nonzeros = 0
    for t, part in enumerate(trees):
        layout = _layout(part, storage.codec)
        with reserve_blocks(writer, f"tree-{t}", layout) as files, _refusals():
            written = _native.compress_blocks(
                _source(part),
                part.n_features,
                part.has_bias,
                storage.codec,
                float32_threshold(storage.prune or 0.0),
                layout.feature_ptr,
                layout.weight_ptr,
                *files,
                threads,
                part_of(progress, t, len(trees)),
            )
            with pack_blocks(writer, f"tree-{t}", layout, written, files):
                pass
        n_nonzeros += int(written[3].sum())
        write_small(writer, f"tree-{t}", part.tree, storage.codec, written)
    remove_loose(writer.path)
    return n_nonzeros


def dense_bytes(trees: Sequence[TreeBlocks], codec: str) -> int:
    """Return the bytes of all files of the trees with a dense codec."""
    return sum(file.bytes for part in trees for file in _layout(part, codec).files().values())


def sparse_bytes(
    trees: Sequence[TreeBlocks], thresholds: NDArray[np.float64], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bytes of all files of the trees, and the non-zero weights, if pruned at each threshold."""
    limits = np.array([float32_threshold(t) for t in thresholds], np.float32)
    n_bytes, n_nonzeros = np.zeros((2, limits.size), np.int64)
    for part in trees:
        with _refusals():
            large, stored = _native.sparse_sizes(
                _source(part), part.n_features, part.has_bias, limits, threads
            )
        files = _layout(part, SPARSE).files()
        small = sum(
            ArrayFile(file.dtype, 0).bytes if name in ("features.npy", "weights.npy") else file.bytes
            for name, file in files.items()
        )
        n_bytes += large + small
        n_nonzeros += stored
    return n_bytes, n_nonzeros


def check_apart(model: Path, target: Path) -> None:
    """Refuse to write a model over itself, into itself, or over a directory that contains it."""
    source, goal = Path(os.path.realpath(model)), Path(os.path.realpath(target))
    if source == goal:
        what = "the output is the same directory as the input model"
        raise InputError(what, file=target, hint="choose another name")
    if source in goal.parents:
        what = f"the output directory is inside the model {model}"
        raise InputError(what, file=target, hint="choose another directory")
    if goal in source.parents:
        what = f"the output directory contains the model {model}"
        raise InputError(what, file=target, hint="choose another directory")


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what a kernel refuses into an error for the user: weights that are not finite, or too many."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        hint = "train the model again, or do not prune it"
        raise InputError(str(error), hint=hint) from None


def _layout(part: TreeBlocks, codec: str) -> Layout:
    return Layout.of(part.tree, codec, part.used_features, part.has_bias, part.n_features)


def _source(part: TreeBlocks) -> _native.FloatArrays:
    shape = part.tree.child_ptr, part.tree.children
    return *shape, part.feature_ptr, part.features, part.weight_ptr, part.weights.view(np.uint8)


TrialReport = TypedDict(
    "TrialReport",
    {
        "model_bytes": int,
        "threshold": float | None,
        "weights": str,
        "nonzeros": int | None,
        "P@1": float | None,
        "P@3": float | None,
        "P@5": float | None,
    },
)


@dataclass(frozen=True)
class Budget:
    """What a compact model may lose, or how large it may be.

    Parameters
    ----------
    max_loss : float, optional
        Percentage points that P@1, P@3 and P@5 may each lose.
    max_size : int or str, optional
        Bytes that the model directory may take without its manifest, or a string such as "50MB".
    """

    max_loss: float | None = None
    max_size: int | None = None

    def __post_init__(self) -> None:
        limits.check_fields(
            self,
            {"max_loss": limits.Optional(limits.MAX_LOSS), "max_size": limits.Optional(limits.MAX_SIZE)},
        )
        if self.max_loss is not None and self.max_size is not None:
            raise InputError(
                "a loss budget cannot be combined with a byte budget",
                hint="remove {max_loss} or {max_size}",
                parameters={"max_loss": None, "max_size": None},
            )

    def __bool__(self) -> bool:
        return self.max_loss is not None or self.max_size is not None

    def check_least(self, least: int, exact: bool = True) -> None:
        """Refuse a size that the smallest form of a model exceeds; its size is exact, or a lower bound."""
        if self.max_size is not None and least > self.max_size:
            bound = "" if exact else "at least "
            raise InputError(
                f"the model cannot be compressed to {human_bytes(self.max_size)} ({self.max_size:,} bytes), "
                f"the smallest possible size is {bound}{human_bytes(least)} ({least:,} bytes)",
                hint="use a larger {max_size}",
                parameters={"max_size": None},
            )

    def check(self, weights: str | None, prune: float | None, validated: bool) -> None:
        """Refuse settings that a budget is to choose, and a loss budget without data to measure the loss."""
        name = "max_size" if self.max_loss is None else "max_loss"
        for setting, value in (("weights", weights), ("prune", prune)):
            if self and value is not None:
                raise InputError(
                    f"{setting} cannot be combined with a budget, which chooses it",
                    hint=f"remove {{{setting}}} or {{{name}}}",
                    parameters={setting: None, name: None},
                )
        if self.max_loss is not None and not validated:
            raise InputError(
                "a loss budget needs labeled data to measure the loss on",
                hint="add {validation}, or use {max_size}",
                parameters={"validation": None, "max_size": None},
            )


@dataclass(frozen=True)
class Form:
    """One way to store a model, and its size.

    Attributes
    ----------
    storage : StorageSettings
    model_bytes : int
        Size of the model directory without its manifest.
    n_nonzeros : int or None
        The weights that are stored, if small ones are dropped.
    """

    storage: StorageSettings
    model_bytes: int
    n_nonzeros: int | None = None


@dataclass(frozen=True)
class Trial:
    """A form of a model, and its P@1, P@3 and P@5 in percent if they were measured."""

    form: Form
    precision: tuple[float, ...] | None = None

    def report(self) -> TrialReport:
        """Return all figures under the names that the command line prints."""
        p1, p3, p5 = (None,) * 3 if self.precision is None else (round(p, 4) for p in self.precision)
        storage = self.form.storage
        return {
            "model_bytes": self.form.model_bytes,
            "threshold": storage.prune,
            "weights": storage.weight_type,
            "nonzeros": self.form.n_nonzeros,
            "P@1": p1,
            "P@3": p3,
            "P@5": p5,
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


def list_forms(trees: Sequence[TreeBlocks], other_bytes: int, threads: int) -> list[Form]:
    """Return the ways to store a float32 model, from the largest to the smallest.

    What loses more comes later, and is left out if it is not smaller than all that lose less.

    Parameters
    ----------
    trees : sequence of TreeBlocks
    other_bytes : int
        Size of the other files of the model.
    threads : int
    """
    forms = [
        Form(StorageSettings(codec), other_bytes + dense_bytes(trees, codec))
        for codec in ("float32", "float16", "int8")
    ]
    thresholds = [0.0, *threshold_grid(trees)]
    for threshold, size, stored in zip(
        thresholds, *sparse_bytes(trees, np.array(thresholds), threads), strict=True
    ):
        forms.append(Form(StorageSettings(prune=threshold), other_bytes + int(size), int(stored)))
    smaller = forms[:1]
    for form in forms[1:]:
        if form.model_bytes < smaller[-1].model_bytes:
            smaller.append(form)
    return smaller


def form_of(storage: StorageSettings, trees: Sequence[TreeBlocks], other_bytes: int, threads: int) -> Form:
    """Return one way to store a float32 model, with its size."""
    if storage.prune is None:
        return Form(storage, other_bytes + dense_bytes(trees, storage.codec))
    n_bytes, n_nonzeros = sparse_bytes(trees, np.array([storage.prune]), threads)
    return Form(storage, other_bytes + int(n_bytes[0]), int(n_nonzeros[0]))


class Trials:
    """Compact copies of a model in a temporary directory, of which only the best so far is kept.

    Parameters
    ----------
    directory : Path
        It must exist.
    source : Model
        The float32 model.
    write : callable
        Takes storage settings, a directory to create and a progress callback, and returns the copy.
    validation : Validation, optional
        What copies are evaluated on. Default: they are not evaluated.
    threads : int, optional
    report : callable, optional
        Called with each trial.
    """

    def __init__(
        self,
        directory: Path,
        source: Model,
        write: Callable[[StorageSettings, Path, Progress | None], Model],
        validation: Validation | None,
        threads: int | None,
        report: Callable[[Trial], None] | None,
    ) -> None:
        self._directory = directory
        self._source = source
        self._write = write
        self._validation = validation
        self._threads = threads
        self._report = report
        self._copies: dict[Form, Path] = {}

    def measure(self, form: Form, progress: Progress | None = None) -> Trial:
        """Write a copy, unless it is the model itself, and evaluate it."""
        precision = None
        if self._validation is not None:
            exact = form.storage.codec == "float32"
            copy = self._source if exact else self._written(form, part_of(progress, 0, 2))
            precision = self._validation.precision(copy, self._threads)
        trial = Trial(form, precision)
        if self._report is not None:
            self._report(trial)
        if progress is not None and precision is not None:
            progress(1.0)
        return trial

    def keep(self, form: Form) -> None:
        """Remove all copies but this one."""
        for other in [other for other in self._copies if other != form]:
            shutil.rmtree(self._copies.pop(other))

    def path(self, form: Form, progress: Progress | None = None) -> Path:
        """Return the directory of a copy, which is written if it was not kept."""
        self.keep(form)
        if form not in self._copies:
            self._written(form, progress)
        return self._copies[form]

    def _written(self, form: Form, progress: Progress | None) -> Model:
        place = self._copies[form] = self._directory / form.storage.codec
        if form.storage.prune is not None:
            place = self._copies[form] = place.with_name(f"{form.storage.codec}-{form.storage.prune:g}")
        return self._write(form.storage, place, progress)


def choose(
    forms: Sequence[Form], budget: Budget, trials: Trials, validated: bool, progress: Progress | None = None
) -> Trial:
    """Return the form of a model that a budget allows, and its precision if there is validation data.

    Parameters
    ----------
    forms : sequence of Form
        As `list_forms` returns them; the first is the float32 model.
    budget : Budget
    trials : Trials
        Measures forms; at the end it keeps at most the copy of the form that is returned.
    validated : bool
        Whether there is validation data.
    progress : callable, optional
    """
    if budget.max_loss is not None:
        return _smallest(forms, budget.max_loss, trials, progress)
    assert budget.max_size is not None
    budget.check_least(forms[-1].model_bytes)
    fitting = [form for form in forms if form.model_bytes <= budget.max_size]
    if not validated:
        return trials.measure(fitting[0], progress)
    return _best(forms[0], fitting, trials, progress)


def _smallest(forms: Sequence[Form], max_loss: float, trials: Trials, progress: Progress | None) -> Trial:
    """Find the last form that loses at most `max_loss` points.

    Later forms lose more, so bisection finds it; but not steadily, so a few more are tried after it.
    """
    total = 1 + math.ceil(math.log2(len(forms))) + len(_MORE)
    best = original = trials.measure(forms[0], part_of(progress, 0, total))
    low, high, number = 0, len(forms), 1
    failed: set[int] = set()
    while high - low > 1:
        middle = (low + high) // 2
        trial = trials.measure(forms[middle], part_of(progress, number, total))
        number += 1
        if loss(original, trial) <= max_loss + _ROUNDING:
            low, best = middle, trial
        else:
            high = middle
            failed.add(middle)
        trials.keep(best.form)
    for more in sorted({high + step for step in _MORE if high + step < len(forms)} - failed):
        trial = trials.measure(forms[more], part_of(progress, number, total))
        number += 1
        if loss(original, trial) <= max_loss + _ROUNDING:
            best = trial
        trials.keep(best.form)
    return best


def _best(original: Form, fitting: Sequence[Form], trials: Trials, progress: Progress | None) -> Trial:
    """Find the form with the largest sum of P@1, P@3 and P@5: pruning costs precision, but not steadily."""
    tried = [fitting[k] for k in _FITTING if k < len(fitting)]
    total = len(tried) + (original not in tried)
    if original not in tried:  # to compare the others with
        trials.measure(original, part_of(progress, 0, total))
    best: Trial | None = None
    for number, form in enumerate(tried, total - len(tried)):
        trial = trials.measure(form, part_of(progress, number, total))
        if best is None or sum(trial.precision or ()) > sum(best.precision or ()):
            best = trial
        trials.keep(best.form)
    assert best is not None
    return best


def loss(original: Trial, trial: Trial) -> float:
    """Return the points that a trial loses of P@1, P@3 or P@5, whichever loses most."""
    assert original.precision is not None
    assert trial.precision is not None
    return max(a - b for a, b in zip(original.precision, trial.precision, strict=True))
