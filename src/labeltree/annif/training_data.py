"""Training data of a project: documents as TF-IDF features, kept to train again with other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from labeltree.base.files import write_whole
from labeltree.data.dataset import Dataset, wrap_csr
from labeltree.data.svm import read_svm, write_svm
from labeltree.errors import InputError
from labeltree.trees.tree import pointers

# Files of a project's data directory. Annif ignores names with "-train" when it looks for a trained model.
DATA = "labeltree-train.svm"
FITTED = "labeltree-train-vectorizer"
VECTORIZER = "vectorizer"


def write_training_data(
    directory: Path,
    documents: Iterable[tuple[str, Sequence[int]]],
    n_subjects: int,
    tokenize: Callable[[str], list[str]],
    parameters: Mapping[str, Any],
) -> None:
    """Fit a vectorizer, and write it with the features and subjects of the documents.

    Documents without a subject or without a term are left out. Documents are read once, as texts with the
    numbers of their subjects. `tokenize` is stored with the vectorizer, by pickle.
    """
    vectorizer = TfidfVectorizer(
        tokenizer=tokenize,
        token_pattern=None,
        min_df=parameters["min_df"],
        ngram_range=(1, parameters["ngram"]),
        sublinear_tf=parameters["sublinear"],
        dtype=np.float32,
    )
    subjects: list[Sequence[int]] = []
    all_read = False

    def texts() -> Iterator[str]:
        nonlocal all_read
        for text, numbers in documents:
            subjects.append(numbers)
            yield text
        all_read = True

    try:
        X = vectorizer.fit_transform(texts())
    except ValueError:
        if not all_read:
            raise
        # scikit-learn found no term, or none that is frequent enough.
        hint = "check the {analyzer}, and lower {min_df}"
        names = {"analyzer": None, "min_df": None}
        raise InputError("the documents have no term to learn from", hint=hint, parameters=names) from None
    indptr = pointers(np.array([len(numbers) for numbers in subjects], np.int64))
    indices = np.fromiter((number for numbers in subjects for number in numbers), np.int32, int(indptr[-1]))
    Y = wrap_csr(np.ones(indices.size, np.float32), indices, indptr, (len(subjects), n_subjects))
    used = (np.diff(X.indptr) > 0) & (np.diff(indptr) > 0)
    if not used.any():
        what = "no document has both a subject of the vocabulary and a term"
        raise InputError(what, hint="check that the documents have subjects of this vocabulary")
    # An interruption leaves no data rather than data of another vectorizer.
    (directory / DATA).unlink(missing_ok=True)
    with write_whole(directory / FITTED) as file:
        joblib.dump(vectorizer, file)
    write_svm(directory / DATA, Dataset.from_matrices(X[used], Y[used]), header=True)


def read_training_data(
    directory: Path, uri_of: Callable[[int], str | None], threads: int | None = None
) -> Dataset:
    """Read the training data, with the URIs of subjects as the names of labels.

    It has the labels that occur, without those whose URI is None, which are no longer in use.
    """
    if not (directory / DATA).is_file() or not (directory / FITTED).is_file():
        raise InputError("there is no training data of a previous run", hint="train with documents first")
    data = read_svm(directory / DATA, threads=threads)
    occurring = np.unique(data.Y.indices)
    uris = [uri_of(int(number)) for number in occurring]
    kept = [column for column, uri in enumerate(uris) if uri is not None]
    if not kept:
        what = "none of the subjects of the training data is in the vocabulary"
        raise InputError(what, hint="train with documents that have subjects of this vocabulary")
    Y = sparse.csr_matrix(data.Y[:, occurring[kept]])
    rows = np.diff(Y.indptr) > 0
    return Dataset.from_matrices(data.X[rows], Y[rows], [uri for uri in uris if uri is not None])
