"""Synthetic data have the documented shapes, label frequencies and decreasing vocabularies."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from labeltree.data.published import SOURCES
from labeltree.data.synthetic import _Topics, synthesize
from labeltree.errors import InputError
from labeltree.evaluation.metrics import evaluate


@pytest.fixture(scope="module")
def eurlex():
    return synthesize("eur-lex", scale=0.2, seed=3)


def same(a, b):
    return all(
        np.array_equal(getattr(x, part), getattr(y, part))
        for x, y in ((a.X, b.X), (a.Y, b.Y))
        for part in ("indptr", "indices", "data")
    )


def test_the_seed_determines_the_data():
    one, two, other = (synthesize("eur-lex", scale=0.02, seed=seed) for seed in (1, 1, 2))
    assert same(one[0], two[0])
    assert same(one[1], two[1])
    assert not same(one[0], other[0])


def test_scaling():
    train, test = synthesize("eur-lex", scale=0.04, test_fraction=0.5)
    assert train.X.shape == (618, 37_221)  # features by the square root
    assert train.Y.shape == (618, 158)
    assert test.X.shape == (309, 37_221)
    assert test.Y.shape == (309, 158)


def test_values(eurlex):
    for part in eurlex:
        assert part.X.dtype == part.Y.dtype == np.float32
        assert part.X.indices.dtype == part.X.indptr.dtype == np.int32
        assert part.X.has_sorted_indices
        assert csr_array((part.X.data, part.X.indices, part.X.indptr)).has_canonical_format
        assert (part.Y.data == 1).all()
        assert (part.X.data > 0).all()
        lengths = np.sqrt(part.X.multiply(part.X).sum(axis=1))
        np.testing.assert_allclose(lengths, 1, rtol=1e-5)
        assert (np.diff(part.Y.indptr) >= 1).all()


@pytest.mark.parametrize(
    ("like", "scale"),
    [
        ("eur-lex", 0.2),
        ("amazoncat-13k", 0.01),
        ("wiki10-31k", 0.1),
        ("wiki-500k", 0.001),
        ("amazon-670k", 0.02),
        ("amazon-3m", 0.005),
    ],
)
def test_densities_and_labels_of_every_preset(like, scale):
    train, _ = synthesize(like, scale)
    instances, whole = train.X.shape[0], SOURCES[like].scaled(1)
    assert instances == round(whole.n_instances * scale)
    assert train.X.nnz / instances == pytest.approx(whole.features_per_instance, rel=0.15)
    assert train.Y.nnz / instances == pytest.approx(whole.labels_per_instance, rel=0.15)
    assert np.bincount(train.Y.indices, minlength=train.Y.shape[1]).min() >= 1


def test_labels_have_a_head_and_a_tail(eurlex):
    counts = np.sort(np.bincount(eurlex[0].Y.indices))
    assert counts[-1] > 10 * np.median(counts)
    assert np.mean(counts <= 5) > 0.1


def test_learnable_but_not_trivial(eurlex):
    train, test = eurlex
    centroids = normalize((train.Y.T @ train.X).tocsr())
    results = evaluate(test.Y, test.X @ centroids.T)
    assert 0.5 < results["P@1"] < 0.9
    popular = np.argsort(-np.bincount(train.Y.indices))[:5]
    guessed = evaluate(test.Y, np.tile(popular, (test.Y.shape[0], 1)))
    assert guessed["P@1"] < 0.3


def test_used_features_decrease_down_the_hidden_tree(eurlex):
    train, _ = eurlex
    topics = _Topics.create(SOURCES["eur-lex"].scaled(0.2), np.random.default_rng(3))

    def used_features(first, last):
        labels = topics.label_at[first:last]
        rows = np.unique(train.Y.tocsc()[:, labels].indices)
        return len(np.unique(train.X[rows].indices))

    everything = used_features(0, train.Y.shape[1])
    for depth in range(1, topics.depth):
        width = topics.branching ** (topics.depth - depth)
        shares = [used_features(start, start + width) for start in range(0, train.Y.shape[1], width)][:12]
        assert np.mean(shares) / everything < 0.55**depth


@pytest.mark.parametrize("scale", [1e-6, 1e-3])
def test_tiny_scales_work(scale):
    for like in SOURCES:
        train, test = synthesize(like, scale)
        assert min(train.X.shape[0], train.Y.shape[1]) >= 2
        assert test.X.shape[0] >= 1
        assert np.bincount(train.Y.indices, minlength=train.Y.shape[1]).min() >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"like": "eurlex"}, "unknown dataset 'eurlex', expected one of eur-lex, amazoncat-13k, wiki10-31k"),
        ({"scale": 0}, "scale is 0,"),
        ({"scale": -1.0}, "scale is -1.0,"),
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": math.inf}, "scale is inf"),
        ({"test_fraction": 0}, "test_fraction is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(InputError, match=message):
        synthesize(**arguments)
