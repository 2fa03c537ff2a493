"""A backend for Annif, the subject indexing tool of the National Library of Finland."""

from __future__ import annotations

from typing import Any

from labeltree.base.extras import optional
from labeltree.errors import InputError

__all__ = ["create_app", "register"]


def register() -> None:
    """Register the backend in this process, for projects with ``backend=labeltree``."""
    # Annif has no function to add a backend: its table maps a name to a function that returns the class.
    table = getattr(optional("annif.backend"), "_backend_fns", None)
    if not isinstance(table, dict):
        what = "this version of Annif does not keep its backends in a table"
        raise InputError(what, hint="install Annif 1.4, or use its http backend with `labeltree serve`")
    table["labeltree"] = _backend


def create_app(*arguments: Any) -> Any:
    """Create Annif's web application, as ``annif.create_app`` does, after ``register()``."""
    register()
    return optional("annif").create_app(*arguments)


def _backend() -> type[Any]:
    from labeltree.annif.backend import LabelTreeBackend  # needs Annif

    return LabelTreeBackend
