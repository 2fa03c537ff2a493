"""Training: fills the blocks of a plan, each written to its place on disk when it is done."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeltree import _native
from labeltree._version import __version__
from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.model import Model, load
from labeltree.plan import PANEL_BYTES, Plan, TreePlan
from labeltree.progress import Progress
from labeltree.store import new_model

# Squares of more than this, summed over a row, may not fit a float.
LARGEST_VALUE = 1e15
# Of less than this, the inverse may not fit a float.
SMALLEST_COST = 1e-15
LOSSES = _native.LOSSES


@dataclass(frozen=True)
class SolverSettings:
    """How each binary problem is solved: w'w / 2 + C * sum of losses.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "logistic"}
    cost : float, default 1
        Weight of the losses (C).
    tolerance : float, default 0.1
        The descent stops when the largest and the smallest projected gradient differ by no more. From 0.001
        up, instances with small gradients are then not looked at again if the duality gap was small at the
        last look at all of them: at 0.1 the objective ends about half a percent above its optimum.
    max_iterations : int, default 300
        Passes over a node's instances at most.
    bias : float, default 1
        Value of a constant feature added to every instance; 0 for none.
    seed : int, default 0
        Seed of the order in which instances are visited.
    """

    loss: str = "squared_hinge"
    cost: float = 1.0
    tolerance: float = 0.1
    max_iterations: int = 300
    bias: float = 1.0
    seed: int = 0

    @property
    def precise(self) -> bool:
        """Whether the descent runs in double precision: below this tolerance, float gradients are noise."""
        return self.tolerance < 1e-3

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(f"loss must be one of {', '.join(LOSSES)}, but got {self.loss!r}.")
        for name, least in (("cost", 0.0), ("tolerance", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > least):
                raise InputError(f"{name} must be greater than {least:g}, but got {value}.")
        if not (math.isfinite(self.bias) and self.bias >= 0):
            raise InputError(f"bias must be 0 or greater, but got {self.bias}.")
        if not SMALLEST_COST <= self.cost <= LARGEST_VALUE or self.bias > LARGEST_VALUE:
            raise InputError(
                f"cost must be from {SMALLEST_COST:g} to {LARGEST_VALUE:g} and bias at most as large, "
                f"but got cost {self.cost:g} and bias {self.bias:g}."
            )
        if self.max_iterations < 1:
            raise InputError(f"max_iterations must be at least 1, but got {self.max_iterations}.")
        if self.seed < 0:
            raise InputError(f"seed must be 0 or greater, but got {self.seed}.")


def train_model(
    dataset: Dataset,
    plan: Plan,
    path: Path | str,
    settings: SolverSettings | None = None,
    *,
    costs: ArrayLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    notes: dict[str, Any] | None = None,
) -> Model:
    """Train every block of a plan and write the model directory.

    Memory does not grow with the model: a block is written when it is done. The directory appears under its
    name when it is complete; on an error or Ctrl-C nothing is left behind, and what was there before stays.

    Parameters
    ----------
    dataset : Dataset
        The data that the plan was made for.
    plan : Plan
        From ``make_plan``.
    path : str or path-like
        The model directory to write.
    settings : SolverSettings, optional
    costs : array-like of float, optional
        A positive weight for each instance, multiplied with ``settings.cost``.
    overwrite : bool, default False
        Replace a model that is there, once the new one is complete.
    progress : callable, optional
        Called now and then with the fraction that is done.
    notes : dict, optional
        More to be kept in the manifest (JSON), such as how the trees were built.

    Returns
    -------
    Model
        The trained model, opened from disk.
    """
    settings = settings or SolverSettings()
    if (plan.n_instances, plan.n_features, plan.n_labels) != (*dataset.X.shape, dataset.n_labels):
        raise InputError("The plan was made for data of another shape; make the plan again.")
    if plan.bias != (settings.bias != 0):
        raise InputError(
            "The plan and the settings disagree on whether there is a bias; make the plan again."
        )
    largest = float(np.abs(dataset.X.data).max(initial=0))
    if largest > LARGEST_VALUE:
        raise InputError(
            f"The data has a value of size {largest:.2g}, too large to be squared and summed; "
            "scale the features, for instance each row to length 1."
        )
    weights = None if costs is None else np.ascontiguousarray(costs, np.float32)
    if weights is not None and not (
        weights.shape == (dataset.n_instances,) and (weights > 0).all() and np.isfinite(weights).all()
    ):
        raise InputError(
            f"costs must be one positive number for each of the {dataset.n_instances:,} instances."
        )
    path = Path(path)
    with new_model(path, overwrite) as writer:
        writer.write_facts(np.diff(dataset.by_label[0]), plan.label_names, plan.text)
        with ExitStack() as open_files:  # room on disk for all trees, before the first is trained
            files = [
                _Files(
                    *(
                        open_files.enter_context(writer.reserve(f"tree-{t}/{name}", part.files()[name]))
                        for name in ("features.npy", "weights.npy")
                    )
                )
                for t, part in enumerate(plan.trees)
            ]
            for t, part in enumerate(plan.trees):
                share = _share(progress, t, len(plan.trees))
                checksums = _train_tree(dataset, plan, part, files[t], settings, t, weights, share)
                writer.write(f"tree-{t}/child_ptr.npy", part.tree.child_ptr)
                writer.write(f"tree-{t}/children.npy", part.tree.children)
                writer.write(f"tree-{t}/feature_ptr.npy", part.feature_ptr)
                writer.write(f"tree-{t}/checksums.npy", checksums)
        writer.finish(
            {
                "labeltree_version": __version__,
                "instances": dataset.n_instances,
                "features": dataset.n_features,
                "labels": dataset.n_labels,
                "one_based": dataset.one_based,
                "trees": [{"nodes": part.tree.n_nodes, "depth": part.tree.depth} for part in plan.trees],
                "weights": plan.n_weights,
                "settings": asdict(settings),
                "notes": notes or {},
            }
        )
    return load(path, verify=False)


class _Files(NamedTuple):
    """A tree's two large files: descriptor, and where the data begins."""

    features: tuple[int, int]
    weights: tuple[int, int]


def _train_tree(
    dataset: Dataset,
    plan: Plan,
    part: TreePlan,
    files: _Files,
    settings: SolverSettings,
    number: int,
    costs: Any,
    progress: Progress | None,
) -> NDArray[np.uint32]:
    """Fill a tree's two large files; return the checksums of its nodes."""
    return _native.train_nodes(
        dataset.native,
        part.tree.native,
        costs,
        part.nonzeros,
        part.feature_ptr,
        part.weight_ptr,
        *files.features,
        *files.weights,
        settings.loss,
        settings.cost,
        settings.tolerance,
        settings.max_iterations,
        settings.bias,
        settings.seed + number,
        settings.precise,
        PANEL_BYTES,
        plan.threads,
        progress,
    )


def _share(progress: Progress | None, number: int, total: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done: progress((number + done) / total)
