"""Trees given by the user: any hierarchy gives a valid tree, in every file format; errors are reported."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from beam_twin import SIGMOID, assert_agrees, twin
from helpers import disk_bytes, examples, nested, node_labels, random_data
from hypothesis import given
from hypothesis import strategies as st

from labeltree import Dataset, InputError, build_tree, load, make_plan, train_model, trees
from labeltree.trees.file import read_tree

NAMES = ["cat", "dog", "persian", "rose", "tulip"]


def named(tree, names=NAMES):
    """A tree as nested lists of names."""
    return json.loads(json.dumps(nested(tree)), parse_int=lambda text: names[int(text)])


@pytest.fixture
def pets():
    """Five labels, the last without instances."""
    return Dataset.from_matrices(np.eye(5, 4), np.eye(5) * [1, 1, 1, 1, 0], NAMES)


@pytest.fixture
def given_tree(tmp_path):
    """Write a file and read it as a tree."""

    def make(content, name="tree.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_tree(path)

    return make


# Properties of any hierarchy


@st.composite
def hierarchies(draw):
    """Rows of names and parents without cycles, in any order; some names are labels, all labels are names."""
    size = draw(st.integers(1, 40))
    parents = [draw(st.integers(-1, i - 1)) for i in range(size)]  # -1 is the root
    is_label = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    order = draw(st.permutations(range(size)))
    skipped = {p for p in parents if p >= 0 and parents[p] == -1 and draw(st.booleans())}  # need no row
    labels = draw(st.permutations([i for i in range(size) if is_label[i]]))
    rows = [i for i in order if i not in skipped]
    return parents, labels, rows


def labels_below(parents, labels):
    """For each name, the set of labels at or below it, by going up from each label."""
    below = [set() for _ in parents]
    for number, name in enumerate(labels):
        while name >= 0:
            below[name].add(number)
            name = parents[name]
    return below


@given(hierarchies())
@examples(150)
@pytest.mark.filterwarnings("ignore:.*they are ignored")
def test_any_hierarchy_gives_a_valid_tree(hierarchy):
    parents, labels, rows = hierarchy
    tree = trees.from_parents(
        [f"n{i}" for i in rows],
        ["" if parents[i] < 0 else f"n{parents[i]}" for i in rows],
        [f"n{i}" for i in labels],
    )
    assert np.array_equal(np.sort(tree.labels), np.arange(len(labels)))
    assert tree.n_labels == len(labels)
    nodes = [frozenset(node_labels(tree, u)) for u in range(tree.n_nodes)]
    assert len(set(nodes)) == len(nodes)  # so no node has one child,
    assert tree.n_nodes == 1 or tree.child_count.min() > 1
    groups = {frozenset(below) for below in labels_below(parents, labels) if len(below) > 1}
    assert set(nodes) == groups | {frozenset(range(len(labels)))}  # and each group of labels is a node


@given(hierarchies(), st.integers(0, 1000))
@examples(12)
@pytest.mark.filterwarnings("ignore:.*they are ignored")
def test_plan_training_and_search_of_a_hierarchy(tmp_path_factory, hierarchy, seed):
    parents, labels, rows = hierarchy
    names = [f"n{i}" for i in labels]
    above = [None if parents[i] < 0 else f"n{parents[i]}" for i in rows]
    tree = trees.from_parents([f"n{i}" for i in rows], above, names)
    data = random_data(seed, labels=len(labels), empty_label=False)
    path = tmp_path_factory.mktemp("given") / "model"
    plan = make_plan(data, tree)
    model = train_model(data, plan, path)
    assert plan.model_bytes == disk_bytes(path)
    found = model.predict(data.X[:5], beam=tree.n_nodes, top=len(labels))
    assert (np.sort(found[0]) == np.arange(len(labels))).all()
    part = model.trees[0]
    blocks = part.feature_ptr, part.features, part.weight_ptr, part.weights
    same = [(tree.child_ptr, tree.children, *blocks)], model.n_features, model.n_labels, model.bias
    rows = [(row.indices, row.data) for row in data.X[:5]]
    assert_agrees(found, twin(same, rows, None, SIGMOID), len(labels), 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_built_tree_survives_being_written_as_parents(given_tree, seed):
    data = random_data(seed, labels=40)
    tree = build_tree(data, clusters=3, seed=seed)
    rows = [
        f"{~child if child < 0 else f'node {child}'}\t{f'node {node}' if node else ''}"
        for node in range(tree.n_nodes)
        for child in tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist()
    ]
    again = given_tree("\n".join(["label\tparent", *rows])).to_tree(data)
    assert again.child_ptr.tolist() == tree.child_ptr.tolist()
    assert again.children.tolist() == tree.children.tolist()


def test_a_very_deep_hierarchy():
    count = 3000
    names = [str(i) for i in range(count)]
    tree = trees.from_parents(names, ["", *names[:-1]], count)
    assert (tree.n_nodes, tree.depth) == (count - 1, count - 1)
    chain = trees.from_parents(
        [*(f"g{i}" for i in range(count)), "a"], ["", *(f"g{i}" for i in range(count))], ["a"]
    )
    assert nested(chain) == [0]


# File formats


FORMATS = {
    "tree.json": '[[["cat", "persian"], "dog"], "rose", "tulip"]',
    "tree.tsv": "label\tparent\ncat\tanimal\ndog\tanimal\npersian\tcat\nrose\t\ntulip\n",
    "windows.csv": '\ufeffparent,note,Label\r\n"animal","a, b",cat\r\nanimal,,dog\r\n\r\n'
    'cat,,"persian"\r\n,,rose\r\n,,tulip\r\n',
    "semicolons": "label;parent\ncat;animal\ndog;animal\npersian;cat\nrose;\ntulip;\n",
    "index.csv": ",label,parent\n0,cat,animal\n1,dog,animal\n2,persian,cat\n3,rose,\n4,tulip,\n",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_a_hierarchy(given_tree, pets, name):
    found = given_tree(FORMATS[name], name)
    assert found.form == ("nested lists" if name.endswith("json") else "parents")
    assert named(found.to_tree(pets)) == [[["cat", "persian"], "dog"], "rose", "tulip"]


@pytest.mark.parametrize(
    "content",
    [
        "cat dog\npersian rose\ntulip\n",
        "cat,dog\r\n\r\npersian, rose,\r\ntulip",
        "cat\tdog\npersian\trose\ntulip",
    ],
)
def test_formats_of_clusters(given_tree, pets, content):
    found = given_tree(content)
    assert found.form == "clusters"
    assert named(found.to_tree(pets)) == [["cat", "dog"], ["persian", "rose"], "tulip"]


def test_names_with_spaces_commas_and_quotes(given_tree):
    names = ["big cat", "cat, small", '"the" cat']
    data = Dataset.from_matrices(np.eye(3), np.eye(3), names)
    tabs = given_tree('label\tparent\nbig cat\tcats\ncat, small\tcats\n"the" cat\n')
    assert named(tabs.to_tree(data), names) == [names[:2], names[2]]
    commas = given_tree('label,parent\nbig cat,cats\n"cat, small",cats\n"""the"" cat"\n')
    assert named(commas.to_tree(data), names) == [names[:2], names[2]]
    assert named(given_tree('big cat\tcat, small\n"the" cat\n').to_tree(data), names) == [names[:2], names[2]]


