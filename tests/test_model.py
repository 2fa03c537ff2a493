"""The model directory: written whole or not at all, read back the same, and never trusted blindly."""

import filecmp
import json
import os
import re
import shutil
import signal
import stat
from pathlib import Path

import numpy as np
import pytest
from helpers import random_data
from scipy import sparse

from labeltree import InputError
from labeltree._native import crc32c
from labeltree.clustering import build_tree
from labeltree.model import load
from labeltree.plan import make_plan
from labeltree.store import MANIFEST, ModelWriter
from labeltree.train import SolverSettings, train_model

V1 = Path(__file__).parent / "models/v1"
TREE_FILES = ("child_ptr", "children", "feature_ptr", "features", "weights", "checksums")
FILES = ["label_counts.npy", "label_names.json", *(f"tree-1/{name}.npy" for name in TREE_FILES)]


def train(path, data=None, trees=2, threads=1, **options):
    data = random_data(names=True) if data is None else data
    grown = [build_tree(data, clusters=3, seed=s) for s in range(trees)]
    return train_model(data, make_plan(data, grown, threads=threads), path, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "model"
    train(path)
    return path


@pytest.fixture
def model_dir(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def endless(path, **options):
    """Training that would go on for hours."""
    solver = SolverSettings(tolerance=1e-300, max_iterations=2**31 - 1)
    return train(path, settings=solver, **options)


def snapshot(folder):
    return {file: file.read_bytes() for file in sorted(Path(folder).rglob("*")) if file.is_file()}


def test_what_is_loaded_is_what_was_trained(tmp_path):
    data = random_data(names=True)
    model = train(tmp_path / "model", data)
    again = load(tmp_path / "model")
    assert repr(again) == f"<labeltree.Model {tmp_path / 'model'}: 30 features, 12 labels, 2 tree(s)>"
    assert (again.instances, again.features, again.labels, again.bias) == (60, 30, 12, 1.0)
    assert again.label_names == data.label_names
    assert again.label_counts.tolist() == data.Y.getnnz(axis=0).tolist()
    assert again.bytes == sum(f.stat().st_size for f in again.path.rglob("*.*")) - os.path.getsize(
        again.path / MANIFEST
    )
    for t in range(2):
        for u in range(model.trees[t].tree.nodes):
            for one, other in zip(model.block(u, t), again.block(u, t), strict=True):
                assert np.array_equal(one, other)
    for one, other in zip(model.predict(data.X), again.predict(data.X), strict=True):
        assert np.array_equal(one, other)


def test_blocks_have_the_shape_of_the_plan(tmp_path):
    data = random_data()
    tree = build_tree(data, clusters=3)
    plan = make_plan(data, tree)
    model = train_model(data, plan, tmp_path / "model")
    for u in range(tree.nodes):
        features, weights = model.block(u)
        assert weights.shape == (plan.trees[0].used_features[u] + 1, tree.child_count[u])
        assert (np.diff(features) > 0).all()
        assert features[-1] == data.features  # the bias
        assert not weights.flags.writeable
    for wrong in (-1, tree.nodes):
        with pytest.raises(InputError, match=rf"nodes 0 to {tree.nodes - 1}, but got {wrong}"):
            model.block(wrong)


@pytest.mark.parametrize("threads", [2, 3])
def test_every_byte_is_the_same_for_any_number_of_threads(tmp_path, threads):
    data = random_data(1, instances=300, labels=80, names=True)
    for count in (1, threads):
        train(tmp_path / f"{count}", data, trees=2, threads=count)
    names = [str(file.relative_to(tmp_path / "1")) for file in snapshot(tmp_path / "1")]
    assert len(names) == 3 + 2 * len(TREE_FILES)
    for name in names:
        assert filecmp.cmp(tmp_path / "1" / name, tmp_path / f"{threads}" / name, shallow=False), name


def test_training_the_same_again_gives_the_same_bytes(trained, tmp_path):
    train(tmp_path / "model")
    for file, content in snapshot(trained).items():
        assert (tmp_path / "model" / file.relative_to(trained)).read_bytes() == content


def test_numpy_alone_opens_every_array(trained):
    for file in trained.rglob("*.npy"):
        assert np.load(file, mmap_mode="r", allow_pickle=False).ndim == 1


def test_the_manifest_says_what_is_there(trained):
    manifest = json.loads((trained / MANIFEST).read_text())
    assert (manifest["format"], manifest["format_version"]) == ("labeltree model", 1)
    sizes = {str(f.relative_to(trained)): f.stat().st_size for f in snapshot(trained) if f.name != MANIFEST}
    assert {name: entry["bytes"] for name, entry in manifest["files"].items()} == sizes
    assert manifest["settings"]["loss"] == "squared_hinge"


def test_notes_are_kept(tmp_path):
    assert train(tmp_path / "model", notes={"clusters": 3}).manifest["notes"] == {"clusters": 3}


# Writing


def test_others_may_read_a_model_as_the_umask_says(tmp_path):
    before = os.umask(0o027)
    try:
        train(tmp_path / "model")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "model/tree-0/weights.npy").stat().st_mode) == 0o640


