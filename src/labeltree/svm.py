"""Stand-in for the real svm module, until it lands."""

from __future__ import annotations

from pathlib import Path

from labeltree.data import Dataset


def write_svm(path: Path, dataset: Dataset, *, one_based: bool = True, header: bool = False) -> None:
    """Write LIBSVM text."""
    first = int(one_based)
    with path.open("w") as file:
        if header:
            file.write(f"{dataset.X.shape[0]} {dataset.X.shape[1]} {dataset.Y.shape[1]}\n")
        for i in range(dataset.X.shape[0]):
            labels = dataset.Y.indices[dataset.Y.indptr[i] : dataset.Y.indptr[i + 1]]
            span = slice(dataset.X.indptr[i], dataset.X.indptr[i + 1])
            pairs = zip(dataset.X.indices[span], dataset.X.data[span], strict=True)
            file.write(",".join(map(str, labels)) + " ")
            file.write(" ".join(f"{j + first}:{x:.8g}" for j, x in pairs) + "\n")
