"""Compare accepted labels with those of LibMultiLabel's one-vs-rest models with thresholding.

    python benchmarks/thresholding.py PYTHON DATA... [--rows 8000] [--labels 150] [--seed 0]

PYTHON is that of an environment with LibMultiLabel, DATA directories with train.svm and test.svm. Both
libraries are trained on the same random rows of the training file, restricted to its most frequent labels,
because thresholding trains several models per label. labeltree uses the threshold that its training chooses,
for a tree and for one-vs-rest. Figures are of the rows of the test file that have one of these labels.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

# Runs in the other environment: trains, and saves the accepted labels.
PEER = """
import sys, time
import numpy as np, scipy.sparse as sp
from libmultilabel import linear
folder = sys.argv[1]
X, Y, T = (sp.load_npz(f"{folder}/{name}.npz") for name in ("X", "Y", "T"))
# Version 0.10.0 counts the instances of each label by summing over axis 2, which SciPy refuses.
total = sp.csc_matrix.sum
sp.csc_matrix.sum = lambda self, axis=None, **more: total(self, axis=0 if axis == 2 else axis, **more)
np.random.seed(0)
start = time.perf_counter()
model = linear.train_thresholding(Y, X.astype(float), options="-s 1 -B 1", verbose=False)
seconds = time.perf_counter() - start
T = T.astype(float)
values = np.concatenate([linear.predict_values(model, T[i : i + 500]) for i in range(0, T.shape[0], 500)])
sp.save_npz(f"{folder}/accepted.npz", sp.csr_matrix(values > 0))
print(seconds)
"""


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("python", type=Path)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--labels", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def figures(truth: sp.csr_matrix, accepted: sp.csr_matrix) -> list[float]:
    """Return micro F1, macro F1 and the share of rows without an accepted label, in percent."""
    right = truth.multiply(accepted)
    hits, true, found = (np.asarray(m.sum(axis=0)).ravel() for m in (right, truth, accepted))
    macro = 2 * hits / np.maximum(1, true + found)
    empty = np.mean(np.diff(sp.csr_matrix(accepted).indptr) == 0)
    return [100 * x for x in (2 * hits.sum() / (true.sum() + found.sum()), macro.mean(), empty)]


def ours(train, queries, depth: int) -> tuple[sp.csr_matrix, float]:
    """Train labeltree; return the labels that it accepts, and the seconds of training."""
    import labeltree
    from labeltree.model.ranker import as_matrix
    from labeltree.settings import MAX_ACCEPTED

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        train = train.normalize()
        tree = labeltree.build_tree(train, max_depth=depth)
        model = labeltree.train_model(
            train, labeltree.make_plan(train, tree), Path(folder) / "model", sync=False
        )
        seconds = time.perf_counter() - start
        top = min(MAX_ACCEPTED, train.n_labels)
        labels, scores = model.decision.accept(*model.predict(queries, top=top))
        return as_matrix(labels, scores, train.n_labels) > 0, seconds


def compare(python: Path, folder: Path, n_rows: int, n_labels: int, seed: int) -> None:
    """Print one table."""
    import labeltree
    from labeltree.data.inputs import read_data

    data = labeltree.read_svm(folder / "train.svm")
    test = read_data(folder / "test.svm", like=data)
    test = test.align(data.label_names, data.n_labels)
    counts = np.asarray(data.Y.sum(axis=0)).ravel()
    labels = np.sort(np.argsort(-counts, kind="stable")[:n_labels])
    X, Y = data.X, sp.csr_matrix(data.Y[:, labels])
    rows = np.flatnonzero(np.diff(Y.indptr))
    rows = np.sort(np.random.default_rng(seed).permutation(rows)[:n_rows])
    X, Y = X[rows], sp.csr_matrix(Y[rows])
    truth = sp.csr_matrix(test.Y[:, labels])
    seen = np.flatnonzero(np.diff(truth.indptr))
    truth, queries = truth[seen], test.X[seen]
    queries = sp.csr_matrix((queries.data, queries.indices, queries.indptr), shape=(len(seen), X.shape[1]))
    train = labeltree.Dataset.from_matrices(X, Y)
    found = {"labeltree, tree": ours(train, queries, 6), "labeltree, one-vs-rest": ours(train, queries, 1)}
    with tempfile.TemporaryDirectory() as place:
        for name, matrix in (("X", X), ("Y", Y.astype(float)), ("T", queries)):
            sp.save_npz(Path(place, f"{name}.npz"), sp.csr_matrix(matrix))
        done = subprocess.run([python, "-c", PEER, place], check=True, stdout=subprocess.PIPE, text=True)
        accepted = sp.load_npz(Path(place, "accepted.npz"))
        found["LibMultiLabel, thresholding"] = accepted, float(done.stdout.split()[-1])
    print(f"{folder.name}: {len(rows):,} training rows, {n_labels} labels, {len(seen):,} test rows")
    print(f"{'':<28} {'micro F1':>9} {'macro F1':>9} {'% empty':>8} {'train s':>8}")
    for name, (accepted, seconds) in found.items():
        micro, macro, empty = figures(truth, accepted)
        print(f"{name:<28} {micro:9.2f} {macro:9.2f} {empty:8.1f} {seconds:8.1f}")


def main() -> None:
    """Compare on each dataset."""
    options = parse_arguments()
    for folder in options.data:
        compare(options.python, folder, options.rows, options.labels, options.seed)


if __name__ == "__main__":
    sys.exit(main())
