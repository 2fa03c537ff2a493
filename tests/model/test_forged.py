"""A model forged with correct checksums is refused with one clear sentence."""

import io
import json
import pickle
import time
from dataclasses import asdict

import numpy as np
import pytest
from helpers import random_data, train_small
from mutations import DOCUMENTS, array, command, npy, seal, write

from labeltree import (
    Dataset,
    InputError,
    LabelTree,
    describe_label,
    explain_prediction,
    load,
    make_plan,
)
from labeltree.data.read import read_documents
from labeltree.errors import ResourceError
from labeltree.model.layout import MANIFEST
from labeltree.settings import SolverSettings

BIASED = "tree-0/"
SETTINGS = asdict(SolverSettings(cost=1.0))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    model = tmp_path_factory.mktemp("forged") / "model"
    train_small(model, trees=1)
    return {str(f.relative_to(model)): f.read_bytes() for f in model.rglob("*") if f.is_file()}


@pytest.fixture
def files(original):
    return dict(original)


@pytest.fixture
def refused(tmp_path):
    """Seal and write a model that must be refused, by load and by the command; return the sentence."""

    def call(files):
        seal(files)
        write(files, tmp_path / "model")
        with pytest.raises(InputError) as caught:
            load(tmp_path / "model")
        assert caught.value.hint
        assert command("verify", tmp_path / "model") == (2, "")
        return str(caught.value)

    return call


def edit(files, /, **entries):
    manifest = json.loads(files[MANIFEST])
    manifest.update(entries)
    files[MANIFEST] = json.dumps(manifest).encode()


def change(files, name, place, value):
    values = array(files, name)
    values[place] = value
    files[name] = npy(values)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"features": 2**70}, "features is 1180591620717411303424, expected at most 2,147,483,646"),
        ({"labels": True}, "labels is True, expected an integer"),
        ({"labels": 12.0}, "labels is 12.0, expected an integer"),
        ({"instances": 0}, "instances is 0, expected an integer from 1"),
        ({"settings": {**SETTINGS, "bias": 10**400}}, "settings.bias is 1000"),
        ({"settings": {**SETTINGS, "bias": float("nan")}}, "NaN is not a finite number"),
        ({"settings": {**SETTINGS, "loss": "cubic"}}, "settings.loss is 'cubic', expected one of"),
        ({"settings": {**SETTINGS, "cost": None}}, "settings.cost is None, expected a number"),
        ({"settings": {}}, "settings.loss is missing"),
        ({"format_version": True}, "format version True, but only version 1 is supported"),
        ({"format_version": 2}, "format version 2, but only version 1 is supported"),
        ({"codec": "int8"}, "tree-0/scales.npy is not listed"),
        ({"codec": "sparse"}, "sparse models have the entry pruned, and only these"),
        ({"normalized": 1}, "normalized is 1, expected True or False"),
        ({"normalized": None}, "normalized is None, expected True or False"),
        ({"notes": {"x": float("inf")}}, "Infinity is not a finite number"),
        ({"notes": {"x": "\ud800"}}, "a string contains an unpaired surrogate"),
        ({"notes": 7}, "notes is 7, expected an object"),
        ({"trees": [{"nodes": 1}]}, "trees[0].depth is missing"),
        ({"trees": []}, "the number of trees is 0"),
        ({"trees": [7]}, "trees[0] is 7, expected an object"),
        ({"weights": 5}, "weights, but the manifest records 5"),
        ({"pruned": {"threshold": 0.1}}, "sparse models have the entry pruned, and only these"),
        (
            {"codec": "sparse", "pruned": {"threshold": -1}},
            "pruned.threshold is -1, expected",
        ),
        (
            {"estimator": {"classes": "<U9999999999"}},
            "estimator.classes is '<U9999999999', expected None or the type",
        ),
        ({"estimator": {"feature_names": ["a"]}}, "there are 1 feature names for 30 features"),
        (
            {"score": {"function": "sigmoid", "scale": 1e-300}},
            "score.scale is 1e-300, expected a number from 0.001",
        ),
        ({"one_based": 1}, "one_based is 1, expected None or True or False"),
    ],
)
def test_an_entry_of_the_manifest(files, refused, entries, message):
    edit(files, **entries)
    assert message in refused(files)


def test_a_reader_accepts_both_values_of_normalized(files, tmp_path):
    rows, found = 5 * random_data().X, []
    for number, entries in enumerate(({"normalized": False}, {"normalized": True})):
        edit(files, **entries)
        seal(files)
        write(files, tmp_path / str(number))
        found.append(load(tmp_path / str(number)).predict(rows)[1])
    assert (found[0] != found[1]).any()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "tree-0/../../x", "tree-1/weights.npy", "x"])
def test_another_file_in_the_list(files, refused, name):
    listed = json.loads(files[MANIFEST])["files"]
    edit(files, files={**listed, name: {"bytes": 1}})
    assert f"{name!r} is listed, which is not a file of a model" in refused(files)


