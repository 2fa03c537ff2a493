"""What the tasks of `DaskLabelTreeClassifier` do on a worker: plan, join, predict and score."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from labeltree.dask import cluster
from labeltree.dask.partitions import Written, documents_of, read_partitions
from labeltree.data.dataset import wrap_csr
from labeltree.data.text_settings import TextSettings
from labeltree.errors import InputError
from labeltree.estimators.classifier import LabelTreeClassifier
from labeltree.estimators.fitting import plan_model, tree_settings
from labeltree.model.model import Model, load
from labeltree.settings import stored_score
from labeltree.training.parts import join_parts, plan_parts


def plan(
    data: str,
    written: list[Written],
    work: str,
    parameters: dict[str, Any],
    text: TextSettings | None,
) -> dict[str, Any]:
    """Make a work directory of the partitions, in a task that uses all threads of its worker."""
    cluster.check_visible(data)
    shutil.rmtree(work, ignore_errors=True)  # of a worker that was lost
    parameters = {**parameters, "threads": cluster.worker_threads()}
    assembled = read_partitions(data, written, text)
    plan = plan_model(parameters, assembled.dataset)
    if not parameters["force"]:
        plan.check_resources(Path(work), parameters["memory_limit"])
    score = stored_score(parameters["score_function"], parameters["score_scale"])
    plan_parts(assembled.dataset, plan, work, score=score, notes=tree_settings(parameters).notes())
    return {
        "amount": cluster.amount(plan),
        "classes": assembled.classes,
        "single": assembled.single,
        "feature_names": assembled.feature_names,
    }


def join(work: str, model: str) -> None:
    """Complete the model, in a task that uses all threads of its worker."""
    cluster.check_visible(str(Path(model).parent))
    if Path(model).exists() and not Path(work).exists():
        return  # done by a worker that was lost
    join_parts(work, model, threads=cluster.worker_threads(), overwrite=True)


def predict(place: Path, about: Any, method: str, arguments: dict[str, Any], rows: Any) -> Any:
    """Predict for a partition, in a task."""
    local = _local(place, about)
    predict, numbers = getattr(local, method), numbers_of(local.model_, rows, 1)
    if numbers.shape[0]:
        return predict(numbers, **arguments)
    found = predict(empty_row(local.model_), **arguments)
    return tuple(part[:0] for part in found) if isinstance(found, tuple) else found[:0]


def empty_row(model: Model) -> sparse.csr_matrix:
    """Return a row without features."""
    return wrap_csr(np.zeros(0, np.float32), np.zeros(0), np.zeros(2), (1, model.n_features))


def score(place: Path, about: Any, rows: Any, y: Any) -> tuple[float, int]:
    """Return the score of a partition times its rows, and their number, in a task."""
    local = _local(place, about)
    numbers = numbers_of(local.model_, rows, 1)
    n_rows = numbers.shape[0]
    return (local.score(numbers, y) * n_rows if n_rows else 0.0), n_rows


def numbers_of(model: Model, X: Any, threads: int | None) -> Any:
    """Return the rows of a partition as features; documents are turned into them."""
    if model.text is None:
        return X
    documents = documents_of(list(X) if not hasattr(X, "ndim") else X)
    if documents is None and len(X):
        raise InputError("X has no documents, but the model was trained on documents")
    return model.text.transform(documents or [], threads=threads)


# The model that this worker has opened, by directory and checksum.
_open: dict[tuple[str, int], Model] = {}
_open_lock = threading.Lock()


def _local(place: Path, about: Any) -> LabelTreeClassifier:
    """Return the estimator for a task; the model is mapped once per worker."""
    name, crc, parameters, single, classes, names = about
    cluster.check_visible(str(place))
    path = str(Path(str(place)) / name)
    with _open_lock:
        if (path, crc) not in _open:
            _open.clear()
            model = load(path, verify=False)
            if model.manifest["crc32c"] != crc:
                raise InputError("the model was replaced", file=path, hint="load it again")
            _open[path, crc] = model
        model = _open[path, crc]
    local = LabelTreeClassifier(**parameters)
    local.model_, local._single, local.classes_ = model, single, classes
    local.n_features_in_ = model.n_features
    if names is not None:
        local.feature_names_in_ = names
    return local
