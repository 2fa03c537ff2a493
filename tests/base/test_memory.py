"""Training takes the memory that the plan says, however large the model."""

import json
import subprocess
import sys

import pytest
from helpers import random_data

from labeltree import build_tree, make_plan

START = """
import json, sys
import numpy as np, scipy.sparse as sp
from labeltree import Dataset, SolverSettings, StorageSettings, build_tree, make_plan, train_model
from labeltree.base.system import peak_memory

random, solver = np.random.default_rng(0), None
"""
LARGE = """
X = sp.random(400, 40_000, 0.02, "csr", np.float32, random)
Y = sp.csr_matrix((np.ones(1600, np.float32), (random.integers(0, 400, 1600), np.arange(1600))), (400, 1600))
settings = {"max_depth": 1}
"""
WIDE = """
few = sp.random(300, 500, 0.05, "csr", np.float32, random)
X = sp.csr_matrix((few.data, few.indices.astype(np.int64) * 4000, few.indptr), (300, 2_000_000))
Y = sp.csr_matrix((np.ones(300, np.float32), (np.arange(300), random.integers(0, 40, 300))), (300, 40))
settings = {"clusters": 4}
"""
HARD = """
X = sp.random(40_000, 300, 0.03, "csr", np.float32, random)
labels = random.integers(0, 2000, 40_000)
Y = sp.csr_matrix((np.ones(40_000, np.float32), labels, np.arange(40_001)), (40_000, 2000))
settings, solver = {"clusters": 12}, SolverSettings(hard_negatives=20, tolerance=0.5, max_iterations=2)
"""
END = """
data = Dataset.from_matrices(X, Y)
tree = build_tree(data, **settings)
plan = make_plan(data, tree, solver, StorageSettings(**json.loads(sys.argv[2])), threads=1)
model = train_model(data, plan, sys.argv[1])
large = make_plan(data, tree, threads=1)
print(json.dumps([peak_memory(), plan.training_memory_bytes, large.training_memory_bytes, large.model_bytes]))
"""


def measured(made, place, storage):
    """Train in a process; return its peak memory, the plans with and without storage, and the bytes."""
    command = [sys.executable, "-c", START + made + END, str(place / "model"), json.dumps(storage)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize(
    "storage", [{}, {"weights": "float16"}, {"weights": "int8"}, {"prune": 0.1}, {"prune": 0}]
)
def test_training_takes_no_more_memory_than_planned_though_the_model_is_larger(tmp_path, storage):
    peak, planned, planned_large, model = measured(LARGE, tmp_path, storage)
    assert peak <= planned <= planned_large < model


def test_columns_that_no_instance_uses_are_planned_for(tmp_path):
    peak, planned, *_ = measured(WIDE, tmp_path, {})
    assert peak <= planned


@pytest.mark.parametrize("storage", [{}, {"prune": 0.1}])
def test_rows_that_are_routed_are_planned_for(tmp_path, storage):
    peak, planned, planned_without, _ = measured(HARD, tmp_path, storage)
    assert planned_without < peak <= planned


def test_nodes_of_different_depths_are_not_clustered_at_the_same_time():
    data = random_data(labels=80, instances=200)
    tree = build_tree(data, clusters=3, threads=2)
    part = make_plan(data, tree, threads=2).trees[0]
    by_depth = [sorted(part.used_features[tree.node_depth == depth]) for depth in range(tree.depth)]
    held = max(sum(features[-2:]) for features in by_depth)
    most = 2 * data.n_features
    assert part.building_bytes(2) == tree.build_bytes - tree.centroid_bytes * (most - held)
    assert 0 < tree.centroid_bytes * most < tree.build_bytes
