"""Choosing the threshold and the calibration of a model on labeled data that it was not trained on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labeltree.base import limits
from labeltree.errors import InputError
from labeltree.evaluation.accepted import Candidates, Decision, labeled_candidates
from labeltree.evaluation.calibration import Calibration, calibration_gain, fit_calibration
from labeltree.evaluation.thresholds import MIN_DECISION_ROWS, choose_threshold, cross_validate
from labeltree.model.labeled import Validation
from labeltree.settings import MAX_ACCEPTED

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.model.model import Model


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
        """Return precision, recall, F1 and more of the accepted labels, on the rows of the choice.

        With thresholds per label, they are better than on other rows; see `cross_validated`.
        """
        return self.candidates.measure(self.decision)

    def cross_validated(self) -> dict[str, float] | None:
        """Return the same figures by two-fold cross-validation; None without thresholds per label."""
        own = self.decision.thresholds
        return None if own is None else cross_validate(self.candidates, own.size)


def check_goal(metric: str | None, min_precision: float | None, min_recall: float | None) -> None:
    """Refuse several goals, and unknown ones."""
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


def decide(
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

    Raises
    ------
    InputError
        If no threshold reaches the goal, or the model knows fewer than half of the label occurrences.

    Warns
    -----
    UserWarning
        If fewer than 50 rows have labels, or the data looks like the training data.
    """
    check_goal(metric, min_precision, min_recall)
    data = Validation.of(validation, model)
    labels, scores = model.predict(data.X, top=MAX_ACCEPTED, calibrated=False, threads=threads)
    candidates, unlabeled = labeled_candidates(data.truth, labels, scores)
    n_rows = candidates.row_true.size
    if n_rows < MIN_DECISION_ROWS:
        warnings.warn(
            f"The validation data has {n_rows:,} row{'s' * (n_rows != 1)} with labels; with fewer than "
            f"{MIN_DECISION_ROWS}, the best threshold is mostly random.",
            stacklevel=2,
        )
    calibration = model.calibration if calibrate is None else None
    if calibrate and calibration_gain(candidates) > 0:
        calibration = fit_calibration(candidates)
    if calibration is not None:
        candidates = candidates.with_scores(calibration.apply(candidates.scores))
    goal = "precision" if min_precision is not None else "recall" if min_recall is not None else metric
    target = min_recall if min_precision is None else min_precision
    decision = choose_threshold(candidates, goal or "micro_f1", target, n_labels=model.n_labels)
    return Choice(decision, calibration, candidates, unlabeled)
