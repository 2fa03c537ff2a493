"""Find and read the data sets of a run: folders, single files, and sets that were downloaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labeltree.datasets import SOURCES, cache_directory, fetch
from labeltree.errors import InputError
from labeltree.paper.experiments.session import Split, check_names
from labeltree.progress import Stage, silent
from labeltree.svm import read_svm

ENDINGS = ("", ".bz2", ".gz", ".xz")
KINDS = (".svm", ".txt")


def load_splits(
    data: Iterable[str | Path], *, threads: int | None = None, stage: Stage = silent
) -> list[Split]:
    """Read data sets.

    Parameters
    ----------
    data : iterable of path-like
        Each a folder that holds train.svm and, if there is one, test.svm (or .txt; plain or compressed), or a
        training file, or the name of one of the paper's sets that was downloaded.
    threads : int, optional
        All usable processors unless given.
    stage : callable, optional
        Told of each step, as ``labeltree.cli.progress.Stages.stage``.

    Returns
    -------
    list of Split
        Called as their folders are, in the given order.
    """
    places = [(str(given), *_find(str(given))) for given in data]  # all, before the first is read
    check_names([name for _, name, _ in places])
    splits: list[Split] = []
    for given, name, files in places:
        if not files:
            found = fetch(given, stage=stage)
            splits.append(Split(name, found.train, found.test))
            continue
        with stage(f"read_{name}", f"reading {name}"):
            train = read_svm(files[0], threads=threads)
            rest = [read_svm(file, threads=threads, one_based=train.one_based) for file in files[1:]]
        splits.append(Split(name, train, *rest))
    return splits


def _find(given: str) -> tuple[str, list[Path]]:
    """Name of a data set, and its files: training, and test if there is one; none for a set by its name."""
    place = Path(given)
    if place.is_dir():
        train, test = (_part(place, part) for part in ("train", "test"))
        if train is None:
            raise InputError(
                f"{given}: got a folder without train.svm, expected one that holds it, plain or compressed; "
                "name the folder of one data set"
            )
        return place.resolve().name, [train] if test is None else [train, test]
    if place.exists():
        stem = place.name.split(".")[0]
        return (place.resolve().parent.name if stem == "train" else stem) or "data", [place]
    if given in SOURCES:
        file = SOURCES[given].train_file
        if file and not (cache_directory() / file).exists():
            raise InputError(
                f"{given} is one of the paper's data sets, but is not here yet; get it with "
                f"`labeltree download {given}`"
            )
        return given, []
    raise InputError(
        f"{given}: got a path where there is nothing, expected a folder with train.svm, a training file, or "
        f"one of {', '.join(SOURCES)}; check the path"
    )


def _part(folder: Path, part: str) -> Path | None:
    paths = (folder / f"{part}{kind}{ending}" for kind in KINDS for ending in ENDINGS)
    return next((path for path in paths if path.is_file()), None)
