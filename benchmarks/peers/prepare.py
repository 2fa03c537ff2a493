"""Write the matrices and files that all libraries start from, once per dataset.

usage: python prepare.py DATASET OUT [--threads 2]

DATASET is a directory with train.svm and test.svm, plain or compressed; labels are numbered
from 0, features from 1.
OUT gets X, Y, Xt, Yt as .npz without the labels and features that are missing from train, train.svm (plain),
train.xmc (with the header of the XMC repository, without rows that have no features), and about.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import sparse
from sources import find_split

import labeltree
from labeltree import Dataset, InputError


def source_of(folder):
    """Return sizes and times of the source files, to detect changes."""
    files = [find_split(folder, split).stat() for split in ("train", "test")]
    return [[file.st_size, file.st_mtime_ns] for file in files]


def read_split(folder, split, threads, **shape):
    path = find_split(folder, split)
    if path is None:
        raise InputError(f"{split}.svm is missing", file=folder, hint="add both splits, plain or compressed")
    data = labeltree.read_svm(path, one_based=True, threads=threads, require_labels=False, **shape)
    if data.label_names is not None:
        raise InputError("labels are names, expected numbers from 0", file=path)
    return data


def shared_matrices(train, test):
    """Return X, Y, Xt, Yt with the features and labels of train only."""
    used, seen = np.flatnonzero(train.X.getnnz(0)), np.flatnonzero(train.Y.getnnz(0))
    width, labels = max(train.n_features, test.n_features), max(train.n_labels, test.n_labels)
    parts = [(train.X, width, used), (train.Y, labels, seen), (test.X, width, used), (test.Y, labels, seen)]
    return [_columns(matrix, size, kept) for matrix, size, kept in parts]


def _columns(matrix, width, kept):
    wide = sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))
    narrow = sparse.csr_matrix(wide[:, kept])
    narrow.sort_indices()
    return narrow


def describe(X, Y, Xt):
    """Return the shape of the prepared data."""
    return {
        "train_rows": X.shape[0],
        "test_rows": Xt.shape[0],
        "features": X.shape[1],
        "labels": Y.shape[1],
        "features_per_row": X.nnz / X.shape[0],
        "labels_per_row": Y.nnz / Y.shape[0],
    }


def prepare(source, out, threads=2):
    """Write what the competitors need unless it is up to date; return the contents of about.json."""
    out = Path(out)
    about_path = out / "about.json"
    if about_path.exists():
        about = json.loads(about_path.read_text())
        if about["source"] == source_of(source):
            return about
        about_path.unlink()
    train, test = (read_split(source, split, threads) for split in ("train", "test"))
    out.mkdir(parents=True, exist_ok=True)
    X, Y, Xt, Yt = shared_matrices(train, test)
    for name, matrix in (("X", X), ("Y", Y), ("Xt", Xt), ("Yt", Yt)):
        sparse.save_npz(out / f"{name}.npz", matrix, compressed=False)
    labeltree.write_svm(out / "train.svm", Dataset.from_matrices(X, Y), one_based=True)
    filled = np.flatnonzero(np.diff(X.indptr))
    labeltree.write_svm(out / "train.xmc", Dataset.from_matrices(X[filled], Y[filled]), header=True)
    about = {"name": Path(source).name, **describe(X, Y, Xt), "source": source_of(source)}
    about_path.write_text(json.dumps(about, indent=1))  # last: it marks the rest as complete
    return about


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    try:
        print(json.dumps(prepare(given.source, given.out, given.threads)))
    except InputError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
