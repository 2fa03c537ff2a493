"""Prediction: the best labels of a matrix as it is; of documents, frames and files in batches of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, cast, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base.limits import THRESHOLD_OR_STORED, checked
from labeltree.base.options import ReadingOptions, shows
from labeltree.data.frames import checked_texts, first_value
from labeltree.data.inputs import check_not_words, given_texts, is_file, open_data, refuse
from labeltree.data.read import read_batches
from labeltree.errors import InputError
from labeltree.evaluation.accepted import Decision
from labeltree.model.labeled_data import Choice
from labeltree.model.ranker import as_matrix, check_options, named_labels
from labeltree.model.stored import StoredModel
from labeltree.settings import DEFAULT_BEAM, DEFAULT_TOP, MAX_ACCEPTED, ScoreSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data

_BATCH = 10_000  # documents
# What labels need to be accepted.
Threshold: TypeAlias = float | Decision | Choice | Literal["stored"] | None


class SparseMatrix(Protocol):
    """A sparse matrix of SciPy, for type checkers that do not know SciPy."""

    @property
    def nnz(self) -> int:
        """Number of stored values."""


class PredictionOptions(TypedDict, total=False):
    """The options of `Model.predict` that do not depend on the form of the data."""

    top: int | None
    beam: int
    score: str | None
    score_scale: float | None
    threshold: Threshold
    calibrated: bool
    threads: int | None


class DocumentOptions(PredictionOptions, ReadingOptions, total=False):
    """Those, and how documents are read."""


class Predictor(StoredModel):
    """A stored model that predicts."""

    @overload
    def predict(  # type: ignore[overload-overlap]  # arrays of numbers are iterable, too
        self,
        data: SparseMatrix | NDArray[np.number[Any]],
        **options: Unpack[PredictionOptions],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...

    @overload
    def predict(
        self,
        data: Data,
        *,
        text: str | Sequence[str] | None = ...,
        **options: Unpack[DocumentOptions],
    ) -> tuple[list[list[str]], list[NDArray[np.float32]]]: ...

    @shows(ReadingOptions)
    def predict(
        self,
        data: Any,
        *,
        text: str | Sequence[str] | None = None,
        top: int | None = None,
        beam: int = DEFAULT_BEAM,
        score: str | None = None,
        score_scale: float | None = None,
        threshold: Threshold = None,
        calibrated: bool = True,
        threads: int | None = None,
        **reading: Unpack[ReadingOptions],
    ) -> tuple[Any, Any]:
        """Find the best labels of each document, or of each row of a matrix, by beam search.

        Parameters
        ----------
        data : texts, frame, path-like, Dataset, or sparse matrix or array of rows x features
            As in :func:`labeltree.read_data`, without labels; texts may come from a generator, too. A single
            text is passed as ``[text]``. Features beyond those of the model are ignored, with a warning, and
            a matrix with fewer is refused. If the model is normalized, rows are then scaled to length 1.
            A row without features is predicted from the bias; a document without known terms gets no label.
        text : str or sequence of str, optional
            The column with the text, if the data has columns. Default: as in training.
        top : int, optional
            Number of labels per row (k). Default: 5; with a threshold, at most 100 labels are accepted.
        beam : int, default 10
            Nodes kept at each depth; a beam as wide as the tree gives the exhaustive ranking.
        score : {"sigmoid", "hinge2", "hinge3"}, optional
            How a margin s becomes a factor of the score: sigmoid(a s) with the scale a, or
            exp(-max(0, 1 - s)^p) with p = 2 or 3. Default: as stored in the model, whose path weight is kept.
        score_scale : float, optional
            The scale a of the sigmoid, which it selects if `score` is not given; the other functions ignore
            it. Default: as stored in the model.
        threshold : float, Choice, Decision or "stored", optional
            Only accept labels with at least this score, or those of a decision: "stored" is
            ``self.decision``. With the result of `Model.choose_threshold`, scores are calibrated as for it.
            Default: all.
        calibrated : bool, default True
            Map scores to probabilities, if the model is calibrated and has its own score function.
        threads : int, optional
            Default: all CPUs.
        **reading
            How files are read: ``delimiter``, ``format``, ``one_based``, ``strict``.

        Returns
        -------
        labels : list of list of str; or ndarray of int32, rows x top
            Best first: the names of the labels of each row (their numbers, if they have no names). For a
            matrix, their numbers, and -1 if fewer labels were reached, or in place of labels that are not
            accepted.
        scores : list of ndarray of float32; or ndarray of float32, rows x top
            In (0, 1], the mean over the model's trees; 0 where the label is -1. Scores rank the labels of a
            row. They are probabilities only if the model is calibrated.
        """
        settings = self.score.replace(score, score_scale)
        accepted = self._accepted(threshold, settings, calibrated)
        top = (DEFAULT_TOP if accepted is None else MAX_ACCEPTED) if top is None else top
        check_options(top, beam, threads)
        stored = threshold.calibration if isinstance(threshold, Choice) else self.calibration
        calibration = stored if calibrated and settings == self.score else None

        def ranked(rows: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
            labels, scores = self._search.rank(rows, min(top, self.n_labels), beam, settings, threads)
            scores = scores if calibration is None else calibration.apply(scores)
            return (labels, scores) if accepted is None else accepted.accept(labels, scores)

        if _is_matrix(data, self.text is not None):
            refuse("the data is a matrix", {**reading, "text": text})
            return ranked(data)
        names: list[list[Any]] = []
        scores: list[NDArray[np.float32]] = []
        for rows in _batches(self, data, text, reading, threads):
            named = named_labels(*ranked(rows), self.label_names)
            names += named[0]
            scores += named[1]
        return names, scores

    def _accepted(
        self,
        threshold: Threshold,
        settings: ScoreSettings,
        calibrated: bool,
    ) -> Decision | None:
        """Return the labels to accept; None for all."""
        if threshold is None or isinstance(threshold, Decision):
            return threshold
        if isinstance(threshold, Choice):
            return threshold.decision
        minimum = checked("threshold", threshold, THRESHOLD_OR_STORED)
        if minimum != "stored":
            return Decision(minimum)
        if self.decision is None:
            hint = "choose one with `choose_threshold`, or set {threshold} to a number instead"
            raise InputError("the model has no threshold", file=self.path, hint=hint)
        if settings != self.score or (self.calibration is not None and not calibrated):
            hint = "remove {score} and {score_scale}, or set {threshold} to a number instead"
            raise InputError("the threshold of the model is for its own scores", file=self.path, hint=hint)
        return self.decision

    def predict_matrix(
        self, data: Data, *, text: str | Sequence[str] | None = None, **options: Unpack[DocumentOptions]
    ) -> sp.csr_matrix:
        """Predict like ``predict``, and return a sparse matrix of scores, rows x labels."""
        given: dict[str, Any] = {**options}
        rows: Any = data
        if not _is_matrix(data, self.text is not None):
            reading = {name: given.pop(name) for name in ReadingOptions.__annotations__ if name in given}
            found = _batches(self, data, text, cast(ReadingOptions, reading), given.get("threads"))
            none = sp.csr_matrix(np.zeros((0, self.n_features), np.float32))
            rows = sp.vstack([none, *found], format="csr")
        else:
            refuse("the data is a matrix", {"text": text})
        labels, scores = self.predict(rows, **given)
        return as_matrix(labels, scores, self.n_labels)


def _is_matrix(data: Any, for_text: bool) -> bool:
    """Return whether data is a matrix of features: sparse, an array of numbers, or nested sequences.

    Of a list of numbers, a model of text expects texts.
    """
    if isinstance(data, list | tuple):
        rows = (list, tuple, np.ndarray)
        check_not_words(first := first_value(data))
        return isinstance(first, rows if for_text else (*rows, int, float))
    if isinstance(data, np.ndarray):
        return data.ndim != 1 or data.dtype.kind not in "OSUT"
    return sp.issparse(data)


def _batches(
    model: StoredModel, data: Any, text: Any, reading: ReadingOptions, threads: int | None
) -> Iterator[sp.csr_matrix]:
    """Yield the rows to predict, some at a time, if data is not a matrix."""
    in_turn = isinstance(data, Iterator)
    source = open_data([] if in_turn else data, text=text, like=model, require_labels=False, **reading)
    if model.text is None or source.documents is None:
        yield source.dataset(like=model, threads=threads).X
        return
    if is_file(data):
        found = read_batches(source.documents(None), model.text, threads=threads)
        yield from (rows for _, rows in found)
        return
    texts = checked_texts(data) if in_turn else (document.text for document in source.documents(None))
    texts = given_texts(texts) if reading.get("strict") else texts
    while batch := [found or "" for found in itertools.islice(texts, _BATCH)]:
        yield model.text.transform(batch, threads=threads)
