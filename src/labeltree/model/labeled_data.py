"""Labeled data, matched with a model: to evaluate the model, and to choose which labels it accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.display import html_table, warn
from labeltree.base.options import ReadingOptions
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import open_data
from labeltree.data.summary import as_arguments, suspicions
from labeltree.errors import InputError
from labeltree.evaluation import metrics
from labeltree.evaluation.accepted import Candidates, Decision, check_known, labeled_candidates
from labeltree.evaluation.calibration import (
    MIN_DECISION_ROWS,
    Calibration,
    calibration_gain,
    choose_threshold,
    cross_validate,
    fit_calibration,
)
from labeltree.evaluation.result import AcceptedLabels, Evaluation
from labeltree.settings import DEFAULT_RANKS, MAX_ACCEPTED

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data, Labels
    from labeltree.model.model import Model


_FEWEST = 3  # rows that occur in the training data; fewer are chance
# What a threshold is chosen by: an F1 to maximize, or a precision or recall and what it is to reach.
Goal: TypeAlias = tuple[str, float | None]


@dataclass(frozen=True, eq=False)
class Labeled:
    """Labeled data, with its labels as a model numbers them."""

    dataset: Dataset
    truth: sp.csr_matrix  # rows x labels; those that the model does not know follow its own
    model: Model
    names: Sequence[str] | None = None  # of all these labels, if they are not integers

    @classmethod
    def of(cls, dataset: Dataset, model: Model) -> Labeled:
        """Match data with a model."""
        if dataset.one_based is not None:  # a file need not mention the last features
            dataset = dataset.widen(model.n_features)
        aligned = dataset.align(model.label_names, model.n_labels)
        return cls(dataset, aligned.Y, model, aligned.label_names)

    def decide_again(self, model: Model) -> Decision | None:
        """Choose by its old goal what a copy of the model with other scores accepts; None to keep it."""
        old = self.model.decision
        if old is None or np.count_nonzero(np.diff(self.truth.indptr)) < MIN_DECISION_ROWS:
            return None
        try:
            new = decide(model, self, (old.metric, old.target)).decision
        except InputError:  # no threshold reaches the target
            return None
        return new if old.thresholds is not None or new.thresholds is None else None  # they take bytes

    @cached_property
    def missed(self) -> dict[str, int]:
        """What no prediction can get right: rows without labels, skipped rows, and unknown labels."""
        labels = np.unique(self.truth.indices)
        return {
            "rows_without_labels": int((np.diff(self.truth.indptr) == 0).sum()),
            "skipped_rows": self.dataset.n_skipped,
            "unknown_labels": int((labels >= self.model.n_labels).sum()),
        }

    def evaluate(
        self, predicted: Any = None, ks: Sequence[int] = DEFAULT_RANKS, *, scores: NDArray[Any] | None = None
    ) -> Evaluation:
        """Compare ranked labels, rows x ranks, with the true ones; see `Model.evaluate`.

        With the scores that the model gave them, F1 is that of the labels that it accepts.
        """
        if isinstance(ks, int):
            raise InputError(f"ks is {ks}, expected several ranks such as [1, 3, 5]")
        most = max((limits.checked("k", k, limits.TOP) for k in ks), default=1)
        model, decision = self.model, self.model.decision
        if predicted is None:
            top = most if decision is None else max(most, MAX_ACCEPTED)
            predicted, scores = model.predict(self.dataset.X, top=top)
        predicted = metrics.label_ids(predicted, max(most, *DEFAULT_RANKS), self.truth.shape[1])
        ranked = metrics.pad_labels(predicted, most)
        propensities = metrics.propensities(model.label_counts, model.n_instances)
        figures = metrics.evaluate(self.truth, ranked, ks, propensities)
        accepted = AcceptedLabels.of(self.truth, predicted, scores, decision)
        if decision is not None and scores is not None:
            figures |= accepted.figures(model.n_labels)
        return Evaluation(
            figures,
            self.dataset.n_instances,
            **self.missed,
            rows_in_training=self.rows_in_training,
            accepted=accepted,
            label_names=self.names,
        )

    @cached_property
    def _known(self) -> int:
        """The number of label occurrences that the model knows."""
        return int((self.truth.indices < self.model.n_labels).sum())

    @property
    def least_rows(self) -> int:
        """The training rows that a label needed for the model to know it."""
        return int(self.model.manifest["notes"].get("min_label_count", 1))

    @property
    def is_mostly_known(self) -> bool:
        """Whether the model knows at least half of the label occurrences.

        Many distinct labels may be unknown, because they are rare. If most occurrences are, the data was read
        wrongly or belongs to another model.
        """
        return 2 * self._known >= self.truth.nnz

    def rows_note(self) -> Iterator[str]:
        """Describe the rows that do not count, if there are any."""
        n_rows, skipped = self.dataset.n_instances, self.missed["skipped_rows"]
        if skipped:
            yield f"{skipped:,} row{'s' * (skipped != 1)} without text skipped."
        if unlabeled := self.missed["rows_without_labels"]:
            rows = f"{n_rows:,} row{'s' * (n_rows != 1)}"
            yield f"{unlabeled:,} of {rows} without labels, left out of all metrics."

    @cached_property
    def _in_training(self) -> tuple[float, int] | None:
        return None if self.model.row_sketch is None else self.model.row_sketch.share(self.dataset.X)

    @property
    def rows_in_training(self) -> float | None:
        """The share of the rows that have the same features as a training row; None if too few are known."""
        return None if self._in_training is None else self._in_training[0]

    def training_note(
        self, these: str = "these figures do", name: str = "the model", least: float = 2.0
    ) -> Iterator[str]:
        """Describe how many rows occur in the training data, too: if more than half of them, or `least`.

        Rows that occur there by chance do not count for the half, from which on `these` (a noun and a verb)
        are too good.
        """
        if self.model.row_sketch is None or self._in_training is None:
            return
        (share, compared), repeated = self._in_training, self.model.row_sketch.repeated
        kind = "features" if self.dataset.text is None else "words"
        about = "about " if compared < self.dataset.n_instances else ""
        same = f"{about}{share:.0%} of the rows have the same {kind} as a training row of {name}"
        if share - repeated >= (1 - repeated) / 2 > 0:
            yield (
                f"The data looks like the training data: {same}. A model is better on its training data than "
                f"on any other, so {these} not show what to expect on other data."
            )
        elif share >= least and share * compared >= _FEWEST:
            yield f"{same[0].upper()}{same[1:]}; {repeated:.0%} of the training rows repeat another one."

    def unknown_note(self, separators: str, name: str = "the model") -> Iterator[str]:
        """Describe the labels that the model does not know; `separators` is how those of labels are set."""
        unknown, known = self.missed["unknown_labels"], self._known
        check = f"check that the data belongs to {name}"
        if self.dataset.text is not None:
            check += f", and how labels are separated ({separators})"
        if unknown and not known:
            yield f"No label in the data is known to {name}, so every metric is 0: {check}."
        elif unknown:
            n_labels = np.unique(self.truth.indices).size
            more = f". Only {known:,} of {self.truth.nnz:,} label occurrences are known: {check}."
            if self.least_rows > 1:
                more = f": it was trained with min_label_count={self.least_rows}, without rarer labels."
            elif self.is_mostly_known:
                more = "."
            yield (
                f"{unknown:,} of the {n_labels:,} labels in the data {'is' if unknown == 1 else 'are'} "
                f"unknown to {name} and counted as missed{more}"
            )


def read_labeled(
    model: Model,
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    threads: int | None = None,
    **reading: Unpack[ReadingOptions],
) -> Dataset:
    """Read labeled data for a model; warn of labels that look wrong. A pair may stand for data and labels."""
    if isinstance(data, tuple) and len(data) == 2 and labels is None:
        data, labels = data
    dataset = open_data(data, labels, text=text, like=model, **reading).dataset(like=model, threads=threads)
    for note in () if isinstance(data, Dataset) else suspicions(dataset, as_arguments, model):
        warn(note)
    return dataset


def validation_data(dataset: Dataset, model: Model, *, is_training: bool = False) -> Labeled:
    """Match data with a model to choose something by it; refuse what does not fit, warn of training data."""
    if dataset.text is not None and (model.text is None or dataset.text.contents != model.text.contents):
        what = "the data was read with text features that are not the model's"
        raise InputError(what, hint="read the documents with the features of the model")
    if dataset.n_features > model.n_features:
        raise InputError(
            f"the data has {dataset.n_features:,} features, but the model has {model.n_features:,}",
            hint="use data with the features of the training data",
        )
    if dataset.Y.nnz == 0:
        raise InputError("the data has no labels", hint="use labeled data")
    labeled = Labeled.of(dataset, model)
    if labeled.least_rows == 1:
        check_known(labeled.truth, dataset, model.n_labels)
    for note in () if is_training else labeled.training_note("this choice does"):
        warn(note)
    return labeled


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """What was chosen on labeled data.

    Attributes
    ----------
    decision : Decision
    calibration : Calibration or None
    candidates : Candidates
        The ranked labels of the rows with labels, with the scores that the model gives with this calibration.
    """

    decision: Decision
    calibration: Calibration | None
    candidates: Candidates

    @property
    def threshold(self) -> float:
        """The minimum score of an accepted label, if it has none of its own."""
        return self.decision.threshold

    def __repr__(self) -> str:
        figures = self.figures()
        shown = (f"{name}={figures[name]:.4f}" for name in ("precision", "recall", "micro_f1", "macro_f1"))
        return f"Choice(threshold={self.decision}; {', '.join(shown)})"

    def _repr_html_(self) -> str:
        rows = ([name, f"{value:.4f}"] for name, value in self.figures().items())
        return html_table(f"Threshold {self.decision}", ["on these rows", ""], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``labeltree threshold --json`` prints about the choice."""
        own = self.decision.thresholds
        return {
            **self.decision.entry(),
            "thresholds": None if own is None else own.tolist(),
            "calibrated": self.calibration is not None,
            **self.figures(),
            "cross_validated": self.cross_validated(),
        }

    def figures(self) -> dict[str, float]:
        """Return precision, recall, F1 and more of the accepted labels, on the rows of the choice.

        With thresholds per label, they are better than on other rows; see `cross_validated`.
        """
        return self.candidates.measure(self.decision)

    def cross_validated(self) -> dict[str, float] | None:
        """Return the same figures by two-fold cross-validation; None without thresholds per label."""
        own = self.decision.thresholds
        return None if own is None else cross_validate(self.candidates, own.size)


