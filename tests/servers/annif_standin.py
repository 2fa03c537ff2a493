"""What the backend uses of Annif 1.4, for tests without it: the modules' names, signatures and attributes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType


class AnnifBackend:
    DEFAULT_PARAMETERS = {"limit": 100}  # noqa: RUF012

    def __init__(self, backend_id, config_params, project):
        self.backend_id, self.config_params, self.project = backend_id, config_params, project
        self.datadir = project.datadir
        self.log = []

    def _with_defaults(self, params):
        return {**self.DEFAULT_PARAMETERS, **self.config_params, **(params or {})}

    def train(self, corpus, params=None, jobs=0):
        return self._train(corpus, params=self._with_defaults(params), jobs=jobs)

    def suggest(self, documents, params=None):
        self.initialize()
        return self._suggest_batch(documents, params=self._with_defaults(params))

    def debug(self, message):
        self.log.append(("debug", message))

    def info(self, message):
        self.log.append(("info", message))

    def warning(self, message):
        self.log.append(("warning", message))


class AnnifException(Exception):
    def __init__(self, message, project_id=None, backend_id=None):
        super().__init__(message)
        self.message, self.backend_id = message, backend_id


class SuggestionBatch:
    def __init__(self, array):
        self.array = array


@contextmanager
def standing_in():
    """Put the modules in place of Annif's."""
    names = ("annif", "annif.backend", "annif.backend.backend", "annif.exception", "annif.suggestion")
    modules = {name: ModuleType(name) for name in names}
    modules["annif.backend"]._backend_fns = {}
    modules["annif.backend.backend"].AnnifBackend = AnnifBackend
    for name in ("Configuration", "NotInitialized", "NotSupported", "OperationFailed"):
        kind = type(f"{name}Exception", (AnnifException,), {})
        setattr(modules["annif.exception"], kind.__name__, kind)
    modules["annif.suggestion"].SuggestionBatch = SuggestionBatch
    before = {name: sys.modules.get(name) for name in (*names, "labeltree.annif.backend")}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