def test_nothing_but_the_model_appears(tmp_path):
    train(tmp_path / "model")
    train(tmp_path / "model", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_model_that_exists_is_refused(trained):
    before = snapshot(trained)
    with pytest.raises(InputError, match="exists already"):
        train(trained)
    assert snapshot(trained) == before


def test_a_model_is_replaced_on_demand(model_dir):
    other = random_data(5, labels=9)
    train(model_dir, other, trees=1, overwrite=True)
    assert load(model_dir).labels == 9
    assert not (model_dir / "tree-1").exists()


def test_an_empty_directory_is_replaced_on_demand(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="exists already"):
        train(tmp_path / "model")
    assert train(tmp_path / "model", overwrite=True).labels == 12


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_not_a_model_is_never_replaced(tmp_path, trained, kind):
    target = tmp_path / "precious"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        target.symlink_to(trained)
    else:
        target.mkdir()
        (target / "thesis.txt").write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="not a model directory, so it is not replaced"):
        train(target, overwrite=True)
    assert snapshot(tmp_path) == before
    assert target.is_symlink() == (kind == "link")


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist"):
        train(tmp_path / "nowhere/model")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_leaves_nothing_new(model_dir, overwrite, threads):
    before = snapshot(model_dir.parent)
    seen = []

    def stop(done):
        seen.append(done)
        raise KeyboardInterrupt

    target = model_dir if overwrite else model_dir.parent / "new"
    with pytest.raises(KeyboardInterrupt):
        endless(target, overwrite=overwrite, threads=threads, progress=stop)
    assert len(seen) == 1
    assert 0 <= seen[0] < 1
    assert snapshot(model_dir.parent) == before
    assert [entry.name for entry in model_dir.parent.iterdir()] == [model_dir.name]


def test_ctrl_c_stops_training(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            endless(tmp_path / "model")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["write", "finish"])
def test_an_error_while_writing_leaves_the_old_model(model_dir, monkeypatch, step):
    before = snapshot(model_dir.parent)

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(f"labeltree.store.ModelWriter.{step}", fail)
    with pytest.raises(OSError, match="No space"):
        train(model_dir, overwrite=True)
    assert snapshot(model_dir.parent) == before


def test_an_error_while_renaming_leaves_the_old_model(model_dir, monkeypatch):
    before, replace = snapshot(model_dir.parent), os.replace

    def fail(source, target):
        if str(source).endswith(".partial"):
            raise OSError("Stale file handle")
        replace(source, target)

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="Stale"):
        train(model_dir, overwrite=True)
    assert snapshot(model_dir.parent) == before


def test_a_model_that_appears_meanwhile_is_kept(tmp_path, trained, monkeypatch):
    finish = ModelWriter.finish

    def appear(writer, manifest):
        finish(writer, manifest)
        shutil.copytree(trained, tmp_path / "model")

    monkeypatch.setattr(ModelWriter, "finish", appear)
    with pytest.raises(InputError, match="exists already"):
        train(tmp_path / "model", random_data(5))
    assert list(snapshot(tmp_path).values()) == list(snapshot(trained).values())


# Reading


def test_a_copy_and_a_link_work(model_dir, tmp_path):
    x = random_data().X
    expected = load(model_dir).predict(x)
    (tmp_path / "link").symlink_to(model_dir)
    moved = Path(shutil.copytree(model_dir, tmp_path / "moved"))
    for path in (tmp_path / "link", moved, str(moved)):
        for one, other in zip(load(path).predict(x), expected, strict=True):
            assert np.array_equal(one, other)


def refused(path, said=r"\w"):
    with pytest.raises(InputError, match=said) as caught:
        load(path)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert str(path) in message


