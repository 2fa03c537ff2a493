"""The steps of ``fit``: combine X, y and weights into a dataset, plan the model, and train it."""

from __future__ import annotations

import sys
import tempfile
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
from labeltree.settings import (
    SOLVER_LIMITS,
    STORAGE_LIMITS,
    TREE_LIMITS,
    SolverSettings,
    StorageSettings,
    TreeSettings,
    stored_score,
)
from labeltree.training.build import build_plan
from labeltree.training.fill import train_model
from labeltree.training.plan import Plan

# How scikit-learn checks X. `Dataset` checks that the values are finite.
CHECKS_OF_X: dict[str, Any] = {"accept_sparse": "csr", "ensure_all_finite": False}


def check_rows(n_rows: int, target: Target) -> None:
    """Refuse X and Y with different numbers of rows."""
    if n_rows != target.Y.shape[0]:
        raise InputError(f"X has {n_rows} rows and Y has {target.Y.shape[0]}")


def make_dataset(
    rows: Any, target: Target, sample_weight: Any, parameters: dict[str, Any]
) -> tuple[Dataset, NDArray[np.float64] | None]:
    """Return the dataset without rows of weight 0, and the weights of the other rows."""
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
    if weights is not None:
        solver = _solver(parameters, dataset, weights)
        for cost in (solver.cost, solver.max_cost):
            assert cost is not None
            _check_costs(cost * weights)
    return dataset, weights


def plan_model(
    parameters: dict[str, Any], dataset: Dataset, weights: NDArray[np.float64] | None = None
) -> Plan:
    """Build the trees, or use the given one, and plan the model, with the parameters of an estimator."""
    return build_plan(
        dataset,
        tree_settings(parameters),
        _solver(parameters, dataset, weights),
        StorageSettings(**{name: parameters[name] for name in STORAGE_LIMITS}),
        normalize=parameters["normalize"],
        threads=parameters["threads"],
        memory_limit=sys.maxsize if parameters["force"] else parameters["memory_limit"],
    )


def _solver(
    parameters: dict[str, Any], dataset: Dataset, weights: NDArray[np.float64] | None
) -> SolverSettings:
    """Return the settings of the solver, with the default cost of the rows that it is given."""
    solver = SolverSettings(**{name: parameters[name] for name in SOLVER_LIMITS})
    scaled = solver.cost is None and parameters["normalize"]  # a given cost does not depend on the rows
    return solver.for_data(dataset.normalize() if scaled else dataset, weights)


def train_unsaved(parameters: dict[str, Any], dataset: Dataset, weights: NDArray[np.float64] | None) -> Model:
    """Train a model in a temporary directory, map its files into memory, and delete the directory.

    The operating system keeps the mapped files as long as this process, or one forked from it, uses them. So
    nothing has to be cleaned up, even after a crash, and memory does not grow with the model.
    """
    plan = plan_model(parameters, dataset, weights)
    if not parameters["force"]:
        plan.check_resources(Path(tempfile.gettempdir()), parameters["memory_limit"])
    notes = tree_settings(parameters).notes()
    with temporary_directory(Path(tempfile.gettempdir()), "labeltree-fit-") as directory:
        score = stored_score(parameters["score_function"], parameters["score_scale"])
        # What is deleted at once need not reach the disk.
        path, costs = directory / "model", weights
        model = train_model(dataset, plan, path, costs=costs, score=score, notes=notes, sync=False)
        model.path = None
    return model


def tree_settings(parameters: dict[str, Any]) -> TreeSettings:
    """Return the settings of the trees among the parameters of an estimator."""
    return TreeSettings(**{name: parameters[name] for name in TREE_LIMITS})


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
