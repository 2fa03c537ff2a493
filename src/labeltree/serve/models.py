"""The models that are served: opened once, and exchanged as a whole when a directory has a new model."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from labeltree.errors import InputError
from labeltree.explain.label import label_name
from labeltree.model.layout import MANIFEST
from labeltree.model.model import load
from labeltree.serve.errors import RequestError
from labeltree.serve.model_quality import Measurements
from labeltree.serve.prometheus import Metrics

if TYPE_CHECKING:
    from labeltree.model.model import Model

log = logging.getLogger("labeltree.serve")
Version: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model as it was when it was opened; a request uses one from beginning to end."""

    name: str
    model: Model
    version: Version | None  # of the files that were opened, or of later ones that could not be
    measured: Measurements

    @cached_property
    def _by_frequency(self) -> list[tuple[int, str]]:
        order = np.argsort(-self.model.label_counts, kind="stable")
        return [(label, label_name(self.model, label).casefold()) for label in order.tolist()]

    def search(self, part: str) -> list[int]:
        """Return the labels whose name contains a text in any case: whole words first, then by frequency."""
        wanted = part.casefold()
        words = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
        found = [(words.search(name) is None, label) for label, name in self._by_frequency if wanted in name]
        return [label for _, label in sorted(found, key=lambda item: item[0])]


class Models:
    """The served models by name, which is that of the directory."""

    def __init__(self, paths: Iterable[Path], metrics: Metrics | None = None) -> None:
        self._paths: dict[str, Path] = {}
        self._metrics = metrics or Metrics()
        self._check = threading.Event()
        for path in paths:
            name = path.name or path.resolve().name
            if name in self._paths:
                what = f"two models have the name {name!r}, expected directories with different names"
                raise InputError(what, file=path, hint="use a symbolic link with another name")
            self._paths[name] = path
        self._served = {name: _open(name, path) for name, path in self._paths.items()}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._served.values())

    def find(self, name: str | None = None) -> ServedModel:
        """Return a model, without a name the first one; a RequestError if there is none."""
        name = next(iter(self._served)) if name is None else name
        if name not in self._served:
            raise RequestError(404, f"there is no model {name[:100]!r}", "GET /models lists the models")
        return self._served[name]

    def watch(self, seconds: float) -> None:
        """Start a thread that opens new versions: this often (0 for never), and after `check_soon`."""

        def run() -> None:
            while True:
                self._check.wait(seconds or None)
                self._check.clear()
                self.refresh()

        threading.Thread(target=run, name="labeltree-watch", daemon=True).start()

    def check_soon(self) -> None:
        """Let the thread look for new versions now."""
        self._check.set()

    def refresh(self) -> None:
        """Open the models whose directory has changed; keep an old one if the new one cannot be opened."""
        for name, path in self._paths.items():
            version = _version(path)
            old = self._served[name]
            if version is None or version == old.version:
                continue  # without a directory, the model is just being replaced, or gone
            try:
                self._served[name] = _open(name, path)
            except Exception as error:  # the service continues, whatever it is
                self._served[name] = replace(old, version=version)
                self._metrics.reload_failures.inc()
                log.warning("%s: kept the old model: %s", name, str(error) or type(error).__name__)
            else:
                self._metrics.reloads.inc()
                log.info("%s: opened the new model", name)


def _open(name: str, path: Path) -> ServedModel:
    """Open a model. If it is replaced meanwhile, the old version is noted, so that it is opened again."""
    version = _version(path)
    model = load(path)
    if model.text is not None:
        model.text.transform([""])  # makes the vocabulary, for which the first request would have to wait
    try:
        measured = Measurements.read(model)
    except InputError as error:
        log.warning("%s: left out results that cannot be read: %s", name, error)
        measured = Measurements()
    return ServedModel(name, model, version, measured)


def _version(path: Path) -> Version | None:
    """Identify the files of a model directory; None if there is no model."""
    try:
        folder, manifest = os.stat(path), os.stat(path / MANIFEST)
    except OSError:
        return None
    return folder.st_dev, folder.st_ino, manifest.st_ino, manifest.st_size, manifest.st_mtime_ns
