"""Training takes the memory that the plan says, however large the model."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import numpy as np, scipy.sparse as sp
from labeltree import Dataset, build_tree, make_plan, train_model
from labeltree.system import peak_memory

random = np.random.default_rng(0)
X = sp.random(400, 40_000, 0.02, "csr", np.float32, random)
Y = sp.csr_matrix((np.ones(2400, np.float32), (random.integers(0, 400, 2400), np.arange(2400))), (400, 2400))
data = Dataset.from_matrices(X, Y)
plan = make_plan(data, build_tree(data, max_depth=1), threads=1)
model = train_model(data, plan, sys.argv[1])
print(json.dumps([peak_memory(), plan.training_memory_bytes, plan.model_bytes]))
"""


def test_training_takes_no_more_memory_than_planned_though_the_model_is_larger(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "model")], check=True, capture_output=True, text=True
    )
    peak, planned, model = json.loads(run.stdout)
    assert peak <= planned < model
