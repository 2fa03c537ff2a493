"""The steps of ``fit``: combine X, y and weights into a dataset, and train a model that is not saved."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base.limits import LARGEST_VALUE, SMALLEST_COST
from labeltree.base.tempdirs import temporary_directory
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.estimators.targets import Target
from labeltree.model.model import Model
from labeltree.settings import ModelSettings
from labeltree.training.costs import with_costs
from labeltree.training.train import train_dataset

# How scikit-learn checks X. `Dataset` checks that the values are finite.
CHECKS_OF_X: dict[str, Any] = {"accept_sparse": "csr", "ensure_all_finite": False}


def check_rows(n_rows: int, target: Target) -> None:
    """Refuse X and Y with different numbers of rows."""
    if n_rows != target.Y.shape[0]:
        raise InputError(f"X has {n_rows} rows and Y has {target.Y.shape[0]}")


def make_dataset(
    rows: Any, target: Target, sample_weight: Any, settings: ModelSettings
) -> tuple[Dataset, NDArray[np.float64] | None, ModelSettings]:
    """Return the dataset without rows of weight 0, the weights of the others, and settings with its costs."""
    check_rows(rows.shape[0], target)
    Y, weights = target.Y, None
    if sample_weight is not None:
        weights = _check_weights(sample_weight, rows.shape[0])
        if not weights.all():
            kept = np.flatnonzero(weights)
            rows, Y, weights = rows[kept], Y[kept], weights[kept]
    dataset = Dataset.from_matrices(rows, Y, target.label_names)
    if dataset.Y.nnz == 0:
        raise InputError("Y has no positive entry")
    scaled = dataset.normalize() if settings.normalize else dataset
    solver = with_costs(settings.solver, scaled.X, weights)
    if weights is not None:
        for cost in (solver.cost, solver.max_cost):
            assert cost is not None
            _check_costs(cost * weights)
    return dataset, weights, replace(settings, solver=solver)


def train_unsaved(
    dataset: Dataset,
    weights: NDArray[np.float64] | None,
    settings: ModelSettings,
    *,
    threads: int | None,
    memory_limit: int | None,
    force: bool,
) -> Model:
    """Train a model in a temporary directory, map its files into memory, and delete the directory.

    The operating system keeps the mapped files as long as this process, or one forked from it, uses them. So
    nothing has to be cleaned up, even after a crash, and memory does not grow with the model.
    """
    with temporary_directory(Path(tempfile.gettempdir()), "labeltree-fit-") as directory:
        # What is deleted at once need not reach the disk.
        _, model = train_dataset(
            dataset,
            directory / "model",
            settings,
            costs=weights,
            threads=threads,
            memory_limit=memory_limit,
            force=force,
            sync=False,
        )
        model.path = None
    return model


def _check_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}, expected one weight for each of the {n_rows} rows"
        )
    if not (weights >= 0).all() or not np.isfinite(weights).all():
        raise InputError("sample_weight contains a negative number, NaN or infinity")
    if not weights.any():
        raise InputError("every sample_weight is zero")
    return weights


def _check_costs(costs: NDArray[np.float64]) -> None:
    if costs.min() < SMALLEST_COST or costs.max() > LARGEST_VALUE:
        raise InputError(
            f"sample_weight times cost ranges from {costs.min():g} to {costs.max():g}, expected "
            f"{SMALLEST_COST:g} to {LARGEST_VALUE:g}",
            hint="scale the weights",
        )