def test_compressed_and_numbers(given_tree):
    data = Dataset.from_matrices(np.eye(4), np.eye(4))
    assert nested(given_tree(gzip.compress(b"[[0, 1], [2, 3]]"), "t.json.gz").to_tree(data)) == [
        [0, 1],
        [2, 3],
    ]
    assert nested(given_tree("3 1\n0 2\n").to_tree(data)) == [[3, 1], [0, 2]]
    assert nested(given_tree("label,parent\n0,2\n1,2\n2,\n3,\n").to_tree(data)) == [[2, 0, 1], 3]


def test_from_clusters():
    assert nested(trees.from_clusters([[0, 3], [1], [2, 4]], 5)) == [[0, 3], 1, [2, 4]]
    assert nested(trees.from_clusters([["b", "a"]], ["a", "b"])) == [1, 0]
    with pytest.warns(
        UserWarning,
        match=r"2 of the 5 labels are missing from the tree \('2', '4'\); they are put under a separate",
    ):
        assert nested(trees.from_clusters([[0, 3], [1]], 5, add_missing=True)) == [[0, 3], 1, [2, 4]]
    with pytest.raises(InputError, match="contains '1' more than once"):
        trees.from_clusters([[0, 1], [1]], 2)
    with pytest.raises(InputError, match="no children"):
        trees.from_clusters([[0, 1], []], 2)


# More or fewer names than labels


def test_a_thesaurus_may_contain_more_than_the_data(given_tree, pets):
    found = given_tree(
        "label,parent\ncat,pet\ndog,pet\nlion,wild\npersian,cat\nrose,flower\ntulip,flower\nsnail,\n"
    )
    with pytest.warns(UserWarning, match="3 of the 10 names .* are ignored"):
        assert named(found.to_tree(pets)) == [[["cat", "persian"], "dog"], ["rose", "tulip"]]


def test_labels_without_instances_need_not_be_listed(given_tree, pets):
    assert named(given_tree("cat dog\npersian rose\n").to_tree(pets)) == [
        ["cat", "dog"],
        ["persian", "rose"],
        "tulip",
    ]


