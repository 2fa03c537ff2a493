"""A model directory is never trusted blindly: what is missing, cut, changed or forged is named."""

import json
from pathlib import Path

import numpy as np
import pytest
from codec_twin import read_model
from helpers import TREE_FILES
from helpers import refused_model as refused
from scipy import sparse

from labeltree import InputError
from labeltree.errors import ResourceError
from labeltree.model.layout import MANIFEST
from labeltree.model.model import load

MODELS = Path(__file__).parents[1] / "models"
FILES = ["label_counts.npy", "label_names.json", *(f"tree-1/{name}.npy" for name in TREE_FILES)]


def test_a_link_works(model_dir, tmp_path):
    (tmp_path / "link").symlink_to(model_dir)
    assert load(str(tmp_path / "link"), verify=True).n_labels == 12


def test_what_is_not_a_model_is_refused(tmp_path):
    refused(tmp_path / "none", "no such model directory")
    refused(tmp_path, "has no manifest.json")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file, not a directory")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_cut_short_or_longer_is_named(model_dir, name):
    content = (model_dir / name).read_bytes()
    for other in (b"", content[:10], content[:-1], content + b"\0"):
        (model_dir / name).write_bytes(other)
        refused(model_dir, rf"{name}: the file has [\d,]+ bytes, but the manifest records {len(content):,}")
    (model_dir / name).unlink()
    refused(model_dir, rf"{name}: the file is missing")


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


def flip_a_weight(model_dir):
    content = bytearray((model_dir / "tree-0/weights.npy").read_bytes())
    content[-2] ^= 1
    (model_dir / "tree-0/weights.npy").write_bytes(content)


def test_verification_can_be_skipped_and_done_later(model_dir):
    flip_a_weight(model_dir)
    model = load(model_dir, verify=False)
    nodes = model.trees[0].tree.n_nodes
    with pytest.raises(InputError, match=rf"in 1 of {nodes} blocks, the first is node {nodes - 1}"):
        model.verify()


def test_a_model_larger_than_memory_is_not_read_through(model_dir, monkeypatch):
    files = json.loads((model_dir / MANIFEST).read_text())["files"].values()
    small = sum(entry["bytes"] for entry in files if "crc32c" in entry)
    for module in ("model.model", "model.open"):
        monkeypatch.setattr(f"labeltree.{module}.available_memory", lambda: small)
    flip_a_weight(model_dir)
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