def test_deep_json(files, refused, tmp_path):
    files["label_names.json"] = b"[" * 100_000
    assert "label_names.json: the file cannot be read (nested too deeply)" in refused(files)
    files[MANIFEST] = b'{"a":' * 100_000
    assert "the manifest cannot be read (nested too deeply)" in refused(files)


@pytest.mark.parametrize("name", ["label_counts.npy", "tree-0/features.npy", "tree-0/children.npy"])
def test_another_kind_of_file_in_place_of_an_array(files, refused, name):
    values = array(files, name)
    archive = io.BytesIO()
    np.savez(archive, values)
    objects = io.BytesIO()
    np.save(objects, np.array([{}]), allow_pickle=True)
    for content in (archive.getvalue(), objects.getvalue(), pickle.dumps(values), b"", npy(values[None])):
        files[name] = content
        assert f"{name}: not a NumPy array of one dimension" in refused(files)
    length, padding = f"({values.size},), }}".encode(), b" " * (15 - len(str(values.size)))
    files[name] = npy(values).replace(length + padding, b"(999999999999999,), }", 1)
    assert f"{name}: the array is {values.dtype}[{'9' * 15}], expected" in refused(files)


def test_huge_files_with_holes_are_not_read(files, tmp_path):
    """They take no space, so that a small archive can hold them."""
    manifest = json.loads(files[MANIFEST])
    manifest["files"]["label_counts.npy"]["bytes"] = 2**50
    files[MANIFEST] = json.dumps(manifest).encode()
    del files["label_counts.npy"]
    seal(files)
    write(files, tmp_path / "model")
    with pytest.raises(ResourceError, match="opening the model needs"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "change_it", "message"),
    [
        ("child_ptr", lambda a: np.r_[a[0], a[0], a[2:]], "node 0 has no children"),
        ("children", lambda a: np.where(a == 1, 2, np.where(a == 2, 1, a)), "not numbered breadth-first"),
        ("children", lambda a: np.where(a == 2, 1, a), "not numbered breadth-first"),
        ("children", lambda a: np.where(a == -1, -2, a), "a label is missing or occurs twice"),
        ("children", lambda a: np.where(a == -1, -(2**31), a), "a label is missing or occurs twice"),
        ("feature_ptr", lambda a: a * 1000, "a node has more features than the data"),
    ],
)
def test_a_tree(files, refused, name, change_it, message):
    name = f"{BIASED}{name}.npy"
    files[name] = npy(change_it(array(files, name)).astype(array(files, name).dtype))
    assert message in refused(files)


def shaped(files, counts, children, depth):
    """Replace the tree by another one whose nodes have only a bias."""
    n_nodes = len(counts)
    parts = {
        "child_ptr": np.r_[0, np.cumsum(counts)],
        "children": np.asarray(children, np.int32),
        "feature_ptr": np.arange(n_nodes + 1),
        "features": np.full(n_nodes, 30, np.int32),
        "weights": np.zeros(np.sum(counts), np.float32),
        "checksums": np.zeros(n_nodes, np.uint32),
    }
    for name, values in parts.items():
        files[f"{BIASED}{name}.npy"] = npy(values)
    edit(files, trees=[{"nodes": n_nodes, "depth": depth}], weights=0)


def test_a_tree_with_empty_nodes(files, refused):
    shaped(files, np.r_[100_012, np.zeros(100_000, int)], np.r_[np.arange(1, 100_001), ~np.arange(12)], 2)
    assert "node 1 has no children" in refused(files)


def test_a_tree_that_is_too_deep(files, refused):
    shaped(files, np.r_[np.ones(19_999, int), 12], np.r_[np.arange(1, 20_000), ~np.arange(12)], 20_000)
    assert "trees[0].depth is 20000, expected at most 1,000" in refused(files)
    shaped(files, np.r_[np.ones(19_999, int), 12], np.r_[np.arange(1, 20_000), ~np.arange(12)], 3)
    assert "the tree has depth 20,000, but the manifest records 3" in refused(files)


def test_the_deepest_tree_is_explained_quickly(files, tmp_path):
    shaped(files, np.r_[np.ones(999, int), 12], np.r_[np.arange(1, 1000), ~np.arange(12)], 1000)
    seal(files)
    write(files, tmp_path / "model")
    model = load(tmp_path / "model")
    start = time.process_time()
    assert len(explain_prediction(model, np.zeros((1, 30)))[0].paths[0].steps) == 1000
    assert command("info", tmp_path / "model")[0] == 0
    assert time.process_time() - start < 20


def test_a_tree_that_is_too_deep_is_not_planned():
    nested = 0
    for _ in range(1001):
        nested = [nested]
    tree = LabelTree.from_nested(nested)
    data = Dataset.from_matrices(np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InputError, match="the tree has depth 1,001, expected at most 1,000"):
        make_plan(data, tree)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(files, refused, value):
    change(files, f"{BIASED}weights.npy", 0, value)
    assert "tree-0: the block of node 0 is damaged: a weight is not finite" in refused(files)


