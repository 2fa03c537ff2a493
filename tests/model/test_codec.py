"""Codecs: what is stored against a NumPy reader of the format page, how it is rounded, what it predicts."""

import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from beam_twin import assert_agrees, csr, make_rows, one_node, twin
from codec_models import SHAPES, STORED, make_model, store_model
from codec_twin import quantise, read_model
from helpers import contents, disk_bytes, examples, random_data, run_python
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from labeltree import _native
from labeltree.data.dataset import Dataset
from labeltree.model.manifest import storage_of
from labeltree.model.model import load
from labeltree.model.pack import dense_bytes, sparse_bytes
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import make_plan
from labeltree.trees.kmeans import build_tree

seeds = st.integers(0, 2**32 - 1)
every_codec = pytest.mark.parametrize("name", STORED)


def assert_equals_reader(compact, path):
    """Compare every weight that the model gives with the NumPy reader, bit for bit."""
    bias = compact.bias != 0
    for part, read in zip(compact.trees, read_model(path), strict=True):
        assert np.array_equal(part.tree.children, read.children)
        for u in range(part.tree.n_nodes):
            first, last = part.tree.child_ptr[u : u + 2]
            features, weights = part.block(u)
            expected = read.weights[u]
            if bias and part.codec != "float32":
                expected = np.vstack([expected, read.biases[first:last]])
            assert features.tolist() == [*read.features[u]][: features.size] + [compact.n_features] * (
                features.size - read.features[u].size
            )
            assert part.features_of(u).tolist() == features[: features.size - bias].tolist()
            assert weights.tobytes() == expected.tobytes()
            some = features[::3]
            assert part.rows(u, some).tobytes() == np.ascontiguousarray(weights[::3]).tobytes()
            for child in {0, last - first - 1} if last > first else ():
                found = part.rows(u, features, child)[:, 0]
                assert found.tobytes() == np.ascontiguousarray(weights[:, child]).tobytes()


def assert_rounded(source, path, storage):
    """Compare what is stored with a NumPy quantiser, and with the law of rounding."""
    threshold = np.float32(storage.prune or 0)
    for part, read in zip(source.trees, read_model(path), strict=True):
        for u in range(part.tree.n_nodes):
            features, weights = part.block(u)
            if source.bias:
                first, last = part.tree.child_ptr[u : u + 2]
                assert read.biases[first:last].tobytes() == weights[-1].tobytes()
                features, weights = features[:-1], weights[:-1]
            kept = np.where(np.abs(weights) < threshold, 0, weights)
            stored, scales = quantise(weights, storage.codec, threshold)
            expected = stored.astype(np.float32) * scales
            found = np.zeros_like(weights)
            found[np.searchsorted(features, read.features[u])] = read.weights[u]
            assert found.tobytes() == expected.tobytes()
            largest = np.abs(kept).max(axis=0, initial=0)
            steps = scales if storage.codec == "float16" else largest / np.float32(127)
            error = np.abs(stored.astype(np.float64) * steps - kept)
            if storage.codec == "float16":
                assert np.all(error <= np.maximum(2.0**-11 * np.abs(kept), 2.0**-28 * largest))
            else:
                assert np.all(error <= steps * (0.5 + 2.0**-16))  # weight / step is rounded, too
                assert np.all(stored != -128)
            if storage.codec == "sparse":
                some = (stored != 0).any(axis=0)
                norms = [np.linalg.norm(w.astype(np.float64), axis=0)[some] for w in (expected, weights)]
                np.testing.assert_allclose(*norms, rtol=1e-6)
                assert np.array_equal(read.features[u], features[(stored != 0).any(axis=1)])


