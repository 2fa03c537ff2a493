"""The label tree: label vectors against a dense twin, and the laws that every tree obeys."""

import contextlib

import numpy as np
import pytest
from helpers import examples, nested, node_labels, random_data, run_portable, topic_data
from hypothesis import given
from hypothesis import strategies as st
from kmeans_twin import first_centroids, twin_nearness
from scipy import sparse
from sklearn.cluster import kmeans_plusplus

from labeltree import InputError, _native
from labeltree.data.dataset import Dataset, csr_arrays
from labeltree.trees.kmeans import build_tree
from labeltree.trees.tree import LabelTree


def label_vectors(data, threads=1):
    indptr = _native.count_label_vectors(data.native, threads)
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    _native.label_vectors(data.native, indptr, indices, values, threads)
    return sparse.csr_matrix((values, indices, indptr), shape=(data.n_labels, data.n_features))


def test_too_little_memory_for_the_tree():
    data = random_data()
    with pytest.raises(InputError, match=r"building the tree needs .* only 1.0 MB can be used; use fewer"):
        build_tree(data, clusters=3, memory_limit=10**6)
    assert build_tree(data, max_depth=1, memory_limit=10**6).n_nodes == 1  # nothing to cluster


def twin_vectors(data):
    sums = (data.Y.T @ data.X).toarray().astype(np.float64)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)


def same(one, other):
    return np.array_equal(one.child_ptr, other.child_ptr) and np.array_equal(one.children, other.children)


def shape(tree, node=0):
    """The tree without the order of children."""
    row = tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist()
    return frozenset(child if child < 0 else shape(tree, child) for child in row)


def check_laws(tree, data, clusters, max_depth):
    """What holds for every tree that build_tree makes."""
    known = data.Y.getnnz(axis=0) > 0
    vectors = twin_vectors(data)
    assert tree.n_labels == data.n_labels
    assert np.array_equal(np.sort(tree.labels), np.arange(data.n_labels))
    assert tree.depth <= max_depth
    assert tree.first[0] == 0
    assert tree.last[0] == data.n_labels
    for u in range(tree.n_nodes):
        children = tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]]
        labels = node_labels(tree, u)
        assert labels == tree.labels[tree.first[u] : tree.last[u]].tolist()
        assert len(children) == tree.child_count[u] >= 1
        if u:
            assert u in tree.children[tree.child_ptr[tree.parent[u]] : tree.child_ptr[tree.parent[u] + 1]]
            assert tree.node_depth[u] == tree.node_depth[tree.parent[u]] + 1
            assert len(labels) >= 2
            assert known[labels].all() or not known[labels].any()
        most = clusters + (u == 0 and not known.all())
        if (children >= 0).any():
            assert len(children) <= most
        elif len(children) > most and tree.node_depth[u] < max_depth - 1:  # not split: must be for a reason
            members = vectors[labels]
            assert not known[labels].any() or np.allclose(members, members[0], atol=1e-6)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_label_vectors_equal_their_twin(signed, threads):
    data = random_data(3, instances=90, labels=25, signed=signed)
    vectors = label_vectors(data, threads)
    assert vectors.indptr[-1] == vectors.indptr[-2]  # a label without instances has nothing
    np.testing.assert_allclose(vectors.toarray(), twin_vectors(data), atol=1e-6)
    # Every feature that occurs once, in one label's instances, is listed once.
    assert [np.unique(row.indices).size for row in vectors] == np.diff(vectors.indptr).tolist()


def test_large_values_of_a_label_vector_come_first():
    for values in np.split(label_vectors(random_data(9)).data, label_vectors(random_data(9)).indptr[1:-1]):
        size = np.abs(values)
        later = np.maximum.accumulate(size[::-1])[::-1]  # the largest value from here on
        assert (later <= np.maximum(1.25 * size, 2.0**-15)).all()


def test_label_vectors_that_cancel_are_zero():
    data = Dataset.from_matrices([[1, 2], [-1, -2], [1, 0]], [[1, 0], [1, 0], [0, 1]])
    assert label_vectors(data).toarray().tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("scale", [1e-18, 1e-3, 1e3, 1e18])
def test_label_vectors_have_length_one_at_any_scale(scale):
    data = random_data(1)
    data = Dataset.from_matrices(data.X * np.float32(scale), data.Y)
    lengths = np.linalg.norm(label_vectors(data).toarray().astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths[:-1], 1, atol=1e-5)