def test_what_is_no_model_is_refused(tmp_path):
    refused(tmp_path / "none", "no such model directory")
    refused(tmp_path, "has no manifest.json")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file, but a model is a directory")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(model_dir, name):
    (model_dir / name).unlink()
    refused(model_dir, f"lacks its file {name}")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 10, -1])
def test_a_file_cut_short_is_named(model_dir, name, left):
    content = (model_dir / name).read_bytes()
    (model_dir / name).write_bytes(content[:left])
    refused(model_dir, rf"{name} has [\d,]+ bytes, but its manifest says {len(content):,}")


@pytest.mark.parametrize("name", FILES)
def test_a_file_grown_is_named(model_dir, name):
    with open(model_dir / name, "ab") as file:
        file.write(b"\0")
    refused(model_dir, f"{name} has")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_flipped_bit_is_found(model_dir, name, place):
    content = bytearray((model_dir / name).read_bytes())
    at = {"first": 128 if name.endswith("npy") else 0, "middle": (128 + len(content)) // 2, "last": -1}[place]
    content[at % len(content)] ^= 1
    (model_dir / name).write_bytes(content)
    refused(model_dir, "damaged")


@pytest.mark.parametrize("name", ["tree-0/features.npy", "tree-1/weights.npy"])
def test_a_flipped_bit_in_the_header_of_a_mapped_array_changes_nothing_silently(model_dir, name):
    content = (model_dir / name).read_bytes()
    expected = np.load(model_dir / name)
    for at in range(128):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            (model_dir / name).write_bytes(damaged)
            try:
                part = load(model_dir, verify=False).trees[int(name[5])]
            except (InputError, UserWarning):  # NumPy warns of headers that Python 2 wrote
                continue
            assert np.array_equal(getattr(part, name[7:-4]), expected)


@pytest.mark.parametrize("name", [f for f in FILES if f.endswith("npy")])
def test_an_array_of_another_type_is_refused(model_dir, name):
    right = np.load(model_dir / name)
    other = np.float64 if right.itemsize == 8 else np.int32 if right.dtype != np.int32 else np.float32
    np.save(model_dir / name, right.view(other))
    seal(model_dir, name)
    refused(
        model_dir,
        re.escape(f"{name} holds {np.dtype(other)}[{right.size}], but the model needs {right.dtype}"),
    )


def write_manifest(model_dir, manifest):
    """A manifest with its right checksum."""
    manifest.pop("crc32c", None)
    content = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    manifest["crc32c"] = crc32c(np.frombuffer(content, np.uint8))
    (model_dir / MANIFEST).write_text(json.dumps(manifest))


def seal(model_dir, name):
    """Make the manifest agree with a changed file, as one who forges a model would."""
    manifest = json.loads((model_dir / MANIFEST).read_text())
    content = np.fromfile(model_dir / name, np.uint8)
    manifest["files"][name]["bytes"] = content.size
    if "crc32c" in manifest["files"][name]:
        manifest["files"][name]["crc32c"] = crc32c(content)
    write_manifest(model_dir, manifest)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("child_ptr", 0, 1),
        ("child_ptr", 1, 0),
        ("child_ptr", 1, 10**6),
        ("child_ptr", -1, 10**6),
        ("children", 0, 0),
        ("children", 0, 10**6),
        ("children", -1, 0),
        ("children", -1, ~(10**6)),
        ("feature_ptr", 0, -1),
        ("feature_ptr", 1, -5),
        ("feature_ptr", 1, 10**9),
        ("feature_ptr", -1, 2**62),
        ("features", 0, 10**6),
        ("features", 0, -1),
        ("features", 1, 0),
    ],
)
def test_a_forged_array_is_refused(model_dir, name, place, value):
    """With a right checksum; no kernel may see it."""
    file = f"tree-0/{name}.npy"
    array = np.load(model_dir / file)
    assert array[place] != value
    array[place] = value
    np.save(model_dir / file, array)
    seal(model_dir, file)
    refused(model_dir)


def test_forged_names_are_refused(model_dir):
    for content in (b"[]", b'["a"]', b"{}", b"[1, 2", b"\xff", json.dumps(list(range(12))).encode()):
        (model_dir / "label_names.json").write_bytes(content)
        seal(model_dir, "label_names.json")
        refused(model_dir, r"label_names\.json")


def edit(model_dir, change):
    manifest = json.loads((model_dir / MANIFEST).read_text())
    change(manifest)
    write_manifest(model_dir, manifest)


