"""The paper's six datasets: a catalog, downloads into a cache, and checks against the published counts."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from labeltree.base.display import Progress, Stage, silent
from labeltree.base.extras import optional
from labeltree.base.system import cache_directory
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset

# Sites of the files.
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/"
ATTENTION_XML = "https://github.com/yourh/AttentionXML"


@dataclass(frozen=True)
class Shape:
    """The size of a training set; the floats are average numbers of non-zeros in a row of X and of Y."""

    n_instances: int
    n_features: int
    n_labels: int
    features_per_instance: float
    labels_per_instance: float


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from, and what was published about it.

    The size of the training set is from Table 5 of the paper, the non-zeros of its X and Y from PECOS's table
    of the same datasets, whose wiki10-31k has another vocabulary. The files are at `LIBSVM`; a dataset
    without must be downloaded by hand, and has this title at `ATTENTION_XML`.
    """

    n_instances: int
    n_features: int
    n_labels: int
    x_nnz: int
    y_nnz: int
    n_test_instances: int
    train_file: str = ""
    test_file: str = ""
    title: str = ""

    def scaled(self, scale: float) -> Shape:
        """Return the shape of a dataset with so many times the instances and labels.

        Rows are equally dense; the number of features grows with the square root of the scale (Heaps' law).
        """
        n_features = max(200, round(self.n_features * math.sqrt(scale)))
        n_labels = max(2, round(self.n_labels * scale))
        return Shape(
            n_instances=max(2, round(self.n_instances * scale)),
            n_features=n_features,
            n_labels=n_labels,
            features_per_instance=min(self.x_nnz / self.n_instances, n_features / 10),
            labels_per_instance=min(self.y_nnz / self.n_instances, 1 + n_labels / 10),
        )


SOURCES = {
    "eur-lex": Source(
        *(15_449, 186_104, 3_956, 4_194_123, 82_265, 3_865),
        *("eurlex_tfidf_train.svm.bz2", "eurlex_tfidf_test.svm.bz2"),
    ),
    "amazoncat-13k": Source(
        *(1_186_239, 203_882, 13_330, 84_415_397, 5_979_439, 306_782),
        *("AmazonCat-13K_tfidf_train_ver1.svm.bz2", "AmazonCat-13K_tfidf_test_ver1.svm.bz2"),
    ),
    "wiki10-31k": Source(
        *(14_146, 104_374, 30_938, 9_526_572, 263_705, 6_616),
        *("wiki10_31k_tfidf_train.svm.bz2", "wiki10_31k_tfidf_test.svm.bz2"),
    ),
    "wiki-500k": Source(*(1_779_881, 2_381_304, 501_070, 689_526_754, 8_446_236, 769_421), title="Wiki-500K"),
    "amazon-670k": Source(
        *(490_449, 135_909, 670_091, 37_119_040, 2_674_356, 153_025),
        *("Amazon-670K_tfidf_train_ver2.svm.bz2", "Amazon-670K_tfidf_test_ver2.svm.bz2"),
    ),
    "amazon-3m": Source(*(1_717_899, 337_067, 2_812_281, 84_600_285, 61_916_857, 742_507), title="Amazon-3M"),
}


# What to do about a file that is not the data.
_AGAIN = "remove the file and download it again"
# Relative difference of a count that may be due to how columns were counted, not to another dataset.
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Check:
    """A count, compared with the published one.

    Attributes
    ----------
    what : str
        What is counted, such as "features".
    found, published : int
    """

    what: str
    found: int
    published: int

    @property
    def met(self) -> bool:
        """Whether the counts are equal."""
        return self.found == self.published

    @property
    def plausible(self) -> bool:
        """Whether the counts can belong to the same dataset."""
        if self.what == "non-zeros":  # they depend on how documents are split into words
            return True
        tolerance = 0.0 if self.what in ("instances", "test instances") else _TOLERANCE
        return abs(self.found - self.published) <= tolerance * self.published


@dataclass(frozen=True, eq=False)
class Fetched:
    """A downloaded dataset.

    Attributes
    ----------
    train, test : Dataset
    files : tuple of Path
        The training file and the test file.
    checks : tuple of Check
        Its counts, compared with the published ones.
    """

    train: Dataset
    test: Dataset
    files: tuple[Path, Path]
    checks: tuple[Check, ...]


