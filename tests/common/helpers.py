"""Small data with all that is awkward in real ones, small models, and dense twins of what a node sees."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse

from labeltree import InputError, _native
from labeltree.base.paths import format_of
from labeltree.data.columns import Columns
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import open_data
from labeltree.data.records import Documents
from labeltree.model.model import load
from labeltree.training.fill import train_model
from labeltree.training.plan import make_plan
from labeltree.trees.kmeans import build_tree

PATIENCE = 600  # seconds to wait for what always comes, however busy the machine is
TREE_FILES = ("child_ptr", "children", "feature_ptr", "features", "weights", "checksums")


def examples(count):
    """Choose the number of examples of a law, in percent of the default; `make fuzz` tries more."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 100))


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
        return np.arange(data.n_instances)
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


def run_python(script, *arguments, **environment):
    """Run a Python script, which may import from the tests; its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_portable(script, *arguments):
    """Run a Python script without the wide instructions; its standard output."""
    return run_python(script, *arguments, LABELTREE_SIMD="portable")


def train_small(path, data=None, trees=2, threads=1, settings=None, **options):
    """Train a small model on small data."""
    data = random_data(names=True) if data is None else data
    built = [build_tree(data, clusters=3, seed=s) for s in range(trees)]
    return train_model(data, make_plan(data, built, settings, threads=threads), path, **options)


def make_data(rows, features=60, labels=40, seed=0):
    random = np.random.default_rng(seed)
    first = random.integers(labels, size=rows)
    Y = sparse.lil_matrix((rows, labels))
    X = sparse.lil_matrix((rows, features))
    for i, label in enumerate(first):
        Y[i, [label, (label + random.integers(3)) % labels]] = 1
        X[i, [label, (label * 7) % features, random.integers(features)]] = random.random(3) + 0.5
    return Dataset.from_matrices(X, Y)


def shell(*arguments, **options):
    """Start a command that hears Ctrl-C, even if the tests do not, as in `make test &`."""
    command = [sys.executable, "-m", "labeltree", *map(str, arguments)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"} | options
        return subprocess.Popen(command, **options)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c():
    """Yield a function that asks for Ctrl-C at the next moment at which this thread releases the GIL.

    Called just before a kernel, or from its progress callback, it interrupts the kernel: no timer decides.
    """
    due = threading.Event()

    def interrupt():
        due.wait()
        signal.raise_signal(signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler), sys.getswitchinterval()
    sys.setswitchinterval(1000)  # seconds: no other thread takes the GIL while this one holds it
    sender.start()
    try:
        yield due.set
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        due.set()
        sender.join()
        signal.signal(signal.SIGINT, before[0])
        sys.setswitchinterval(before[1])


def disk_bytes(model):
    return sum(f.stat().st_size for f in model.rglob("*") if f.is_file() and f.name != "manifest.json")


def flipped(content):
    """Return bytes whose last one differs in one bit."""
    return content[:-1] + bytes([content[-1] ^ 1])


def contents(model):
    return {f.relative_to(model): f.read_bytes() for f in model.rglob("*") if f.is_file()}


def refused_model(path, fragment=r"\w"):
    """Check that opening a model fails with one line that names it."""
    with pytest.raises(InputError, match=fragment) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message


class Killed(BaseException):
    """Raised instead of killing the process: nothing after it is run but what a kernel would do."""


@contextmanager
def killed_after(monkeypatch, n_strips):
    """Training in this context trains some strips of a tree, then stops as if killed."""
    train = _native.train_strips

    def stop(*arguments, strips, **options):
        train(*arguments, strips=strips[:n_strips], **options)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("labeltree.training.fill._native.train_strips", stop)
        with pytest.raises(Killed):
            yield


def read_text(path, format=None, columns=None, *, require_labels=True, strict=False, progress=None):
    """Return the documents of files, one at a time."""
    options = {"require_labels": require_labels, "strict": strict, "progress": progress}
    return iter(Documents([str(path)], format or format_of(path), columns or Columns(), **options))


def read_documents(
    path, format=None, columns=None, *, settings=None, features=None, threads=None, progress=None, **options
):
    """Read files of documents whose columns are given as one object."""
    like = None if features is None else SimpleNamespace(text=features, path=None)
    if columns is not None:
        given = {**vars(columns), "separator": columns.separators}
        del given["separators"]
        options |= {name: value for name, value in given.items() if value != getattr(Columns(), name, None)}
    paths = [Path(name) for name in path] if isinstance(path, list | tuple) else Path(path)
    source = open_data(paths, format=format, like=like, **options)
    return source.dataset(settings, like=like, threads=threads, progress=progress)
