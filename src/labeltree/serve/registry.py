"""The models that are served: opened once, and exchanged as a whole when a directory has a new model."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.errors import InputError
from labeltree.model.layout import MANIFEST
from labeltree.model.model import load
from labeltree.serve.names import LabelNames
from labeltree.serve.overview import Results

if TYPE_CHECKING:
    from labeltree.model.model import Model

State: TypeAlias = tuple[int, ...]
# The nodes of larger models are not read before they are searched: that may take long.
_MOST_NODES = 100_000


class Pace:
    """How long a model takes to search, learned from batches.

    Attributes
    ----------
    per_row : float
        Seconds per row; infinity before the first search.
    """

    def __init__(self) -> None:
        self.per_row = math.inf

    def learn(self, n_rows: int, seconds: float) -> None:
        """Take a search into account; a single one that was held up counts little."""
        new = seconds / (n_rows + 2)  # a batch itself takes as long as a few rows
        known = new if math.isinf(self.per_row) else self.per_row
        self.per_row = known + (min(new, 8 * known) - known) / 8


@dataclass(frozen=True, eq=False)
class Served:
    """A model as it was when it was opened; a request uses one from beginning to end.

    Attributes
    ----------
    name : str
    model : Model
    state : tuple of int or None
        Identifies the files that were opened.
    names : LabelNames
    pace : Pace
    """

    name: str
    model: Model
    state: State | None
    names: LabelNames
    pace: Pace = field(default_factory=Pace)

    @property
    def modified(self) -> datetime:
        """When the manifest was written, which is the last file of a model."""
        nanoseconds = 0 if self.state is None else self.state[-1]
        return datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)

    @cached_property
    def by_frequency(self) -> NDArray[np.intp]:
        """The labels, those with the most training instances first."""
        return np.argsort(-self.model.label_counts, kind="stable")


class Registry:
    """The served models by name.

    Parameters
    ----------
    paths : iterable of Path
        Model directories; a model has the name of its directory.
    report : callable
        Called with one line for each model that was exchanged, or could not be.
    """

    def __init__(self, paths: Iterable[Path], report: Callable[[str], None]) -> None:
        self._paths: dict[str, Path] = {}
        self._report = report
        self._exchange = threading.Lock()
        self._failed: dict[str, State] = {}
        self.reloads = self.failures = 0
        for path in paths:
            name = path.name or path.resolve().name
            if name in self._paths:
                what = f"two models have the name {name!r}, expected directories with different names"
                raise InputError(what, file=path, hint="use a symbolic link with another name")
            self._paths[name] = path
        self._served = {name: _open(name, path) for name, path in self._paths.items()}

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())

    def find(self, name: str | None = None) -> Served:
        """Return a model; without a name, the first one.

        Raises
        ------
        KeyError
            If there is no model of this name.
        """
        if name is None:
            return next(iter(self._served.values()))
        return self._served[name]

    def refresh(self, *, quiet: bool = False) -> None:
        """Open the models whose directory has changed.

        If one cannot be opened, the old one is kept until the directory changes again.

        Parameters
        ----------
        quiet : bool, default False
            Report nothing.
        """
        report = (lambda line: None) if quiet else self._report
        with self._exchange:
            for name, path in self._paths.items():
                state = _state(path)
                if state is None or state in (self._served[name].state, self._failed.get(name)):
                    continue  # without a directory, the model is just being replaced, or gone
                try:
                    self._served[name] = _open(name, path)
                except Exception as error:  # the service goes on, whatever it is
                    self._failed[name] = state
                    self.failures += 1
                    report(f"{name}: kept the old model: {_reason(error)}")
                else:
                    self._failed.pop(name, None)
                    self.reloads += 1
                    report(f"{name}: opened the new model")


def _reason(error: Exception) -> str:
    return "not enough memory" if isinstance(error, MemoryError) else str(error) or type(error).__name__


def _open(name: str, path: Path) -> Served:
    """Open a model. If it is replaced meanwhile, the old state is recorded, so that it is opened again."""
    state = _state(path)
    model = load(path)
    Results.of(model)  # from the same directory, which may have another model later
    _prepare(model)
    return Served(name, model, state, LabelNames(model.label_names, model.n_labels))


def _prepare(model: Model) -> None:
    """Make what would delay the first requests, and what every worker would have to make for itself."""
    if model.text is not None:
        model.text.transform([""])  # makes its vocabulary
    if sum(part.tree.n_nodes for part in model.trees) <= _MOST_NODES:
        # A search that reaches every node makes their feature indexes.
        entry = np.ones(1, np.float32), (np.zeros(1, np.int32), np.zeros(1, np.int32))
        row = sp.csr_matrix(entry, shape=(1, model.n_features))
        model.predict(row, top=model.n_labels, beam=model.n_labels, threads=1)


def _state(path: Path) -> State | None:
    """Identify the files of a model directory; None if there is no model."""
    try:
        folder, manifest = os.stat(path), os.stat(path / MANIFEST)
    except OSError:
        return None
    return folder.st_dev, folder.st_ino, manifest.st_ino, manifest.st_size, manifest.st_mtime_ns
