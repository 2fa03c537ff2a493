"""The paper's six data sets: fetched into a cache, held against their published numbers, and read."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.datasets.download import download
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data import Dataset

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/"
BY_HAND = "https://github.com/yourh/AttentionXML"

# How far a count may lie from the published one: a last feature that occurs nowhere is no other data set.
NEAR = 0.01

# (name, what to tell) -> a context that takes the fraction that is done, as `cli.progress.Stages.stage`.
Stage = Callable[[str, str], AbstractContextManager[Callable[[float], None]]]

# Who published a number. The repositories: LIBSVM's and the Extreme Classification Repository.
PAPER, PECOS, BOTH, REPOSITORIES = "the paper", "PECOS", "the paper and PECOS", "the repositories"


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and what was published of it.

    Attributes
    ----------
    instances, features, labels : int
        Of the training set, by the paper's table tbl:dataset-stat.
    nonzeros, tags : int
        Non-zero features and labels of the training set, by PECOS's table of the same sets.
    test_instances : int
    train, test : str
        Names of the files at `LIBSVM`; empty if the set is to be fetched by hand.
    title : str
        What it is called at `BY_HAND`, if it is to be fetched there.
    pecos_features : int
        Features by PECOS's table, where it differs: 0 if it does not.
    """

    instances: int
    features: int
    labels: int
    nonzeros: int
    tags: int
    test_instances: int
    train: str = ""
    test: str = ""
    title: str = ""
    pecos_features: int = 0


SETS = {
    "eur-lex": Source(
        *(15_449, 186_104, 3_956, 4_194_123, 82_265, 3_865),
        *("eurlex_tfidf_train.svm.bz2", "eurlex_tfidf_test.svm.bz2"),
    ),
    "amazoncat-13k": Source(
        *(1_186_239, 203_882, 13_330, 84_415_397, 5_979_439, 306_782),
        *("AmazonCat-13K_tfidf_train_ver1.svm.bz2", "AmazonCat-13K_tfidf_test_ver1.svm.bz2"),
    ),
    # The paper's file has words of its own: PECOS's non-zeros are those of its own 101,938 features.
    "wiki10-31k": Source(
        *(14_146, 104_374, 30_938, 9_526_572, 263_705, 6_616),
        *("wiki10_31k_tfidf_train.svm.bz2", "wiki10_31k_tfidf_test.svm.bz2"),
        pecos_features=101_938,
    ),
    "wiki-500k": Source(*(1_779_881, 2_381_304, 501_070, 689_526_754, 8_446_236, 769_421), title="Wiki-500K"),
    "amazon-670k": Source(
        *(490_449, 135_909, 670_091, 37_119_040, 2_674_356, 153_025),
        *("Amazon-670K_tfidf_train_ver2.svm.bz2", "Amazon-670K_tfidf_test_ver2.svm.bz2"),
    ),
    "amazon-3m": Source(*(1_717_899, 337_067, 2_812_281, 84_600_285, 61_916_857, 742_507), title="Amazon-3M"),
}


@dataclass(frozen=True)
class Check:
    """One count of the data beside the published one.

    Attributes
    ----------
    what : str
    found, published : int
    source : str
        Who published it.
    counted : str
        In what it was found, such as "both files": of several ways to count, the nearest to the number.
    """

    what: str
    found: int
    published: int
    source: str
    counted: str = ""

    @property
    def met(self) -> bool:
        """Whether the two are equal."""
        return self.found == self.published


@dataclass(frozen=True, eq=False)
class Fetched:
    """A data set on disk and in memory."""

    files: tuple[Path, Path]
    train: Dataset
    test: Dataset
    checks: tuple[Check, ...]


def fetch(name: str, folder: Path | str | None = None) -> tuple[Dataset, Dataset]:
    """Fetch one of the paper's data sets, unless it is there already, and read it.

    Parameters
    ----------
    name : str
        One of `SETS`: eur-lex, amazoncat-13k, wiki10-31k, wiki-500k, amazon-670k, amazon-3m. Wiki-500k and
        amazon-3m are to be fetched by hand; the error says from where, and where to put the files.
    folder : str or path-like, optional
        Where the files are kept: by default the folder that ``LABELTREE_DATA`` names, or else the platform's
        cache folder.

    Returns
    -------
    train, test : Dataset

    Raises
    ------
    InputError
        If a file cannot be had, or is not the one that was published.
    """
    found = obtain(name, folder)
    return found.train, found.test


def obtain(
    name: str, folder: Path | str | None = None, *, mirror: str | None = None, stage: Stage | None = None
) -> Fetched:
    """Do what ``fetch`` does, and tell more.

    Parameters
    ----------
    name, folder
        As for ``fetch``.
    mirror : str, optional
        Address of a folder with the same files: by default ``LABELTREE_MIRROR``, or else `LIBSVM`.
    stage : callable, optional
        Told of each step, as ``labeltree.cli.progress.Stages.stage``.

    Returns
    -------
    Fetched
    """
    if name not in SETS:
        raise InputError(f"got the unknown data set {name!r}, expected one of {', '.join(SETS)}")
    source, place = SETS[name], cache_folder(folder)
    if place.exists() and not place.is_dir():
        raise InputError(f"{place} is a file, expected a folder to keep the data in; name another")
    reader = _Reader(name, source, stage or _untold)
    address = mirror or os.environ.get("LABELTREE_MIRROR") or LIBSVM
    files = []
    for part, file in (("train", source.train), ("test", source.test)):
        if file:
            tell, check = partial(reader.stage, f"download_{part}"), partial(reader.read, part)
            files.append(download(file, address, place, tell, check))
        else:
            files.append(_by_hand(name, source, part, place / name))
        if part not in reader.parts:  # it was there already
            reader.read(part, files[-1])
    train, test = reader.parts["train"], reader.parts["test"]
    return Fetched((files[0], files[1]), train, test, _compare(source, train, test))


