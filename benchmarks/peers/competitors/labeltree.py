"""labeltree, through its Python API; the model is on disk when training ends."""

import time
from pathlib import Path

from measure import TOP, load_matrix

# Names, not the module: a name is imported at its first use, which must not count as training.
from labeltree import Dataset, StorageSettings, build_tree, make_plan, read_svm, train_model
from labeltree import load as load_model

DISTRIBUTION = "labeltree"


def load(folder):
    return load_matrix(folder, "X"), load_matrix(folder, "Y")


def train(data, path, threads, options):
    start = time.perf_counter()
    dataset = Dataset.from_matrices(*data).normalize()  # as `labeltree.train` does
    trees = [build_tree(dataset, seed=seed, threads=threads) for seed in range(options.get("trees", 1))]
    parts = {"tree_s": time.perf_counter() - start}
    storage = StorageSettings(prune=options.get("prune"))
    plan = make_plan(dataset, trees, storage=storage, threads=threads)
    # The others do not wait for the disk either.
    return train_model(dataset, plan, path, sync=False), parts


def save(model, path):
    return load_model(path)


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
    return read_svm(path, threads=threads)
