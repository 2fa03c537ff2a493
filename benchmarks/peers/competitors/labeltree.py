"""labeltree, through its Python API; the model is on disk when training ends."""

import time
from pathlib import Path

from measure import TOP, load_matrix

import labeltree

DISTRIBUTION = "labeltree"


def load(folder):
    return load_matrix(folder, "X"), load_matrix(folder, "Y")


def train(data, path, threads, options):
    start = time.perf_counter()
    dataset = labeltree.Dataset.from_matrices(*data).normalize()  # as `labeltree.train` does
    trees = [
        labeltree.build_tree(dataset, seed=seed, threads=threads) for seed in range(options.get("trees", 1))
    ]
    parts = {"tree_s": time.perf_counter() - start}
    storage = labeltree.StorageSettings(prune=options.get("prune"))
    plan = labeltree.make_plan(dataset, trees, storage=storage, threads=threads)
    # The others do not wait for the disk either.
    return labeltree.train_model(dataset, plan, path, sync=False), parts


def save(model, path):
    return labeltree.load(path)


def queries(X):
    return X


def batch(model, queries, threads):
    return model.predict(queries, top=TOP, threads=threads)


def top(found):
    return found[0]


def single(model):
    return lambda row: model.predict(row, top=TOP, threads=1)


def file_to_read(folder):
    return Path(folder, "train.svm")


def read(path, threads):
    return labeltree.read_svm(path, threads=threads)