def test_features_out_of_order_or_without_bias(files, refused, original):
    unsorted = "the block of node 0 is damaged: features are out of order or out of range"
    for place, value in ((0, 29), (1, 0), (0, -1), (0, 31)):
        files = dict(original)
        change(files, f"{BIASED}features.npy", place, value)
        assert unsorted in refused(files)
    last = array(original, f"{BIASED}feature_ptr.npy")[1] - 1
    files = dict(original)
    change(files, f"{BIASED}features.npy", last, 29)
    assert "the weights of the bias are missing" in refused(files)


def test_a_node_without_a_bias_row(files, refused):
    shaped(files, [2, 11], [1, *~np.arange(12)], 2)
    change(files, f"{BIASED}feature_ptr.npy", 1, 0)
    assert "feature_ptr.npy: node 0 has no weights of the bias" in refused(files)


def test_counts_and_names_of_labels(files, refused, original):
    for count in (-1, 61, 2**62):
        files = dict(original)
        change(files, "label_counts.npy", 3, count)
        assert "a label has a number of instances that is not from 0 to 60" in refused(files)
    names = [f"label {j}" for j in range(12)]
    for wrong, message in (
        ([*names[:-1], names[0]], "a name occurs twice"),
        ([*names[:-1], "\ud800"], "a string contains an unpaired surrogate"),
        ([*names[:-1], 7], "expected a name for each of the 12 labels"),
    ):
        files = dict(original) | {"label_names.json": json.dumps(wrong).encode()}
        assert message in refused(files)


def test_names_cannot_control_a_terminal(files, tmp_path):
    names = [f"\x1b]0;title\x07{j}\u202e" for j in range(12)]
    files["label_names.json"] = json.dumps(names).encode()
    edit(files, notes={"\x1b[2J": "\x9b31m"}, labeltree_version="\x1b[31m")
    seal(files)
    path = tmp_path / "a\x1b[31mmodel\udcff"
    write(files, path)
    for arguments in (["info"], ["explain", "1:1"], ["info", "--label", names[0]], ["verify"]):
        code, out = command(arguments[0], path, *arguments[1:])
        assert code == 0
        assert all(c == "\n" or c.isprintable() for c in out)
        assert "\\x1b" in out


def test_a_feature_beyond_the_words_is_a_number(tmp_path):
    (tmp_path / "documents.tsv").write_text(DOCUMENTS)
    train_small(tmp_path / "model", read_documents(tmp_path / "documents.tsv"), 1)
    features = np.load(tmp_path / "model/tree-0/features.npy")
    np.save(tmp_path / "model/tree-0/features.npy", features + np.int32(10**6))
    model = load(tmp_path / "model", verify=False)
    step = describe_label(model, 0).paths[0][0]
    assert step.supporting
    assert all(int(word.name) >= 10**6 for word in step.supporting)


def test_json_is_valid_whatever_the_weights_are(files, tmp_path):
    weights = array(files, f"{BIASED}weights.npy")
    files[f"{BIASED}weights.npy"] = npy(np.where(weights > 0, np.float32(3e38), np.float32(-3e38)))
    seal(files)
    write(files, tmp_path / "model")
    row = " ".join(f"{f}:{9 if f % 2 else -9}" for f in range(1, 30))
    with np.errstate(all="ignore"):
        code, out = command("explain", tmp_path / "model", row, "--json")
    assert code == 0
    json.loads(out, parse_constant=pytest.fail)


def test_a_model_without_bias_has_no_biases(tmp_path):
    data = random_data()
    float32 = train_small(tmp_path / "float32", data, 1, settings=SolverSettings(bias=0))
    path = float32.compress(tmp_path / "int8", weights="int8").path
    files = {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}
    for name, value, message in (
        ("biases", 1, "there are biases, but the model has none"),
        ("scales", 3e38, "a scale is negative, not finite or too large"),
    ):
        forged = dict(files)
        change(forged, f"{BIASED}{name}.npy", 0, value)
        seal(forged)
        write(forged, tmp_path / "forged")
        with pytest.raises(InputError, match=message):
            load(tmp_path / "forged", verify=False)


def test_verify_prints_what_was_checked(files, tmp_path):
    write(files, tmp_path / "model")
    code, out = command("verify", tmp_path / "model")
    assert code == 0
    assert "is valid" in out.splitlines()[0]
    for part in ("manifest", "files", "trees", "blocks", "labels"):
        assert f"\n{part} " in out
    figures = json.loads(command("verify", tmp_path / "model", "--json")[1])
    assert figures["valid"] is True
    assert figures["files"] == len(files) - 1
    assert figures["model_bytes"] == sum(map(len, files.values())) - len(files[MANIFEST])
