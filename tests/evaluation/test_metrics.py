"""The metrics agree with values computed by hand, and with a slow version in plain Python."""

import math

import numpy as np
import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, csr_matrix, vstack

from labeltree.errors import InputError
from labeltree.evaluation.metrics import (
    Propensities,
    Ranking,
    evaluate,
    ndcg_at_k,
    precision_at_k,
    propensities,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
    r_precision_at_k,
    recall_at_k,
)

TRUTH = csr_array(np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=np.float32))
PREDICTED = np.array([[0, 1, 2], [3, 1, -1], [0, 1, 2]])


def test_by_hand():
    # The last row has no labels and does not count.
    assert precision_at_k(TRUTH, PREDICTED, 1) == pytest.approx(1 / 2)
    assert precision_at_k(TRUTH, PREDICTED, 3) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert recall_at_k(TRUTH, PREDICTED, 1) == pytest.approx((1 / 2) / 2)
    assert recall_at_k(TRUTH, PREDICTED, 3) == pytest.approx((1 + 1) / 2)
    second = 1 / math.log2(3)
    assert r_precision_at_k(TRUTH, PREDICTED, 1) == pytest.approx(1 / 2)
    assert r_precision_at_k(TRUTH, PREDICTED, 2) == pytest.approx((1 / 2 + 1) / 2)
    assert ndcg_at_k(TRUTH, PREDICTED, 1) == pytest.approx(1 / 2)
    assert ndcg_at_k(TRUTH, PREDICTED, 3) == pytest.approx((1.5 / (1 + second) + second) / 2)


def test_rows_without_labels_change_nothing():
    labeled = Ranking.of(TRUTH[:2], PREDICTED[:2], 3)
    more = Ranking.of(
        vstack([TRUTH[:2], *[TRUTH[2:]] * 5]).tocsr(), np.vstack([PREDICTED, PREDICTED[:1].repeat(4, 0)]), 3
    )
    for name in ("P@1", "R@3", "nDCG@3"):
        assert more.metric(name).fraction == labeled.metric(name).fraction
        assert more.metric(name).rows.mean() == pytest.approx(more.metric(name).fraction)
        assert more.metric(name).error == pytest.approx(labeled.metric(name).error)
    assert precision_at_k(TRUTH[2:], PREDICTED[2:], 1) == 0


def test_propensity_scored_by_hand():
    known = Propensities(np.array([0.5, 0.25, 0.2, 1.0]), unseen=0.1)
    # Hits at rank 1: label 0 (worth 2); the best would be label 2 (5) and label 1 (4).
    assert propensity_scored_precision_at_k(TRUTH, PREDICTED, 1, known) == pytest.approx(2 / 9)
    assert propensity_scored_precision_at_k(TRUTH, PREDICTED, 3, known) == pytest.approx(1.0)
    second, third = 1 / math.log2(3), 1 / 2
    achieved = 2 + 5 * third + 4 * second
    assert propensity_scored_ndcg_at_k(TRUTH, PREDICTED, 3, known) == pytest.approx(
        achieved / (5 + 2 * second + 4)
    )


def test_propensities_by_hand():
    got = propensities(np.array([1, 100]), n_instances=1000)
    c = (math.log(1000) - 1) * 2.5**0.55
    expected = [1 / (1 + c * math.exp(-0.55 * math.log(n + 1.5))) for n in (1, 100, 0)]
    assert [*got.values, got.unseen] == pytest.approx(expected)
    labels = csr_matrix(np.array([[1, 0, 2], [0, 0, 1], [0, 0, 1], [1, 0, 0]]))
    from_matrix, from_counts = propensities(labels, a=0.6, b=2.6), propensities([2, 0, 3], 4, a=0.6, b=2.6)
    np.testing.assert_array_equal(from_matrix.values, from_counts.values)
    assert from_matrix.unseen == from_matrix.values[1]


def test_propensities_of_very_few_instances_are_one():
    assert propensities(np.array([0, 1]), n_instances=1).values.tolist() == [1.0, 1.0]


