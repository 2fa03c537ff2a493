"""The approximate size of a model: close to the exact one, repeatable, and exact where that is easy."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import labeltree
from labeltree import _native, rough_clusters, sampled_tree, sizing
from labeltree.codec import Layout
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings

SETTINGS = TreeSettings(clusters=8, max_depth=6)


@pytest.fixture(scope="module")
def data():
    return labeltree.synthesize("amazoncat-13k", scale=0.01, seed=3)[0]


@pytest.fixture
def sampled(monkeypatch):
    """Treat small data as if it were large."""
    monkeypatch.setattr(sizing, "EXACT_WORK", 0)


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        TreeSettings(clusters=8, max_depth=3),
        TreeSettings(clusters=8, max_depth=2),
        TreeSettings(clusters=30, trees=2),
    ],
)
@pytest.mark.parametrize("storage", [StorageSettings(), StorageSettings("int8"), StorageSettings(prune=0.1)])
def test_close_to_the_exact_size(data, sampled, settings, storage):
    plan = labeltree.build_plan(data, settings, storage=storage, threads=1)
    size = labeltree.estimate_size(data, settings, storage=storage, threads=1)
    assert not size.exact
    assert size.model_bytes_low <= plan.model_bytes <= size.model_bytes_high
    assert size.model_bytes == pytest.approx(plan.model_bytes, rel=0.25)
    assert size.training_memory_bytes_low <= plan.training_memory_bytes <= size.training_memory_bytes_high


def test_nodes_that_are_all_split_are_counted_exactly(data, sampled, monkeypatch):
    monkeypatch.setattr(sampled_tree, "FEWEST_SPLIT", 10_000)
    monkeypatch.setattr(sampled_tree, "TREE_DEVIATION", 0.0)
    trees = []
    monkeypatch.setattr(sampled_tree, "grow_tree", lambda *args: trees.append(original(*args)) or trees[-1])
    size = labeltree.estimate_size(data, SETTINGS, threads=1)
    plan = labeltree.make_plan(data, trees[0], threads=1)
    assert size.model_bytes == size.model_bytes_low == size.model_bytes_high == plan.model_bytes


original = sampled_tree.grow_tree


def test_the_same_seed_gives_the_same_size(data, sampled):
    one = labeltree.estimate_size(data, SETTINGS, threads=1)
    two = labeltree.estimate_size(data, SETTINGS, threads=2)
    assert (one.model_bytes, one.model_bytes_low) == (two.model_bytes, two.model_bytes_low)
    other = labeltree.estimate_size(data, replace(SETTINGS, seed=1), threads=1)
    assert other.model_bytes != one.model_bytes


@pytest.mark.parametrize(
    "settings", [TreeSettings(max_depth=1), TreeSettings(clusters=2000), TreeSettings(clusters=8)]
)
def test_small_and_flat_trees_are_exact(data, settings):
    plan = labeltree.build_plan(data, settings, threads=1)
    size = labeltree.estimate_size(data, settings, threads=1)
    assert size == sizing.SizeEstimate.of_plan(plan)
    assert size.exact


def test_a_given_tree_is_exact(data, sampled):
    tree = labeltree.build_tree(data, clusters=20, threads=1)
    size = labeltree.estimate_size(data, TreeSettings(tree=tree), threads=1)
    assert size.exact
    assert size.model_bytes == labeltree.make_plan(data, tree, threads=1).model_bytes


def test_labels_without_instances_and_equal_labels(sampled):
    X = np.eye(4, 6).repeat(10, axis=0)
    Y = np.zeros((40, 50))
    Y[np.arange(40), np.arange(40)] = 1  # groups of ten labels with equal vectors, and ten without instances
    data = labeltree.Dataset.from_matrices(X, Y)
    settings = TreeSettings(clusters=3)
    size = labeltree.estimate_size(data, settings, threads=1)
    plan = labeltree.build_plan(data, settings, threads=1)
    assert size.model_bytes == pytest.approx(plan.model_bytes, rel=0.3)


@pytest.mark.parametrize("codec", ["float32", "float16", "int8", "sparse"])
def test_the_bytes_of_nodes_add_up_to_the_files(data, codec):
    plan = labeltree.make_plan(data, labeltree.build_tree(data, clusters=300, threads=1), threads=1).trees[0]
    layout = Layout.of(plan.tree, codec, plan.used_features, bias=True, n_features=data.n_features)
    files = layout.files().values()
    fixed = sum(spec.bytes - spec.length * np.dtype(spec.dtype).itemsize for spec in files)
    ends = 8 * (2 + (codec == "sparse"))  # the last pointers
    assert layout.node_bytes().sum() + fixed + ends == sum(spec.bytes for spec in files)


def test_systematic_sampling_has_the_given_probabilities():
    chance = rough_clusters.proportional(np.array([100.0, 4, 3, 2, 1]), 3)
    assert chance[0] == 1
    assert chance.sum() == pytest.approx(3)
    draws = np.array([rough_clusters.systematic(chance, np.random.default_rng(seed)) for seed in range(2000)])
    assert (draws.sum(axis=1) == 3).all()
    assert draws.mean(axis=0) == pytest.approx(chance, abs=0.05)


def test_thinned_matrices_are_unbiased():
    X = sparse.random(40, 60, 0.5, "csr", np.float32, np.random.default_rng(0))
    draws = [rough_clusters.thinned(X, 10, np.random.default_rng(seed)) for seed in range(400)]
    assert np.mean([draw.nnz for draw in draws]) == pytest.approx(400, rel=0.02)
    mean = sum(draw.toarray() for draw in draws) / len(draws)
    assert np.abs(mean - X.toarray()).max() < 0.5
    assert (mean - X.toarray()).mean() == pytest.approx(0, abs=0.003)
    X.data[0] = 1000
    assert all(rough_clusters.thinned(X, 10, np.random.default_rng(k)).data[0] == 1000 for k in range(9))
    assert rough_clusters.thinned(X, 30, np.random.default_rng(0)) is X


def rough_twin(X, Y, order, first_clusters, ends, clusters):
    """Do the same as the kernel, with label vectors."""
    vectors = Y.T @ X
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(lengths > 0, lengths, 1)
    found = np.full(vectors.shape[0], -1)
    found[order[: len(first_clusters)]] = first_clusters
    n_before = len(first_clusters)
    for end in ends:
        centroids, half_squares = np.zeros((clusters, X.shape[1])), np.full(clusters, np.inf)
        for c in range(clusters):
            members = vectors[[j for j in order[:n_before] if found[j] == c]]
            if len(members):
                n, total = len(members), members.sum(axis=0)
                centroids[c] = total / n
                square = max(0.0, total @ total - n) / (n * (n - 1)) if n > 1 else total @ total
                half_squares[c] = square / 2
        found[order[:end]] = (vectors[order[:end]] @ centroids.T - half_squares).argmax(axis=1)
        n_before = end
    return found


@pytest.mark.parametrize("threads", [1, 3])
def test_rough_clusters_are_those_of_the_twin(threads):
    random = np.random.default_rng(7)
    topics = random.random((5, 40)) ** 8
    of_label = random.integers(0, 5, 60)
    Y = np.zeros((150, 60))
    Y[np.arange(150), random.integers(0, 60, 150)] = 1
    X = topics[of_label[Y.argmax(axis=1)]] * (random.random((150, 40)) < 0.6)
    data = labeltree.Dataset.from_matrices(X, Y)
    order = random.permutation(60).astype(np.int32)
    first = of_label[order[:15]].astype(np.int32)
    ends = np.array([30, 55])
    found = _native.rough_clusters(data.native, order, first, ends, 6, threads)
    expected = rough_twin(data.X.toarray(), data.Y.toarray(), order, first, ends, 6)
    # Centroids are rounded to bfloat16, so that labels between two clusters may differ.
    assert (found == expected).mean() > 0.95
    assert (found[order[55:]] == -1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": np.array([0, 9], np.int32)}, "order"),
        ({"first_clusters": np.array([2], np.int32)}, "first_clusters"),
        ({"ends": np.array([3])}, "ends"),
        ({"ends": np.array([0])}, "ends"),
        ({"clusters": 1}, "clusters"),
        ({"threads": 0}, "threads"),
    ],
)
def test_rough_clusters_check_their_arrays(change, message):
    data = labeltree.Dataset.from_matrices(np.eye(2), np.eye(2))
    arguments = {
        "order": np.array([0, 1], np.int32),
        "first_clusters": np.array([1], np.int32),
        "ends": np.array([2]),
        "clusters": 2,
        "threads": 1,
    }
    assert _native.rough_clusters(data.native, **arguments).tolist() == [1, 1]
    with pytest.raises(ValueError, match=message):
        _native.rough_clusters(data.native, **{**arguments, **change})


def test_a_solver_without_bias_needs_less(data, sampled):
    with_bias = labeltree.estimate_size(data, SETTINGS, SolverSettings(), threads=1)
    without = labeltree.estimate_size(data, SETTINGS, SolverSettings(bias=0), threads=1)
    assert without.model_bytes < with_bias.model_bytes


def test_command(data, sampled, tmp_path):
    from typer.testing import CliRunner

    from labeltree.cli.app import app

    labeltree.write_svm(tmp_path / "train.svm", data)
    arguments = ["estimate", str(tmp_path / "train.svm"), "--quick", "--clusters", "8", "--quiet"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    size = labeltree.estimate_size(labeltree.read_svm(tmp_path / "train.svm"), TreeSettings(clusters=8))
    assert report["model_bytes"] == size.model_bytes
    assert report["model_bytes_low"] < report["model_bytes"] < report["model_bytes_high"]
    assert report["training_memory_bytes_low"] <= report["training_memory_bytes_high"]
    assert report["fits"] is True
    text = CliRunner().invoke(app, arguments).stdout
    assert text.startswith("model   about ")
    assert "95% interval" in text
    pruned = json.loads(CliRunner().invoke(app, [*arguments, "--prune", "0.1", "--json"]).stdout)
    assert pruned["model_bytes"] is None
    assert pruned["model_bytes_at_most"] > 0
    small = CliRunner().invoke(app, [*arguments, "--memory-limit", "1MB"]).stdout
    assert small.endswith("It does not fit.\n")