def check_all(model, n_threads=1):
    """Compress a model with every codec: rounding, reader, sizes, and copies."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        source = store_model(place / "float32", model)
        assert_equals_reader(source, place / "float32")
        common = source.bytes - dense_bytes(source.trees, "float32")
        assert common == sum(source.manifest["files"][name]["bytes"] for name in ["label_counts.npy"])
        for name, storage in STORED.items():
            path = place / name
            compact = source.compress(path, **asdict(storage), threads=n_threads)
            assert storage_of(compact.manifest) == storage
            load(path, verify=True)
            assert_rounded(source, path, storage)
            assert_equals_reader(compact, path)
            if storage.prune is None:
                assert disk_bytes(path) == common + dense_bytes(source.trees, storage.codec)
            else:
                n_bytes, nonzeros = sparse_bytes(source.trees, np.array([storage.prune]), n_threads)
                assert disk_bytes(path) == common + n_bytes[0]
                read = read_model(path)
                assert nonzeros[0] == compact.manifest["weights"]
                assert nonzeros[0] == sum(np.count_nonzero(block) for tree in read for block in tree.weights)


@examples(30)
@example(seed=0, shape=(1, 1), n_trees=1)
@example(seed=1, shape=(70_000, 3), n_trees=1)
@example(seed=8, shape=(9000, 20), n_trees=1)  # dense blocks are written in pieces
@given(seed=seeds, shape=st.none() | st.sampled_from(SHAPES), n_trees=st.integers(1, 3))
def test_stored_weights_equal_the_reader(seed, shape, n_trees):
    check_all(make_model(seed, shape=shape, n_trees=1 if shape else n_trees), 2 if shape else 1)


@pytest.mark.parametrize("shape", [(20, 6), (300, 6), (5, 70_000)])
def test_a_model_of_zeros(tmp_path, shape):
    [(*arrays, weights)], *rest = make_model(3, shape=shape)
    source = store_model(tmp_path / "float32", ([(*arrays, np.zeros_like(weights))], *rest))
    rows = sparse.csr_matrix(np.ones((2, min(shape[1], 50))))
    rows.resize(2, shape[1])
    for name, storage in STORED.items():
        path = tmp_path / name
        compact = source.compress(path, **asdict(storage))
        assert_rounded(source, path, storage)
        assert not compact.trees[0].scales.any()
        assert compact.predict(rows, beam=3)[0].tolist() == source.predict(rows, beam=3)[0].tolist()


def test_all_thresholds_are_measured_at_once(tmp_path):
    source = store_model(tmp_path / "float32", make_model(5, n_trees=2, shape=(300, 900)))
    thresholds = np.array([0, 1e-3, 0.1, 0.25, 0.5, 0.1 + 1e-12, 4, 1e9])
    n_bytes, nonzeros = sparse_bytes(source.trees, thresholds, 2)
    common = source.bytes - dense_bytes(source.trees, "float32")
    for k, threshold in enumerate(thresholds.tolist()):
        compact = source.compress(tmp_path / str(k), prune=threshold)
        assert (compact.bytes, compact.manifest["weights"]) == (common + n_bytes[k], nonzeros[k])


def test_weights_at_the_threshold_are_kept(tmp_path):
    """Also where the threshold is not a float32."""
    tenth = np.float32(0.1)  # larger than 0.1
    weights = np.array([tenth, np.nextafter(tenth, np.float32(0)), -tenth, 1], np.float32)
    source = store_model(tmp_path / "float32", ([one_node(weights[:, None])], 4, 1, 0.0))
    for k, (threshold, expected) in enumerate(
        [(0.1, [0, 2, 3]), (float(tenth), [0, 2, 3]), (float(weights[1]), [0, 1, 2, 3]), (0.1 + 1e-8, [3])]
    ):
        compact = source.compress(tmp_path / str(k), prune=threshold)
        assert compact.block(0)[0].tolist() == expected


# Training


def files(path):
    """Return the content of every file except the manifest."""
    return {name: content for name, content in contents(path).items() if name.name != "manifest.json"}


def train(path, storage, data, *, trees=2, clusters=3, max_depth=6, threads=1, bias=1.0):
    built = [build_tree(data, clusters=clusters, max_depth=max_depth, seed=seed) for seed in range(trees)]
    plan = make_plan(data, built, SolverSettings(bias=bias), storage, threads=threads)
    return plan, train_model(data, plan, path, score=ScoreSettings())


@examples(7)
@given(
    seed=seeds,
    trees=st.integers(1, 2),
    bias=st.sampled_from([0.0, 1.0]),
    names=st.booleans(),
    labels=st.sampled_from([1, 12, 40]),
    density=st.sampled_from([0.0, 0.05, 0.5]),
    max_depth=st.integers(1, 5),
)
def test_training_stores_what_compress_stores(seed, trees, bias, names, labels, density, max_depth):
    data = random_data(seed, instances=30, features=12, labels=labels, names=names, density=density)
    options = {"trees": trees, "max_depth": max_depth, "bias": bias}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        _, source = train(place / "float32", None, data, **options)
        for name, storage in STORED.items():
            plan, model = train(place / name, storage, data, threads=2, **options)
            source.compress(place / f"{name}-2", **asdict(storage))
            assert files(place / name) == files(place / f"{name}-2")
            assert model.manifest == load(place / f"{name}-2").manifest
            assert_equals_reader(model, place / name)
            size, report = disk_bytes(place / name), plan.to_dict(place)
            assert size == model.bytes
            if storage.prune is None:
                assert size == plan.model_bytes == report["model_bytes"] == report["model_bytes_at_most"]
            else:
                assert size <= report["model_bytes_at_most"]
                assert report["model_bytes"] is report["ovr_bytes"] is report["bytes_per_weight"] is None


@pytest.mark.parametrize("name", ["float32", *STORED])
@pytest.mark.parametrize("labels", [40, 300])
def test_every_byte_is_the_same_on_any_number_of_threads(tmp_path, name, labels):
    data = random_data(labels=labels, instances=400, density=0.1, names=True)
    wide = store_model(tmp_path / "wide", make_model(2, shape=(600, 70_000), n_trees=2))
    storage = STORED.get(name, StorageSettings())
    for threads in (1, 2, 4):
        (tmp_path / str(threads)).mkdir()
        options = {"clusters": labels if labels > 256 else 3, "trees": 1, "threads": threads}
        train(tmp_path / f"{threads}/trained", storage, data, **options)
        wide.compress(tmp_path / f"{threads}/compressed", **asdict(storage), threads=threads)
    assert contents(tmp_path / "1") == contents(tmp_path / "2") == contents(tmp_path / "4")


def test_training_in_strips_stores_what_compress_stores(tmp_path, monkeypatch):
    """A block that is trained and written in pieces, with the checksum of the whole."""
    monkeypatch.setattr("labeltree.training.tree_plan.STRIP_BYTES", 64 * 31)
    data = random_data(labels=200, instances=300)
    options = {"max_depth": 1, "trees": 1, "threads": 2}
    _, source = train(tmp_path / "float32", None, data, **options)
    for codec in ("float16", "int8"):
        train(tmp_path / codec, STORED[codec], data, **options)
        source.compress(tmp_path / f"{codec}-2", weights=codec)
        assert files(tmp_path / codec) == files(tmp_path / f"{codec}-2")
        load(tmp_path / codec, verify=True)


def allocated(path):
    """Return the disk space of all files of a model that is being written."""
    partial = [entry for entry in path.parent.iterdir() if entry.name.endswith(".work")]
    return sum(file.stat().st_blocks * 512 for place in partial for file in place.rglob("*"))


def has_holes(directory):
    """Return whether the file system stores the gaps of a file without space."""
    with open(directory / "probe", "wb") as file:
        file.seek(1 << 24)
        file.write(b"x")
    blocks = (directory / "probe").stat().st_blocks
    (directory / "probe").unlink()
    return blocks * 512 < 1 << 20


def test_training_with_pruning_never_holds_the_large_model_on_disk(tmp_path):
    if not has_holes(tmp_path):
        pytest.skip("the file system has no sparse files")
    rng = np.random.default_rng(0)
    x = sparse.random(300, 20_000, 0.02, "csr", np.float32, rng=rng)
    y = sparse.csr_matrix((np.ones(2000), (rng.integers(0, 300, 2000), np.arange(2000))), (300, 2000))
    data = Dataset.from_matrices(x, y)
    tree = build_tree(data, max_depth=1)
    solver = SolverSettings(tolerance=1e-6)  # takes longer: progress is reported ten times per second
    plan = make_plan(data, tree, solver, StorageSettings(prune=0.004), threads=2)
    seen = []
    path = tmp_path / "model"
    model = train_model(data, plan, path, progress=lambda _: seen.append(allocated(path)))
    assert seen
    n_blocks = model.trees[0].blocks.node.size
    reserve = (5 << 20) + 4 * 4096 * n_blocks  # moved, not yet released; first and last pages of each block
    assert 30e6 < plan.model_bytes < 1.05 * make_plan(data, tree, None, StorageSettings("int8")).model_bytes
    assert model.bytes < plan.model_bytes / 3
    assert max(seen) <= model.bytes + reserve
    assert allocated(path) == 0
    assert model.bytes == disk_bytes(path)


# Prediction


def as_floats(path, model):
    """Return a model whose float32 weights are those that the NumPy reader finds."""
    _, n_features, n_labels, bias = model
    made = []
    for tree in read_model(path):
        lists, blocks = [], []
        for u, (features, weights) in enumerate(zip(tree.features, tree.weights, strict=True)):
            if bias:
                features = np.append(features, n_features)
                weights = np.vstack([weights, tree.biases[tree.child_ptr[u] : tree.child_ptr[u + 1]]])
            lists.append(features.astype(np.int32))
            blocks.append(weights.ravel())
        pointers = [np.cumsum([0, *map(len, parts)]) for parts in (lists, blocks)]
        arrays = pointers[0], np.concatenate(lists), pointers[1], np.concatenate(blocks)
        made.append((tree.child_ptr, tree.children, *arrays))
    return made, n_features, n_labels, bias


def as_matrix(rows, n_features):
    indptr, indices, data = csr(rows)
    return sparse.csr_matrix((data, indices, indptr), (len(rows), n_features + 3))


@pytest.mark.filterwarnings("ignore:The data has")
@examples(40)
@given(
    seed=seeds,
    name=st.sampled_from(list(STORED)),
    beam=st.sampled_from([1, 4, 12, 10_000]),
    n_trees=st.integers(1, 2),
    count=st.sampled_from([1, 12]),
    score=st.sampled_from(_native.SCORES),
)
def test_predictions_equal_the_twin(seed, name, beam, n_trees, count, score):
    model = make_model(seed, n_trees=n_trees)
    rows = make_rows(seed, model, count)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        source = store_model(Path(directory) / "float32", model)
        compact = source.compress(path, **asdict(STORED[name]))
        floats = as_floats(path, model)
        top = model[2] if beam == 10_000 else 5
        got = compact.predict(as_matrix(rows, model[1]), beam=beam, top=top, score=score, score_scale=3.0)
        if beam == 10_000:  # exhaustive
            assert np.all(np.sort(got[0], axis=1) == np.arange(model[2]))
        # In addition to the products and sums: the scale, the twin's weights, and the bias.
        expected = twin(floats, rows, None if beam == 10_000 else beam, score, 3, n_more=3)
        assert_agrees(got, expected, got[0].shape[1], n_trees)


@pytest.mark.filterwarnings("ignore:The data has")
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[0] > 200 or s[1] > 60_000])
@every_codec
def test_predictions_of_wide_nodes_equal_the_twin(tmp_path, name, shape):
    model = make_model(4, shape=shape)
    used = model[0][0][3]
    rng = np.random.default_rng(0)
    known = [np.sort(rng.choice(used[used < model[1]], size, replace=False)) for size in (0, 1, 5)]
    known += [used[used < model[1]]] * 9
    rows = [(ids.astype(np.int32), rng.normal(0, 1, ids.size).astype(np.float32)) for ids in known]
    source = store_model(tmp_path / "float32", model)
    compact = source.compress(tmp_path / name, **asdict(STORED[name]))
    floats = as_floats(tmp_path / name, model)
    for some in (rows, rows[2:3]):
        got = compact.predict(as_matrix(some, model[1]), top=7, score="sigmoid", score_scale=3.0)
        expected = twin(floats, some, 10, "sigmoid", 3, n_more=3)
        assert_agrees(got, expected, got[0].shape[1], 1)


def predicted(rows, paths, place, **environment):
    """Return what another process predicts with some models: labels and scores of each."""
    script = """
