"""Training and prediction on a Dask cluster: the estimator `DaskLabelTreeClassifier`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeltree.dask.classifier import DaskLabelTreeClassifier

__all__ = ["DaskLabelTreeClassifier"]


def __getattr__(name: str) -> Any:
    """Import the estimator when it is used: tasks and the command line do without scikit-learn."""
    if name != "DaskLabelTreeClassifier":
        raise AttributeError(f"module 'labeltree.dask' has no attribute {name!r}")
    from labeltree.dask.classifier import DaskLabelTreeClassifier

    return DaskLabelTreeClassifier
