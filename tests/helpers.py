"""Small data sets with all that is awkward in real ones, and dense twins of what a node of a tree sees."""

import os
import subprocess
import sys

import numpy as np
from scipy import sparse

from labeltree.data import Dataset


def random_data(
    seed=0, instances=60, features=30, labels=12, density=0.25, empty_label=True, names=False, signed=True
):
    """Random sparse data; instance 0 has no label, 1 no feature, 3 repeats 2; the last label may be idle."""
    rng = np.random.default_rng(seed)
    x = sparse.random(instances, features, density, "csr", rng=rng).toarray()
    if signed:
        x *= rng.choice([-1, 1], x.shape)
    y = rng.random((instances, labels)) < 0.2
    y[np.arange(instances), np.arange(instances) % labels] = True
    x[1] = 0
    x[3], y[3] = x[2], y[2]
    y[0] = False
    if empty_label:
        y[:, -1] = False
    return Dataset.from_matrices(x, y, [f"näme {j}" for j in range(labels)] if names else None)


def topic_data(seed=0, topics=4, labels_each=5, instances_each=12, noise=0.05):
    """Labels of well separated topics: a topic has ten words of its own, a label one more."""
    rng = np.random.default_rng(seed)
    labels = topics * labels_each
    x = np.zeros((labels * instances_each, 10 * topics + labels))
    y = np.zeros((len(x), labels))
    for i in range(len(x)):
        label = i % labels
        topic = label // labels_each
        x[i, 10 * topic : 10 * topic + 10] = 1 + noise * rng.standard_normal(10)
        x[i, 10 * topics + label] = 0.3
        y[i, label] = 1
    return Dataset.from_matrices(x, y)


def node_labels(tree, node):
    """Labels below a node, by walking down."""
    below = []
    for child in tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist():
        below += [~child] if child < 0 else node_labels(tree, child)
    return below


def nested(tree, node=0):
    """A tree as nested lists, children in their order."""
    row = tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist()
    return [~child if child < 0 else nested(tree, child) for child in row]


def node_rows(data, tree, node):
    """Instances that a node trains on: all at the root, else those with one of its labels."""
    if node == 0:
        return np.arange(data.instances)
    return np.flatnonzero(data.Y.toarray()[:, node_labels(tree, node)].any(axis=1))


def node_problems(data, tree, node):
    """Dense rows, features and signs (rows x children) of a node's binary problems."""
    rows = node_rows(data, tree, node)
    x, y = data.X.toarray().astype(np.float64)[rows], data.Y.toarray()[rows] != 0
    features = np.flatnonzero((x != 0).any(axis=0))
    signs = [
        y[:, [~child] if child < 0 else node_labels(tree, child)].any(axis=1)
        for child in tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist()
    ]
    return rows, x[:, features], features, np.where(np.array(signs).T, 1.0, -1.0)


def run_portable(script, *arguments):
    """Run a Python script without the wide instructions; its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "LABELTREE_SIMD": "portable"},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
