"""Datasets: the paper's, downloaded and checked, and synthetic ones of the same shapes."""

from labeltree.datasets.catalogue import SETS, fetch, obtain

__all__ = ["SETS", "fetch", "obtain"]
