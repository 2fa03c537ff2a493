"""Upper bounds on the memory of training, known before it begins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.model.layout import SPARSE, is_scaled

# A thread holds at most this many bytes of a node's weights in memory; wider nodes are trained in strips.
PANEL_BYTES = 128 << 20
# The score and the threshold are chosen with tiles of a node's weights, and as many sums: each has at most
# this many bytes, or eight columns.
TILE_BYTES = 16 << 20
# They are tried on some rows, each with lists of its best nodes and labels by every function: first on some
# with many labels, then on more, at most.
TRIAL_ROWS = 1_500, 5_000
TRIAL_ROW_BYTES = 10 << 10, 3 << 10
# Bytes per label of the arrays that describe a tree while it is trained.
LABEL_BYTES = 40


def solver_bytes(
    children: NDArray[np.int64],
    instances: NDArray[np.int64],
    nonzeros: NDArray[np.int64],
    used_features: NDArray[np.int64],
    codec: str,
    n_features: int,
    threads: int,
    precise: bool,
) -> int:
    """Return an upper bound on the memory for training nodes with these counts; the first is the root."""
    features = used_features + 1
    copied = nonzeros * 8
    copied[0] = 0  # the root trains on the data as it is
    whole = features * children * 4
    if codec == SPARSE:  # a panel as bytes, and the same encoded, which is copied once
        strip = 3 * features * (np.minimum(children, _native.PANEL_CHILDREN) + 12)
        n_strips = -(-children // _native.PANEL_CHILDREN)
    else:
        strip = np.minimum(whole, np.maximum(PANEL_BYTES, features * _native.LINE_BYTES))
        n_strips = -(-whole // strip)
    # Per instance: its number, a pointer, norm, squares of its own features, cost and the marks of its
    # siblings. Per feature: its number, its place in the solver and its sum.
    rows = features.copy()
    rows[0] = n_features + 1  # the root does not renumber its features
    held = copied + strip + instances * 28 + features * 8 + rows * 4
    held = np.repeat(held, np.minimum(n_strips, threads))  # strips of one node at the same time
    solver = (rows + instances) * _native.LINE_BYTES * (1 + precise) + instances * 4
    solver += rows * _native.NEWTON_FEATURE_BYTES + instances * _native.NEWTON_INSTANCE_BYTES
    numbers = 4 * max(int(instances[0]), n_features) + (int(instances[0]) + n_features) // 8
    groups = -(-children // _native.SIBLINGS)
    solver = np.repeat(solver, np.minimum(groups, threads))  # a thread solves a group at a time
    training = int(np.sort(held)[-threads:].sum() + np.sort(solver)[-threads:].sum()) + threads * numbers
    if not is_scaled(codec):  # the trial of score functions takes less
        return training
    tile = np.minimum(features * (children + 7) * 4, np.maximum(TILE_BYTES, features * 32))
    trial = 2 * tile + features * 16
    return max(training, int(np.sort(trial)[-threads:].sum()) + threads * 3 * numbers)


def trial_bytes(n_instances: int) -> int:
    """Return the memory that the trial of score functions needs for the rows that they rank."""
    return max(n_bytes * min(n_instances, n) for n_bytes, n in zip(TRIAL_ROW_BYTES, TRIAL_ROWS, strict=True))
