"""The benchmark against LIBLINEAR's optimum: a tight model has no excess, a rough one has."""

import numpy as np
import optimum
import pytest
from helpers import random_data

from labeltree import SolverSettings, build_tree, make_plan, train_model, write_svm


def test_excess_of_every_problem(tmp_path):
    data = random_data(0, instances=60, labels=9)
    tree = build_tree(data, clusters=3)
    assert tree.n_nodes > 2
    tight = train_model(data, make_plan(data, tree, SolverSettings(tolerance=1e-10)), tmp_path / "tight")
    found = optimum.sample(data, tight, 1000)
    assert found.size == tree.children.size
    np.testing.assert_allclose(found, 0, atol=1e-5)
    with pytest.warns(UserWarning, match="did not converge"):
        rough = train_model(data, make_plan(data, tree, SolverSettings(max_iterations=1)), tmp_path / "rough")
    assert optimum.sample(data, rough, 1000).max() > 0.01


@pytest.mark.parametrize("more", [[], ["--no-normalize"]])
def test_the_table(tmp_path, monkeypatch, capsys, more):
    write_svm(tmp_path / "train.svm", random_data(0, instances=60, labels=9))
    monkeypatch.setattr("sys.argv", ["optimum.py", str(tmp_path), "--problems", "4", *more])
    optimum.main()
    line = capsys.readouterr().out.splitlines()[1].split()
    assert line[1:3] == ["4", "0"]
    assert float(line[4].rstrip("%")) <= 100 * SolverSettings.tolerance
