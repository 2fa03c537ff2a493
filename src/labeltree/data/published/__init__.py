"""Datasets: those of the paper, downloaded and checked, and synthetic data of the same shapes."""

from typing import TYPE_CHECKING, Any

from labeltree.data.published.catalogue import Fetched, cache_directory, fetch
from labeltree.data.published.checks import Check
from labeltree.data.published.sources import PRESETS, SOURCES, Preset, Source

if TYPE_CHECKING:
    from labeltree.data.synthetic import synthesize

__all__ = [
    "PRESETS",
    "SOURCES",
    "Check",
    "Fetched",
    "Preset",
    "Source",
    "cache_directory",
    "fetch",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    if name == "synthesize":  # imports SciPy, which the help of the command line does not need
        from labeltree.data.synthetic import synthesize

        return synthesize
    raise AttributeError(f"module 'labeltree.data.published' has no attribute {name!r}")
