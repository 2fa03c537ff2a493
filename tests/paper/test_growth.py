"""Alpha that depends on depth and K: averages with covariance are exact, and F(m) predicts other trees."""

import numpy as np
import pytest

import labeltree
from labeltree import InputError
from labeltree.paper import experiments
from labeltree.paper.growth import DepthAverages, FeatureGrowth


@pytest.fixture(scope="module")
def data():
    return labeltree.synthesize("eur-lex", scale=0.1)[0]


def plan_of(data, clusters, max_depth=6):
    tree = labeltree.build_tree(data, clusters=clusters, max_depth=max_depth, threads=1)
    return labeltree.make_plan(data, tree, threads=1).trees[0]


@pytest.mark.parametrize("clusters", [4, 20])
def test_averages_with_covariance_are_exact(data, clusters):
    plan = plan_of(data, clusters)
    averages = DepthAverages.of(plan)
    assert averages.weights() == pytest.approx(plan.n_weights)
    assert averages.weights(covariance=False) < plan.n_weights


def test_a_balanced_tree_has_no_covariance():
    data = labeltree.Dataset.from_matrices(np.kron(np.eye(4), np.ones((2, 2))), np.eye(8))
    tree = labeltree.LabelTree.from_nested([[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
    averages = DepthAverages.of(labeltree.make_plan(data, tree, threads=1).trees[0])
    assert averages.covariance == pytest.approx([0, 0, 0])
    assert averages.alpha == pytest.approx([1, 0.5, 0.5])
    assert averages.weights(covariance=False) == 48


def test_the_function_is_a_power_up_to_all_features():
    growth = FeatureGrowth(features=100, factor=10, exponent=0.5, spread=0)
    assert growth.used_features(np.array([4.0, 25, 10_000])) == pytest.approx([20, 50, 100])
    # Balanced: the root has 4 children, each with 4 labels and 20 features.
    assert growth.tree_weights(16, clusters=4, max_depth=6) == pytest.approx(4 * 100 + 16 * 20)
    assert growth.tree_weights(16, clusters=4, max_depth=1) == 16 * 100


def test_the_fitted_tree_is_reproduced_and_others_predicted(data):
    growth = FeatureGrowth.fit(plan := plan_of(data, 20), 20)
    assert 0 < growth.exponent < 1
    predicted = growth.tree_weights(data.n_labels, 20, plan.tree.depth)
    assert predicted == pytest.approx(plan.n_weights, rel=0.02)
    for clusters in (10, 40):
        counted = plan_of(data, clusters).n_weights
        assert growth.tree_weights(data.n_labels, clusters, 6) == pytest.approx(counted, rel=0.4)


def test_a_flat_tree_cannot_be_fitted(data):
    with pytest.raises(InputError, match="same size"):
        FeatureGrowth.fit(plan_of(data, 4, max_depth=1), 4)


def test_experiment(data):
    split = experiments.Split("synthetic", data)
    result = experiments.run("growth", [split], seeds=(0,), cluster_counts=(5, 20), depths=(2, 6))
    ratios, averages, predictions = result.tables
    assert [row["covariance_share"] for row in averages.rows] == pytest.approx([1, 1])
    assert all(row["product_share"] < 1 for row in averages.rows)
    assert len(predictions.rows) == 2 * 2 * 2
    same = [r for r in predictions.rows if r["clusters"] == r["fitted_clusters"] and r["max_depth"] == 6]
    assert [row["ratio"] for row in same] == pytest.approx([1, 1], rel=0.02)
    assert [row["fitted_clusters"] for row in ratios.rows] == [5, 20]
    (found,) = (
        r for r in predictions.rows if (r["fitted_clusters"], r["clusters"], r["max_depth"]) == (5, 20, 6)
    )
    assert ratios.rows[0]["clusters_20"] == found["ratio"]
    # Not for the fitted tree itself, which is that of the largest depth.
    assert ratios.rows[0]["clusters_5"] is ratios.rows[1]["clusters_20"] is None
    assert ratios.rows[0]["depth_2"] < 1
    with pytest.raises(InputError, match="cluster counts"):
        experiments.run("growth", [split], cluster_counts=(1,))
