"""The shapes of the paper's six data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass


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


# Shapes: the paper's table tbl:dataset-stat; densities: the non-zeros that PECOS states for the same files.
PRESETS = {
    "eur-lex": Preset(15_449, 186_104, 3_956, 4_194_123 / 15_449, 82_265 / 15_449),
    "amazoncat-13k": Preset(1_186_239, 203_882, 13_330, 84_415_397 / 1_186_239, 5_979_439 / 1_186_239),
    "wiki10-31k": Preset(14_146, 104_374, 30_938, 9_526_572 / 14_146, 263_705 / 14_146),
    "wiki-500k": Preset(1_779_881, 2_381_304, 501_070, 689_526_754 / 1_779_881, 8_446_236 / 1_779_881),
    "amazon-670k": Preset(490_449, 135_909, 670_091, 37_119_040 / 490_449, 2_674_356 / 490_449),
    "amazon-3m": Preset(1_717_899, 337_067, 2_812_281, 84_600_285 / 1_717_899, 61_916_857 / 1_717_899),
}
