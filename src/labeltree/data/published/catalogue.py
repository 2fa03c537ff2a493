"""Fetch the paper's datasets: download them into a cache, compare them with what was published, read them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.base.extras import optional
from labeltree.base.progress import Stage, silent
from labeltree.data.published.checks import Check, all_checks, identifying_checks
from labeltree.data.published.download import download, verify
from labeltree.data.published.sources import ATTENTION_XML, LIBSVM, SOURCES, Source
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset


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


def fetch(
    name: str,
    directory: Path | str | None = None,
    *,
    mirror: str | None = None,
    stage: Stage = silent,
) -> Fetched:
    """Download one of the paper's datasets, unless it is in the cache, and read it.

    Requires optional packages: ``pip install 'labeltree[download]'``.

    Parameters
    ----------
    name : str
        One of `SOURCES`: eur-lex, amazoncat-13k, wiki10-31k, wiki-500k, amazon-670k, amazon-3m. Wiki-500k and
        amazon-3m must be downloaded by hand; the error explains from where, and where to save the files.
    directory : str or path-like, optional
        Where the files are kept. Default: the environment variable ``LABELTREE_DATA``, or else the cache
        directory of the platform.
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

    Raises
    ------
    InputError
        If a file cannot be downloaded, is not the one that was published, or has changed since it was
        downloaded: its SHA-256 is recorded next to it then.
    """
    if name not in SOURCES:
        raise InputError(f"unknown dataset {name!r}, expected one of {', '.join(SOURCES)}")
    source, directory = SOURCES[name], cache_directory(directory)
    if directory.exists() and not directory.is_dir():
        raise InputError("is a file, not a directory", file=directory)
    parts = {"train": source.train_file, "test": source.test_file}
    if any(file and not (directory / file).exists() for file in parts.values()):
        for package in ("pooch", "requests"):  # before any work
            optional(package)
    reader = _Reader(name, source, stage)
    address = mirror or os.environ.get("LABELTREE_MIRROR") or LIBSVM
    files = []
    for part, file in parts.items():
        if not file:
            files.append(_find_file(name, source, part, directory / name))
        elif (directory / file).exists():
            verify(directory / file)
            files.append(directory / file)
        else:
            begin, check = partial(reader.stage, f"download_{part}"), partial(reader.read, part)
            files.append(download(file, address, directory, begin, check))
        if part not in reader.parts:
            reader.read(part, files[-1])
    train, test = reader.parts["train"], reader.parts["test"]
    return Fetched(train, test, (files[0], files[1]), all_checks(source, train, test))


def cache_directory(directory: Path | str | None = None) -> Path:
    """Return where datasets are kept.

    Parameters
    ----------
    directory : str or path-like, optional
        Default: the environment variable ``LABELTREE_DATA``, or else the cache directory of the platform.

    Returns
    -------
    Path
    """
    chosen = directory or os.environ.get("LABELTREE_DATA") or optional("pooch").os_cache("labeltree")
    return Path(chosen).expanduser()


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


class _Reader:
    """Reads the two files of a dataset, the training file first, and refuses files of other data."""

    def __init__(self, name: str, source: Source, stage: Stage) -> None:
        self.stage = stage
        self.parts: dict[str, Dataset] = {}
        self._name, self._source = name, source

    def read(self, part: str, path: Path, url: str = "") -> None:
        """Read and check a file. A file that was just downloaded from `url` still has a temporary name."""
        from labeltree.data.svm import read_svm

        shown = url or os.fspath(path)
        kind = "training" if part == "train" else part
        hint = "remove the file and download it again"
        if url:
            hint = "try again later, or set LABELTREE_MIRROR to the address of a mirror"
        with path.open("rb") as file:
            head = file.read(512)
        if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
            raise InputError(
                f"expected the {kind} data of {self._name}, got a web page", file=shown, hint=hint
            )
        if url.endswith(".bz2") and not head.startswith(b"BZh"):
            raise InputError(f"expected a bzip2 file, got {head[:12]!r} ...", file=shown, hint=hint)
        one_based = None if part == "train" else self.parts["train"].one_based
        with self.stage(f"read_{part}", f"reading {shown.rsplit('/', 1)[-1]}"):
            try:
                dataset = read_svm(path, one_based=one_based)
            except InputError as error:
                raise error.replace(file=shown) from None
        for check in identifying_checks(self._source, part, dataset):
            if not check.plausible:
                raise InputError(
                    f"not the {kind} data of {self._name}: expected {check.published:,} {check.what} as "
                    f"published by {check.source}, got {check.found:,}",
                    file=shown,
                    hint=hint,
                )
        self.parts[part] = dataset
