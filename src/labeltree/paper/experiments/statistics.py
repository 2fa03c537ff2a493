"""`statistics`: the sizes and the sparsity of the datasets."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from labeltree.base.progress import Progress
from labeltree.paper.experiments.result import Result, Table
from labeltree.paper.experiments.session import Session, Split


class StatisticsRow(TypedDict):
    """Counts of one dataset."""

    data: str
    instances: int
    test_instances: int | None
    features: int
    used_features: int
    labels: int
    used_labels: int
    nonzeros_a_row: float
    labels_a_row: float
    one_instance_share: float


def run(session: Session, progress: Progress | None = None) -> Result:
    """Count instances, features, labels and non-zeros of each dataset.

    Parameters
    ----------
    session : Session
    progress : callable, optional

    Returns
    -------
    Result
    """
    rows = []
    for number, split in enumerate(session.splits):
        rows.append(_count(split))
        if progress is not None:
            progress((number + 1) / len(session.splits))
    return Result(
        name="statistics",
        title="The datasets",
        source="Table 5 of the paper",
        settings={},
        tables=[
            Table(
                "statistics",
                "Training data, ordered by the number of labels.",
                {
                    "data": "dataset",
                    "instances": "instances (l)",
                    "test_instances": "test instances",
                    "features": "features",
                    "used_features": "features that occur (n)",
                    "labels": "labels (L)",
                    "used_labels": "labels that occur",
                    "nonzeros_a_row": "non-zeros per instance",
                    "labels_a_row": "labels per instance",
                    "one_instance_share": "labels with one instance",
                },
                sorted(rows, key=lambda row: row["labels"]),
            )
        ],
    )


def _count(split: Split) -> StatisticsRow:
    train = split.train
    instances_per_label = np.diff(train.by_label[0])
    return {
        "data": split.name,
        "instances": train.n_instances,
        "test_instances": split.test.n_instances if split.test else None,
        "features": train.n_features,
        "used_features": int(np.unique(train.X.indices).size),
        "labels": train.n_labels,
        "used_labels": split.used_labels,
        "nonzeros_a_row": train.X.nnz / train.n_instances,
        "labels_a_row": train.Y.nnz / train.n_instances,
        "one_instance_share": float((instances_per_label == 1).mean()),
    }
