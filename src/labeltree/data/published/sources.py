"""The paper's six datasets: where they come from, what was published about them, and their shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Sites of the files.
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/"
ATTENTION_XML = "https://github.com/yourh/AttentionXML"


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from, and what was published about it.

    Attributes
    ----------
    n_instances, n_features, n_labels : int
        Size of the training set, from Table 5 of the paper.
    x_nnz, y_nnz : int
        Non-zeros of the training set's X and Y, from PECOS's table of the same datasets.
    n_test_instances : int
    train_file, test_file : str
        Names of the files at `LIBSVM`; empty if the dataset must be downloaded by hand.
    title : str
        Its name at `ATTENTION_XML`, if it must be downloaded there by hand.
    n_pecos_features : int
        Number of features in PECOS's table if it differs from the paper's, otherwise 0.
    """

    n_instances: int
    n_features: int
    n_labels: int
    x_nnz: int
    y_nnz: int
    n_test_instances: int
    train_file: str = ""
    test_file: str = ""
    title: str = ""
    n_pecos_features: int = 0


SOURCES = {
    "eur-lex": Source(
        *(15_449, 186_104, 3_956, 4_194_123, 82_265, 3_865),
        *("eurlex_tfidf_train.svm.bz2", "eurlex_tfidf_test.svm.bz2"),
    ),
    "amazoncat-13k": Source(
        *(1_186_239, 203_882, 13_330, 84_415_397, 5_979_439, 306_782),
        *("AmazonCat-13K_tfidf_train_ver1.svm.bz2", "AmazonCat-13K_tfidf_test_ver1.svm.bz2"),
    ),
    # The paper's file has another vocabulary: PECOS's non-zeros belong to its own 101,938 features.
    "wiki10-31k": Source(
        *(14_146, 104_374, 30_938, 9_526_572, 263_705, 6_616),
        *("wiki10_31k_tfidf_train.svm.bz2", "wiki10_31k_tfidf_test.svm.bz2"),
        n_pecos_features=101_938,
    ),
    "wiki-500k": Source(*(1_779_881, 2_381_304, 501_070, 689_526_754, 8_446_236, 769_421), title="Wiki-500K"),
    "amazon-670k": Source(
        *(490_449, 135_909, 670_091, 37_119_040, 2_674_356, 153_025),
        *("Amazon-670K_tfidf_train_ver2.svm.bz2", "Amazon-670K_tfidf_test_ver2.svm.bz2"),
    ),
    "amazon-3m": Source(*(1_717_899, 337_067, 2_812_281, 84_600_285, 61_916_857, 742_507), title="Amazon-3M"),
}


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
