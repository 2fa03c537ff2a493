"""The shapes of the paper's six data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeltree.datasets.catalogue import SETS


@dataclass(frozen=True)
class Preset:
    """The shape of a data set.

    Attributes
    ----------
    instances, features, labels : int
        Of the training set.
    words : float
        Non-zero features an instance, on average.
    tags : float
        Labels an instance, on average.
    """

    instances: int
    features: int
    labels: int
    words: float
    tags: float

    def scaled(self, scale: float) -> Preset:
        """Return the shape of a smaller or larger set: as dense, with the features growing by Heaps' law."""
        features = max(200, round(self.features * math.sqrt(scale)))
        labels = max(2, round(self.labels * scale))
        return Preset(
            instances=max(2, round(self.instances * scale)),
            features=features,
            labels=labels,
            words=min(self.words, features / 10),
            tags=min(self.tags, 1 + labels / 10),
        )


PRESETS = {
    name: Preset(
        source.instances,
        source.features,
        source.labels,
        source.nonzeros / source.instances,
        source.tags / source.instances,
    )
    for name, source in SETS.items()
}
