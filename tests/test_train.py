"""Training: what it refuses before it begins."""

import numpy as np
import pytest
from helpers import random_data

from labeltree import InputError
from labeltree.clustering import build_tree
from labeltree.plan import make_plan
from labeltree.train import SolverSettings, train_model


def train(tmp_path, data, tree, costs=None, threads=2, name="model", **options):
    options = {"tolerance": 1e-6, "max_iterations": 20_000, **options}
    chosen = SolverSettings(**options)
    plan = make_plan(data, tree, bias=chosen.bias != 0, threads=threads)
    return train_model(data, plan, tmp_path / name, chosen, costs=costs)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loss": "l1"}, "loss must be one of squared_hinge, hinge, logistic, but got 'l1'"),
        ({"cost": 0}, "cost must be greater than 0, but got 0"),
        ({"cost": float("nan")}, "cost must be greater than 0, but got nan"),
        ({"cost": float("inf")}, "cost must be .* but got inf"),
        ({"cost": 1e39}, "cost must be from 1e-15 to 1e\\+15 .* but got cost 1e\\+39"),
        ({"cost": 1e-50}, "cost must be from 1e-15 to 1e\\+15 .* but got cost 1e-50"),
        ({"bias": 1e20}, "bias at most as large, but got cost 1 and bias 1e\\+20"),
        ({"tolerance": -1}, "tolerance must be greater than 0, but got -1"),
        ({"bias": -1}, "bias must be 0 or greater, but got -1"),
        ({"bias": float("inf")}, "bias must be .* but got inf"),
        ({"max_iterations": 0}, "max_iterations must be at least 1, but got 0"),
        ({"seed": -1}, "seed must be 0 or greater, but got -1"),
    ],
)
def test_bad_settings_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        SolverSettings(**options)


@pytest.mark.parametrize(
    "costs",
    [np.ones(59), np.ones((60, 1)), np.zeros(60), -np.ones(60), np.full(60, np.nan), np.full(60, np.inf)],
)
def test_bad_costs_are_refused(tmp_path, costs):
    data = random_data()
    with pytest.raises(InputError, match="costs must be one positive number for each of the 60 instances"):
        train(tmp_path, data, build_tree(data), costs=costs)
    assert not list(tmp_path.iterdir())


def test_a_plan_with_another_bias_is_refused(tmp_path):
    data = random_data()
    plan = make_plan(data, build_tree(data), bias=False)
    with pytest.raises(InputError, match="disagree on whether there is a bias"):
        train_model(data, plan, tmp_path / "model")


@pytest.mark.parametrize("other", [{"labels": 13}, {"instances": 61}, {"features": 10}])
def test_a_plan_of_data_of_another_shape_is_refused(tmp_path, other):
    plan = make_plan(random_data(), build_tree(random_data(), clusters=3))
    with pytest.raises(InputError, match="The plan was made for data of another shape"):
        train_model(random_data(**other), plan, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_plan_of_other_data_is_refused(tmp_path):
    plan = make_plan(random_data(), build_tree(random_data(), clusters=3))
    with pytest.raises(ValueError, match="the plan was made for other data"):
        train_model(random_data(1, density=0.05), plan, tmp_path / "model")
    assert not list(tmp_path.iterdir())
