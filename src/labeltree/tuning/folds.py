"""Folds: models like a given one, each trained on four fifths of its training data."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from labeltree.base.files import temporary_directory
from labeltree.data.dataset import Dataset
from labeltree.data.split import row_keys, split_rows
from labeltree.model.compress import Unseen
from labeltree.model.labeled_data import Labeled
from labeltree.settings import SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import make_plan

FOLDS = 5


def train_on_folds(data: Labeled, threads: int) -> Iterator[Unseen]:
    """Train models like that of the data, which is its training data, and yield each with its unseen rows.

    They have its trees, its settings and the features of its text; one at a time is in temporary files.
    """
    model, X, truth = data.model, data.dataset.X, data.truth
    known = {item.name for item in fields(SolverSettings)}
    stored = {name: value for name, value in model.manifest["settings"].items() if name in known}
    rows = Dataset(X, sp.csr_matrix(truth[:, : model.n_labels]))
    rows = rows.normalize() if model.normalized else rows
    fold_of = split_rows(truth, row_keys(X), [1 / FOLDS] * (FOLDS - 1), stored["seed"])
    for is_out in (fold_of == fold for fold in range(FOLDS)):
        train, out = rows.take(np.flatnonzero(~is_out)), np.flatnonzero(is_out)
        trees = [part.tree for part in model.trees]
        plan = make_plan(train, trees, SolverSettings(**stored), threads=threads)
        with temporary_directory(Path(tempfile.gettempdir()), "labeltree-folds-") as place:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # problems that did not converge count by what they predict
                one = train_model(train, plan, place / "model", score=model.score, sync=False)
            yield Unseen(one, X[out], truth[out])
