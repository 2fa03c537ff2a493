"""The comparison of Annif's backends: documents rebuilt from TF-IDF have the same TF-IDF again."""

import annif_backends
import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from labeltree import Dataset, InputError, write_svm

TEXTS = ["red red apple", "green apple pear pear pear", "red pear", "plum plum plum plum apple", ""]


def test_documents_have_the_same_features_again(tmp_path):
    X = TfidfVectorizer().fit_transform(TEXTS)
    Y = np.eye(5)
    (tmp_path / "data").mkdir()
    for name in ("train.svm", "test.svm"):
        write_svm(tmp_path / "data" / name, Dataset.from_matrices(X, Y))
    (tmp_path / "place").mkdir()
    counts = annif_backends.prepare(tmp_path / "data", tmp_path / "place", None, 2)
    assert counts == {"train": 5, "test": 2, "features": 5, "labels": 5}
    lines = (tmp_path / "place" / "train.tsv").read_text().split("\n")
    texts, subjects = zip(*(line.split("\t") for line in lines[:-1]), strict=True)
    assert subjects[3] == "<http://example.org/3>"
    again = TfidfVectorizer().fit_transform(texts)
    np.testing.assert_allclose(again.toarray(), X.toarray(), rtol=1e-6)
    assert len((tmp_path / "place" / "test.tsv").read_text().splitlines()) == 2
    assert "[omikujiParabel]" in (tmp_path / "place" / "projects.cfg").read_text()


def test_missing_data(tmp_path):
    with pytest.raises(InputError, match=r"train\.svm: no such file"):
        annif_backends.prepare(tmp_path, tmp_path, None, None)
