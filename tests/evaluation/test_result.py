"""The result of an evaluation: a mapping, counts, and figures of each label as scikit-learn computes them."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import make_data, train_small
from sklearn.metrics import f1_score, precision_recall_fscore_support

import labeltree
from labeltree.evaluation.accepted import Decision
from labeltree.evaluation.result import AcceptedLabels


@pytest.mark.parametrize("stored", [True, False])
def test_each_label_as_scikit_learn(stored):
    rng = np.random.default_rng(3)
    true = rng.random((80, 9)) < 0.2
    true[:, 4] = False
    scores = np.round(rng.random(true.shape).astype(np.float32), 2)
    labels = np.argsort(-scores, axis=1).astype(np.int32)[:, :8]
    ranked = np.take_along_axis(scores, labels, axis=1)
    accepted = AcceptedLabels.of(sp.csr_matrix(true), labels, ranked, Decision(0.4) if stored else None)
    chosen = np.zeros_like(true)
    for row, found in enumerate(labels):
        chosen[row, found[ranked[row] >= np.float32(0.4)] if stored else found[:5]] = True
    chosen[~true.any(axis=1)] = False  # rows without labels are left out
    expected = precision_recall_fscore_support(true, chosen, average=None, zero_division=0)
    figures = accepted.figures(7)  # two labels are unknown to the model
    assert figures["micro_F1"] == f1_score(true, chosen, average="micro", zero_division=0)
    by_label = f1_score(true, chosen, average=None, zero_division=0)
    assert figures["macro_F1"] == pytest.approx(by_label[:7].mean(), rel=1e-15)
    assert figures["rows_with_accepted_label"] == chosen.any(axis=1).sum() / true.any(axis=1).sum()
    names = [f"label {j}" for j in range(9)]
    table = accepted.table(names)
    assert table["label"] == names
    for name, values in zip(("precision", "recall", "F1", "support"), expected, strict=True):
        np.testing.assert_array_equal(table[name], values)
    np.testing.assert_array_equal(table["predicted"], chosen.sum(axis=0))
    assert accepted.by == (
        "labels with a score of 0.4; chosen by micro F1 on 0 rows of validation data"
        if stored
        else "the first 5 labels of a row"
    )


def test_an_evaluation_is_a_mapping_with_counts(tmp_path):
    data = make_data(300)
    model = train_small(tmp_path / "m", data, trees=1)
    test = make_data(60, seed=2)
    blank = sp.csr_matrix((60, test.n_labels), dtype=np.float32)
    test = labeltree.Dataset.from_matrices(sp.vstack([test.X, test.X]), sp.vstack([test.Y, blank]))
    found = model.evaluate(test)
    assert dict(found)["P@1"] == found["P@1"] == {**found}["P@1"]
    assert (found.rows, found.rows_without_labels, found.skipped_rows, found.unknown_labels) == (
        120,
        60,
        0,
        0,
    )
    counts = {"rows": 120, "rows_without_labels": 60, "skipped_rows": 0, "unknown_labels": 0}
    assert found.to_dict() == {**found, **counts, "rows_in_training": found.rows_in_training}
    assert repr(found).startswith(f"Evaluation(P@1={found['P@1']:.4f}, P@3=")
    assert repr(found).endswith(
        f"macro_F1={found['macro_F1']:.4f}, rows=120, rows_without_labels=60, rows_in_training=0.2)"
    )
    assert f"<td>P</td><td>{100 * found['P@1']:.2f}</td>" in found._repr_html_()
    table = found.per_label
    assert table is found.per_label
    assert table["support"].sum() == test.Y.nnz
    assert 2 * table["correct"].sum() / (table["support"] + table["predicted"]).sum() == found["micro_F1"]
    given = model.evaluate(test, predicted=model.predict(test.X, top=5)[0])
    assert given.per_label["predicted"].sum() == 60 * 5
    assert given.accepted.by == "the first 5 labels of a row"
