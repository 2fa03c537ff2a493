"""Training: what it refuses before it begins."""

import numpy as np
import pytest
from helpers import random_data, run_python, train_small

from labeltree import InputError
from labeltree.settings import ModelSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import make_plan
from labeltree.training.train import train_dataset
from labeltree.trees.kmeans import build_tree


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "l1"}, "loss is 'l1', expected one of squared_hinge, hinge, logistic"),
        ({"cost": 0}, "cost is 0, expected "),
        ({"cost": float("nan")}, "cost is nan, expected "),
        ({"cost": float("inf")}, "cost is inf, expected"),
        ({"cost": 1e39}, "cost is 1e\\+39, expected None or a number from 1e-15"),
        ({"cost": 1e-50}, "cost is 1e-50, expected None or a number from 1e-15"),
        ({"bias": 1e20}, "bias is 1e\\+20, expected"),
        ({"tolerance": -1}, "tolerance is -1, expected "),
        ({"bias": -1}, "bias is -1, expected "),
        ({"bias": float("inf")}, "bias is inf, expected"),
        ({"max_iterations": 0}, "max_iterations is 0, expected "),
        ({"seed": -1}, "seed is -1, expected "),
        ({"cost": 1, "max_cost": 0.5}, r"the largest cost is 0\.5, less than the cost, 1"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        SolverSettings(**options)


@pytest.mark.parametrize(
    "costs",
    [np.ones(59), np.ones((60, 1)), np.zeros(60), -np.ones(60), np.full(60, np.nan), np.full(60, np.inf)],
)
def test_bad_costs_are_refused(tmp_path, costs):
    data = random_data()
    with pytest.raises(InputError, match=r"costs to be .*positive number"):
        train_small(tmp_path / "model", data, costs=costs)
    assert not list(tmp_path.iterdir())


def test_weights_of_rows_are_refused_with_dask(tmp_path):
    with pytest.raises(InputError, match="weights cannot be trained with Dask"):
        train_dataset(random_data(), tmp_path / "model", ModelSettings(), costs=np.ones(60), dask=object())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("other", [{"labels": 13}, {"instances": 61}, {"features": 10}, {"seed": 1}])
def test_a_plan_of_other_data_is_refused(tmp_path, other):
    plan = make_plan(random_data(), build_tree(random_data(), clusters=3))
    what = "other data" if "seed" in other else "data of a different shape"
    with pytest.raises(InputError, match=f"the plan was made for {what}"):
        train_model(random_data(**{"density": 0.05, **other}), plan, tmp_path / "model")
    assert not list(tmp_path.iterdir())


WIDE = """
import sys
from helpers import random_data
from labeltree import build_tree, make_plan, train_model
from labeltree.settings import ModelSettings, SolverSettings

data = random_data(instances=200, labels=60)
# Groups of few, of more and of the most siblings that are solved at once.
trees = [build_tree(data, clusters=clusters) for clusters in (3, 12, 40)]
for loss in ("squared_hinge", "hinge"):
    for tolerance in (0.005, 0.00005):  # floats, and doubles
        settings = SolverSettings(loss=loss, tolerance=tolerance, positive_cost=2)
        train_model(data, make_plan(data, trees, settings, threads=1), f"{sys.argv[1]}/{loss}-{tolerance}")
"""


def test_wider_vectors_give_the_same_weights(tmp_path):
    """Where the CPU has no AVX-512, both processes do the same."""
    found = []
    for name, environment in (("default", {}), ("avx2", {"LABELTREE_SIMD": "avx2"})):
        (tmp_path / name).mkdir()
        run_python(WIDE, tmp_path / name, **environment)
        found.append(
            {f.relative_to(tmp_path / name): f.read_bytes() for f in (tmp_path / name).rglob("weights.npy")}
        )
    assert len(found[0]) == 12
    assert found[0] == found[1]