def fetch_data(
    name: str, directory: Path | str | None = None, *, mirror: str | None = None, stage: Stage | None = None
) -> Fetched:
    """Download one of the paper's datasets, unless it is in the cache, and read it.

    Requires optional packages: ``pip install 'labeltree[download]'``.

    Parameters
    ----------
    name : str
        One of `SOURCES`: eur-lex, amazoncat-13k, wiki10-31k, wiki-500k, amazon-670k, amazon-3m. Wiki-500k and
        amazon-3m must be downloaded by hand; the error explains from where, and where to save the files.
    directory : str or path-like, optional
        Where the files are kept. Default: the environment variable ``LABELTREE_DATA``, or else
        ``labeltree`` in the user's cache directory.
    mirror : str, optional
        Address of a web directory with the same files, with https. Default: the environment variable
        ``LABELTREE_MIRROR``, or else LIBSVM's site.
    stage : callable, optional
        Called as ``stage(name, description)`` for each download and each file that is read; returns a context
        manager that gives a progress callback.

    Returns
    -------
    Fetched
        Its ``train`` and ``test`` are the data.
    """
    from labeltree.data.svm import read_svm

    if name not in SOURCES:
        raise InputError(f"unknown dataset {name!r}, expected one of {', '.join(SOURCES)}")
    source, directory = SOURCES[name], cache_directory("data", directory)
    if directory.exists() and not directory.is_dir():
        raise InputError("is a file, not a directory", file=directory)
    show, address = stage or silent, mirror or os.environ.get("LABELTREE_MIRROR") or LIBSVM
    parts: list[Dataset] = []
    files: list[Path] = []
    for part, file in (("train", source.train_file), ("test", source.test_file)):
        if file:
            with show(f"download_{part}", f"downloading {file}") as progress:
                files.append(_download(file, address, directory, progress))
        else:
            files.append(_find_file(name, source, part, directory / name))
        # A test file that lacks the first feature does not show its base, but the training file does.
        one_based = parts[0].one_based if parts else None
        try:
            with show(f"read_{part}", f"reading {files[-1].name}"):
                parts.append(read_svm(files[-1], one_based=one_based))
        except InputError as error:
            if error.line is None:
                raise
            raise error.replace(hint=_AGAIN) from None  # perhaps the page of a login
    train, test = parts
    checks = _checks(source, train, test)
    for check in checks:
        if not check.plausible:
            what = f"not the data of {name}: expected {check.published:,} {check.what}, got {check.found:,}"
            raise InputError(what, file=files[check.what == "test instances"], hint=_AGAIN)
    return Fetched(train, test, (files[0], files[1]), checks)


def _download(file: str, address: str, directory: Path, progress: Progress) -> Path:
    """Return a file of the cache, downloaded unless it is there."""
    from labeltree.base.system import umask

    target = directory / file
    if target.exists():
        return target
    pooch, exceptions = optional("pooch"), optional("requests.exceptions")
    base = address.rstrip("/") + "/"
    if urlsplit(base).scheme == "http" and urlsplit(base).hostname not in ("localhost", "127.0.0.1", "::1"):
        raise InputError("the address does not use https", file=base + file, hint="use https://")
    pooch.get_logger().setLevel("WARNING")  # the progress callback reports the download
    cache = pooch.create(directory, base, registry={file: None}, retry_if_failed=_RETRIES)
    try:
        cache.fetch(file, downloader=pooch.HTTPDownloader(_Bar(progress), timeout=_TIMEOUT_SECONDS))
    except (exceptions.RequestException, OSError, ValueError) as error:
        hint = "check the network, or set LABELTREE_MIRROR to the address of a mirror"
        raise InputError(f"the download failed ({error})", file=base + file, hint=hint) from None
    os.chmod(target, 0o666 & ~umask())  # a temporary file can be read by its owner only
    return target


_RETRIES = 3
_TIMEOUT_SECONDS = 30.0  # without an answer


class _Bar:
    """The progress bar that pooch fills."""

    def __init__(self, progress: Progress) -> None:
        self.total = 0  # set by pooch
        self._progress, self._received = progress, 0

    def update(self, count: int) -> None:
        """Count bytes that were received."""
        self._received += count
        if self.total:
            self._progress(min(1.0, self._received / self.total))

    def reset(self) -> None:
        """Start again."""
        self._received = 0

    def close(self) -> None:
        """Do nothing."""


def _find_file(name: str, source: Source, part: str, directory: Path) -> Path:
    """Find a file that was downloaded by hand."""
    for stem in (f"{part}.txt", f"{part}_v1.txt"):
        for suffix in ("", ".bz2", ".gz", ".xz"):
            if (directory / (stem + suffix)).is_file():
                return directory / (stem + suffix)
    raise InputError(
        f"no {part}.txt, and {name} cannot be downloaded automatically",
        file=directory,
        hint=f"download {source.title} from {ATTENTION_XML} (the links under Datasets) and save its "
        "sparse feature files in this directory as train.txt and test.txt, or as train_v1.txt and "
        "test_v1.txt",
    )


def _checks(source: Source, train: Dataset, test: Dataset) -> tuple[Check, ...]:
    """Compare the published counts; columns as in the training file or in both, whichever comes closer."""

    def closest(published: int, *counts: int) -> int:
        return min(counts, key=lambda count: abs(count - published))

    n_features = max(train.n_features, test.n_features)
    n_labels = test.align(train.label_names, train.n_labels).n_labels
    return (
        Check("instances", train.n_instances, source.n_instances),
        Check("test instances", test.n_instances, source.n_test_instances),
        Check("features", closest(source.n_features, train.n_features, n_features), source.n_features),
        Check("labels", closest(source.n_labels, train.n_labels, n_labels), source.n_labels),
        Check("non-zeros", train.X.nnz, source.x_nnz),
        Check("labels of instances", train.Y.nnz, source.y_nnz),
    )
