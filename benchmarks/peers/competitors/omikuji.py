"""omikuji: trains only from a file, and predicts one row at a time from a list of pairs."""

import os
import re
import tempfile
from pathlib import Path

import omikuji
from measure import TOP

DISTRIBUTION = "omikuji"


def load(folder):
    return Path(folder, "train.xmc")


def train(data, path, threads, options):
    settings = omikuji.Model.default_hyper_param()
    settings.n_trees = 1
    for name, value in options.items():
        setattr(settings, name, value)
    with _Log() as log:
        model = omikuji.Model.train_on_data(str(data), settings, n_threads=threads)
    match = re.search(r"Loaded \d+ examples; it took ([\d.]+)\s*s", log.text)
    return model, {"read_s": float(match[1])} if match else {}


class _Log:
    """Capture standard output, where omikuji reports its reading time."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile()
        self.stdout = os.dup(1)
        os.dup2(self.file.fileno(), 1)
        return self

    def __exit__(self, *_):
        os.dup2(self.stdout, 1)
        self.file.seek(0)
        content = self.file.read()
        os.write(1, content)
        self.text = content.decode(errors="replace")


def save(model, path):
    model.save(str(path))
    return model


def queries(X):
    rows = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in rows]


def batch(model, queries, threads):
    model.init_prediction_thread_pool(threads)
    # It normalizes rows, and cannot take a row without features.
    return [model.predict(row, top_k=TOP) if row else [] for row in queries]


def top(found):
    return [[label for label, _ in row] for row in found]


def single(model):
    model.init_prediction_thread_pool(1)
    return lambda row: model.predict(row[0], top_k=TOP)
