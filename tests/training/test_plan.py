"""The plan: counts against a dense twin, the paper's figures, and plan bytes = file bytes."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from helpers import examples, node_problems, random_data
from hypothesis import given
from hypothesis import strategies as st

from labeltree import InputError
from labeltree.data.dataset import Dataset
from labeltree.data.synthetic import synthesize
from labeltree.explain.overview import one_vs_rest_bytes
from labeltree.settings import SolverSettings, StorageSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import INTERPRETER_BYTES, make_plan
from labeltree.trees.kmeans import build_tree
from labeltree.trees.tree import LabelTree


def usage_twin(data, tree):
    problems = [node_problems(data, tree, u) for u in range(tree.n_nodes)]
    return (
        [len(rows) for rows, *_ in problems],
        [np.count_nonzero(x) for _, x, *_ in problems],
        [len(features) for _, _, features, _ in problems],
    )


@given(
    seed=st.integers(0, 10**6),
    clusters=st.integers(2, 5),
    density=st.sampled_from([0.02, 0.2]),
    features=st.sampled_from([3, 63, 64, 65, 700]),
    threads=st.integers(1, 3),
)
@examples(40)
def test_counts_equal_their_twin(seed, clusters, density, features, threads):
    data = random_data(seed, features=features, density=density, labels=15)
    tree = build_tree(data, clusters=clusters, seed=seed)
    part = make_plan(data, tree, threads=threads).trees[0]
    instances, nonzeros, used = usage_twin(data, tree)
    assert part.instances.tolist() == instances
    assert part.nonzeros.tolist() == nonzeros
    assert part.used_features.tolist() == used


def test_a_feature_that_cancels_is_used():
    """Its sum over a label's instances is 0, yet both of them have it."""
    data = Dataset.from_matrices([[1, 5, 0], [-1, 0, 0], [0, 0, 2]], [[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    part = make_plan(data, LabelTree.from_nested([[0, 1], 2])).trees[0]
    assert part.used_features.tolist() == [3, 2]


@pytest.mark.parametrize("bias", [True, False])
def test_formulas_of_the_paper(bias):
    data = random_data(1, features=80, density=0.05, labels=15)
    tree = build_tree(data, clusters=3)
    plan = make_plan(data, tree, SolverSettings(bias=float(bias)))
    _, _, used = usage_twin(data, tree)
    weights = sum(f * r for f, r in zip(used, tree.child_count.tolist(), strict=True))
    assert used[0] < 80  # n counts the features that occur
    assert used[0] == np.count_nonzero(data.X.getnnz(axis=0))
    assert plan.n_weights == plan.trees[0].n_weights == weights
    assert plan.paper_tree_bytes == 12 * weights
    assert plan.paper_ovr_bytes == 8 * used[0] * 15
    assert plan.ratio == pytest.approx(1.5 * weights / (used[0] * 15))
    assert plan.trees[0].layout.feature_ptr.tolist() == np.cumsum([0, *(f + bias for f in used)]).tolist()
    blocks = [(f + bias) * r for f, r in zip(used, tree.child_count.tolist(), strict=True)]
    assert plan.trees[0].layout.weight_ptr.tolist() == np.cumsum([0, *blocks]).tolist()
    twice = make_plan(data, [tree, tree], SolverSettings(bias=float(bias)))
    assert twice.n_weights == 2 * weights
    assert twice.paper_ovr_bytes == plan.paper_ovr_bytes
    assert twice.ratio == pytest.approx(2 * plan.ratio)


def test_one_vs_rest_has_one_and_a_half_times_the_papers_size():
    """12 bytes a weight against 8, for the same n x L weights."""
    data = random_data(1, features=80, density=0.05)
    plan = make_plan(data, build_tree(data, max_depth=1))
    assert plan.ratio == pytest.approx(1.5)
    assert plan.to_dict()["alpha"] == []


SHRINKING = np.arange(8) < np.array([[2], [4], [8], [0]])


@pytest.mark.parametrize(
    ("x", "nested", "used", "alpha"),
    [
        (SHRINKING, [[[0, 3], 1], 2], [8, 4, 2], [4 / 8, 2 / 4]),  # of the parent's features
        # The labels without instances have a node of their own, which uses no features.
        (np.eye(4), [[0, 1], [2, 3], [*range(4, 10)]], [4, 2, 2, 0], [0.5]),
        (np.zeros((4, 4)), [[0, 1], [2, 3], [*range(4, 10)]], [0, 0, 0, 0], [None]),
    ],
)
def test_alpha_is_that_of_nodes_with_features(x, nested, used, alpha):
    tree = LabelTree.from_nested(nested)
    plan = make_plan(Dataset.from_matrices(x.astype(float), np.eye(4, tree.n_labels)), tree)
    assert plan.trees[0].used_features.tolist() == used
    assert plan.to_dict()["alpha"] == alpha
    assert plan.depths()[1]["children"] == tree.child_count[tree.node_depth == 1].sum()


def disk_bytes(path):
    return {
        str(file.relative_to(path)): file.stat().st_size
        for file in path.rglob("*")
        if file.is_file() and file.name != "manifest.json"
    }


@given(
    seed=st.integers(0, 10**6),
    trees=st.integers(1, 3),
    bias=st.sampled_from([0, 1.0]),
    names=st.booleans(),
    labels=st.integers(1, 40),
    density=st.sampled_from([0.0, 0.05, 0.5]),
    max_depth=st.integers(1, 5),
)
@examples(25)
def test_plan_bytes_are_file_bytes(seed, trees, bias, names, labels, density, max_depth):
    data = random_data(seed, instances=20, features=12, labels=labels, names=names, density=density)
    built = [build_tree(data, clusters=3, max_depth=max_depth, seed=seed + t) for t in range(trees)]
    plan = make_plan(data, built, SolverSettings(bias=bias))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model = train_model(data, plan, path)
        assert plan.files() == disk_bytes(path)
        assert plan.model_bytes == sum(disk_bytes(path).values()) == model.bytes
    one_vs_rest = make_plan(data, build_tree(data, max_depth=1), SolverSettings(bias=bias))
    assert plan.ovr_bytes == one_vs_rest.model_bytes == one_vs_rest_bytes(model)
    assert plan.ovr_ratio == plan.model_bytes / one_vs_rest.model_bytes


def test_the_report_has_the_keys_that_scripts_rely_on():
    data = random_data()
    tree = build_tree(data, clusters=3)
    report = make_plan(data, [tree, tree.clip(1)]).to_dict()
    assert set(report) >= {
        *("instances", "features", "labels", "nodes", "depth", "weights", "model_bytes"),
        *("ovr_bytes", "ovr_ratio"),
        *("paper_tree_bytes", "paper_ovr_bytes", "ratio", "training_memory_bytes"),
    }
    assert (report["instances"], report["features"], report["labels"]) == (60, 30, 12)
    assert (report["nodes"], report["depth"], report["trees"]) == (tree.n_nodes + 1, tree.depth, 2)


def test_data_without_features_has_a_report():
    plan = make_plan(Dataset.from_matrices(np.zeros((3, 4)), np.eye(3)), LabelTree.from_nested([0, [1, 2]]))
    report = plan.to_dict()
    assert (report["weights"], report["ratio"], report["bytes_per_weight"]) == (0, 0, None)


def test_trees_that_do_not_fit_the_data_are_refused():
    with pytest.raises(InputError, match="the tree has 3 labels, but the data has 12"):
        make_plan(random_data(), LabelTree.from_nested([0, 1, 2]))
    with pytest.raises(InputError, match="no tree is given"):
        make_plan(random_data(), [])


def test_too_little_memory(tmp_path, monkeypatch):
    data = random_data()
    plan = make_plan(data, build_tree(data, clusters=3))
    plan.check_resources(tmp_path / "model", plan.training_memory_bytes)
    with pytest.raises(
        InputError, match=r"training needs .* only 1.0 MB can be used; use a machine with more memory"
    ):
        plan.check_resources(tmp_path / "model", 10**6)
    with pytest.raises(InputError, match=r"use fewer clusters .* threads=1, or raise memory_limit"):
        plan.check_resources(tmp_path / "model", INTERPRETER_BYTES + plan.data_bytes)
    monkeypatch.setattr("labeltree.training.plan.usable_memory", lambda: 1234)
    with pytest.raises(InputError, match=r"but only 1\.2 kB can be used"):
        plan.check_resources(tmp_path / "model")
    plan.check_resources(tmp_path / "model", 2**40)  # a limit given by the user is believed


@pytest.mark.parametrize("like", ["eur-lex", "amazon-670k"])
def test_fewer_clusters_need_less_memory_and_disk(like):
    data, _ = synthesize(like, 0.1 if like == "eur-lex" else 0.005)
    many, few = (make_plan(data, build_tree(data, clusters=k, threads=1), threads=1) for k in (100, 30))
    assert many.training_memory_bytes > few.training_memory_bytes
    assert many.model_bytes > few.model_bytes


def test_the_suggested_number_of_threads_fits(tmp_path, monkeypatch):
    # That of the trial does not depend on the threads.
    monkeypatch.setattr("labeltree.training.plan.TRIAL_ROW_BYTES", (0, 0))
    data = random_data()
    tree = build_tree(data, clusters=3)
    needed = [make_plan(data, tree, threads=n).training_memory_bytes for n in (1, 2, 3)]
    plan = make_plan(data, tree, threads=3)
    for memory, fitting in ((needed[0], 1), (needed[1] - 1, 1), (needed[1], 2), (needed[2] - 1, 2)):
        with pytest.raises(InputError, match=f"use threads={fitting}, which fits"):
            plan.check_resources(tmp_path / "model", memory)


def test_too_little_disk(tmp_path, monkeypatch):
    data = random_data()
    plan = make_plan(data, build_tree(data, clusters=3))
    monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path: plan.model_bytes)
    plan.check_resources(tmp_path / "model", 2**40)
    monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path: plan.model_bytes - 1)
    weights = "are free on this disk; use weights='int8', which fits, or prune, or fewer clusters with a"
    with pytest.raises(InputError, match=rf"the model takes .* {weights}"):
        plan.check_resources(tmp_path / "model", 2**40)
    small = make_plan(data, plan.trees[0].tree, storage=StorageSettings("int8"))
    monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path: small.model_bytes)
    small.check_resources(tmp_path / "model", 2**40)
    with pytest.raises(InputError, match="use weights='int8', which fits, or prune"):
        plan.check_resources(tmp_path / "model", 2**40)
    monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path: small.model_bytes - 1)
    for too_large in (small, plan):
        with pytest.raises(InputError, match=r"disk; use prune, or fewer clusters with a larger max_depth$"):
            too_large.check_resources(tmp_path / "model", 2**40)


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("fitting", [1, 2])
def test_the_suggested_number_of_trees_fits(tmp_path, monkeypatch, names, fitting):
    data = random_data(names=names)
    trees = [build_tree(data, clusters=3, seed=s) for s in range(3)]
    sizes = [make_plan(data, trees[:n]).model_bytes for n in (1, 2, 3)]
    plan = make_plan(data, trees)
    for disk in (sizes[fitting - 1], sizes[fitting] - 1):
        monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path, disk=disk: disk)
        with pytest.raises(InputError, match=f"prune, or trees={fitting}, which fits$"):
            plan.check_resources(tmp_path / "model", 2**40)
    monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path: sizes[0] - 1)
    with pytest.raises(InputError, match="or fewer clusters"):
        plan.check_resources(tmp_path / "model", 2**40)


def test_the_planned_memory_covers_strips_of_one_node_side_by_side(monkeypatch):
    monkeypatch.setattr("labeltree.training.tree_plan.STRIP_BYTES", strip := 64 * 31)
    data = random_data(labels=200)
    part = make_plan(data, build_tree(data, max_depth=1)).trees[0]
    lines = 64 * (31 + data.n_instances)  # what the solver holds of each feature and each instance
    one, two = (part.training_bytes(threads, precise=False) for threads in (1, 2))
    assert two - one >= strip + lines
    few = make_plan(data, build_tree(data, clusters=200)).trees[0]
    assert few.training_bytes(2, precise=False) > few.training_bytes(1, precise=False)


@pytest.mark.parametrize("threads", [-1, 0, 2000, True, 2.5, "2"])
def test_threads_have_one_limit_everywhere(threads):
    data = random_data()
    with pytest.raises(InputError, match="threads is"):
        make_plan(data, build_tree(data, clusters=3), threads=threads)
    with pytest.raises(InputError, match="threads is"):
        build_tree(data, clusters=3, threads=threads)