def goal_of(metric: str | None, min_precision: float | None, min_recall: float | None) -> Goal:
    """Return the goal of `Model.choose_threshold`; several and unknown ones are refused."""
    given = {"metric": metric, "min_precision": min_precision, "min_recall": min_recall}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        hint = f"remove {{{names[0]}}} or {{{names[1]}}}"
        raise InputError("a threshold has one goal, but several are given", hint=hint)
    metric = metric.replace("-", "_") if isinstance(metric, str) else metric
    limits.checked("metric", metric, limits.Optional(limits.F1))
    for name in ("min_precision", "min_recall"):
        if name in names:
            return name.removeprefix("min_"), limits.checked(name, given[name], limits.TARGET)
    return metric or "micro_f1", None


def decide(
    model: Model, data: Labeled, goal: Goal, calibrate: bool | None = None, threads: int | None = None
) -> Choice:
    """Choose which labels a model should accept; see `Model.choose_threshold`."""
    labels, scores = model.predict(data.dataset.X, top=MAX_ACCEPTED, calibrated=False, threads=threads)
    candidates = labeled_candidates(data.truth, labels, scores, model.n_labels)
    n_rows = candidates.row_true.size
    if n_rows < MIN_DECISION_ROWS:
        warn(
            f"The validation data has {n_rows:,} row{'s' * (n_rows != 1)} with labels; with fewer than "
            f"{MIN_DECISION_ROWS}, the best threshold is mostly random."
        )
    calibration = model.calibration if calibrate is None else None
    if calibrate and calibration_gain(candidates) > 0:
        calibration = fit_calibration(candidates)
    if calibration is not None:
        candidates = replace(candidates, scores=calibration.apply(candidates.scores))
    decision = choose_threshold(candidates, *goal, n_labels=model.n_labels)
    return Choice(decision, calibration, candidates)
