"""`statistics`: the table of the data sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeltree.datasets import SOURCES
from labeltree.paper.experiments.result import Claim, Result, Table
from labeltree.paper.experiments.session import Session, Split
from labeltree.progress import Progress

SPARSE = 0.01


def run(session: Session, progress: Progress | None = None) -> Result:
    """Count what the data sets hold.

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
        title="The data sets",
        source="tbl:dataset-stat",
        introduction=(
            "What there is to learn from. Trees are small where data are sparse: few feature values in a "
            "row, and labels with few instances, whose nodes use few features. So these stand beside the "
            "numbers that the paper gives."
        ),
        settings={},
        tables=[
            Table(
                "statistics",
                "The training data, by the number of labels.",
                {
                    "data": "data",
                    "instances": "instances (l)",
                    "test_instances": "test instances",
                    "features": "features",
                    "used_features": "features that occur (n)",
                    "labels": "labels (L)",
                    "used_labels": "labels that occur",
                    "nonzeros_a_row": "non-zeros a row",
                    "labels_a_row": "labels a row",
                    "one_instance_share": "labels with one instance",
                },
                sorted(rows, key=lambda row: row["labels"]),
            )
        ],
        claims=_claims(rows),
    )


def _count(split: Split) -> dict[str, Any]:
    train = split.train
    of_label = np.diff(train.by_label[0])
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
        "one_instance_share": float((of_label == 1).mean()),
    }


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    sparse, published = {}, {}
    for row in rows:
        share = row["nonzeros_a_row"] / max(row["used_features"], 1)
        sparse[row["data"]] = share < SPARSE, f"{100 * share:.2g}%"
        if source := SOURCES.get(row["data"]):
            counts = {
                "instances": source.n_instances,
                "features": source.n_features,
                "labels": source.n_labels,
            }
            # As wide as the file, or as many as occur: it is not said what was counted.
            same = [number in (row[what], row.get(f"used_{what}")) for what, number in counts.items()]
            said = ", ".join(f"{row[what]:,} of {number:,} {what}" for what, number in counts.items())
            published[row["data"]] = all(same), said
    claims = []
    if rows:
        statement = "The data are sparse (here: a row has less than 1% of the features that occur)."
        claims.append(Claim.of_data(statement, sparse))
    if published:
        claims.append(Claim.of_data("The counts are those of the paper's table.", published))
    return claims
