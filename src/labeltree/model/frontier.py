"""The frontier of a model: its size against its precision, over thresholds, types of weights and trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base.progress import Progress
from labeltree.base.system import threads_to_use
from labeltree.base.tempdirs import temporary_directory
from labeltree.evaluation import metrics
from labeltree.model.compress import (
    Form,
    Trial,
    TrialReport,
    check_source,
    loss,
    sparse_bytes,
    threshold_grid,
)
from labeltree.model.labeled import Validation
from labeltree.model.model import Model
from labeltree.settings import DEFAULT_RANKS, StorageSettings

# Thresholds per power of ten, and the shares of the non-zero weights that they may keep.
PER_DECADE = 8
MOST_KEPT, LEAST_KEPT = 0.9, 0.0005


class PointReport(TrialReport):
    """A point under the names that the command line and the CSV file use."""

    trees: int
    chosen: bool


@dataclass(frozen=True, eq=False)
class Point:
    """The first trees of a model, stored in some form, and how well they predict.

    Attributes
    ----------
    trees : int
    form : Form
    hits : ndarray of bool, rows x 5
        Which of the first five predictions of each row are correct.
    """

    trees: int
    form: Form
    hits: NDArray[np.bool_]

    @property
    def trial(self) -> Trial:
        """The form with P@1, P@3 and P@5 in percent."""
        return Trial(
            self.form, tuple(100 * metrics.row_precision(self.hits, k).mean() for k in DEFAULT_RANKS)
        )

    def report(self, chosen: bool) -> PointReport:
        """Return all figures of the point."""
        return {"trees": self.trees, **self.trial.report(), "chosen": chosen}


def default_storages(model: Model, threads: int | None = None) -> list[StorageSettings]:
    """Return the forms of a frontier: all dense types, and thresholds at equal ratios.

    Thresholds that keep almost all weights, or almost none, are left out.
    """
    grid = threshold_grid(model.trees, PER_DECADE)
    _, kept = sparse_bytes(model.trees, np.array([0.0, *grid]), threads_to_use(threads))
    shares = kept[1:] / max(int(kept[0]), 1)
    useful = [t for t, share in zip(grid, shares, strict=True) if LEAST_KEPT <= share <= MOST_KEPT]
    dense = [StorageSettings(codec) for codec in ("float32", "float16", "int8")]
    return dense + [StorageSettings(prune=threshold) for threshold in (0.0, *useful)]


def tree_counts(n_trees: int) -> list[int]:
    """Return how many of the first trees are evaluated: 1, 2, 4, ... and all of them.

    Examples
    --------
    >>> tree_counts(1), tree_counts(3), tree_counts(8)
    ([1], [1, 2, 3], [1, 2, 4, 8])
    """
    return sorted({2**k for k in range(n_trees.bit_length()) if 2**k <= n_trees} | {n_trees})


def measure(
    model: Model,
    validation: Validation,
    directory: Path,
    storages: Sequence[StorageSettings] | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    **search: Any,
) -> list[Point]:
    """Evaluate a model in several forms.

    Parameters
    ----------
    model : Model
        With float32 weights.
    validation : Validation
        Labeled data that the model was not trained on, with the labels of the model.
    directory : Path
        An existing directory, where one compact copy exists at a time, in a temporary directory.
    storages : sequence of StorageSettings, optional
        The first is float32, to compare the others with. Default: `default_storages`.
    threads : int, optional
        Default: all CPUs.
    progress : callable, optional
    **search
        Options of `Model.predict`, such as ``beam``.

    Returns
    -------
    list of Point
        For every form, one per number of trees.
    """
    check_source(model.path, model.trees)
    storages = default_storages(model, threads) if storages is None else storages
    thresholds = np.array([storage.prune or 0.0 for storage in storages])
    n_nonzeros = np.cumsum(
        [sparse_bytes([part], thresholds, threads_to_use(threads))[1] for part in model.trees], axis=0
    )
    points = []
    for number, storage in enumerate(storages):
        with temporary_directory(directory, ".labeltree-") as work:
            copy = model
            if storage.codec != "float32":
                weights = None if storage.prune is not None else storage.weights
                copy = model.compress(
                    Path(work) / "model", weights=weights, prune=storage.prune, threads=threads
                )
            for trees in tree_counts(len(model.trees)):
                part = first_trees(copy, trees)
                labels, _ = part.predict(validation.X, top=max(DEFAULT_RANKS), threads=threads, **search)
                ranked = metrics.pad_labels(labels, max(DEFAULT_RANKS))
                stored = None if storage.prune is None else int(n_nonzeros[trees - 1, number])
                form = Form(storage, part.bytes, stored)
                hits = metrics.hits(validation.truth, ranked, max(DEFAULT_RANKS))
                points.append(Point(trees, form, hits))
        if progress is not None:
            progress((number + 1) / len(storages))
    return points


def chosen_points(points: Sequence[Point], max_loss: float) -> list[Point]:
    """Return the smallest point for each number of trees within a loss, in percentage points.

    The loss is that of P@1, P@3 or P@5, whichever is largest, against float32 weights of the same trees.
    """
    chosen = []
    for trees in dict.fromkeys(point.trees for point in points):
        mine = [point for point in points if point.trees == trees]
        original = next(point for point in mine if point.form.storage.codec == "float32").trial
        allowed = [point for point in mine if loss(original, point.trial) <= max_loss + 1e-9]
        chosen.append(min(allowed, key=lambda point: point.form.model_bytes))
    return chosen


def first_trees(model: Model, trees: int) -> Model:
    """Return a model that predicts with the first trees only, from the same files."""
    if trees == len(model.trees):
        return model
    others = tuple(f"tree-{t}/" for t in range(trees, len(model.trees)))
    files = {name: entry for name, entry in model.manifest["files"].items() if not name.startswith(others)}
    manifest: Any = {**model.manifest, "files": files, "trees": model.manifest["trees"][:trees]}
    parts = model.trees[:trees]
    return Model(model.path, manifest, parts, model.label_counts, model.label_names, model.text)
