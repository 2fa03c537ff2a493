"""Datasets: those of the paper, downloaded and checked, and synthetic data of the same shapes."""

from typing import TYPE_CHECKING, Any

from labeltree.datasets.catalogue import Fetched, cache_directory, fetch
from labeltree.datasets.checks import Check
from labeltree.datasets.presets import PRESETS, Preset
from labeltree.datasets.sources import SOURCES, Source

if TYPE_CHECKING:
    from labeltree.datasets.synthetic import synthesize

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
        from labeltree.datasets.synthetic import synthesize

        return synthesize
    raise AttributeError(f"module 'labeltree.datasets' has no attribute {name!r}")