def cache_folder(folder: Path | str | None = None) -> Path:
    """Where data sets are kept: as given, or as ``LABELTREE_DATA`` says, or as the platform does."""
    given = folder or os.environ.get("LABELTREE_DATA")
    if not given:
        import pooch

        given = pooch.os_cache("labeltree")
    return Path(given).expanduser()


def _by_hand(name: str, source: Source, part: str, place: Path) -> Path:
    """Find a file that somebody put there."""
    for stem in (f"{part}.txt", f"{part}_v1.txt"):
        for suffix in ("", ".bz2", ".gz", ".xz"):
            if (place / (stem + suffix)).is_file():
                return place / (stem + suffix)
    raise InputError(
        f"{name} cannot be fetched by a program, and {place} has no {part}.txt: get {source.title} by hand "
        f"from {BY_HAND} (the links under Datasets), put its files of sparse features into {place} as "
        "train.txt and test.txt (or train_v1.txt and test_v1.txt; plain or compressed), and try again"
    )


class _Reader:
    """Reads the two files of a data set, the training file first, and refuses what is something else."""

    def __init__(self, name: str, source: Source, stage: Stage) -> None:
        self.stage = stage
        self.parts: dict[str, Dataset] = {}
        self._name, self._source = name, source

    def read(self, part: str, path: Path, url: str = "") -> None:
        """Read and check a file; one that just came from `url` does not have its own name yet."""
        from labeltree.svm import read_svm

        shown = url or os.fspath(path)
        remedy = "try again later, or set LABELTREE_MIRROR to another copy's address"
        if not url:
            remedy = "remove it and get it again"
        with path.open("rb") as file:
            head = file.read(512)
        if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
            raise InputError(f"{shown}: got a web page, expected the {part} data of {self._name}; {remedy}")
        if url.endswith(".bz2") and not head.startswith(b"BZh"):
            raise InputError(f"{shown}: got {head[:12]!r} ..., expected a file packed with bzip2; {remedy}")
        one_based = None if part == "train" else self.parts["train"].one_based
        with self.stage(f"read_{part}", f"reading {shown.rsplit('/', 1)[-1]}"):
            try:
                dataset = read_svm(path, one_based=one_based)
            except InputError as error:
                raise InputError(str(error).replace(os.fspath(path), shown)) from None
        for check in _decisive(self._source, part, dataset):
            if abs(check.found - check.published) > NEAR * check.published * (check.what != "instances"):
                raise InputError(
                    f"{shown}: got {check.found:,} {check.what}, expected {check.published:,} as published "
                    f"by {check.source}: it is not the {part} data of {self._name}; {remedy}"
                )
        self.parts[part] = dataset


def _untold(name: str, what: str) -> AbstractContextManager[Callable[[float], None]]:
    return nullcontext(lambda done: None)


def _decisive(source: Source, part: str, dataset: Dataset) -> list[Check]:
    """The counts that tell another data set. Not the non-zeros: they hang on how texts are cut into words."""
    if part == "test":
        return [Check("instances", dataset.n_instances, source.test_instances, REPOSITORIES)]
    return [
        Check("instances", dataset.n_instances, source.instances, BOTH),
        _nearest("features", {"": dataset.n_features, "used": _used(dataset.X)}, _features(source)),
        _nearest("labels", {"": dataset.n_labels, "used": _used(dataset.Y)}, {BOTH: source.labels}),
        Check("labels of instances", dataset.Y.nnz, source.tags, PECOS),
    ]


def _compare(source: Source, train: Dataset, test: Dataset) -> tuple[Check, ...]:
    """Every published number, beside the count that comes nearest to it."""
    aligned = test.align(train.label_names, train.n_labels)
    in_train, in_both = "the training file", "both files"
    features = {
        in_train: train.n_features,
        in_both: max(train.n_features, test.n_features),
        f"{in_train}, those that occur": _used(train.X),
        f"{in_both}, those that occur": _used(train.X, test.X),
    }
    labels = {
        in_train: train.n_labels,
        in_both: max(train.n_labels, aligned.n_labels),
        f"{in_train}, those that occur": _used(train.Y),
        f"{in_both}, those that occur": _used(train.Y, aligned.Y),
    }
    words = f"{PECOS}, of {source.pecos_features:,} features" if source.pecos_features else PECOS
    return (
        Check("instances", train.n_instances, source.instances, BOTH, in_train),
        Check("test instances", test.n_instances, source.test_instances, REPOSITORIES, "the test file"),
        _nearest("features", features, _features(source)),
        _nearest("labels", labels, {BOTH: source.labels}),
        Check("non-zeros", train.X.nnz, source.nonzeros, words, in_train),
        Check("labels of instances", train.Y.nnz, source.tags, PECOS, in_train),
    )


def _features(source: Source) -> dict[str, int]:
    if source.pecos_features:
        return {PAPER: source.features, PECOS: source.pecos_features}
    return {BOTH: source.features}


def _nearest(what: str, counts: dict[str, int], published: dict[str, int]) -> Check:
    """Of several ways to count, and of several numbers published, those that agree best."""
    pairs = (
        Check(what, found, number, who, counted)
        for counted, found in counts.items()
        for who, number in published.items()
    )
    return min(pairs, key=lambda check: abs(check.found - check.published))


def _used(*matrices: Any) -> int:
    """Columns that have an entry in some of the matrices."""
    import numpy as np

    seen = np.zeros(max(matrix.shape[1] for matrix in matrices), bool)
    for matrix in matrices:
        seen[matrix.indices] = True
    return int(seen.sum())
