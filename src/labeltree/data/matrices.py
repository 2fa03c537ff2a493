"""Read sparse matrices that SciPy has written as .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.data.dataset import Dataset
from labeltree.errors import InputError


def read_npz(files: Sequence[str], *, require_labels: bool = True) -> Dataset:
    """Read the features and the labels of two files, or a file as `labeltree convert` writes it.

    Parameters
    ----------
    files : sequence of str
        X and Y, as `scipy.sparse.save_npz` writes them, or a single file with both or without labels.
    require_labels : bool, default True
        Reject a file without labels.

    Returns
    -------
    Dataset
    """
    if len(files) > 2:
        what = f"there are {len(files)} .npz files, expected two"
        raise InputError(what, hint="pass the features and the labels, such as X.npz Y.npz")
    X, Y, names = _read(files[0])
    if len(files) == 2:
        Y, _, names = _read(files[1])
    if Y is None:
        if require_labels:
            hint = "add the file with the labels, as in X.npz Y.npz"
            raise InputError("the file has features only", file=files[0], hint=hint)
        return Dataset.from_matrices(X, np.zeros((X.shape[0], 1), np.float32))
    return Dataset.from_matrices(X, Y, names)


def _read(file: str) -> tuple[Any, Any, list[str] | None]:
    """Return the matrix of a file, and the labels and their names if it has any."""
    try:
        matrix = sparse.load_npz(file)
        with np.load(file) as arrays:
            if "labels_indptr" not in arrays:
                return matrix, None, None
            indices, indptr = arrays["labels_indices"], arrays["labels_indptr"]
            shape = (len(indptr) - 1, int(arrays["n_labels"]))
            names = arrays["label_names"].tolist() if "label_names" in arrays else None
        return matrix, sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape), names
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        what = f"the file is not a sparse matrix ({' '.join(str(error).split())})"
        raise InputError(what, file=file, hint="write it with scipy.sparse.save_npz") from None
