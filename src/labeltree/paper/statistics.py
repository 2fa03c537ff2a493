"""`statistics`: the sizes and the sparsity of the datasets."""

from __future__ import annotations

import numpy as np

from labeltree.base.progress import Progress, ignore
from labeltree.paper.session import Session, Split, steps
from labeltree.paper.table import Row, Table

COLUMNS = {
    "data": "dataset",
    "instances": "instances (l)",
    "test_instances": "test instances",
    "features": "features",
    "used_features": "features that occur (n)",
    "labels": "labels (L)",
    "used_labels": "labels that occur",
    "nonzeros_per_instance": "non-zeros per instance",
    "labels_per_instance": "labels per instance",
    "one_instance_share": "labels with one instance",
}


def statistics(session: Session, progress: Progress = ignore) -> list[Table]:
    """Count instances, features, labels and non-zeros of each dataset."""
    rows = [_count(split) for split, _ in steps(session.splits, progress)]
    rows.sort(key=lambda row: int(row["labels"]))
    return [Table("statistics", "Training data, ordered by the number of labels.", COLUMNS, rows)]


def _count(split: Split) -> Row:
    train = split.train
    instances_per_label = np.diff(train.by_label[0])
    return {
        "data": split.name,
        "instances": train.n_instances,
        "test_instances": split.test.n_instances if split.test else None,
        "features": train.n_features,
        "used_features": int(np.unique(train.X.indices).size),
        "labels": train.n_labels,
        "used_labels": int(np.count_nonzero(instances_per_label)),
        "nonzeros_per_instance": train.X.nnz / train.n_instances,
        "labels_per_instance": train.Y.nnz / train.n_instances,
        "one_instance_share": float((instances_per_label == 1).mean()),
    }