@given(
    seed=st.integers(0, 10**6),
    clusters=st.integers(2, 6),
    max_depth=st.integers(1, 7),
    labels=st.integers(1, 60),
    empty=st.booleans(),
)
@examples(60)
def test_laws_of_a_built_tree(seed, clusters, max_depth, labels, empty):
    data = random_data(seed, labels=labels, empty_label=empty)
    check_laws(build_tree(data, clusters=clusters, max_depth=max_depth, seed=seed), data, clusters, max_depth)


@given(seed=st.integers(0, 10**6), clusters=st.integers(2, 5), empty=st.booleans())
@examples(30)
def test_a_deep_tree_clipped_is_the_shallow_tree(seed, clusters, empty):
    data = random_data(seed, instances=80, labels=50, empty_label=empty)
    deep = build_tree(data, clusters=clusters, max_depth=6, seed=seed)
    for depth in range(1, 6):
        shallow = build_tree(data, clusters=clusters, max_depth=depth, seed=seed)
        assert same(deep.clip(depth), shallow)
        check_laws(deep.clip(depth), data, clusters, depth)


def test_clip_keeps_what_is_shallow_enough_and_refuses_depth_0():
    tree = LabelTree.from_nested([[0, 1], 2])
    assert tree.clip(2) is tree
    assert tree.clip(9) is tree
    assert sorted(nested(tree.clip(1))) == [0, 1, 2]
    with pytest.raises(InputError, match="max_depth is 0, expected an integer of at least 1"):
        tree.clip(0)


def test_few_labels_are_children_of_the_root():
    tree = build_tree(random_data(labels=7, empty_label=False), clusters=7)
    assert nested(tree) == list(range(7))
    assert build_tree(random_data(labels=8, empty_label=False), clusters=7).depth > 1


def test_labels_without_instances_are_a_child_of_the_root():
    data = random_data(labels=20)
    y = data.Y.toarray()
    y[:, [2, 5, 9]] = 0
    tree = build_tree(Dataset.from_matrices(data.X, y), clusters=4)
    children = [c if isinstance(c, list) else [c] for c in nested(tree)]
    assert [2, 5, 9, 19] in [sorted(c) for c in children if all(isinstance(label, int) for label in c)]


def test_no_label_has_an_instance():
    data = Dataset.from_matrices(np.eye(3), np.zeros((3, 9)))
    assert sorted(nested(build_tree(data, clusters=2))) == list(range(9))


@pytest.mark.parametrize("vector", [[0.3, 0.7, -0.2], [0, 0, 0]])
def test_equal_vectors_are_not_split(vector):
    data = Dataset.from_matrices([vector] * 40, np.eye(40))
    assert nested(build_tree(data, clusters=4)) == list(range(40))


def test_equal_vectors_under_a_split_root_are_one_node():
    x = np.vstack([np.tile([1.0, 0], (10, 1)), np.tile([0, 1.0], (10, 1))])
    data = Dataset.from_matrices(x, np.eye(20))
    for seed in range(8):  # the two first centroids are never equal
        tree = build_tree(data, clusters=2, seed=seed)
        assert sorted(map(sorted, nested(tree))) == [list(range(10)), list(range(10, 20))]


def test_planted_clusters_are_found():
    data = topic_data(topics=4, labels_each=8)
    planted = {frozenset(range(8 * t, 8 * t + 8)) for t in range(4)}
    vectors = twin_vectors(data)
    found = 0
    for seed in range(12):
        tree = build_tree(data, clusters=4, max_depth=2, seed=seed)
        groups = {
            frozenset([~c] if c < 0 else node_labels(tree, c))
            for c in tree.children[: tree.child_ptr[1]].tolist()
        }
        found += groups == planted
        # Whatever the start, it is a fixed point of Lloyd's iteration: each label is nearest to its own mean.
        groups = [sorted(g) for g in groups]
        means = np.array([vectors[g].mean(axis=0) for g in groups])
        for c, group in enumerate(groups):
            distances = np.linalg.norm(vectors[group][:, None] - means, axis=2)
            assert (distances[:, c] <= distances.min(axis=1) + 1e-5).all()
    assert found >= 1


def cluster_all(vectors, n_labels, clusters, **changes):
    """The clusters of all labels, as one node."""
    node = {"labels": np.arange(n_labels, dtype=np.int32), "last": np.array([n_labels], np.int64)}
    arguments = {"vectors": vectors, "clusters": clusters, "least_moved": 0.0, **node}
    return _native.cluster_level(**cluster_arguments(**arguments | changes))


