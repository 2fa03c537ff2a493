"""`labeltree convert` and `labeltree tree`: features and trees for other programs."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import read_documents
from scipy import sparse

from labeltree import load, read_data, read_svm
from labeltree.trees.export import tree_text
from labeltree.trees.tree import LabelTree

TRAIN = "text,labels\n" + "".join(f"word{i % 5} other{i % 3},a{i % 4}|b{i % 3}\n" for i in range(30))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from labeltree.cli import main

    folder = tmp_path_factory.mktemp("convert")
    (folder / "train.csv").write_text(TRAIN)
    options = ["--label-separator", "|", "--clusters", "2", "-q"]
    assert main(["train", str(folder / "train.csv"), str(folder / "m"), *options]) == 0
    return folder


def test_documents_become_libsvm(run, place, tmp_path):
    code, out, _ = run("convert", place / "train.csv", tmp_path / "d.svm.gz", "--label-separator", "|", "-q")
    assert (code, out) == (0, "")
    found, expected = (
        read_svm(tmp_path / "d.svm.gz"),
        read_documents(place / "train.csv", features=load(place / "m").text),
    )
    assert (found.X != expected.X).nnz == 0
    names = [sorted(found.label_names[j] for j in found.Y[i].indices) for i in range(30)]
    assert names == [[expected.label_names[j] for j in expected.Y[i].indices] for i in range(30)]


def test_documents_become_arrays_for_a_model(run, place, tmp_path):
    (tmp_path / "t.csv").write_text("text,labels\nword1 word9 other2,a1|new\n,\n")
    model = load(place / "m")
    code, out, _ = run("convert", tmp_path / "t.csv", tmp_path / "t.npz", "--model", place / "m", "--json")
    assert code == 0
    assert json.loads(out)["features"] == model.n_features
    X = sparse.load_npz(tmp_path / "t.npz")
    assert (model.text.transform(["word1 word9 other2", ""]) != X).nnz == 0
    with np.load(tmp_path / "t.npz", allow_pickle=False) as arrays:
        names = arrays["label_names"].tolist()
        assert names == [*model.label_names, "new"]
        assert {names[j] for j in arrays["labels_indices"]} == {"a1", "new"}
        assert arrays["labels_indptr"].tolist() == [0, 2, 2]
        assert arrays["feature_names"].tolist() == list(model.text.names)


def test_libsvm_becomes_arrays(run, tmp_path):
    (tmp_path / "d.svm").write_text("0,2 1:0.5 4:1\n1 2:3\n")
    assert run("convert", tmp_path / "d.svm", tmp_path / "d.npz", "-q")[0] == 0
    assert (sparse.load_npz(tmp_path / "d.npz") != read_data(tmp_path / "d.svm").X).nnz == 0


def test_refused(refused, place, tmp_path):
    data = place / "train.csv"
    assert "end it in .svm" in refused("convert", data, tmp_path / "d.txt")
    assert "--header" in refused("convert", data, tmp_path / "d.npz", "--header")
    assert "--model" in refused("convert", data, tmp_path / "d.npz", "--model", place / "m", "--min-df", 2)
    (tmp_path / "d.svm").write_text("")
    assert "already exists" in refused("convert", data, tmp_path / "d.svm")
    (tmp_path / "s.csv").write_text("text,labels\none,a b\n")
    message = refused("convert", tmp_path / "s.csv", tmp_path / "s.svm")
    assert "avoid spaces, commas, colons and #, or write an .npz file" in message
    (tmp_path / "s.tsv").write_text("1\tone\n")
    assert "or write an .npz file" in refused("convert", tmp_path / "s.tsv", tmp_path / "s.svm")
    assert "end it in .json" in refused("tree", place / "m", "-o", tmp_path / "t.png")
    assert "has 1 tree" in refused("tree", place / "m", "-o", tmp_path / "t.dot", "--number", 1)
    assert "--max-children" in refused("tree", place / "m", "-o", tmp_path / "t.json", "--max-children", 1)


def test_a_tree_can_be_used_again(run, place, tmp_path):
    assert run("tree", place / "m", "-o", tmp_path / "t.json", "-q")[0] == 0
    options = ("--label-separator", "|", "--tree", tmp_path / "t.json", "-q")
    assert run("train", place / "train.csv", tmp_path / "again", *options)[0] == 0
    one, other = (load(path).trees[0].tree for path in (place / "m", tmp_path / "again"))
    assert np.array_equal(one.children, other.children)
    assert np.array_equal(one.child_ptr, other.child_ptr)


def test_graphviz_and_drawing(run, place, tmp_path):
    model = load(place / "m")
    for form in ("dot", "svg"):
        code, out, _ = run("tree", place / "m", "-o", tmp_path / f"t.{form}")
        assert code == 0
        assert "7 labels" in out
    dot = (tmp_path / "t.dot").read_text()
    n_items = model.trees[0].tree.n_nodes + model.n_labels
    assert len(re.findall(r"\[label=", dot)) == n_items
    assert len(re.findall("->", dot)) == n_items - 1
    root = ElementTree.fromstring((tmp_path / "t.svg").read_text(encoding="utf-8"))
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert len(texts) == n_items
    assert set(model.label_names) < set(texts)


def test_names_are_escaped_and_children_left_out():
    tree = LabelTree.from_nested([0, 1, [2, 3, 4]])
    names = ['a"b', "<c>&\x00", "x" * 60, "y", "z\\"]
    dot = tree_text(tree, names, "dot", 2)
    assert '"a\\"b"' in dot
    assert '"1 more"' in dot
    drawn = ElementTree.fromstring(tree_text(tree, names, "svg"))
    assert any("<c>&\ufffd" in text for text in drawn.itertext())
    assert json.loads(tree_text(tree, names, "json")) == ['a"b', "<c>&\x00", ["x" * 60, "y", "z\\"]]
    assert json.loads(tree_text(tree, None, "json")) == [0, 1, [2, 3, 4]]
