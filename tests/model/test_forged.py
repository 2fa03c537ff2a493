"""A model forged with correct checksums is refused with one clear sentence."""

import io
import json
import pickle
from dataclasses import asdict

import numpy as np
import pytest
from forgery import array, edit, npy, read_files, seal, write
from helpers import TREE_FILES, random_data, read_documents, train_small
from mutations import DOCUMENTS, command

from labeltree import Dataset, InputError, LabelTree, load, make_plan
from labeltree.errors import ResourceError
from labeltree.explain.label import describe_label
from labeltree.explain.prediction import explain_prediction
from labeltree.model.layout import MANIFEST
from labeltree.settings import SolverSettings

BIASED = "tree-0/"
SETTINGS = asdict(SolverSettings(cost=1.0))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    model = tmp_path_factory.mktemp("forged") / "model"
    train_small(model, trees=1)
    return read_files(model)


@pytest.fixture
def files(original):
    return dict(original)


@pytest.fixture
def sealed(tmp_path):
    """Seal a model and write it; return its path."""

    def call(files, name="model"):
        seal(files)
        write(files, tmp_path / name)
        return tmp_path / name

    return call


@pytest.fixture
def refused(sealed):
    """Seal and write a model that must be refused, by load and by the command; return the sentence."""

    def call(files):
        path = sealed(files)
        with pytest.raises(InputError) as caught:
            load(path)
        assert caught.value.hint
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
        assert command("verify", path) == (2, "")
        return str(caught.value)

    return call


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
        *(({"codec": codec}, f"codec is {codec!r}, expected") for codec in ("double", 7, None)),
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


@pytest.mark.parametrize("key", ["format_version", "features", "labels", "trees", "settings", "files"])
@pytest.mark.parametrize("value", ["missing", None, "x", -1, [7]])
def test_a_wrong_or_missing_entry_of_the_manifest(files, refused, key, value):
    manifest = json.loads(files[MANIFEST]) | {key: value}
    if value == "missing":
        del manifest[key]
    files[MANIFEST] = json.dumps(manifest).encode()
    assert key.replace("_", " ") in refused(files)


@pytest.mark.parametrize(
    "change_it",
    [
        lambda m: m["files"].pop("tree-0/weights.npy"),
        lambda m: m["files"]["tree-0/weights.npy"].pop("bytes"),
        lambda m: m["files"].update({"tree-0/weights.npy": 3}),
        lambda m: m["trees"][0].update(nodes=0),
        lambda m: m["trees"][0].update(nodes=m["trees"][0]["nodes"] + 1),
        lambda m: m["settings"].update(bias="1"),
        lambda m: m["settings"].update(bias=-1),
        lambda m: m.update(score=None),
        lambda m: m["score"].update(function="cosine"),
        lambda m: m["score"].update(power=2),
        lambda m: m.update(features=29),
        lambda m: m.update(labels=11),
    ],
)
def test_a_manifest_that_lies(files, refused, change_it):
    manifest = json.loads(files[MANIFEST])
    change_it(manifest)
    files[MANIFEST] = json.dumps(manifest).encode()
    refused(files)


def test_a_reader_accepts_both_values_of_normalized(files, sealed):
    rows, found = 5 * random_data().X, []
    for normalized in (False, True):
        edit(files, normalized=normalized)
        found.append(load(sealed(files, str(normalized))).predict(rows)[1])
    assert (found[0] != found[1]).any()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "tree-0/../../x", "tree-1/weights.npy", "x"])
def test_another_file_in_the_list(files, refused, name):
    listed = json.loads(files[MANIFEST])["files"]
    edit(files, files={**listed, name: {"bytes": 1}})
    assert f"{name!r} is listed, which is not a file of a model" in refused(files)


def test_deep_json(files, refused):
    files["label_names.json"] = b"[" * 100_000
    assert "label_names.json: the file cannot be read (nested too deeply)" in refused(files)
    files[MANIFEST] = b'{"a":' * 100_000
    assert "the manifest cannot be read (nested too deeply)" in refused(files)


@pytest.mark.parametrize("name", ["label_counts.npy", *(f"tree-0/{name}.npy" for name in TREE_FILES)])
def test_another_kind_of_file_in_place_of_an_array(files, refused, name):
    values = array(files, name)
    archive = io.BytesIO()
    np.savez(archive, values)
    objects = io.BytesIO()
    np.save(objects, np.array([{}]), allow_pickle=True)
    for content in (archive.getvalue(), objects.getvalue(), pickle.dumps(values), b"", npy(values[None])):
        files[name] = content
        assert f"{name}: not a NumPy array of one dimension" in refused(files)
    files[name] = npy(values.astype(np.int16))
    assert f"{name}: the array is <i2[{values.size}], expected {values.dtype.str}" in refused(files)
    length, padding = f"({values.size},), }}".encode(), b" " * (15 - len(str(values.size)))
    files[name] = npy(values).replace(length + padding, b"(999999999999999,), }", 1)
    assert f"{name}: the array is {values.dtype.str}[{'9' * 15}], expected" in refused(files)


def test_huge_files_with_holes_are_not_read(files, sealed):
    """They take no space, so that a small archive can hold them."""
    listed = json.loads(files[MANIFEST])["files"]
    listed["label_counts.npy"]["bytes"] = 2**50
    edit(files, files=listed)
    del files["label_counts.npy"]
    with pytest.raises(ResourceError, match="opening the model needs"):
        load(sealed(files))