def start(vectors, clusters, **changes):
    """The clusters after one assignment to the first centroids."""
    rows = sparse.csr_matrix(vectors.astype(np.float32))
    native = _native.SparseRows(*csr_arrays(rows), rows.shape[1])
    return cluster_all(native, len(vectors), clusters, **{"max_iterations": 1} | changes)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("labels", "clusters"), [(30, 29), (40, 40), (90, 9), (300, 7), (260, 100)])
def test_the_start_of_kmeans_equals_its_twin(labels, clusters, signed):
    rng = np.random.default_rng(labels)
    vectors = rng.random((labels, 30)) ** 4 - 0.2 * signed
    vectors[rng.random(vectors.shape) < 0.6] = 0
    vectors[:: labels // 10] = vectors[0]  # some are equal
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)  # and some are zero
    for seed, threads in ((0, 1), (1, 3)):
        found = start(vectors, clusters, seed=seed, streams=np.array([5]), threads=threads)
        seeds = first_centroids(vectors, clusters, seed, stream=5)
        assert len(set(seeds.tolist())) == clusters
        squares = ((vectors[:, None] - vectors[seeds]) ** 2).sum(axis=2)
        np.testing.assert_allclose(squares[np.arange(labels), found], squares.min(axis=1), atol=1e-5)


def test_all_distinct_vectors_are_first_centroids():
    vectors = np.tile(np.eye(12), (8, 1))
    for seed in range(5):
        for clusters in (12, 20):  # with more clusters than distinct vectors, some are empty
            found = start(vectors, clusters, seed=seed)
            assert len(np.unique(found)) == 12
            assert (found.reshape(8, 12) == found[:12]).all()


def test_zero_vectors_are_clustered():
    found = start(np.vstack([np.eye(4), np.zeros((20, 4))]), 5)
    assert len(np.unique(found)) == 5
    assert len(np.unique(found[4:])) == 1


def test_the_start_has_a_low_inertia():
    """As low as that of scikit-learn's k-means++, and lower than that of random labels."""
    vectors = twin_vectors(topic_data(topics=30, labels_each=8))
    squares = ((vectors[:, None] - vectors) ** 2).sum(axis=2)

    def inertia(seeds):
        return squares[seeds].min(axis=0).sum()

    ours = np.mean([inertia(first_centroids(vectors, 30, seed)) for seed in range(5)])
    peer = np.mean([inertia(kmeans_plusplus(vectors, 30, random_state=seed)[1]) for seed in range(5)])
    rng = np.random.default_rng(0)
    random = np.mean([inertia(rng.permutation(len(vectors))[:30]) for _ in range(5)])
    assert ours <= 1.02 * peer < random


@pytest.mark.parametrize("features", [60, 70_000])  # with as many as the latter, centroids are rounded
@pytest.mark.parametrize("clusters", [9, 100, 120])
def test_an_iteration_of_kmeans_equals_its_twin(features, clusters):
    rng = np.random.default_rng(8)
    known = np.append(
        (rng.random(15_000) ** 3 * 200 % features).astype(int), np.arange(features)
    )  # all occur
    values = np.append(rng.random(15_000), np.full(features, 0.01))
    rows = sparse.csr_matrix((values, (np.arange(len(known)) % 500, known)), shape=(500, features))
    rows = (sparse.diags(1 / sparse.linalg.norm(rows, axis=1)) @ rows).tocsr()
    vectors = rows.toarray()
    native = _native.SparseRows(*csr_arrays(rows), features)
    before, after = (cluster_all(native, 500, clusters, max_iterations=n) for n in (1, 2))
    means = np.array([vectors[before == c].mean(axis=0) for c in np.unique(before)])
    squares = 1 - 2 * vectors @ means.T + (means**2).sum(axis=1)  # of the distances: vectors have length 1
    chosen = squares[np.arange(500), np.searchsorted(np.unique(before), after)]
    assert np.isin(after, before).all()
    assert (before != after).any()
    excess = chosen - squares.min(axis=1)
    assert (excess <= (1e-6 if features == 60 else 5e-3)).all()  # rounded centroids may lose a near tie
    assert (excess <= 1e-6).mean() > 0.95


