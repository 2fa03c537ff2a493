"""The approximate size of a model: close to the exact one, repeatable, and exact where that is easy."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import labeltree
from labeltree import _native
from labeltree.model.layout import Layout
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings
from labeltree.training import sampled_tree, sampling, sizing

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


def test_nodes_that_are_all_examined_are_counted_exactly(data, sampled, monkeypatch):
    monkeypatch.setattr(sampled_tree, "FEWEST", (10_000, 10_000))
    monkeypatch.setattr(sampled_tree, "MOST_COUNTED", 10**9)
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


@pytest.mark.parametrize("settings", [TreeSettings(max_depth=1), TreeSettings(clusters=2000), SETTINGS])
def test_small_and_flat_trees_are_exact(data, settings):
    plan = labeltree.build_plan(data, settings, threads=1)
    size = labeltree.estimate_size(data, settings, threads=1)
    assert size == sizing.SizeEstimate.of_plan(plan)
    assert size.exact


def test_trees_of_depth_2_are_exact(data, sampled):
    settings = TreeSettings(clusters=8, max_depth=2)
    size = labeltree.estimate_size(data, settings, threads=1)
    assert size.exact
    assert size.model_bytes == labeltree.build_plan(data, settings, threads=1).model_bytes


def test_a_given_tree_is_exact(data, sampled):
    tree = labeltree.build_tree(data, clusters=20, threads=1)
    size = labeltree.estimate_size(data, TreeSettings(tree=tree), threads=1)
    assert size.exact
    assert size.model_bytes == labeltree.make_plan(data, tree, threads=1).model_bytes


@pytest.mark.parametrize("factor", [1e19, 1e-30])
def test_the_unit_of_the_features_does_not_matter(data, sampled, factor):
    scaled = labeltree.Dataset.from_matrices(data.X * np.float32(factor), data.Y)
    size, other = (labeltree.estimate_size(d, SETTINGS, normalize=False, threads=1) for d in (data, scaled))
    assert other.model_bytes == pytest.approx(size.model_bytes, rel=0.02)  # values round differently


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
    chance = sampling.proportional(np.array([100.0, 4, 3, 2, 1]), 3)
    assert chance[0] == 1
    assert chance.sum() == pytest.approx(3)
    draws = np.array([sampling.systematic(chance, np.random.default_rng(seed)) for seed in range(2000)])
    assert (draws.sum(axis=1) == 3).all()
    assert draws.mean(axis=0) == pytest.approx(chance, abs=0.05)


def test_systematic_sampling_chooses_evenly_by_value():
    chance, by = np.full(40, 0.25), np.random.default_rng(1).random(40)
    for seed in range(50):
        chosen = sampling.systematic(chance, np.random.default_rng(seed), by)
        counts = np.cumsum(chosen[np.argsort(by)])
        assert (np.abs(counts - np.cumsum(chance)) < 1).all()  # of the smallest, any number of them


def bfloat16(values):
    """Round to the upper halves of floats."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def main_entries(values, most):
    """Return the places of entries that are not too small, or of the largest."""
    square = np.square(values, dtype=np.float64).sum()
    places = np.flatnonzero(np.square(values, dtype=np.float64) >= square / (4 * most))
    if places.size <= 2 * most and 2 * np.square(values[places]).sum() >= square:
        return places
    bins = np.abs(values).view(np.uint32) >> 20
    return np.sort(np.argsort(-bins.astype(np.int64), kind="stable")[: 2 * most])


def rough_row(data, instance, n_row_entries):
    """Return the slots and values of an instance."""
    row = data.X[instance]
    places = np.arange(row.nnz) if row.nnz <= n_row_entries // 2 else main_entries(row.data, n_row_entries)
    hashes = row.indices[places].astype(np.uint64) * 0x9E3779B1 & 0xFFFFFFFF
    sign = np.where(hashes >> 16 & 1, -1, 1).astype(np.float32)
    return (hashes >> 17).astype(np.int32), sign * bfloat16(row.data[places])