def test_missing_labels(given_tree, pets):
    found = given_tree("cat persian\n")
    with pytest.raises(
        InputError,
        match=r"tree.txt: 2 of the 5 labels are missing from the tree \('dog', 'rose'\).*add_missing=True",
    ):
        found.to_tree(pets)
    with pytest.warns(UserWarning, match="2 of the 5 labels are missing"):
        assert named(replace(found, add_missing=True).to_tree(pets)) == [
            ["cat", "persian"],
            ["dog", "rose", "tulip"],
        ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "label,parent\ncat,dog\ndog,rose\nrose,cat\n",
            r"tree.txt:2: the hierarchy has a cycle: 'cat' below 'dog' below 'rose' below 'cat'",
        ),
        ("label,parent\ndog,\ncat,cat\n", r"tree.txt:3: .* cycle: 'cat' below 'cat'"),
        (
            "label,parent\nrose,cat\ncat,dog\ndog,cat\n",
            r"tree.txt:3: .* cycle: 'cat' below 'dog' below 'cat'",
        ),
        (
            "label,parent\ncat,a\ndog,a\ncat,b\n",
            r"tree.txt:4: 'cat' has two parents, 'a' \(line 2\) and 'b' \(line 4\)",
        ),
        (
            "label,parent\ncat,\ncat,b\n",
            r":3: 'cat' has two parents, the root \(line 2\) and 'b' \(line 3\)",
        ),
        ("label,parent\ncat,a\n,b\n", r"tree.txt:3: the row has no label"),
        (
            "label,parent\nlion,cats\nsnail,\n",
            r"tree.txt:2: no name .* is a label of the data \('lion, cats, snail'\)",
        ),
        ("label,parent\n", r"no name in the hierarchy"),
        ("cat dog\npersian lion\n", r"tree.txt:2: 'lion' is not a label of the data"),
        ("cat dog\n\npersian cat\n", r"tree.txt: the tree contains 'cat' more than once"),
        ("[[0, 1]]", r"tree.txt: .* contains 0, which is not a label of the data"),
        ('[["cat", "dog"], ["cat"]]', r"tree.txt: the tree contains 'cat' more than once"),
        ('["cat", [], "dog", "persian", "rose"]', r"tree.txt: .* empty list"),
    ],
)
def test_errors_found_with_the_labels(given_tree, pets, content, message):
    with pytest.raises(InputError, match=message):
        given_tree(content).to_tree(pets)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "name,parent\ncat,a\n", r"t.csv:1: the header is 'name,parent', expected the columns"),
        ("t.txt", "  \n", r"t.txt: the file is empty"),
        ("t.txt", b"cat\nd\xffg\n", r"t.txt:2: not valid UTF-8"),
        ("t.json", '{"a": 1}', r"expected nested lists of labels in JSON, got "),
        ("t.txt", "[[0, 1]", r"t.txt:1: not a tree in JSON"),
        ("t.txt", "label,parent\n" + "x" * 140_000 + ",a\n", r"t.txt:2: not a table"),
    ],
)
def test_errors_found_in_the_file(given_tree, name, content, message):
    with pytest.raises(InputError, match=message):
        given_tree(content, name)


def test_errors_without_a_file():
    with pytest.raises(InputError, match=r"'a' has two parents, 'x' \(names\[0\]\) and 'y' \(names\[1\]\)"):
        trees.from_parents(["a", "a"], ["x", "y"], ["a"])
    with pytest.raises(InputError, match="got 1 names and 2 parents"):
        trees.from_parents(["a"], ["x", "y"], ["a"])
    with pytest.raises(InputError, match=r"1 of the 2 labels is missing from the tree \('b'\)"):
        trees.from_parents(["a"], ["x"], ["a", "b"])


# The command line


def test_train_with_a_hierarchy(run, folder, tmp_path):
    tree = tmp_path / "tree.tsv"
    rows = [f"{label}\t{'even' if label % 2 == 0 else 'odd'}" for label in range(40)]
    tree.write_text("\n".join(["label\tparent", *rows, "unused\teven"]))
    options = ["--tree", tree, "--json"]
    code, out, err = run("estimate", folder / "train.svm", *options)
    assert code == 0
    assert err == (
        "note: 1 of the 43 names in the hierarchy are not labels of the data and have no labels below them; "
        "they are ignored.\n"
    )
    planned = json.loads(out)
    code, out, _ = run("train", folder / "train.svm", tmp_path / "m", *options)
    assert code == 0
    assert json.loads(out)["model_bytes"] == planned["model_bytes"] == disk_bytes(tmp_path / "m")
    model = load(tmp_path / "m")
    assert nested(model.trees[0].tree) == [list(range(0, 40, 2)), list(range(1, 40, 2))]
    assert model.manifest["notes"] == {"tree": str(tree), "tree_form": "parents"}
    assert f"tree {tree}, tree_form parents" in run("info", tmp_path / "m")[1]


def test_missing_labels_on_the_command_line(run, refused, folder, tmp_path):
    tree = tmp_path / "tree.txt"
    tree.write_text("".join(f"{i} {i + 1}\n" for i in range(0, 36, 2)))
    message = refused("train", folder / "train.svm", tmp_path / "m", "--tree", tree)
    assert "4 of the 40 labels are missing from the tree ('36', '37', '38', ...)" in message
    assert not (tmp_path / "m").exists()
    code, out, err = run("estimate", folder / "train.svm", "--tree", tree, "--tree-rest", "--json")
    assert (code, json.loads(out)["nodes"]) == (0, 20)
    assert "note: " in err
    assert "without --tree" in refused("estimate", folder / "train.svm", "--tree-rest")
