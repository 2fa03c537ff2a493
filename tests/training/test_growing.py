"""Trees that are built in parts: the model has the bytes of one run."""

import json
import random

import numpy as np
import pytest
from helpers import contents, make_data, random_data

from labeltree import InputError, build_plan
from labeltree.data.dataset import Dataset
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.growing import grow_part, plan_growing
from labeltree.training.parts import fill_part, join_parts, open_parts


def sparse_data():
    """Data with labels that have no instances, and nodes that need four depths."""
    data = make_data(300, features=100, labels=90)
    Y = data.Y.toarray()
    Y[:, [3, 50, 51]] = 0
    return Dataset.from_matrices(data.X, Y)


def grow_all(work, n_parts, seed=0):
    """Run all parts in random order, again and again; return how many rounds it took."""
    rng = random.Random(seed)
    for n_rounds in range(1, 20):
        order = [*range(1, n_parts + 1), rng.randint(1, n_parts)]
        rng.shuffle(order)
        if 0 in [grow_part(work, part, n_parts, threads=1) for part in order]:
            return n_rounds
    raise AssertionError("no end")


@pytest.mark.parametrize("clusters", [3, 4, 100])
@pytest.mark.parametrize("n_parts", [1, 3, 40])
def test_trees_built_in_parts_give_the_bytes_of_one_run(tmp_path, clusters, n_parts):
    data, settings = sparse_data(), TreeSettings(clusters=clusters, max_depth=5, trees=2, seed=3)
    solver, storage = SolverSettings(positive_cost=2.0), StorageSettings("int8")
    plan = build_plan(data, settings, solver, storage, normalize=False, threads=2)
    train_model(data, plan, tmp_path / "at-once", notes=settings.notes())
    plan_growing(data, tmp_path / "work", settings, solver, storage)
    n_rounds = grow_all(tmp_path / "work", n_parts)
    assert n_rounds <= 5
    assert n_parts > 1 or n_rounds == 1
    grown = open_parts(tmp_path / "work")[1]
    for part, expected in zip(grown.trees, plan.trees, strict=True):
        for name in ("instances", "nonzeros", "used_features"):
            np.testing.assert_array_equal(getattr(part, name), getattr(expected, name))
    assert fill_part(tmp_path / "work") == 0
    join_parts(tmp_path / "work", tmp_path / "m")
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")


def test_another_number_of_parts_uses_what_is_done(tmp_path):
    data, settings = sparse_data(), TreeSettings(clusters=3)
    plan_growing(data, tmp_path / "work", settings)
    assert grow_part(tmp_path / "work", 2, 4) == 1  # the root is the first part's
    assert grow_part(tmp_path / "work", 1, 4) > 0
    before = contents(tmp_path / "work")
    assert grow_part(tmp_path / "work") == 0
    after = contents(tmp_path / "work")
    assert before.items() <= after.items()
    tree = open_parts(tmp_path / "work")[1].trees[0].tree
    plan = build_plan(data, settings, normalize=False)
    np.testing.assert_array_equal(tree.children, plan.trees[0].tree.children)


def test_the_commands(tmp_path, folder, run, refused):
    options = ["--clusters", "5", "-q"]
    work = tmp_path / "work"
    assert run("plan", folder / "train.svm", work, "--grow", *options)[0] == 0
    assert "the trees are not complete; run `labeltree grow` again" in refused("fill", work)
    assert "the trees are not complete" in refused("join", work, tmp_path / "m")
    code, out, _ = run("info", work)
    assert code == 0
    complete = []
    for part in ("2/2", "1/2", "2/2", "1/2", "2/2", "1/2"):
        code, out, _ = run("grow", work, "--part", part, "--json")
        assert code == 0
        complete.append(json.loads(out)["missing"] == 0)
    assert not complete[0]
    assert complete[-1]
    code, out, _ = run("grow", work)
    assert (code, out) == (0, "the trees are complete; labeltree fill trains them\n")
    assert run("fill", work, "-q")[0] == 0
    assert run("join", work, tmp_path / "m", "-q")[0] == 0
    assert contents(tmp_path / "m") == contents(folder / "model")


def test_what_cannot_be_grown(tmp_path, folder, refused):
    data = random_data()
    with pytest.raises(InputError, match="a given tree is not built"):
        plan_growing(data, tmp_path / "work", TreeSettings(tree=build_plan(data).trees[0].tree))
    assert list(tmp_path.iterdir()) == []
    assert "no such directory" in refused("grow", tmp_path / "nowhere")
    assert "not a work directory" in refused("grow", folder / "model")
    assert "such as 3/8" in refused("grow", tmp_path, "--part", "3")
