"""A trained model: opened from a directory, it predicts and evaluates, and is stored again in other forms."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from labeltree.base import limits
from labeltree.base.display import Progress, shown, warn
from labeltree.base.options import ReadingOptions, shows
from labeltree.base.system import available_memory, threads_to_use
from labeltree.base.table import Facts, Table
from labeltree.errors import InputError, ResourceError
from labeltree.evaluation.result import Evaluation
from labeltree.model.compress import REPORTED_LOSS, Budget, Trial, Unseen, compress_model, measure_forms
from labeltree.model.directory import check_apart, check_target, read_whole
from labeltree.model.labeled_data import Choice, Labeled, decide, goal_of, read_labeled, validation_data
from labeltree.model.manifest import RESTORE
from labeltree.model.open import read_parts
from labeltree.model.pack import check_source, write_model
from labeltree.model.prediction import Predictor
from labeltree.model.writer import ModelWriter
from labeltree.settings import DEFAULT_BEAM, DEFAULT_RANKS, DEFAULT_TOP, DEFAULT_WORDS, StorageSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data, Labels
    from labeltree.explain.label import LabelProfile
    from labeltree.explain.prediction import Explanation


class Model(Predictor):
    """A trained model. Use ``labeltree.load`` to open one.

    Its attributes are those of `StoredModel`: ``path``, ``n_features``, ``n_labels``, ``label_names``,
    ``decision``, ``calibration``, ``text`` and more.
    """

    @shows(ReadingOptions)
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
        data, labels, text, threads, **reading
            Labeled data, and how it is read (``separator``, ``delimiter``, ``id``, ``format``, ``one_based``,
            ``strict``), as in :func:`labeltree.read_data`; by default as the training data. Labels that the
            model does not know count as missed. Rows without labels are left out.
        predicted : ndarray of int32, rows x top, optional
            The labels that ``predict`` returned for the rows of a Dataset. Default: predict them.
        ks : sequence of int
            The ranks to evaluate at.

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
        is_usual = labeled.is_mostly_known and labeled.least_rows == 1
        for note in (*(() if is_usual else labeled.unknown_note("separator")), *labeled.training_note()):
            warn(note)
        return labeled.evaluate(predicted, ks)

    @shows(ReadingOptions)
    def choose_threshold(
        self,
        data: Data,
        labels: Labels = None,
        *,
        text: str | Sequence[str] | None = None,
        metric: Literal["micro_f1", "macro_f1", "row_f1"] | None = None,
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
        data, labels, text, threads, **reading
            As in `evaluate`.
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

        Returns
        -------
        Choice
            ``predict(..., threshold=choice)`` accepts these labels without storing anything.

        Raises
        ------
        InputError
            If no threshold reaches the goal, or the model knows fewer than half of the label occurrences.
        """
        goal = goal_of(metric, min_precision, min_recall)
        if save:
            self._check_own()
        dataset = read_labeled(self, data, labels, text=text, threads=threads, **reading)
        choice = decide(self, validation_data(dataset, self), goal, calibrate=calibrate, threads=threads)
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
            As in `explain`.
        siblings : int, default 10
            Maximum number of siblings to name.
        """
        from labeltree.explain.label import describe_label

        return describe_label(self, name, words=words, siblings=siblings)

    def info(self) -> Facts:
        """Describe the model: its data, size and settings, and the shape of its trees.

        The result is a mapping of what ``labeltree info --json`` prints.
        """
        from labeltree.explain.overview import describe_model

        return Facts(f"Model {self.path or '(unsaved)'}", describe_model(self))

    def compress(
        self,
        path: str | os.PathLike[str],
        *,
        weights: str | None = None,
        prune: float | None = None,
        max_loss: float | str | None = None,
        max_size: int | str | None = None,
        validation: Data | tuple[Data, Labels] | None = None,
        training: Data | tuple[Data, Labels] | None = None,
        overwrite: bool = False,
        threads: int | None = None,
        progress: bool | Progress = False,
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
            Find the smallest model whose P@1, P@3 and P@5 are each at most this much lower (a fraction, or a
            string such as "0.1%"), by an upper bound from the data; a warning tells if it has too few rows.
        max_size : int or str, optional
            Find the best model of at most this many bytes, or a string such as "50MB", not counting the
            manifest: the one that changes the weights least, unless data clearly shows that the sum of P@1,
            P@3 and P@5 of another is larger.
        validation : path-like, frame, Dataset or pair of texts and labels, optional
            Labeled data that the model was not trained on.
        training : path-like, frame, Dataset or pair of texts and labels, optional
            Instead: the training data. Models with the trees and settings of this one are trained on four
            fifths of the rows, and their compact forms are compared with them on the other rows.
        overwrite : bool, default False
            Replace another existing model, once the new one is complete.
        threads : int, optional
            Default: all CPUs.
        progress : bool, default False
            Show the progress on standard error or in a notebook.
        report : callable, optional
            Called with each form of the model that is evaluated, as a `labeltree.model.compress.Trial`.

        Returns
        -------
        Model
            The compact model, opened from disk. With a budget, its weights are still float32 if every
            smaller form loses more than ``max_loss``, or if this model fits in ``max_size``. With validation
            data, the threshold is chosen again by the same goal: ``decision`` says on how many rows.
        """
        path = Path(os.path.abspath(limits.checked("path", path, limits.PATH)))
        budget = Budget(cast("float | None", max_loss), cast("int | None", max_size))
        if validation is not None and training is not None:
            what = "validation data cannot be combined with training data"
            raise InputError(what, hint="remove {validation} or {training}")
        budget.check(weights, prune, validation is not None or training is not None)
        limits.checked("weights", weights, limits.Optional(limits.SMALL_WEIGHTS))
        storage = StorageSettings(weights or "int8", prune)
        limits.checked("threads", threads, limits.OPTIONAL_THREADS)
        check_source(self.path, self.trees)
        if self.path is not None:
            check_apart(self.path, path)
        check_target(path, overwrite)
        threads = threads_to_use(threads)
        data: Labeled | None = None
        sources: tuple[Iterable[Unseen], int] | None = None
        if training is not None:
            from labeltree.tuning.folds import FOLDS, train_on_folds

            rows = validation_data(read_labeled(self, training), self, is_training=True)
            sources = train_on_folds(rows, threads), FOLDS
        elif validation is not None:
            data = validation_data(read_labeled(self, validation), self)
            sources = [Unseen(self, data.dataset.X, data.truth)], 1
        self.verify(threads)
        with shown(progress, f"compressing {self.path or 'the model'}") as done:
            compress_model(self, path, storage, budget, sources, overwrite, threads, done, report)
        small = load_complete(path)
        if data is not None and small.codec != "float32" and (decision := data.decide_again(small)):
            small.store_decision(decision, small.calibration)
        return small

    def frontier(
        self,
        validation: Data | tuple[Data, Labels],
        *,
        max_loss: float | str = REPORTED_LOSS,
        threads: int | None = None,
        progress: bool | Progress = False,
    ) -> Table:
        """Measure the model in many compact forms: its size and precision, from the largest to the smallest.

        Parameters
        ----------
        validation, threads, progress
            As in `compress`.
        max_loss : float or str, default 0.001
            What the ``chosen`` form may lose of P@1, P@3 or P@5, as in `compress`.

        Returns
        -------
        Table
            A row per form: ``weights``, ``threshold``, ``nonzeros``, ``model_bytes``, ``P@1``, ``P@3``,
            ``P@5``, ``loss_at_most`` and whether it is the ``chosen`` one.
        """
        most = limits.checked("max_loss", max_loss, limits.MAX_LOSS)
        data = validation_data(read_labeled(self, validation), self)
        with shown(progress, f"measuring {self.path or 'the model'}") as done:
            return measure_forms(self, Unseen(self, data.dataset.X, data.truth), most, threads, done)

    def write_copy(
        self, place: Path, storage: StorageSettings, threads: int, progress: Progress | None
    ) -> Model:
        """Write a copy of a float32 model in some form to a new directory, and open it."""
        place.mkdir()
        write_model(ModelWriter(place), self, storage, threads, progress)
        return load(place, verify=False)


def load(path: Path | str, *, verify: bool | None = None) -> Model:
    """Open a model directory; see `labeltree.load`, which also takes addresses."""
    model = Model(*read_whole(Path(path), read_parts))
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
        what = f"the model is complete, but could not be opened: {what}"
        hint = "open it with more memory; it need not be trained again"
        raise InputError(what, file=path, hint=hint) from None
