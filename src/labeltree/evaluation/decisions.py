"""Decisions: which of the ranked labels to accept, by thresholds on their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits

DECISION_LIMITS: dict[str, limits.Limit] = {
    "threshold": limits.THRESHOLD,
    "metric": limits.DECISION_METRIC,
    "target": limits.Optional(limits.TARGET),
    "rows": limits.DECISION_ROWS,
    "held_out": limits.FLAG,
}


@dataclass(frozen=True, eq=False)
class Decision:
    """The scores at which labels are accepted.

    Attributes
    ----------
    threshold : float
        The minimum score of an accepted label.
    metric : {"micro_f1", "macro_f1", "row_f1", "precision", "recall"}
        What the threshold was chosen by: the largest F1, or a target of precision or recall.
    target : float or None
        The precision or recall that was to be reached.
    rows : int
        Number of rows that it was chosen on.
    held_out : bool
        Whether these are training rows, scored as if the model had been trained without them.
    thresholds : ndarray of float32 or None
        A minimum score for each label, instead of ``threshold``.
    """

    threshold: float
    metric: str = "micro_f1"
    target: float | None = None
    rows: int = 0
    held_out: bool = False
    thresholds: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        limits.check_fields(self, DECISION_LIMITS)

    @classmethod
    def stored(
        cls, entry: Mapping[str, Any] | None, thresholds: NDArray[np.float32] | None
    ) -> Decision | None:
        """Return what an entry of a manifest describes, with the thresholds of labels."""
        if entry is None:
            return None
        fields = {name: value for name, value in entry.items() if name in DECISION_LIMITS}
        return cls(**fields, thresholds=thresholds)

    def entry(self) -> dict[str, Any]:
        """Return what a manifest records, without the thresholds of labels."""
        return {name: value for name, value in asdict(self).items() if name in DECISION_LIMITS}

    def __str__(self) -> str:
        """Describe the threshold and what it was chosen by."""
        goal = f"{self.metric} of {self.target:g}" if self.target is not None else self.metric
        goal = goal.replace("_f1", " F1")
        where = "training rows, held out" if self.held_out else "rows of validation data"
        kept = f"{self.threshold:.4g}"
        if self.thresholds is not None:
            own = int((self.thresholds != np.float32(self.threshold)).sum())
            kept += f", {own:,} labels have their own"
        return f"{kept}; chosen by {goal} on {self.rows:,} {where}"

    def accept(
        self, labels: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return ranked labels and their scores with -1 and 0 in place of what is not accepted.

        With thresholds per label, accepted labels can follow others in a row.
        """
        minimum = np.float32(self.threshold) if self.thresholds is None else self.thresholds[labels]
        return accept(labels, scores, minimum)


def accept(
    labels: NDArray[np.int32], scores: NDArray[np.float32], minimum: Any
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Replace labels with a score below the minimum by -1, and their scores by 0."""
    kept = (scores >= minimum) & (labels >= 0)
    return np.where(kept, labels, np.int32(-1)), np.where(kept, scores, np.float32(0))
