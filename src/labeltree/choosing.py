"""Choosing the threshold and the calibration of a model on labeled data that it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree import limits
from labeltree.calibration import Calibration, calibration_gain, fit_calibration
from labeltree.candidates import Candidates
from labeltree.decisions import Decision
from labeltree.errors import InputError
from labeltree.settings import MAX_ACCEPTED
from labeltree.thresholds import choose_threshold
from labeltree.validation import Validation

if TYPE_CHECKING:
    import scipy.sparse as sp

    from labeltree.data import Dataset
    from labeltree.model import Model


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen on labeled data.

    Attributes
    ----------
    decision : Decision
    calibration : Calibration or None
    candidates : Candidates
        The ranked labels of the data, with the scores that the model gives with this calibration.
    unlabeled : int
        The number of rows without labels, which were left out.
    """

    decision: Decision
    calibration: Calibration | None
    candidates: Candidates
    unlabeled: int

    def figures(self) -> dict[str, float]:
        """Return precision, recall, F1 and more of the accepted labels."""
        return self.candidates.measure(self.decision)


def choose(
    model: Model,
    validation: Dataset,
    *,
    metric: str | None = None,
    min_precision: float | None = None,
    min_recall: float | None = None,
    calibrate: bool | None = None,
    threads: int | None = None,
) -> Choice:
    """Choose which labels a model should accept.

    Use ``model.store_decision(choice.decision, choice.calibration)`` to store the choice.

    Parameters
    ----------
    model : Model
    validation : Dataset
        Labeled data that the model was not trained on. Rows without labels are left out.
    metric : {"micro_f1", "macro_f1", "row_f1"}, optional
        The F1 to maximize. "macro_f1" can give labels their own thresholds. Default: "micro_f1".
    min_precision, min_recall : float, optional
        Instead: the largest recall with this precision, or the largest precision with this recall.
    calibrate : bool, optional
        Fit a map from scores to probabilities, if it lowers the log loss; or use none. Default: the model's.
    threads : int, optional
        Default: all CPUs.

    Returns
    -------
    Choice
    """
    given = {"metric": metric, "min_precision": min_precision, "min_recall": min_recall}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        hint = f"remove {{{names[0]}}} or {{{names[1]}}}"
        raise InputError(
            "a threshold has one goal, but several are given", hint=hint, parameters=dict.fromkeys(names[:2])
        )
    limits.checked("metric", metric, limits.Optional(limits.F1))
    for name, value in (("min_precision", min_precision), ("min_recall", min_recall)):
        limits.checked(name, value, limits.Optional(limits.TARGET))
    data = Validation.of(validation, model)
    labels, scores = model.predict(data.X, top=MAX_ACCEPTED, calibrated=False, threads=threads)
    candidates, unlabeled = rank(data.truth, labels, scores)
    calibration = model.calibration if calibrate is None else None
    if calibrate and calibration_gain(candidates) > 0:
        calibration = fit_calibration(candidates)
    if calibration is not None:
        candidates = candidates.with_scores(calibration.apply(candidates.scores))
    goal = "precision" if min_precision is not None else "recall" if min_recall is not None else metric
    target = min_recall if min_precision is None else min_precision
    decision = choose_threshold(candidates, goal or "micro_f1", target, n_labels=model.n_labels)
    return Choice(decision, calibration, candidates, unlabeled)


def rank(truth: sp.csr_matrix, labels: Any, scores: Any) -> tuple[Candidates, int]:
    """Return the candidates of the rows with labels, and the number of the other rows."""
    candidates = Candidates.of(truth, labels, scores)
    labeled = candidates.row_true > 0
    unlabeled = int(np.count_nonzero(~labeled))
    return candidates.of_rows(labeled) if unlabeled else candidates, unlabeled