def rough_vectors_twin(data, n_instances, n_row_entries, n_entries, starts):
    """Do the same as the kernel, one label at a time; ``starts`` are the random numbers of the labels."""
    ptr, instances = data.by_label
    for label in range(data.n_labels):
        of_label = instances[ptr[label] : ptr[label + 1]]
        if of_label.size > n_instances:
            step = of_label.size / n_instances
            of_label = of_label[((np.arange(n_instances) + starts[label]) * step).astype(int)]
        if of_label.size == 1:
            slots, values = rough_row(data, of_label[0], n_row_entries)
        else:
            total = {}
            for i in of_label:
                for slot, x in zip(*rough_row(data, i, n_row_entries), strict=True):
                    total[slot] = np.float32(total.get(slot, np.float32(0)) + x)
            slots, values = np.array(list(total), np.int32), np.array(list(total.values()), np.float32)
            kept = main_entries(values, n_entries)
            slots, values = slots[kept], values[kept]
        yield slots, values / max(np.linalg.norm(values.astype(np.float64)), 1e-30)


class SplitMix:
    """The random numbers of native/random.h."""

    mask = (1 << 64) - 1

    def __init__(self, seed, stream):
        self.state = self.mix(seed) ^ self.mix((stream + 0x632BE59BD9B4E019) & self.mask)

    def mix(self, z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self.mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self.mask
        return z ^ (z >> 31)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.mask
        return self.mix(self.state)

    def fraction(self):
        return (self.next() >> 11) * 2.0**-53

    def shuffled(self, n):
        values = list(range(n))
        for i in range(n - 1, 0, -1):
            k = ((self.next() >> 32) * (i + 1)) >> 32
            values[i], values[k] = values[k], values[i]
        return np.array(values)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("entries", [(12, 20), (3, 4), (60, 60)])
def test_rough_vectors_are_those_of_the_twin(data, threads, entries):
    labels = np.arange(data.n_labels, dtype=np.int32)
    ptr, index, value = _native.RoughClusters(data.native, 5, *entries, 7, threads).vectors(labels)
    starts = [SplitMix(7, label).fraction() for label in range(data.n_labels)]
    for label, (slots, values) in enumerate(rough_vectors_twin(data, 5, *entries, starts)):
        row = slice(ptr[label], ptr[label + 1])
        assert index[row].tolist() == slots.tolist()
        assert value[row] == pytest.approx(values, abs=1e-6)
    assert 0 < np.diff(ptr).max() <= 2 * entries[1]


def test_rough_vectors_of_special_values():
    X = np.array([[1, 1, 1, 1], [2, -2, 0, 0], [-2, 2, 0, 0], [0, 0, 0, 0], [9, 1, 1, 1]], np.float32)
    Y = np.eye(5, 6, dtype=np.float32)
    Y[2] = Y[1]
    data = labeltree.Dataset.from_matrices(X, Y)
    clusters = _native.RoughClusters(data.native, 9, 1, 1, 0, 1)
    ptr, _, value = clusters.vectors(np.arange(6, dtype=np.int32))
    # Too many equal entries: the first. Entries that cancel, none, no instances. Small ones are left out.
    assert np.diff(ptr).tolist() == [2, 2, 0, 0, 1, 0]
    assert np.abs(value) == pytest.approx([0.5**0.5, 0.5**0.5, 0, 0, 1])
    for change in ((0, 3, 3, 0, 1), (9, 0, 2, 0, 1), (9, 3, 2, 0, 1), (9, 3, 3, 0, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            _native.RoughClusters(data.native, *change)
    with pytest.raises(ValueError, match="labels"):
        clusters.vectors(np.array([6], np.int32))


def assigned_twin(vectors, given, clusters):
    """Assign labels to the means of those with clusters, the lengths of which are estimated without bias."""
    sums, rates, half_squares = (
        np.zeros((clusters, vectors.shape[1])),
        np.zeros(clusters),
        np.full(clusters, np.inf),
    )
    for c in range(clusters):
        members = vectors[given == c]
        if len(members):
            n, sums[c] = len(members), members.sum(axis=0)
            square = sums[c] @ sums[c]
            rates[c] = 1 / n
            half_squares[c] = (max(0.0, square - n) / (n * (n - 1)) if n > 1 else square) / 2
    return (vectors @ bfloat16(sums).T * rates - half_squares).argmax(axis=1)


def batches_twin(vectors, clusters, batches, seed, stream):
    """Do the same as the kernel, with dense vectors."""
    number, _, per_cluster, share, last = batches
    n = len(vectors)
    size = min(n // 2, max(per_cluster * clusters, int(share * n)))
    order = SplitMix(seed, stream).shuffled(n)
    cluster = np.full(n, -1)
    cluster[order[:clusters]] = np.arange(clusters)
    end = clusters
    for batch in range(number):
        n_next = min(n // 2, int(last * size)) if batch == number - 1 else size
        following = order[np.arange(end, end + n_next) % n]
        end += n_next
        found = assigned_twin(vectors, cluster, clusters)
        cluster[:] = -1
        cluster[following] = found[following]
    return np.where(cluster < 0, assigned_twin(vectors, cluster, clusters), cluster)


SLOTS = 2048  # of nodes with few labels


def rough_clusters(threads=1):
    """Return the clusters of 60 labels with an instance each, and their vectors in random order."""
    random = np.random.default_rng(7)
    rows = (random.random((5, 40)) ** 8)[random.integers(0, 5, 60)] * (random.random((60, 40)) < 0.7)
    data = labeltree.Dataset.from_matrices(rows.astype(np.float32), np.eye(60))
    clusters = _native.RoughClusters(data.native, 5, 40, 40, 7, threads)
    labels = random.permutation(60).astype(np.int32)
    ptr, index, value = clusters.vectors(labels)
    vectors = np.zeros((60, SLOTS))
    np.add.at(vectors, (np.repeat(np.arange(60), np.diff(ptr)), index * SLOTS // 2**15), value)
    return clusters, labels, vectors


def split(clusters, labels, batches, seed=11, first=0, last=60):
    ends = np.array([first]), np.array([last]), np.array([3])
    return clusters.split(labels, *ends, 6, 1, 0.0, seed, batches)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batches", [(1, 4, 4, 0.1, 1.0), (4, 4, 1, 0.15, 2.5), (5, 9, 5, 0.0, 4.0)])
def test_clusters_of_batches_are_those_of_the_twin(threads, batches):
    clusters, labels, vectors = rough_clusters(threads)
    for seed in range(5):
        expected = batches_twin(vectors, 6, batches, seed, 3)
        assert split(clusters, labels, batches, seed).tolist() == expected.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_several_nodes_at_a_time(threads):
    """Threads take whole nodes, of which the first ones are not the largest."""
    clusters, labels, vectors = rough_clusters(threads)
    batches = (2, 4, 1, 0.15, 2.0)
    order = np.concatenate([labels[:30], labels, labels[10:], labels[:40], labels, labels[5:], labels[:10]])
    ends = np.cumsum([0, 30, 60, 50, 40, 60, 55, 10])
    found = clusters.split(order, ends[:-1], ends[1:], np.arange(7), 6, 1, 0.0, 11, batches)
    whole = clusters.split(labels, np.array([0]), np.array([60]), np.array([4]), 6, 1, 0.0, 11, batches)
    assert found[180:240].tolist() == whole.tolist()
    assert found[30:90].tolist() == batches_twin(vectors, 6, batches, 11, 1).tolist()
    assert found[90:140].tolist() == batches_twin(vectors[10:], 6, batches, 11, 2).tolist()


def test_many_labels_on_several_threads():
    """Vectors are made when they are needed, in several blocks, and have more slots."""
    random = np.random.default_rng(5)
    topics = random.integers(0, 3000, (40, 30))
    n_labels = 9000
    columns = topics[random.integers(0, 40, n_labels)[:, None], random.integers(0, 30, (n_labels, 8))]
    rows = np.zeros((n_labels, 3000), np.float32)
    np.put_along_axis(rows, columns, random.random(columns.shape, np.float32) + 0.5, axis=1)
    data = labeltree.Dataset.from_matrices(rows, sp.eye_array(n_labels, format="csr"))
    labels = random.permutation(n_labels).astype(np.int32)
    found = []
    for threads in (1, 3):
        clusters = _native.RoughClusters(data.native, 5, 40, 40, 7, threads)
        node = np.array([0]), np.array([n_labels]), np.array([3])
        found.append(clusters.split(labels, *node, 40, 1, 0.0, 11, (4, 5, 10, 0.25, 2.0)))
    assert found[0].tolist() == found[1].tolist()
    # Most labels of a topic are in one cluster.
    topic_of = np.array([np.isin(topics, np.unique(row)).sum(axis=1).argmax() for row in columns])[labels]
    together = sum(np.bincount(found[0][topic_of == topic]).max() for topic in range(40))
    assert together > 0.6 * n_labels


def test_small_nodes_are_clustered_by_k_means():
    clusters, labels, _ = rough_clusters()
    rows = _native.SparseRows(*clusters.vectors(labels), 2**15)
    ends = np.array([0]), np.array([60]), np.array([3])
    expected = _native.cluster_level(rows, np.arange(60, dtype=np.int32), *ends, 6, 1, 0.0, 11, 1, None)
    assert split(clusters, labels, (3, 10, 5, 0.1, 2.0)).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "batches",
    [
        (0, 4, 4, 0.1, 1.0),
        (1, 3, 4, 0.1, 1.0),
        (1, 4, 0, 0.1, 1.0),
        (1, 4, 4, 0.3, 1.0),
        (1, 4, 4, -0.1, 1.0),
        (1, 4, 4, 0.1, 5.0),
    ],
)
def test_batches_are_checked(batches):
    clusters, labels, _ = rough_clusters()
    with pytest.raises(ValueError, match="batches"):
        split(clusters, labels, batches)


def test_nodes_are_checked():
    clusters, labels, _ = rough_clusters()
    batches = (1, 4, 4, 0.1, 1.0)
    assert (split(clusters, labels, batches, last=50)[50:] == -1).all()
    for first, last in ((-1, 60), (0, 61), (55, 60)):
        with pytest.raises(ValueError, match="range of labels"):
            split(clusters, labels, batches, first=first, last=last)
    with pytest.raises(ValueError, match="labels"):
        split(clusters, labels + np.int32(1), batches)


@pytest.mark.parametrize("threads", [1, 3])
def test_used_features_of_sets_of_labels(data, threads):
    labels = np.random.default_rng(0).permutation(data.n_labels).astype(np.int32)
    first, last = np.array([0, 5, 7, 9]), np.array([5, 40, 7, 10])
    counts = np.stack(_native.used_features_of(data.native, labels, first, last, 10**6, threads))
    for u, (start, end) in enumerate(zip(first, last, strict=True)):
        rows = data.X[np.flatnonzero(data.Y[:, labels[start:end]].sum(axis=1))]
        assert counts[:, u].tolist() == [rows.shape[0], rows.nnz, np.unique(rows.indices).size]
    assert _native.count_features(data.native, threads) == np.unique(data.X.indices).size
    entries = data.Y.T @ np.diff(data.X.indptr)
    assert _native.count_entries(data.native, threads).tolist() == entries.tolist()


@pytest.mark.parametrize(("max_instances", "parts"), [(1000, 2), (100, 4)])
def test_features_of_many_instances_are_estimated(data, max_instances, parts):
    labels = np.arange(data.n_labels, dtype=np.int32)
    first, last = np.array([0, 2]), np.array([10, 14])
    exact = np.stack(_native.used_features_of(data.native, labels, first, last, 10**6, 1))
    counts = np.stack(_native.used_features_of(data.native, labels, first, last, max_instances, 1))
    for u, (start, end) in enumerate(zip(first, last, strict=True)):
        rows = np.flatnonzero(data.Y[:, labels[start:end]].sum(axis=1))
        part = data.X[rows[(rows.astype(np.uint64) * 0x9E3779B1 & 0xFFFFFFFF) < 2**32 // parts]]
        occurs = np.bincount(part.indices)
        found, once, twice = (occurs > 0).sum(), (occurs == 1).sum(), (occurs == 2).sum()
        n, missing = part.shape[0], once**2 / (2 * twice)
        chao = found + missing * (1 - (1 - once / (n * missing + once)) ** ((parts - 1) * n))
        grown = found * parts ** (once / found)
        weight = {2: 1 / 2, 4: 2 / 3}[parts]
        estimate = round(chao ** (1 - weight) * grown**weight)
        assert counts[:, u].tolist() == [parts * n, parts * part.nnz, estimate]
    assert counts == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.array([0, 2], np.int32)}, "labels"),
        ({"max_instances": 99}, "max_instances"),
        ({"first": np.array([-1])}, "range"),
        ({"last": np.array([3])}, "range"),
        ({"first": np.array([2]), "last": np.array([1])}, "range"),
        ({"last": np.array([1, 2])}, "one entry per set"),
        ({"threads": 0}, "threads"),
    ],
)
def test_sets_of_labels_are_checked(change, message):
    data = labeltree.Dataset.from_matrices(np.eye(2), np.eye(2))
    arguments = {
        "labels": np.array([0, 1], np.int32),
        "first": np.array([0]),
        "last": np.array([2]),
        "max_instances": 100,
        "threads": 1,
    }
    assert _native.used_features_of(data.native, **arguments)[2].tolist() == [2]
    with pytest.raises(ValueError, match=message):
        _native.used_features_of(data.native, **{**arguments, **change})


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
    last = small.splitlines()[-1]
    assert re.fullmatch(r"It does not fit: training needs .* or more, but only 1\.0 MB can be used\.", last)
