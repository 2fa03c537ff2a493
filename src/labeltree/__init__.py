"""Extreme multi-label classification with linear label trees, whose size is known before they are trained."""

from labeltree.errors import InputError

__version__ = "0.1.0"

__all__ = ["InputError"]