@pytest.mark.parametrize("labels", [150, 500])  # of 500, whole centroids are rounded
def test_all_iterations_but_the_last_use_the_main_part_of_each_vector(labels):
    rng = np.random.default_rng(4)
    large = np.sort(rng.random((labels, 30)) ** 6, axis=1)[:, ::-1]  # large values first
    values = np.hstack([large, np.full((labels, 100), 0.02)])
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    shared = np.array([rng.permutation(60)[:30] for _ in range(labels)])
    columns = np.hstack([shared, 60 + np.arange(100 * labels).reshape(labels, 100)])
    part = np.cumsum(values**2, axis=1) - values**2 < 0.9  # entries before which less than 90% has been seen
    assert 0.02 < part.mean() < 0.2

    def cluster(chosen, **changes):
        rows = np.append(0, np.cumsum(chosen.sum(axis=1))), columns[chosen], values[chosen]
        types = np.int64, np.int32, np.float32
        vectors = _native.SparseRows(*map(np.ndarray.astype, rows, types), 60 + 100 * labels)
        return cluster_all(vectors, labels, 20, **changes)

    whole = np.zeros((labels, 60 + 100 * labels))
    np.put_along_axis(whole, columns, values, axis=1)
    moved = 0
    for iterations, threads in ((1, 1), (2, 2)):
        before = cluster(part, max_iterations=iterations)
        after = cluster(part | True, max_iterations=iterations + 1, main_share=0.9, threads=threads)
        nearness = twin_nearness(whole, before, 20)
        excess = nearness.max(axis=1) - nearness[np.arange(labels), after]
        assert (excess <= (1e-5 if labels == 150 else 5e-3)).all()
        assert (excess <= 1e-5).mean() > 0.95
        moved += np.count_nonzero(before != after)
    assert moved > 0


def test_clusters_that_do_not_change_are_still_compared():
    """Centroids of many features are rounded, and those that have changed are compared first."""
    rng = np.random.default_rng(3)
    n_labels, n_features, clusters = 600, 30_000, 40
    topics = rng.integers(0, 4000, (60, 12))  # more than clusters, and overlapping
    rows = sparse.lil_matrix((n_labels, n_features))
    for label, topic in enumerate(rng.integers(0, 60, n_labels)):
        rows[label, topics[topic]] = rng.random(12)
        rows[label, topics[rng.integers(60)]] = rng.random(12)
    rows[:, 4000:] = sparse.random(n_labels, n_features - 4000, 60 / n_features, rng=rng) / 10
    used = np.arange(4000, n_features)
    rows[used % n_labels, used] = 0.01  # all features occur
    rows = (sparse.diags_array(1 / sparse.linalg.norm(rows, axis=1)) @ rows.tocsr()).astype(np.float32)
    vectors = rows.toarray()
    native = _native.SparseRows(*csr_arrays(rows), n_features)
    steps = [
        cluster_all(native, n_labels, clusters, max_iterations=n, threads=1 + n % 2) for n in range(1, 12)
    ]
    partly = 0  # iterations after which labels move though few clusters have changed
    for older, before, after in zip(steps, steps[1:], steps[2:], strict=False):
        changed = np.union1d(older[older != before], before[older != before])
        partly += (before != after).any() and 0 < len(changed) <= 0.7 * clusters
        nearness = twin_nearness(vectors, before, clusters)
        chosen = nearness[np.arange(n_labels), after]
        assert (nearness.max(axis=1) - chosen <= 1e-4).all()
    assert partly >= 2


@pytest.mark.parametrize("clusters", [2, 7, 8, 9, 16, 105])
def test_the_number_of_threads_changes_nothing(clusters):
    data = random_data(7, instances=400, features=60, labels=300)
    trees = [build_tree(data, clusters=clusters, seed=5, threads=t) for t in (1, 2, 3)]
    assert trees[0].n_nodes > 1
    assert same(trees[0], trees[1])
    assert same(trees[0], trees[2])


def test_portable_instructions_build_the_same_tree():
    script = """if True:
    from helpers import random_data
    from labeltree import build_tree
    tree = build_tree(random_data(7, instances=400, features=60, labels=300), clusters=9, seed=5)
    print(tree.children.tolist())"""
    here = build_tree(random_data(7, instances=400, features=60, labels=300), clusters=9, seed=5)
    assert run_portable(script).strip() == str(here.children.tolist())


def test_the_seed_matters():
    data = random_data(7, labels=60)
    trees = [build_tree(data, clusters=5, seed=s) for s in range(4)]
    assert len({shape(tree) for tree in trees}) == 4
    assert same(trees[2], build_tree(data, clusters=5, seed=2))


