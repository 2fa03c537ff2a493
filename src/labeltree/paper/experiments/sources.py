"""Find and read the datasets of a run: directories, single files, and downloaded datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from labeltree.base.progress import Stage, silent
from labeltree.data.dataset import Dataset
from labeltree.data.documents import read_documents
from labeltree.data.published import SOURCES, cache_directory, fetch
from labeltree.data.read import read_data
from labeltree.data.svm import read_svm
from labeltree.data.tfidf import TextFeatures
from labeltree.errors import InputError
from labeltree.paper.experiments.session import Split, check_names

ENDINGS = ("", ".bz2", ".gz", ".xz")
KINDS = (".svm", ".txt", ".tsv", ".csv", ".jsonl")


# Reads a file: training data, or with the features of given training data.
Read = Callable[[Path, Dataset | None], Dataset]


def load_splits(
    data: Iterable[str | Path],
    *,
    read: Read | None = None,
    threads: int | None = None,
    stage: Stage = silent,
) -> list[Split]:
    """Read datasets.

    Parameters
    ----------
    data : iterable of path-like
        Each a directory with train.svm and optionally test.svm (or .txt, or documents in .tsv, .csv or
        .jsonl; plain or compressed), a training file, or the name of a downloaded dataset of the paper.
    read : callable, optional
        Reads a file: takes its path, and the training data if it is test data, otherwise None. Default:
        `labeltree.read_data`, which reads documents with the default columns.
    threads : int, optional
        Default: all CPUs. Ignored if ``read`` is given.
    stage : callable, optional
        Shows the progress of each step, as ``labeltree.cli.progress.Stages.stage`` does.

    Returns
    -------
    list of Split
        In the given order, named after their directories.
    """
    places = [(str(given), *_find(str(given))) for given in data]  # find all before reading the first
    check_names([name for _, name, _ in places])
    read = read or partial(_read, threads)
    splits: list[Split] = []
    for given, name, files in places:
        if not files:
            found = fetch(given, stage=stage)
            splits.append(Split(name, found.train, found.test))
            continue
        with stage(f"read_{name}", f"reading {name}"):
            train = read(files[0], None)
            rest = [read(file, train) for file in files[1:]]
        splits.append(Split(name, train, *rest))
    return splits


def _read(threads: int | None, file: Path, train: Dataset | None) -> Dataset:
    if train is None:
        return read_data(file, threads=threads)
    if isinstance(train.text, TextFeatures):
        return read_documents(file, features=train.text, threads=threads)
    return read_svm(file, threads=threads, one_based=train.one_based).widen(train.n_features)


def _find(given: str) -> tuple[str, list[Path]]:
    """Return the name of a dataset and its training and test files; no files for one of the paper's."""
    place = Path(given)
    if place.is_dir():
        train, test = (_part(place, part) for part in ("train", "test"))
        if train is None:
            raise InputError(
                "no train.svm in this directory", file=given, hint="pass the directory of one dataset"
            )
        return place.resolve().name, [train] if test is None else [train, test]
    if place.exists():
        stem = place.name.split(".")[0]
        return (place.resolve().parent.name if stem == "train" else stem) or "data", [place]
    if given in SOURCES:
        file = SOURCES[given].train_file
        if file and not (cache_directory() / file).exists():
            raise InputError(
                f"the dataset {given} has not been downloaded yet", hint=f"run: labeltree download {given}"
            )
        return given, []
    raise InputError(
        "no such file or directory",
        file=given,
        hint=f"pass a directory with train.svm, a training file, or one of {', '.join(SOURCES)}",
    )


def _part(directory: Path, part: str) -> Path | None:
    paths = (directory / f"{part}{kind}{ending}" for kind in KINDS for ending in ENDINGS)
    return next((path for path in paths if path.is_file()), None)