def put(place, value):
    def change_it(array):
        assert array[place] != value
        array[place] = value
        return array

    return change_it


LABELS = "a label is missing or occurs twice"
POINTERS = "ptr.npy: the pointers do not "
NOT_FINITE = "tree-0: the block of node 0 is damaged: a weight is not finite"
UNSORTED = "the block of node 0 is damaged: features are out of order or out of range"


@pytest.mark.parametrize(
    ("name", "change_it", "message"),
    [
        ("child_ptr", put(1, 0), "node 0 has no children"),
        *(("child_ptr", put(*at), POINTERS) for at in ((0, 1), (1, 10**6), (-1, 10**6))),
        ("children", lambda a: np.where(a == 1, 2, np.where(a == 2, 1, a)), "not numbered breadth-first"),
        ("children", lambda a: np.where(a == 2, 1, a), "not numbered breadth-first"),
        *(("children", put(0, value), "not numbered breadth-first") for value in (0, 10**6)),
        *(("children", lambda a, v=value: np.where(a == -1, v, a), LABELS) for value in (-2, -(2**31))),
        ("children", put(-1, 0), "not numbered breadth-first"),
        ("children", put(-1, ~(10**6)), LABELS),
        ("feature_ptr", lambda a: a * 1000, "a node has more features than the data"),
        *(("feature_ptr", put(*at), POINTERS) for at in ((0, -1), (1, -5), (1, 10**9))),
        ("feature_ptr", put(-1, 2**62), "a node has more features than the data"),
        *(("features", put(*at), UNSORTED) for at in ((0, 29), (1, 0), (0, -1), (0, 31), (0, 10**6))),
        ("features", lambda a: np.where(a == 30, 29, a), "the weights of the bias are missing"),
        *(("weights", put(0, value), NOT_FINITE) for value in (np.nan, np.inf, -np.inf)),
    ],
)
def test_an_array_of_a_tree(files, refused, name, change_it, message):
    """With right checksums; no kernel may see it."""
    name = f"{BIASED}{name}.npy"
    values = array(files, name)
    files[name] = npy(change_it(values.copy()).astype(values.dtype))
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


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        (20_000, "trees[0].depth is 20000, expected at most 1,000"),
        (3, "the tree has depth 20,000, but the manifest records 3"),
    ],
)
def test_a_tree_that_is_too_deep(files, refused, recorded, message):
    shaped(files, np.r_[np.ones(19_999, int), 12], np.r_[np.arange(1, 20_000), ~np.arange(12)], recorded)
    assert message in refused(files)


def test_the_deepest_tree_is_explained(files, sealed):
    shaped(files, np.r_[np.ones(999, int), 12], np.r_[np.arange(1, 1000), ~np.arange(12)], 1000)
    path = sealed(files)
    assert len(explain_prediction(load(path), np.zeros((1, 30)))[0].paths[0].steps) == 1000
    assert command("info", path)[0] == 0


def test_a_tree_that_is_too_deep_is_not_planned():
    nested = 0
    for _ in range(1001):
        nested = [nested]
    tree = LabelTree.from_nested(nested)
    data = Dataset.from_matrices(np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InputError, match="the tree has depth 1,001, expected at most 1,000"):
        make_plan(data, tree)


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


def test_names_cannot_control_a_terminal(files, sealed):
    names = [f"\x1b]0;title\x07{j}\u202e" for j in range(12)]
    files["label_names.json"] = json.dumps(names).encode()
    edit(files, notes={"\x1b[2J": "\x9b31m"}, labeltree_version="\x1b[31m")
    path = sealed(files, "a\x1b[31mmodel\udcff")
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


def test_json_is_valid_whatever_the_weights_are(files, sealed):
    weights = array(files, f"{BIASED}weights.npy")
    files[f"{BIASED}weights.npy"] = npy(np.where(weights > 0, np.float32(3e38), np.float32(-3e38)))
    row = " ".join(f"{f}:{9 if f % 2 else -9}" for f in range(1, 30))
    with np.errstate(all="ignore"):
        code, out = command("explain", sealed(files), row, "--json")
    assert code == 0
    json.loads(out, parse_constant=pytest.fail)


def test_a_model_without_bias_has_no_biases(tmp_path, sealed):
    data = random_data()
    float32 = train_small(tmp_path / "float32", data, 1, settings=SolverSettings(bias=0))
    files = read_files(float32.compress(tmp_path / "int8", weights="int8").path)
    for name, value, message in (
        ("biases", 1, "there are biases, but the model has none"),
        ("scales", 3e38, "a scale is negative, not finite or too large"),
    ):
        forged = dict(files)
        change(forged, f"{BIASED}{name}.npy", 0, value)
        with pytest.raises(InputError, match=message):
            load(sealed(forged), verify=False)


def test_verify_prints_what_was_checked(files, sealed):
    path = sealed(files)
    code, out = command("verify", path)
    assert code == 0
    assert "is valid" in out.splitlines()[0]
    figures = json.loads(command("verify", path, "--json")[1])
    assert figures["valid"] is True
    assert figures["files"] == len(files) - 1
    assert figures["model_bytes"] == sum(map(len, files.values())) - len(files[MANIFEST])
