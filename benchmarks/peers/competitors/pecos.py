"""PECOS XR-Linear with PIFA label vectors and hierarchical K-means; predicts from a predict-only model."""

import time
from pathlib import Path

import numpy as np
from measure import TOP, load_matrix
from pecos.utils import smat_util
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

DISTRIBUTION = "libpecos"


def load(folder):
    return load_matrix(folder, "X"), load_matrix(folder, "Y").tocsc()


def train(data, path, threads, options):
    X, Y = data
    start = time.perf_counter()
    vectors = LabelEmbeddingFactory.create(Y, X, method="pifa")
    chain = Indexer.gen(vectors, indexer_type="hierarchicalkmeans", threads=threads)
    parts = {"tree_s": time.perf_counter() - start}
    return XLinearModel.train(X, Y, C=chain, threads=threads, **options), parts


def save(model, path):
    model.save(str(path))
    return XLinearModel.load(str(path), is_predict_only=True)


def queries(X):
    return X


def batch(model, queries, threads):
    return model.predict(queries, beam_size=10, only_topk=TOP, threads=threads)


def top(found):
    found = found.tocsr()
    rows = zip(found.indptr[:-1], found.indptr[1:], strict=True)
    return [found.indices[a:b][np.argsort(-found.data[a:b], kind="stable")] for a, b in rows]


def single(model):
    return lambda row: model.predict(row, beam_size=10, only_topk=TOP, threads=1)


def file_to_read(folder):
    return [Path(folder, "X.npz"), Path(folder, "Y.npz")]


def read(paths, threads):
    return [smat_util.load_matrix(str(path)) for path in paths]