def test_a_newer_format_is_refused(model_dir):
    edit(model_dir, lambda manifest: manifest.update(format_version=2))
    refused(model_dir, "has format version 2, but this labeltree reads up to 1; install a newer labeltree")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"format": "other"}', b"7"])
def test_a_broken_manifest_is_refused(model_dir, content):
    (model_dir / MANIFEST).write_bytes(content)
    refused(model_dir, r"manifest\.json")


def test_a_flipped_bit_in_the_manifest_is_found(model_dir):
    content = (model_dir / MANIFEST).read_bytes()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 7
        (model_dir / MANIFEST).write_bytes(damaged)
        try:
            same = json.loads(damaged) == json.loads(content)  # a space for another, say
        except ValueError:
            same = False
        if not same:
            refused(model_dir, r"manifest\.json|format version")


@pytest.mark.parametrize("key", ["format_version", "features", "labels", "trees", "settings", "files"])
@pytest.mark.parametrize("value", ["missing", None, "x", -1, [7]])
def test_a_manifest_with_a_wrong_entry_is_refused(model_dir, key, value):
    edit(model_dir, lambda m: m.pop(key) if value == "missing" else m.update({key: value}))
    refused(model_dir)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["files"].pop("tree-0/weights.npy"),
        lambda m: m["files"]["tree-0/weights.npy"].pop("bytes"),
        lambda m: m["files"].update({"tree-0/weights.npy": 3}),
        lambda m: m["trees"].clear(),
        lambda m: m["trees"][0].update(nodes=0),
        lambda m: m["trees"][0].update(nodes=-1),
        lambda m: m["trees"][0].update(nodes=m["trees"][0]["nodes"] + 1),
        lambda m: m["settings"].pop("bias"),
        lambda m: m["settings"].update(bias="1"),
        lambda m: m["settings"].update(bias=-1),
        lambda m: m.update(features=29),
        lambda m: m.update(labels=11),
    ],
)
def test_a_manifest_that_lies_is_refused(model_dir, change):
    edit(model_dir, change)
    refused(model_dir)


def test_verification_can_be_left_out_and_made_up_for(model_dir):
    content = bytearray((model_dir / "tree-0/weights.npy").read_bytes())
    content[-2] ^= 1
    (model_dir / "tree-0/weights.npy").write_bytes(content)
    model = load(model_dir, verify=False)
    nodes = model.trees[0].tree.nodes
    with pytest.raises(InputError, match=rf"wrong checksum in 1 of its {nodes} blocks .* node {nodes - 1}\)"):
        model.verify()


def test_a_model_larger_than_memory_is_not_read_through(model_dir, monkeypatch):
    monkeypatch.setattr("labeltree.model.available_memory", lambda: 1)
    content = bytearray((model_dir / "tree-0/weights.npy").read_bytes())
    content[-2] ^= 1
    (model_dir / "tree-0/weights.npy").write_bytes(content)
    load(model_dir)
    with pytest.raises(InputError, match="wrong checksum"):
        load(model_dir, verify=True)


def test_a_model_of_format_1_predicts_the_same_for_ever():
    expected = json.loads((V1.parent / "v1.json").read_text())
    model = load(V1)
    assert model.manifest["format_version"] == 1
    assert list(model.label_names) == expected["label_names"]
    x = sparse.csr_matrix(np.array(expected["rows"]))
    for score, best in expected["predictions"].items():
        labels, scores = model.predict(x, top=4, beam=3, score=score)
        assert labels.tolist() == best["labels"]
        np.testing.assert_allclose(scores, best["scores"], rtol=1e-5)


# Predicting


@pytest.fixture(scope="module")
def model(trained):
    return load(trained)


@pytest.mark.parametrize(
    "form",
    [
        sparse.csr_matrix,
        sparse.csc_matrix,
        sparse.coo_array,
        np.asarray,
        np.asfortranarray,
        np.ndarray.tolist,
        lambda x: x.astype(np.float64),
    ],
)
def test_rows_may_come_in_any_form(model, form):
    x = random_data(3).X
    expected = model.predict(x)
    assert expected[0].shape == expected[1].shape == (60, 5)
    assert (expected[0].dtype, expected[1].dtype) == (np.int32, np.float32)
    for one, other in zip(model.predict(form(x.toarray())), expected, strict=True):
        assert np.array_equal(one, other)