import sys
import numpy as np
from scipy import sparse
from labeltree import load
rows = sparse.load_npz(sys.argv[1])
np.savez(sys.argv[2], *(array for path in sys.argv[3:] for array in load(path).predict(rows, top=9)))
"""
    sparse.save_npz(place / "rows.npz", rows)
    run_python(script, place / "rows.npz", place / "found.npz", *paths, **environment)
    with np.load(place / "found.npz") as file:
        arrays = iter([file[name] for name in file.files])
    return list(zip(arrays, arrays, strict=True))


def test_portable_instructions_give_the_same_ranking(tmp_path):
    data = random_data(labels=80, features=300, instances=400, density=0.05)
    wide = random_data(labels=300, features=300, instances=400, density=0.05)
    paths = []
    for name, storage in STORED.items():
        train(tmp_path / name, storage, data)
        train(tmp_path / f"wide-{name}", storage, wide, clusters=300, trees=1)
        paths += [tmp_path / name, tmp_path / f"wide-{name}"]
    for path, found in zip(paths, predicted(data.X, paths, tmp_path, LABELTREE_SIMD="portable"), strict=True):
        labels, scores = load(path).predict(data.X, top=9)
        np.testing.assert_allclose(found[1], scores, rtol=1e-5)
        swapped = found[0] != labels  # only labels whose scores are equal, but for rounding
        assert np.mean(swapped) < 0.02
        gaps = np.abs(np.diff(scores, axis=1)) <= 1e-5 * scores[:, 1:]
        tied = np.pad(gaps, ((0, 0), (0, 1))) | np.pad(gaps, ((0, 0), (1, 0)))
        assert np.all(tied[swapped] | (np.nonzero(swapped)[1] == 8))


@pytest.mark.skipif("LABELTREE_SIMD" in os.environ, reason="the instructions are chosen already")
def test_avx512_gives_the_bits_of_avx2(tmp_path):
    """Rows of every form, in panels of every number of vectors; a batch of all rows expands the blocks."""
    paths, n_features = [], 60
    rows = random_data(labels=3, features=n_features, instances=300, density=0.3).X
    for n_labels in (1, 5, 16, 31, 64, 65, 100, 128, 129, 190, 192, 193, 256, 300):
        rng = np.random.default_rng(n_labels)
        shares = rng.choice([0.02, 0.1, 0.3, 0.45, 0.9], n_features)[:, None]  # pairs, bits, all
        weights = rng.normal(size=(n_features, n_labels)) * (rng.random((n_features, n_labels)) < shares)
        model = [one_node(weights)], n_features, n_labels, 0.0
        source = store_model(tmp_path / f"float32-{n_labels}", model)
        paths.append(tmp_path / f"sparse-{n_labels}")
        source.compress(paths[-1], prune=0.01)
    for path, narrow in zip(paths, predicted(rows, paths, tmp_path, LABELTREE_SIMD="avx2"), strict=True):
        model = load(path)
        alone = [model.predict(rows[i : i + 1], top=9) for i in range(300)]
        for k, array in enumerate(model.predict(rows, top=9)):
            assert array.tobytes() == narrow[k].tobytes()
            assert array.tobytes() == np.concatenate([a[k] for a in alone]).tobytes()


@every_codec
def test_neither_threads_nor_batches_change_a_bit(tmp_path, name):
    data = random_data(labels=300, features=200, instances=600, density=0.05)
    _, model = train(tmp_path / "model", STORED[name], data, clusters=20)
    one, three = (model.predict(data.X, threads=threads) for threads in (1, 3))
    alone = [model.predict(data.X[i : i + 1]) for i in range(0, 600, 7)]
    for k in range(2):
        assert one[k].tobytes() == three[k].tobytes()
        assert one[k][::7].tobytes() == np.concatenate([a[k] for a in alone]).tobytes()
