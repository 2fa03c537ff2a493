"""The paper's figures, tables and balanced trees, as data for the real trees, plans and training."""

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from helpers import examples, nested, node_labels
from hypothesis import given
from hypothesis import strategies as st

from labeltree import Dataset, LabelTree, SolverSettings, build_tree, make_plan, train_model
from labeltree.paper import theory
from labeltree.training.plan import describe_depths

FIG_TREE = [[0, 1, 2], [3, 4], [[5, 6], 7, 8]]  # Figure 1; labels start at 0 here, at 1 there
NODE = {10: 1, 11: 2, 12: 3, 13: 4}  # meta-label of the figure -> node


def names(labels):
    """Return labels as the figure numbers them."""
    return {label + 1 for label in labels}


def test_the_tree_of_the_paper():
    """Figure 1, array by array."""
    tree = LabelTree.from_nested(FIG_TREE)
    assert tree.child_ptr.tolist() == [0, 3, 6, 8, 11, 13]
    assert tree.children.tolist() == [1, 2, 3, ~0, ~1, ~2, ~3, ~4, 4, ~7, ~8, ~5, ~6]
    assert tree.parent.tolist() == [-1, 0, 0, 0, 3]
    assert tree.node_depth.tolist() == [0, 1, 1, 1, 2]
    assert tree.child_count.tolist() == [3, 3, 2, 3, 2]
    assert tree.labels.tolist() == list(range(9))
    assert list(zip(tree.first.tolist(), tree.last.tolist(), strict=True)) == [
        (0, 9),
        (0, 3),
        (3, 5),
        (5, 9),
        (5, 7),
    ]
    assert (tree.n_nodes, tree.n_labels, tree.depth, tree.build_bytes) == (5, 9, 3, 0)
    assert tree.child_ptr.dtype == np.int64
    assert tree.children.dtype == np.int32
    assert [sorted(c) for c in nested(tree.clip(2))] == [[0, 1, 2], [3, 4], [5, 6, 7, 8]]


def test_the_meta_labels_of_the_paper():
    """Figure 1: the label subsets, and a weight vector per label and meta-label (equation 10)."""
    tree = LabelTree.from_nested(FIG_TREE)
    below = {meta: names(tree.labels[tree.first[u] : tree.last[u]].tolist()) for meta, u in NODE.items()}
    assert below == {10: {1, 2, 3}, 11: {4, 5}, 12: {6, 7, 8, 9}, 13: {6, 7}}
    assert all(names(node_labels(tree, u)) == below[meta] for meta, u in NODE.items())
    assert tree.child_count.sum() == tree.children.size == tree.n_labels + len(NODE) == 13


def test_k_means_makes_the_tree_of_the_paper():
    """Section 2.2 with K = 3: nodes of at most three labels are not split, but {6, 7, 8, 9} is."""
    x = np.zeros((9, 15))
    x[np.arange(9), np.arange(9)] = 0.3  # a feature per label,
    for feature, part, value in ((9, [0, 1, 2], 3), (10, [3, 4], 3), (11, [5, 6, 7, 8], 3), (12, [5, 6], 1)):
        x[part, feature] = value  # per group of the figure, and for {6, 7}
    data = Dataset.from_matrices(x, np.eye(9))

    def groups(part):
        return part if isinstance(part, int) else frozenset(map(groups, part))

    made = [build_tree(data, clusters=3, max_depth=6, seed=seed) for seed in range(20)]
    assert groups(FIG_TREE) in [groups(nested(tree)) for tree in made]
    assert all(tree.child_count.max() <= 3 for tree in made)
    cut = [build_tree(data, clusters=3, max_depth=2, seed=seed) for seed in range(20)]
    assert groups([[0, 1, 2], [3, 4], [5, 6, 7, 8]]) in [groups(nested(tree)) for tree in cut]


def test_the_binary_problems_of_meta_label_12(tmp_path):
    """Table 1, read off the weights.

    Every instance has one feature of its own, whose weight is positive if the instance is a positive
    example, and negative if it is a negative one.
    """
    inside = chain.from_iterable(combinations([6, 7, 8, 9], size) for size in (1, 2, 3, 4))
    has = [*map(set, inside), {1}, {2, 4}, {5, 6}, {3, 9}, set()]
    y = np.array([[label in labels for label in range(1, 10)] for labels in has])
    data = Dataset.from_matrices(np.eye(len(has)), y)
    plan = make_plan(data, LabelTree.from_nested(FIG_TREE), SolverSettings(bias=0))
    used = [i for i, labels in enumerate(has) if labels & {6, 7, 8, 9}]
    assert plan.trees[0].instances[NODE[12]] == plan.trees[0].used_features[NODE[12]] == len(used) == 17
    assert plan.trees[0].instances[0] == len(has)

    model = train_model(data, plan, tmp_path / "model")
    features, weights = model.block(NODE[12])
    assert features.tolist() == used
    for column, positive in enumerate(({6, 7}, {8}, {9})):  # meta-label 13, labels 8 and 9
        expected = [1 if has[i] & positive else -1 for i in used]
        assert np.sign(weights[:, column]).tolist() == expected
    six_seven_eight = used.index(has.index({6, 7, 8}))
    assert np.sign(weights[six_seven_eight]).tolist() == [1, 1, -1]


