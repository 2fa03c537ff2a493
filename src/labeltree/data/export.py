"""Write a dataset as NumPy arrays in one .npz file, without pickle."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from labeltree.base.files import write_whole
from labeltree.data.dataset import Dataset


def write_npz(path: str | os.PathLike[str], dataset: Dataset) -> None:
    """Write the features as ``scipy.sparse.load_npz`` reads them, with the labels in the same file.

    Parameters
    ----------
    path : str or path-like
        The file; an existing one is replaced once the new one is complete.
    dataset : Dataset
        ``labels_indptr`` and ``labels_indices`` are the labels of each row, ``n_labels`` their number, and
        ``label_names`` and ``feature_names`` the names, if there are any.
    """
    X, Y = dataset.X, dataset.Y
    arrays: dict[str, Any] = {
        "format": b"csr",
        "shape": X.shape,
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "labels_indptr": Y.indptr,
        "labels_indices": Y.indices,
        "n_labels": Y.shape[1],
    }
    names = None if dataset.text is None else dataset.text.names
    for key, value in (("label_names", dataset.label_names), ("feature_names", names)):
        if value is not None:
            arrays[key] = np.array(value, dtype=np.str_)
    with write_whole(path) as file:
        np.savez_compressed(file, **arrays)  # no objects, so no pickle