def test_a_single_row_is_a_row(model):
    x = random_data(3).X.toarray()
    for one, other in zip(model.predict(x[5]), model.predict(x), strict=True):
        assert np.array_equal(one, other[5:6])


@pytest.mark.parametrize("rows", [np.zeros((0, 30)), sparse.csr_matrix((0, 30))])
def test_no_rows_give_no_predictions(model, rows):
    labels, scores = model.predict(rows)
    assert labels.shape == scores.shape == (0, 5)
    assert model.predict_matrix(rows).shape == (0, 12)


def test_unsorted_and_repeated_entries_are_summed(model):
    tidy = np.zeros((1, 30))
    tidy[0, [2, 9]] = 1.0, 3.0
    untidy = sparse.csr_matrix(([3.0, 0.25, 0.75], [9, 2, 2], [0, 3]), shape=(1, 30))
    for one, other in zip(model.predict(untidy), model.predict(tidy), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert untidy.indices.tolist() == [9, 2, 2]  # the caller's own is left alone


def test_more_features_than_the_model_are_ignored_with_a_warning(model):
    x = random_data(3).X.toarray()
    with pytest.warns(UserWarning, match="The data has 33 features, the model 30; the others are ignored"):
        wide = model.predict(np.hstack([x, np.ones((60, 3))]))
    for one, other in zip(wide, model.predict(x), strict=True):
        assert np.array_equal(one, other)


def test_a_feature_number_beyond_32_bits_is_not_taken_for_another(model):
    far = sparse.csr_matrix(([1.0], np.array([2**32 + 4]), np.array([0, 1])), shape=(1, 2**33))
    with pytest.raises(InputError, match="8,589,934,592 columns"):
        model.predict(far)


def test_fewer_features_than_the_model_are_zeros(model):
    x = random_data(3).X.toarray()[:, :20]
    for one, other in zip(model.predict(x), model.predict(np.hstack([x, np.zeros((60, 10))])), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_numbers_that_are_none_are_refused(model, value):
    x = np.zeros((2, 30))
    x[1, 7] = value
    for rows in (x, sparse.csr_matrix(x)):
        with pytest.raises(InputError, match="NaN or infinity"):
            model.predict(rows)


@pytest.mark.parametrize(
    "rows", [np.zeros((2, 3, 4)), [["a", "b"]], [[1, 2], [3]], np.zeros((1, 3), complex)]
)
def test_what_is_no_table_of_numbers_is_refused(model, rows):
    with pytest.raises(InputError):
        model.predict(rows)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"top": 0}, "top must be at least 1, but got 0"),
        ({"beam": -1}, "beam must be at least 1, but got -1"),
        ({"threads": 0}, "threads must be at least 1, but got 0"),
        ({"score": "margin"}, "score must be one of sigmoid, hinge2, hinge3, but got 'margin'"),
    ],
)
def test_bad_options_are_refused(model, options, said):
    with pytest.raises(InputError, match=said):
        model.predict(np.zeros((1, 30)), **options)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_prediction(model, threads):
    x = random_data(3).X
    for one, other in zip(model.predict(x, threads=threads), model.predict(x, threads=1), strict=True):
        assert np.array_equal(one, other)


def test_every_label_is_reached_by_a_wide_beam(model):
    labels, scores = model.predict(random_data(3).X, top=99, beam=99)
    assert labels.shape == (60, 12)
    assert (np.sort(labels) == np.arange(12)).all()
    assert ((scores > 0) & (scores <= 1)).all()
    assert (np.diff(scores) <= 0).all()


def test_a_matrix_holds_the_same_scores(model):
    x = random_data(3).X
    labels, scores = model.predict(x, top=12, beam=1)
    matrix = model.predict_matrix(x, top=12, beam=1)
    assert matrix.shape == (60, 12)
    assert matrix.nnz == (labels >= 0).sum() < labels.size
    assert (scores[labels < 0] == 0).all()
    for row in range(60):
        for label, score in zip(labels[row], scores[row], strict=True):
            assert label < 0 or matrix[row, label] == score


def test_the_training_rows_get_their_labels(tmp_path):
    data = random_data(6, features=200, labels=8, empty_label=False)
    model = train(tmp_path / "model", data, settings=SolverSettings(cost=10))
    best = model.predict(data.X, top=1)[0][:, 0]
    hits = data.Y.toarray()[np.arange(data.instances), best]
    assert hits[4:].mean() > 0.9
