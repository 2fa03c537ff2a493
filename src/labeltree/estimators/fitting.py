"""Check the arguments of ``fit`` and combine them into a dataset and its weights."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.build import build_plan
from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.estimators.targets import Target
from labeltree.limits import LARGEST_VALUE, SMALLEST_COST
from labeltree.plan import Plan
from labeltree.settings import SOLVER_LIMITS, TREE_LIMITS, SolverSettings, TreeSettings


def plan_model(chosen: dict[str, Any], dataset: Dataset) -> Plan:
    """Build the trees with an estimator's parameters, or take the given one, and plan the model."""
    return build_plan(
        dataset,
        tree_settings(chosen),
        SolverSettings(**{name: chosen[name] for name in SOLVER_LIMITS}),
        threads=chosen["threads"],
        memory_limit=sys.maxsize if chosen["force"] else chosen["memory_limit"],
    )


def tree_settings(chosen: dict[str, Any]) -> TreeSettings:
    """Return the tree settings among an estimator's parameters."""
    return TreeSettings(**{name: chosen[name] for name in TREE_LIMITS})


def check_rows(rows: int, target: Target) -> None:
    """Refuse X and Y with different numbers of rows."""
    if rows != target.Y.shape[0]:
        raise InputError(f"X has {rows} rows and Y has {target.Y.shape[0]}")


def join(
    rows: Any, target: Target, sample_weight: Any, cost: float
) -> tuple[Dataset, NDArray[np.float64] | None]:
    """Return the dataset without rows of weight 0, and the weights of the other rows."""
    check_rows(rows.shape[0], target)
    Y, weights = target.Y, None
    if sample_weight is not None:
        weights = _weights(sample_weight, rows.shape[0], cost)
        if not weights.all():
            kept = np.flatnonzero(weights)
            rows, Y, weights = rows[kept], Y[kept], weights[kept]
    dataset = Dataset.from_matrices(rows, Y, target.label_names)
    if dataset.Y.nnz == 0:
        raise InputError("Y has no positive entry")
    return dataset, weights


def _weights(sample_weight: Any, rows: int, cost: float) -> NDArray[np.float64]:
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}, expected one weight for each of the {rows} rows"
        )
    if not (weights >= 0).all() or not np.isfinite(weights).all():
        raise InputError("sample_weight contains a negative number, NaN or infinity")
    if not weights.any():
        raise InputError("every sample_weight is zero")
    costs = cost * weights[weights > 0]
    if costs.min() < SMALLEST_COST or costs.max() > LARGEST_VALUE:
        raise InputError(
            f"sample_weight times cost ranges from {costs.min():g} to {costs.max():g}, expected "
            f"{SMALLEST_COST:g} to {LARGEST_VALUE:g}",
            hint="scale the weights",
        )
    return weights
