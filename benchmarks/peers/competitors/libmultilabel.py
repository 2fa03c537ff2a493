"""LibMultiLabel's linear tree; its predictions are dense, so batches have 500 rows."""

import time
from pathlib import Path

import numpy as np
import psutil
from libmultilabel import linear
from libmultilabel.linear import tree
from measure import TOP, load_matrix

DISTRIBUTION = "libmultilabel"
SINGLE_ROWS = 50  # tens of milliseconds each
CHUNK = 500


def load(folder):
    # Its own reader returns float64.
    return load_matrix(folder, "Y"), load_matrix(folder, "X").astype(np.float64)


def train(data, path, threads, options):
    np.random.seed(0)  # noqa: NPY002 - the library uses the global state
    psutil.cpu_count = lambda logical=True: threads  # determines its number of threads
    parts = {}
    build = tree._build_tree
    start = time.perf_counter()

    def build_timed(*arguments):
        root = build(*arguments)
        parts["tree_s"] = time.perf_counter() - start  # overwritten until the outermost call returns
        return root

    tree._build_tree = build_timed
    model = linear.train_tree(*data, options=options.get("options", ""), verbose=False)
    return model, parts


def save(model, path):
    linear.save_pipeline(str(path), None, model)
    return model


def queries(X):
    return X.astype(np.float64)


def batch(model, queries, threads):
    found = []
    for first in range(0, queries.shape[0], CHUNK):
        scores = model.predict_values(queries[first : first + CHUNK])
        best = np.argpartition(-scores, min(TOP, scores.shape[1] - 1), axis=1)[:, :TOP]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(best, order, axis=1))
    return found


def top(found):
    return np.concatenate(found)


def single(model):
    return lambda row: np.argsort(-model.predict_values(row)[0])[:TOP]


def file_to_read(folder):
    return Path(folder, "train.svm")


def read(path, threads):
    return linear.load_dataset("svm", str(path))