def test_a_float_array_has_a_score_per_label():
    scores = np.array([[0.1, 0.3, 0.2, 0.3], [0.4, 0.0, 0.4, 0.1], [1, 0, 0, 0]])
    ranked = [[1, 3, 2, 0], [0, 2, 3, 1], [0, 1, 2, 3]]
    assert evaluate(TRUTH, scores) == evaluate(TRUTH, ranked)
    assert evaluate([{0, 2}, (1, 1), []], ranked) == evaluate(TRUTH, ranked)


def test_stored_zeros_and_duplicates_in_truth_do_not_count():
    truth = coo_array((np.array([1.0, 1.0, 0.0]), ([0, 0, 0], [1, 1, 2])), shape=(1, 3))
    assert recall_at_k(truth, [[1]], 1) == 1.0


def test_inputs_are_not_changed():
    scores = csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    truth = csr_array((np.array([3.0, 0.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    evaluate(truth, scores, ks=(1,))
    assert scores.indices.tolist() == [1, 0]
    assert truth.data.tolist() == [3.0, 0.0]


def slow(truth, ranked, ks, known):
    """The metrics, one instance and one rank at a time."""
    rows = [set(np.flatnonzero(row)) for row in truth.toarray()]
    value = [*known.values, *[known.unseen] * truth.shape[1]]
    result = {}
    for k in ks:
        names = ("P", "R", "RP", "nDCG", "PSP", "PSnDCG")
        total, best = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for true, row in zip(rows, ranked, strict=True):
            hits = [(rank, label) for rank, label in enumerate(row[:k], start=1) if label in true]
            discounted = sum(1 / math.log2(rank + 1) for rank, _ in hits)
            total["P"] += len(hits) / k
            total["R"] += len(hits) / len(true) if true else 0
            total["RP"] += len(hits) / min(k, len(true)) if true else 0
            total["PSP"] += sum(1 / value[label] for _, label in hits)
            total["PSnDCG"] += sum(1 / value[label] / math.log2(rank + 1) for rank, label in hits)
            if true:
                total["nDCG"] += discounted / sum(
                    1 / math.log2(r + 1) for r in range(1, min(k, len(true)) + 1)
                )
            ideal = sorted((1 / value[label] for label in true), reverse=True)[:k]
            best["PSP"] += sum(ideal)
            best["PSnDCG"] += sum(gain / math.log2(rank + 1) for rank, gain in enumerate(ideal, start=1))
        for name in names[:4]:
            result[f"{name}@{k}"] = total[name] / max(1, sum(map(bool, rows)))
        for name in names[4:]:
            result[f"{name}@{k}"] = total[name] / best[name] if best[name] else 0.0
    return result


@examples(150)
@given(data=st.data(), rows=st.integers(1, 6), labels=st.integers(1, 7), known=st.integers(1, 9))
def test_agrees_with_the_slow_version(data, rows, labels, known):
    bits = data.draw(st.lists(st.booleans(), min_size=rows * labels, max_size=rows * labels))
    truth = csr_array(np.array(bits, dtype=np.float32).reshape(rows, labels))
    # Few distinct scores, so that ties are common; None is an entry that is not stored.
    cells = st.sampled_from([None, 0.0, 0.5, -1.0, 2.0])
    scores = data.draw(
        st.lists(st.lists(cells, min_size=known, max_size=known), min_size=rows, max_size=rows)
    )
    stored = [(i, j, s) for i, row in enumerate(scores) for j, s in enumerate(row) if s is not None]
    i, j, s = (np.array(column) for column in zip(*stored, strict=True)) if stored else ([], [], [])
    matrix = coo_array(
        (np.asarray(s, dtype=np.float64), (np.asarray(i, int), np.asarray(j, int))), (rows, known)
    )
    ranked = [
        sorted((j for j, s in enumerate(row) if s is not None), key=lambda j, row=row: (-row[j], j))
        for row in scores
    ]
    padded = np.array([row + [-1] * (10 - len(row)) for row in ranked])
    counts = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=7))
    known_propensities = propensities(np.array(counts), n_instances=100)
    ks = (1, 3, 5, 10)
    expected = slow(truth, ranked, ks, known_propensities)
    ids = [np.flatnonzero(row).tolist() for row in truth.toarray()]
    for predicted in (matrix, matrix.tocsr(), padded, ranked):
        got = evaluate(truth, predicted, ks, known_propensities)
        assert list(got) == [f"{name}@{k}" for name in ("P", "R", "RP", "nDCG", "PSP", "PSnDCG") for k in ks]
        assert evaluate(truth.toarray(), predicted, ks, known_propensities) == got
        assert evaluate(ids, predicted, ks, known_propensities) == got
        assert got == pytest.approx(expected)
        assert all(0 <= value <= 1 + 1e-12 for value in got.values())
    assert got["PSP@3"] == propensity_scored_precision_at_k(truth, padded, 3, known_propensities)
    assert got["PSnDCG@3"] == propensity_scored_ndcg_at_k(truth, padded, 3, known_propensities)


@pytest.mark.parametrize(
    ("truth", "predicted", "k", "message"),
    [
        (TRUTH.toarray() - 1, PREDICTED, 1, "expected 0 or 1 per label"),
        (TRUTH.toarray()[0], PREDICTED, 1, "expected 0 or 1 per label"),
        (5, PREDICTED, 1, "expected truth as a matrix or a list of label ids per instance, got int"),
        ([1, 2, 3], PREDICTED, 1, "expected truth as a matrix or a list"),
        (["tea", "pots", ""], PREDICTED, 1, "truth has lists of <U1, expected lists of label ids"),
        ([[0], [-2], []], PREDICTED, 1, "truth contains the label id -2"),
        (TRUTH, [[0.5, 0.2]] * 3, 1, "predicted has lists of float64, expected lists of label ids"),
        (TRUTH, PREDICTED == 1, 1, "expected predictions as an integer array"),
        (TRUTH, PREDICTED[:2], 1, "predicted has 2 rows and truth has 3"),
        (TRUTH, PREDICTED, 0, "k is 0, expected an integer of at least 1"),
        (TRUTH, PREDICTED, 1.5, "k is 1.5"),
        (TRUTH, PREDICTED, True, "k is True"),
        (TRUTH, PREDICTED, 4, "predicted has 3 labels per instance, expected at least k=4"),
        (TRUTH, PREDICTED.astype(float), 1, "which are scores, but there are 4 labels"),
        (TRUTH, np.full((3, 4), np.nan), 1, "NaN"),
        (TRUTH, PREDICTED[0], 1, "expected predictions as an integer array"),
        (TRUTH, PREDICTED - 2, 1, "the label id -2"),
        (TRUTH, [[0, 1], [2, 2], [0, 1]], 2, "the label id 2 twice in row 1"),
        (TRUTH, csr_array(np.full((3, 4), np.nan)), 1, "NaN"),
        (csr_array((0, 4)), np.zeros((0, 1), dtype=int), 1, "no instances to evaluate"),
    ],
)
def test_errors(truth, predicted, k, message):
    with pytest.raises(InputError, match=message):
        precision_at_k(truth, predicted, k)


@pytest.mark.parametrize(("ks", "message"), [((), "ks is empty"), ((3, -1), "k is -1")])
def test_bad_ks(ks, message):
    with pytest.raises(InputError, match=message):
        evaluate(TRUTH, PREDICTED, ks=ks)


@pytest.mark.parametrize(
    ("counts", "n_instances", "message"),
    [
        (np.array([1, 2]), None, "label counts need n_instances"),
        (TRUTH, 3, "expected None with a label matrix"),
        (np.array([-1, 2]), 5, "one count per label"),
        (np.array([1, 2]), 0, "n_instances is 0"),
    ],
)
def test_bad_propensities(counts, n_instances, message):
    with pytest.raises(InputError, match=message):
        propensities(counts, n_instances)
    with pytest.raises(InputError, match=r"\(0, 1\]"):
        Propensities(np.array([0.5, 0.0]), unseen=0.5)
