"""A trained model: opened from a directory, it predicts and evaluates, and is stored again in other forms."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.display import Progress, warn
from labeltree.base.options import ReadingOptions
from labeltree.base.system import available_memory, threads_to_use
from labeltree.base.table import Facts, Table
from labeltree.errors import InputError, ResourceError
from labeltree.evaluation.accepted import Decision
from labeltree.evaluation.result import Evaluation
from labeltree.model.compress import Budget, Trial, compress_model, measure_forms
from labeltree.model.directory import check_apart, check_target
from labeltree.model.labeled_data import (
    Choice,
    Labeled,
    check_goal,
    decide,
    read_labeled,
    validation_data,
)
from labeltree.model.manifest import RESTORE
from labeltree.model.open import read_parts
from labeltree.model.pack import check_source, write_model
from labeltree.model.queries import batches, is_matrix
from labeltree.model.ranker import as_matrix, check_options, named_labels
from labeltree.model.stored import StoredModel
from labeltree.model.writer import ModelWriter
from labeltree.settings import (
    DEFAULT_BEAM,
    DEFAULT_RANKS,
    DEFAULT_TOP,
    DEFAULT_WORDS,
    MAX_ACCEPTED,
    ScoreSettings,
    StorageSettings,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data, Labels
    from labeltree.explain.label import LabelProfile
    from labeltree.explain.prediction import Explanation


class SparseMatrix(Protocol):
    """A sparse matrix of SciPy, for type checkers that do not know SciPy."""

    @property
    def nnz(self) -> int:
        """Number of stored values."""


class Model(StoredModel):
    """A trained model. Use ``labeltree.load`` to open one.

    Its attributes are those of `StoredModel`: ``path``, ``n_features``, ``n_labels``, ``label_names``,
    ``decision``, ``calibration``, ``text`` and more.
    """

    @overload
    def predict(  # type: ignore[overload-overlap]  # arrays of numbers are iterable, too
        self,
        data: SparseMatrix | NDArray[np.number[Any]],
        *,
        top: int | None = ...,
        beam: int = ...,
        score: str | None = ...,
        score_scale: float | None = ...,
        threshold: float | Decision | Literal["stored"] | None = ...,
        calibrated: bool = ...,
        threads: int | None = ...,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...

    @overload
    def predict(
        self,
        data: Data,
        *,
        text: str | Sequence[str] | None = ...,
        top: int | None = ...,
        beam: int = ...,
        score: str | None = ...,
        score_scale: float | None = ...,
        threshold: float | Decision | Literal["stored"] | None = ...,
        calibrated: bool = ...,
        threads: int | None = ...,
        **reading: Unpack[ReadingOptions],
    ) -> tuple[list[list[str]], list[NDArray[np.float32]]]: ...

    def predict(
        self,
        data: Any,
        *,
        text: str | Sequence[str] | None = None,
        top: int | None = None,
        beam: int = DEFAULT_BEAM,
        score: str | None = None,
        score_scale: float | None = None,
        threshold: float | Decision | Literal["stored"] | None = None,
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
            exp(-max(0, 1 - s)^p) with p = 2 or 3. Default: as stored in the model.
        score_scale : float, optional
            The scale a of the sigmoid, which it selects if `score` is not given; the other functions ignore
            it. Default: as stored in the model.
        threshold : float, Decision or "stored", optional
            Only accept labels with at least this score, or those of a decision: "stored" is
            ``self.decision``. Default: all.
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
        calibration = self.calibration if calibrated and settings == self.score else None

        def ranked(rows: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
            labels, scores = self._search.rank(rows, min(top, self.n_labels), beam, settings, threads)
            scores = scores if calibration is None else calibration.apply(scores)
            return (labels, scores) if accepted is None else accepted.accept(labels, scores)

        if is_matrix(data, self.text is not None):
            return ranked(data)
        names: list[list[Any]] = []
        scores: list[NDArray[np.float32]] = []
        for rows in batches(self, data, text, reading, threads):
            named = named_labels(*ranked(rows), self.label_names)
            names += named[0]
            scores += named[1]
        return names, scores

    def _accepted(
        self,
        threshold: float | Decision | Literal["stored"] | None,
        settings: ScoreSettings,
        calibrated: bool,
    ) -> Decision | None:
        """Return the labels to accept; None for all."""
        if threshold is None or isinstance(threshold, Decision):
            return threshold
        if not (isinstance(threshold, str) and threshold == "stored"):
            return Decision(threshold)
        if self.decision is None:
            raise InputError(
                "the model has no threshold",
                file=self.path,
                hint="choose one with `choose_threshold`, or set {threshold} to a number instead",
                parameters={"threshold": None},
            )
        if settings != self.score or (self.calibration is not None and not calibrated):
            raise InputError(
                "the threshold of the model is for its own scores",
                file=self.path,
                hint="remove {score} and {score_scale}, or set {threshold} to a number instead",
                parameters=dict.fromkeys(("score", "score_scale", "threshold")),
            )
        return self.decision

    def predict_matrix(self, data: Any, **options: Any) -> sp.csr_matrix:
        """Predict like ``predict``, and return a sparse matrix of scores, rows x labels."""
        if not is_matrix(data, self.text is not None):
            found = batches(self, data, None, {}, options.get("threads"))
            data = sp.vstack(
                [sp.csr_matrix(np.zeros((0, self.n_features), np.float32)), *found], format="csr"
            )
        labels, scores = self.predict(data, **options)
        return as_matrix(labels, scores, self.n_labels)

    def evaluate(
        self,
        data: Data,
        labels: Labels = None,
        *,
        text: str | Sequence[str] | None = None,
        predicted: NDArray[np.int32] | None = None,
        ks: Sequence[int] = DEFAULT_RANKS,
        threads: int | None = None,
        **reading: Unpack[ReadingOptions],
    ) -> Evaluation:
        """Compare predicted labels with the true ones, by every metric.

        What looks wrong, such as labels of a file that were separated by something else, is a warning.

        Parameters
        ----------
        data, labels, text
            Labeled data, as in :func:`labeltree.read_data`; columns and separators are those of the training
            data by default. Labels that the model does not know count as missed. Rows without labels are
            left out.
        predicted : ndarray of int32, rows x top, optional
            The labels that ``predict`` returned for the rows of a Dataset. Default: predict them.
        ks : sequence of int
            The ranks to evaluate at.
        threads : int, optional
            Default: all CPUs.
        **reading
            How data is read, as in :func:`labeltree.read_data`.

        Returns
        -------
        Evaluation
            A mapping of fractions by name, such as "P@1"; see `labeltree.metrics.evaluate`. Propensities are
            estimated from the training labels. Unless ``predicted`` is given, also "micro_F1" and "macro_F1"
            of the labels that ``self.decision`` accepts, if there is one, and "rows_with_accepted_label", the
            share of the rows with labels that get any. Its attributes are counts and a table of the labels.
        """
        dataset = read_labeled(self, data, labels, text=text, threads=threads, **reading)
        labeled = Labeled.of(dataset, self)
        unknown = () if labeled.is_mostly_known else labeled.unknown_note("separator")
        for note in (*unknown, *labeled.training_note()):
            warn(note)
        return labeled.evaluate(predicted, ks)

    def choose_threshold(
        self,
        data: Data,
        labels: Labels = None,
        *,
        text: str | Sequence[str] | None = None,
        metric: str | None = None,
        min_precision: float | None = None,
        min_recall: float | None = None,
        calibrate: bool | None = None,
        save: bool = False,
        threads: int | None = None,
        **reading: Unpack[ReadingOptions],
    ) -> Choice:
        """Choose which labels the model should accept, on data that it was not trained on.

        Parameters
        ----------
        data, labels, text
            Labeled data, as in `evaluate`.
        metric : {"micro_f1", "macro_f1", "row_f1"}, optional
            The F1 to maximize. "macro_f1" can give labels their own thresholds. Default: "micro_f1".
        min_precision, min_recall : float, optional
            Instead: the largest recall with this precision, or the largest precision with this recall.
        calibrate : bool, optional
            Fit a map from scores to probabilities, if it lowers the log loss; or use none. Default: the
            model's.
        save : bool, default False
            Use the choice as ``self.decision`` and ``self.calibration``, and store it in the directory of the
            model.
        threads : int, optional
            Default: all CPUs.
        **reading
            How data is read, as in :func:`labeltree.read_data`.

        Returns
        -------
        Choice
            ``predict(..., threshold=choice.decision)`` accepts these labels without storing anything.

        Raises
        ------
        InputError
            If no threshold reaches the goal, or the model knows fewer than half of the label occurrences.
        """
        check_goal(metric, min_precision, min_recall)
        if save:
            self._check_own()
        dataset = read_labeled(self, data, labels, text=text, threads=threads, **reading)
        choice = decide(
            self,
            dataset,
            metric=metric,
            min_precision=min_precision,
            min_recall=min_recall,
            calibrate=calibrate,
            threads=threads,
        )
        if save:
            self.store_decision(choice.decision, choice.calibration)
        return choice

    def explain(
        self,
        document: Any,
        *,
        labels: Sequence[str | int] | None = None,
        top: int = DEFAULT_TOP,
        beam: int = DEFAULT_BEAM,
        score: str | None = None,
        score_scale: float | None = None,
        words: int = DEFAULT_WORDS,
    ) -> list[Explanation]:
        """Explain the labels predicted for a document: their paths, and the words for and against each step.

        Parameters
        ----------
        document : str, or sparse matrix or array of one row
            A text, if the model was trained on text; otherwise a row of features.
        labels : sequence of str or int, optional
            Explain these labels, by name or number, predicted or not, instead of the best ones.
        top, beam, score, score_scale
            As in `predict`.
        words : int, default 5
            Maximum number of words for and against each step.

        Returns
        -------
        list of Explanation
            Best first; a label that the beam does not reach has the score 0.
        """
        from labeltree.explain.prediction import explain_prediction

        return explain_prediction(
            self,
            document,
            labels=labels,
            top=top,
            beam=beam,
            score=score,
            score_scale=score_scale,
            words=words,
        )

    def label(self, name: str | int, *, words: int = DEFAULT_WORDS, siblings: int = 10) -> LabelProfile:
        """Describe a label: its path through each tree, its siblings, and the words for and against it.

        Parameters
        ----------
        name : str or int
            Its name or number.
        words : int, default 5
            Maximum number of words for and against each step.
        siblings : int, default 10
            Maximum number of siblings to name.

        Returns
        -------
        LabelProfile
        """
        from labeltree.explain.label import describe_label

        return describe_label(self, name, words=words, siblings=siblings)

    def info(self) -> Facts:
        """Describe the model: its data, size and settings, and the shape of its trees.

        Returns
        -------
        Facts
            A mapping of what ``labeltree info --json`` prints.
        """
        from labeltree.explain.overview import describe_model

        return Facts(f"Model {self.path or '(unsaved)'}", describe_model(self))

    def compress(
        self,
        path: Path | str,
        *,
        weights: str | None = None,
        prune: float | None = None,
        max_loss: float | str | None = None,
        max_size: int | str | None = None,
        validation: Data | tuple[Data, Labels] | None = None,
        overwrite: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
        report: Callable[[Trial], None] | None = None,
    ) -> Model:
        """Write a compact copy of a model with float32 weights.

        Say how to store the weights (``weights``, ``prune``), or give a budget (``max_loss``, ``max_size``).
        Memory does not grow with the model, and the copy appears once it is complete.

        Parameters
        ----------
        path : path-like
            The directory to write.
        weights : {"float16", "int8"}, optional
            Type of the stored weights, with one scale per child. Default: "int8".
        prune : float, optional
            Drop weights with a smaller absolute value; the others are stored as int8. 0 drops only what
            rounds to zero. Bias weights are kept. Default: store all weights.
        max_loss : float or str, optional
            Find the smallest model whose P@1, P@3 and P@5 on the validation data are each at most this
            much lower (a fraction, or a string such as "0.1%"), by bisection and a few more trials.
        max_size : int or str, optional
            Find the best model of at most this many bytes, or a string such as "50MB", not counting the
            manifest: the one with the largest sum of P@1, P@3 and P@5 on the validation data, or without
            data the one that changes the weights least.
        validation : path-like, frame, Dataset or pair of texts and labels, optional
            Labeled data that the model was not trained on.
        overwrite : bool, default False
            Replace another existing model, once the new one is complete.
        threads : int, optional
            Default: all CPUs.
        progress : callable, optional
            Called periodically with the fraction of the work that is done.
        report : callable, optional
            Called with each form of the model that is evaluated, as a `labeltree.model.compress.Trial`.

        Returns
        -------
        Model
            The compact model, opened from disk. With a budget, its weights are still float32 if every
            smaller form loses more than ``max_loss``, or if this model fits in ``max_size``.
        """
        budget, path = (
            Budget(cast("float | None", max_loss), cast("int | None", max_size)),
            Path(os.path.abspath(path)),
        )
        budget.check(weights, prune, validation is not None)
        limits.checked("weights", weights, limits.Optional(limits.SMALL_WEIGHTS))
        storage = StorageSettings(weights or "int8", prune)
        limits.checked("threads", threads, limits.OPTIONAL_THREADS)
        check_source(self.path, self.trees)
        if self.path is not None:
            check_apart(self.path, path)
        check_target(path, overwrite)
        data = None if validation is None else validation_data(read_labeled(self, validation), self)
        self.verify(threads)
        threads = threads_to_use(threads)
        compress_model(self, path, storage, budget, data, overwrite, threads, progress, report)
        return load_complete(path)

    def frontier(
        self,
        validation: Data | tuple[Data, Labels],
        *,
        max_loss: float | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Table:
        """Measure the model in many compact forms: its size and precision, from the largest to the smallest.

        Parameters
        ----------
        validation : path-like, frame, Dataset or pair of texts and labels
            Labeled data that the model was not trained on.
        max_loss : float, optional
            What the ``chosen`` form may lose of P@1, P@3 or P@5. Default: 0.001.
        threads : int, optional
            Default: all CPUs.
        progress : callable, optional
            Called periodically with the fraction of the work that is done.

        Returns
        -------
        Table
            A row per form: ``weights``, ``threshold``, ``nonzeros``, ``model_bytes``, ``P@1``, ``P@3``,
            ``P@5`` and whether it is the ``chosen`` one, the smallest that loses at most ``max_loss``.
        """
        data = validation_data(read_labeled(self, validation), self)
        return measure_forms(self, data, max_loss=max_loss, threads=threads, progress=progress)

    def write_copy(
        self, place: Path, storage: StorageSettings, threads: int, progress: Progress | None
    ) -> Model:
        """Write a copy of a float32 model in some form to a new directory, and open it."""
        place.mkdir()
        write_model(ModelWriter(place), self, storage, threads, progress)
        return load(place, verify=False)


def load(path: Path | str, *, verify: bool | None = None) -> Model:
    """Open a model directory; see `labeltree.load`, which also takes addresses."""
    model = Model(*read_parts(Path(path)))
    try:
        _ = model._search
    except ValueError as error:
        raise InputError(f"the model is damaged: {error}", file=model.path, hint=RESTORE) from None
    if verify or (verify is None and model.bytes <= available_memory()):
        model.verify()
    return model


def load_complete(path: Path | str) -> Model:
    """Open a model that was just written and published; if that fails, the error says that it is complete."""
    try:
        return load(path, verify=False)
    except (ResourceError, MemoryError) as error:
        what = error.what if isinstance(error, ResourceError) else "not enough memory"
        raise InputError(
            f"the model is complete, but could not be opened: {what}",
            file=path,
            hint="open it with more memory; it need not be trained again",
        ) from None