def test_the_weighted_average_of_alpha():
    """Figure 8, appendix E: A uses 100 features; B, C, D use 10, 30, 80 and have 2, 2, 6 children."""
    x = np.zeros((10, 100))
    x[:2, :10] = 1
    x[2:4, 10:40] = -1
    x[4:, 20:100] = 1
    tree = LabelTree.from_nested([[0, 1], [2, 3], [4, 5, 6, 7, 8, 9]])
    plan = make_plan(Dataset.from_matrices(x, np.eye(10)), tree)
    used = plan.trees[0].used_features
    assert used.tolist() == [100, 10, 30, 80]
    assert plan.depths() == describe_depths(tree, used)
    root, depth_1 = plan.depths()
    assert root["alpha"] is None
    assert depth_1["alpha"] == pytest.approx((0.1 * 2 + 0.3 * 2 + 0.8 * 6) / (2 + 2 + 6), rel=1e-15)
    assert depth_1["alpha"] == pytest.approx(0.56, rel=1e-15)
    assert depth_1["weights"] / depth_1["children"] == (10 * 2 + 30 * 2 + 80 * 6) / (2 + 2 + 6) == 56
    assert depth_1["mean_used_features"] == 40  # of the nodes; the plain mean of alpha would be 0.4
    assert root["weights"] == 300
    assert plan.to_dict()["alpha"] == [depth_1["alpha"]]


def balanced(K, d, labels_each, numerator, denominator, scale=1):
    """Make data and tree of Figure 2, with every alpha exactly numerator / denominator >= 1 / K.

    The features of a node form a ring, and each child takes an arc of it. Arcs of the length that alpha
    gives, starting at equal distances, cover the ring: the children of a node use all features of the node.
    """
    rows = []

    def build(features, depth):
        if depth == d - 1:
            first = len(rows)
            rows.extend([features] * labels_each)
            return list(range(first, len(rows)))
        size = len(features) * numerator // denominator
        starts = [len(features) * k // K for k in range(K)]
        return [build(np.roll(features, -start)[:size], depth + 1) for start in starts]

    n = scale * denominator ** (d - 1)
    tree = LabelTree.from_nested(build(np.arange(n), 0))
    x = np.zeros((len(rows), n))
    for row, features in zip(x, rows, strict=True):
        row[features] = 1
    return Dataset.from_matrices(x, np.eye(len(rows))), tree


@given(
    st.sampled_from([(2, 1, 2), (2, 2, 3), (3, 1, 3), (3, 1, 2), (4, 1, 4), (4, 3, 4), (2, 3, 4), (3, 1, 1)]),
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(1, 3),
)
@examples(40)
def test_a_real_balanced_tree_has_the_weights_of_the_formula(shape, d, labels_each, scale):
    """Table 4 and equation 14, including K alpha = 1 and alpha = 1."""
    K, numerator, denominator = shape
    alpha = Fraction(numerator, denominator)
    data, tree = balanced(K, d, labels_each, numerator, denominator, scale)
    plan = make_plan(data, tree)
    L, n = data.n_labels, data.n_features
    assert (labels_each * K ** (d - 1), d) == (L, tree.depth)
    for i, row in enumerate(plan.depths()):
        assert row["nodes"] == K**i
        assert row["children"] == K**i * (K if i < d - 1 else L // K ** (d - 1))
        assert row["mean_used_features"] == n * alpha**i
        assert row["alpha"] == (pytest.approx(float(alpha), rel=1e-15) if i else None)
    assert round(float(theory.tree_weights(L, K, d, float(alpha), n))) == plan.n_weights
    assert theory.tree_weights(L, K, d, float(alpha), n) == pytest.approx(plan.n_weights, rel=1e-14)
    assert 1.5 * theory.weight_ratio(L, K, d, float(alpha)) == pytest.approx(plan.ratio, rel=1e-14)
    assert theory.ovr_weights(L, n) * 8 == plan.paper_ovr_bytes
    assert theory.meta_labels(L, K, d) == tree.n_nodes - 1
    assert theory.dense_tree_weights(L, K, d, n) == tree.children.size * n


@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0.02, 0.1, 0.4]))
@examples(40)
def test_theorem_3_on_real_trees(seed, K, density):
    """Together, children use all features of their parent: the mean alpha of K nodes is at least 1 / K."""
    rng = np.random.default_rng(seed)
    x = rng.random((8 * K * K, 60)) < density
    y = rng.random((len(x), 2 * K * K)) < 0.05
    y[np.arange(len(x)), np.arange(len(x)) % (2 * K * K)] = True  # an instance without labels is in no child
    parts = rng.permutation(2 * K * K).reshape(K, K, 2).tolist()
    tree = LabelTree.from_nested(parts)
    used = make_plan(Dataset.from_matrices(x, y), tree).trees[0].used_features
    for u in range(K + 1):  # the root and its children
        children = tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]]
        assert used[children].sum() >= used[u]
        assert used[children].mean() >= used[u] / K - 1e-9
