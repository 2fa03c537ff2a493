"""The datasets of a run: find and read them, and share their label vectors, trees and plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from labeltree.base.display import Progress, Stage, ignore, part_of, silent
from labeltree.base.limits import LARGEST_INT32
from labeltree.base.system import cache_directory
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import read_data
from labeltree.data.published import SOURCES, fetch_data
from labeltree.errors import InputError
from labeltree.model.model import Model
from labeltree.settings import ScoreSettings, SolverSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import Plan
from labeltree.training.train import build_plan
from labeltree.trees.kmeans import LabelVectors

Item = TypeVar("Item")
ENDINGS = ("", ".bz2", ".gz", ".xz")
KINDS = (".svm", ".txt", ".tsv", ".csv", ".jsonl")


@dataclass(frozen=True)
class Split:
    """A named dataset: training data, and test data if there is any."""

    name: str
    train: Dataset
    test: Dataset | None = None


@dataclass(eq=False)
class Session:
    """The datasets of a run, with different names, and everything that was computed from them so far.

    One tree is built per seed; an experiment that trains uses the first few. The default number of threads is
    that of all CPUs.
    """

    splits: Sequence[Split] = ()
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    threads: int | None = None
    _vectors: dict[str, LabelVectors] = field(default_factory=dict, init=False, repr=False)
    _deep: dict[tuple[str, int, int], tuple[int, Plan]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_names([split.name for split in self.splits])
        check_seeds(self.seeds)

    def plan(
        self, split: Split, clusters: int, max_depth: int, seed: int, progress: Progress = ignore
    ) -> Plan:
        """Return the plan of a tree, without a bias, as the paper counts.

        A shallow tree is cut off from a deep one, which gives the same tree as building it. A tree that is
        deeper than those so far is built again, so ask for the deepest first.
        """
        key = (split.name, clusters, seed)
        if key not in self._deep or self._deep[key][0] < max_depth:
            plan = build_plan(
                split.train,
                TreeSettings(clusters, max_depth, seed=seed),
                SolverSettings(cost=1, bias=0),
                normalize=False,
                threads=self.threads,
                vectors=self._vectors.setdefault(split.name, LabelVectors(split.train)),
                stage=lambda stage, _: nullcontext(progress if stage == "tree" else ignore),
            )
            self._deep[key] = max_depth, plan
        return self._deep[key][1].clip(max_depth)


def steps(items: Iterable[Item], progress: Progress) -> Iterator[tuple[Item, Progress]]:
    """Yield each item with the progress of its part of the work."""
    items = list(items)
    for number, item in enumerate(items):
        yield item, part_of(progress, number, len(items)) or ignore
        progress((number + 1) / len(items))


@contextmanager
def trained(data: Dataset, plan: Plan, progress: Progress = ignore) -> Iterator[Model]:
    """Train a model in a temporary directory that exists inside the context."""
    with TemporaryDirectory(prefix="labeltree-reproduce-") as directory:
        plan.check_resources(Path(directory))
        place = Path(directory) / "model"
        yield train_model(data, plan, place, score=ScoreSettings(), progress=progress)


def check_names(names: Sequence[str]) -> None:
    """Raise an error if two datasets have the same name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two datasets are named {twice!r}", hint="rename one of them")


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise an error if seeds are missing, repeated or out of range."""
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_INT32:
        raise InputError(
            f"the seeds are {', '.join(map(str, seeds))}, expected one or more different integers from 0 to "
            f"{LARGEST_INT32}"
        )


def load_splits(
    data: Iterable[str | Path], *, threads: int | None = None, stage: Stage | None = None
) -> list[Split]:
    """Read datasets, in the given order, named after their directories.

    Each is a directory with train.svm and optionally test.svm (or .txt, or documents in .tsv, .csv or .jsonl,
    with the default columns; plain or compressed), a training file, or the name of a downloaded dataset of
    the paper.
    """
    places = [(str(given), *_find(str(given))) for given in data]  # find all before reading the first
    check_names([name for _, name, _ in places])
    splits: list[Split] = []
    for given, name, files in places:
        if not files:
            found = fetch_data(given, stage=stage)
            splits.append(Split(name, found.train, found.test))
            continue
        with (stage or silent)(f"read_{name}", f"reading {name}"):
            train = read_data(files[0], threads=threads)
            rest = [read_data(file, like=train, threads=threads) for file in files[1:]]
            splits.append(Split(name, train, *rest))
    return splits


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
        if file and not (cache_directory("data") / file).exists():
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
