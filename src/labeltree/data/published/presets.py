"""The shapes of the paper's six datasets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeltree.data.published.sources import SOURCES


@dataclass(frozen=True)
class Preset:
    """The shape of a dataset.

    Attributes
    ----------
    n_instances, n_features, n_labels : int
        Size of the training set.
    features_per_instance, labels_per_instance : float
        Average number of non-zeros in a row of X and of Y.
    """

    n_instances: int
    n_features: int
    n_labels: int
    features_per_instance: float
    labels_per_instance: float

    def scaled(self, scale: float) -> Preset:
        """Return the shape of a smaller or larger dataset.

        Rows are equally dense; the number of features grows with the square root of the scale (Heaps' law).

        Parameters
        ----------
        scale : float
            Multiplies the number of instances and of labels.

        Returns
        -------
        Preset
        """
        n_features = max(200, round(self.n_features * math.sqrt(scale)))
        n_labels = max(2, round(self.n_labels * scale))
        return Preset(
            n_instances=max(2, round(self.n_instances * scale)),
            n_features=n_features,
            n_labels=n_labels,
            features_per_instance=min(self.features_per_instance, n_features / 10),
            labels_per_instance=min(self.labels_per_instance, 1 + n_labels / 10),
        )


PRESETS = {
    name: Preset(
        source.n_instances,
        source.n_features,
        source.n_labels,
        source.x_nnz / source.n_instances,
        source.y_nnz / source.n_instances,
    )
    for name, source in SOURCES.items()
}
