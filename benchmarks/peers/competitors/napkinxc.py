"""napkinXC's probabilistic label tree; the model is on disk when training ends."""

from pathlib import Path

from measure import TOP, load_matrix
from napkinxc.datasets import load_libsvm_file
from napkinxc.models import PLT

DISTRIBUTION = "napkinxc"


def load(folder):
    Y = load_matrix(folder, "Y")
    rows = zip(Y.indptr[:-1], Y.indptr[1:], strict=True)
    return load_matrix(folder, "X"), [Y.indices[a:b].tolist() for a, b in rows]


def train(data, path, threads, options):
    model = PLT(str(path), threads=threads, **options)
    model.fit(*data)
    return model, {}


def save(model, path):
    return model


def queries(X):
    return X


def batch(model, queries, threads):
    return model.predict(queries, top_k=TOP)


def top(found):
    return found


def single(model):
    model.set_params(threads=1)
    return lambda row: model.predict(row, top_k=TOP)


def file_to_read(folder):
    return Path(folder, "train.svm")


def read(path, threads):
    return load_libsvm_file(str(path))
