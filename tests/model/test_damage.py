"""A model directory is never trusted blindly: what is missing, cut, changed or forged is named."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from codec_twin import read_model
from helpers import TREE_FILES, random_data, seal, write_manifest
from helpers import refused_model as refused
from scipy import sparse

from labeltree import InputError
from labeltree.errors import ResourceError
from labeltree.model.layout import MANIFEST
from labeltree.model.model import load

MODELS = Path(__file__).parents[1] / "models"
FILES = ["label_counts.npy", "label_names.json", *(f"tree-1/{name}.npy" for name in TREE_FILES)]


def test_a_copy_and_a_link_work(model_dir, tmp_path):
    x = random_data().X
    expected = load(model_dir).predict(x)
    (tmp_path / "link").symlink_to(model_dir)
    moved = Path(shutil.copytree(model_dir, tmp_path / "moved"))
    for path in (tmp_path / "link", moved, str(moved)):
        for one, other in zip(load(path).predict(x), expected, strict=True):
            assert np.array_equal(one, other)


def test_what_is_not_a_model_is_refused(tmp_path):
    refused(tmp_path / "none", "no such model directory")
    refused(tmp_path, "has no manifest.json")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file, not a directory")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(model_dir, name):
    (model_dir / name).unlink()
    refused(model_dir, rf"{name}: the file is missing")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 10, -1])
def test_a_file_cut_short_is_named(model_dir, name, left):
    content = (model_dir / name).read_bytes()
    (model_dir / name).write_bytes(content[:left])
    refused(model_dir, rf"{name}: the file has [\d,]+ bytes, but the manifest records {len(content):,}")


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_extra_bytes_is_named(model_dir, name):
    with open(model_dir / name, "ab") as file:
        file.write(b"\0")
    refused(model_dir, f"{name}: the file has")


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
        for bit in (at % 8, (at + 5) % 8):
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
        re.escape(f"{name}: the array is {np.dtype(other)}[{right.size}], expected {right.dtype}"),
    )


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


def edit(model_dir, change):
    manifest = json.loads((model_dir / MANIFEST).read_text())
    change(manifest)
    write_manifest(model_dir, manifest)


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
        lambda m: m.update(score=None),
        lambda m: m["score"].update(function="cosine"),
        lambda m: m["score"].update(scale=0),
        lambda m: m["score"].update(power=2),
        lambda m: m.update(features=29),
        lambda m: m.update(labels=11),
    ],
)
def test_a_manifest_that_lies_is_refused(model_dir, change):
    edit(model_dir, change)
    refused(model_dir)


def test_verification_can_be_skipped_and_done_later(model_dir):
    content = bytearray((model_dir / "tree-0/weights.npy").read_bytes())
    content[-2] ^= 1
    (model_dir / "tree-0/weights.npy").write_bytes(content)
    model = load(model_dir, verify=False)
    nodes = model.trees[0].tree.n_nodes
    with pytest.raises(InputError, match=rf"in 1 of {nodes} blocks, the first is node {nodes - 1}"):
        model.verify()


def test_a_model_larger_than_memory_is_not_read_through(model_dir, monkeypatch):
    files = json.loads((model_dir / MANIFEST).read_text())["files"].values()
    small = sum(entry["bytes"] for entry in files if "crc32c" in entry)
    for module in ("model.model", "model.open"):
        monkeypatch.setattr(f"labeltree.{module}.available_memory", lambda: small)
    content = bytearray((model_dir / "tree-0/weights.npy").read_bytes())
    content[-2] ^= 1
    (model_dir / "tree-0/weights.npy").write_bytes(content)
    load(model_dir)
    with pytest.raises(InputError, match="checksum mismatch"):
        load(model_dir, verify=True)
    monkeypatch.setattr("labeltree.model.open.available_memory", lambda: small - 1)
    with pytest.raises(ResourceError, match="opening the model needs"):
        load(model_dir, verify=False)


@pytest.mark.parametrize("codec", ["float32", "float16", "int8", "sparse"])
@pytest.mark.filterwarnings("ignore:The data has 32 features")
def test_a_stored_model_always_predicts_the_same(codec):
    expected = json.loads((MODELS / "expected.json").read_text("utf-8"))[codec]
    model = load(MODELS / codec, verify=True)
    assert (model.codec, model.normalized) == (codec, codec == "float32")
    indptr = np.cumsum([0, *(len(indices) for indices, _ in expected["rows"])])
    indices, values = (np.concatenate(parts) for parts in zip(*expected["rows"], strict=True))
    x = sparse.csr_matrix(
        (values.astype(np.float32), indices.astype(int), indptr), (len(indptr) - 1, expected["features"])
    )
    for score, best in expected["predictions"].items():
        labels, scores = model.predict(x, top=4, beam=3, score=score)
        assert labels.tolist() == best["labels"]
        np.testing.assert_allclose(scores, best["scores"], rtol=1e-5)
    for part, read in zip(model.trees, read_model(MODELS / codec), strict=True):
        n_rows = None if codec == "float32" else -1  # the twin has the bias apart
        for node in range(part.tree.n_nodes):
            features, weights = part.block(node)
            assert features[:n_rows].tolist() == read.features[node].tolist()
            assert weights[:n_rows].tobytes() == read.weights[node].tobytes()
