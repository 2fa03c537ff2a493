"""Training and prediction on a Dask cluster: the estimator `DaskLabelTreeClassifier`."""

from labeltree.dask.classifier import DaskLabelTreeClassifier

__all__ = ["DaskLabelTreeClassifier"]