@given(
    st.recursive(st.none(), lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=25).filter(
        lambda drawn: drawn is not None
    ),
    st.randoms(use_true_random=False),
)
@examples(60)
def test_a_given_tree_keeps_its_shape(skeleton, random):
    count = repr(skeleton).count("None")
    numbers = random.sample(range(count), count)

    def fill(part):
        return numbers.pop() if part is None else [fill(child) for child in part]

    given_tree = fill(skeleton)
    tree = LabelTree.from_nested(given_tree)
    assert nested(tree) == given_tree
    for u in range(tree.n_nodes):
        assert tree.labels[tree.first[u] : tree.last[u]].tolist() == node_labels(tree, u)


@pytest.mark.parametrize(
    ("given_tree", "message"),
    [
        (7, "the tree is of type int"),
        ("ab", "the tree is of type str"),
        ([], "no children"),
        ([0, []], "no children"),
        ([0, "1"], "'1'"),
        ([0, 1.0], r"1\.0"),
        ([0, None], "None"),
        ([0, -1], "-1"),
        ([0, 2**31], "2147483648"),
        ([0, 2], "label 1 is missing"),
        ([1, [2, 3]], "label 0 is missing"),
        ([0, [0, 1]], "0 occurs twice"),
        ([[0, 1], [1, 2]], "1 occurs twice"),
    ],
)
def test_bad_trees_are_refused(given_tree, message):
    with pytest.raises(InputError, match=message):
        LabelTree.from_nested(given_tree)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": 1}, "clusters is 1, expected "),
        ({"clusters": -3}, "clusters is -3, expected"),
        ({"max_depth": 0}, "max_depth is 0, expected an integer of at least 1"),
        ({"seed": -1}, "seed is -1, expected "),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        build_tree(random_data(), **options)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_stops_the_building(monkeypatch, threads):
    monkeypatch.setattr("labeltree.trees.kmeans.MAX_KMEANS_ITERATIONS", 2**31 - 1)
    monkeypatch.setattr("labeltree.trees.kmeans.LEAST_MOVED", -1.0)  # so it would go on for ever

    def stop(done):
        assert 0 <= done <= 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_tree(random_data(labels=200), clusters=20, threads=threads, progress=stop)


def test_an_interrupt_before_the_first_iteration_is_safe():
    """The distances for k-means++ take long enough for a first report of progress on most machines."""
    rng = np.random.default_rng(0)
    n_labels, n_entries, n_features = 3000, 200, 20_000
    columns = np.arange(n_entries) * 100 + rng.integers(0, 100, (n_labels, n_entries))
    values = -np.sort(-rng.random((n_labels, n_entries)).astype(np.float32), axis=1)
    ptr = np.arange(n_labels + 1, dtype=np.int64) * n_entries
    vectors = _native.SparseRows(ptr, columns.ravel().astype(np.int32), values.ravel(), n_features)

    def stop(done):
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        assert cluster_all(vectors, n_labels, 300, main_share=0.95, progress=stop).min() >= 0


def cluster_arguments(**changes):
    """Arguments of the clustering kernel."""
    ptr, index = np.array([0, 1, 2, 3], np.int64), np.array([0, 1, 0], np.int32)
    right = {
        "vectors": _native.SparseRows(ptr, index, np.ones(3, np.float32), 2),
        "labels": np.array([0, 1, 2], np.int32),
        "first": np.array([0], np.int64),
        "last": np.array([3], np.int64),
        "streams": np.array([0], np.int64),
        "clusters": 2,
        "max_iterations": 5,
        "least_moved": 0.01,
        "seed": 0,
        "threads": 1,
        "progress": None,
    }
    return {**right, **changes}


def test_the_clustering_kernel_takes_the_right_arguments():
    cluster = _native.cluster_level(**cluster_arguments())
    assert cluster[0] == cluster[2]


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.array([0, 1, 3], np.int32)},
        {"first": np.array([-1], np.int64)},
        {"last": np.array([4], np.int64)},
        {"last": np.array([1], np.int64)},
        {"streams": np.array([], np.int64)},
        {"clusters": 1},
        {"max_iterations": 0},
        {"main_share": 0.0},
        {"main_share": 1.5},
        {"threads": 0},
    ],
)
def test_the_clustering_kernel_refuses_what_it_cannot_use(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        _native.cluster_level(**cluster_arguments(**changes))
