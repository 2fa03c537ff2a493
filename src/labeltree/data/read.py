"""Read a data file of any format: LIBSVM or documents, for training or for a model."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from labeltree.base.files import display_name
from labeltree.base.progress import Progress
from labeltree.base.system import threads_to_use
from labeltree.data.columns import Columns, format_of
from labeltree.data.documents import read_documents
from labeltree.data.svm import read_svm
from labeltree.errors import InputError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from pathlib import Path

    from labeltree.data.dataset import Dataset
    from labeltree.data.tfidf import TextFeatures


class Reader(Protocol):
    """A model, as far as reading needs it."""

    path: Path | None
    text: TextFeatures | None
    one_based: bool | None
    n_features: int


def resolve_format(path: str | os.PathLike[str], format: str | None, like: Reader | None) -> str:
    """Return the format of a data file, given or detected; refuse one that a model cannot use.

    A file whose name shows no format is in LIBSVM format, or plain text if a model was trained on text.
    """
    found = format or format_of(path)
    found = found or ("svm" if like is None or like.text is None else "txt")
    if like is not None and (found == "svm") != (like.text is None):
        if like.text is None:
            what = f"the file is text, but the model {like.path} was trained on LIBSVM data"
            hint = "pass a LIBSVM file, or set {format}"
        else:
            what = f"the file is in LIBSVM format, but the model {like.path} was trained on text"
            hint = "pass text (TSV, CSV, JSONL or plain lines), or set {format}"
        raise InputError(what, file=display_name(path), hint=hint, parameters={"format": None})
    return found


def check_path(path: Any) -> None:
    """Refuse what is not the name of a file, such as a matrix."""
    if not isinstance(path, str | os.PathLike):
        what = f"the data is of type {type(path).__name__}, expected a path or a Dataset"
        raise InputError(what, hint="make a Dataset with labeltree.Dataset.from_matrices(X, Y)")


def read_data(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    settings: TextSettings | None = None,
    like: Reader | None = None,
    one_based: bool | None = None,
    require_labels: bool = True,
    strict: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read a file of documents or a LIBSVM file as a dataset, as the command line does.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed; "-" for standard input.
    format : {"svm", "tsv", "csv", "jsonl", "txt"}, optional
        Default: detected from the extension of the file name; LIBSVM (svm) if it shows no format.
    columns : Columns, optional
        Names of the columns and separators of labels. Default: those of the model.
    settings : TextSettings, optional
        How documents become features.
    like : Model, optional
        Read the file for this model: with its features, its columns and its first index.
    one_based : bool, optional
        Whether the first feature of a LIBSVM file has the index 1. Default: as in training, or detected.
    require_labels : bool, default True
        Reject a file without any labels, and skip documents without text.
    strict : bool, default False
        Reject a document without text, and with `require_labels` one without labels.
    threads : int, optional
        Default: all CPUs.
    progress : callable, optional
        Called periodically with the fraction of the file read so far.

    Returns
    -------
    Dataset
        For a model, with at least its features.
    """
    check_path(path)
    given = format or format_of(path)
    format = resolve_format(path, format, like)
    if format != "svm":
        return read_documents(
            path,
            format,
            columns,
            settings=settings,
            features=None if like is None else like.text,
            require_labels=require_labels,
            strict=strict,
            threads=threads,
            progress=progress,
        )
    if like is not None and one_based is None:
        # A file that lacks the first feature does not show its base, but the model knows it.
        one_based = like.one_based
    try:
        dataset = read_svm(
            path, one_based=one_based, threads=threads_to_use(threads), require_labels=require_labels
        )
    except InputError as error:
        if given is None and error.line is not None:
            hint, more = "set {format} to tsv if the file is text", dict(error.parameters or {})
            raise error.replace(
                hint=f"{error.hint}, or {hint}" if error.hint else hint, parameters={**more, "format": None}
            ) from None
        raise
    if like is not None:
        return dataset.widen(like.n_features)
    if dataset.X.nnz == 0:  # such as a list of names
        raise InputError(
            "no row has any features (expected index:value pairs)",
            file=display_name(path),
            hint="check that this is the right file",
        )
    return dataset


def features_of(dataset: Dataset, path: Path | str) -> SimpleNamespace:
    """Return what decides how other data is read, like a model of a dataset would have it."""
    return SimpleNamespace(
        text=dataset.text,
        one_based=dataset.one_based,
        n_features=dataset.n_features,
        n_labels=dataset.n_labels,
        label_names=dataset.label_names,
        path=path,
    )
