"""A trained model: opened from a directory, and written to another one, compact or with a decision."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from labeltree.base import limits
from labeltree.base.progress import Progress
from labeltree.base.system import available_memory, free_disk, human_bytes, threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.evaluation.calibration import Calibration
from labeltree.evaluation.decisions import Decision
from labeltree.evaluation.labeled import Validation
from labeltree.model.amend import amend_model
from labeltree.model.block_writing import copy_blocks
from labeltree.model.budget import Budget, Form, Trial, Trials, choose, form_of, list_forms
from labeltree.model.compress import check_apart, check_source, dense_bytes, write_compact
from labeltree.model.directory import check_target, new_model, publish, temporary_directory
from labeltree.model.files import ModelWriter
from labeltree.model.manifest import RESTORE, Description, carried_over, stored_as
from labeltree.model.opening import read_parts
from labeltree.model.predictor import Predictor
from labeltree.settings import StorageSettings


class Model(Predictor):
    """A trained model. Use ``labeltree.load`` to open one.

    Attributes
    ----------
    path : Path or None
        Its directory; None for a model that was unpickled, or fitted by an estimator and not saved.
    manifest : dict
        The contents of ``manifest.json``: shapes, settings, versions, files.
    n_features, n_labels, n_instances : int
        The shape of the training data.
    label_names : tuple of str or None
        Names of the labels; None if labels are integers.
    one_based : bool or None
        Whether the training file numbers features from 1; None if it was not read from a file.
    normalized : bool
        Whether rows were scaled to length 1 for training; those to predict are scaled in the same way.
    label_counts : ndarray of int64
        Training instances of each label.
    score : ScoreSettings
        How margins become scores by default.
    decision : Decision or None
        Which labels to accept: a threshold, or one per label; see `labeltree.decisions.Decision`.
    calibration : Calibration or None
        A map from scores to probabilities that ``predict`` applies; see `labeltree.calibration.Calibration`.
    trees : tuple of TreeBlocks
    text : TextFeatures or None
        Turns documents into features, if the model was trained on text: ``model.text.transform(documents)``.
    """

    def save(
        self, path: Path | str, *, overwrite: bool = False, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Write the model to a directory, which appears once it is complete.

        Parameters
        ----------
        path : path-like
            The directory to write.
        overwrite : bool, default False
            Replace an existing model, once the new one is complete.
        extra : mapping, optional
            More entries for the manifest (JSON).
        """
        path = Path(path)
        with new_model(path, overwrite) as writer:
            free = free_disk(path.parent)
            if self.bytes > free:
                what = f"the model takes {human_bytes(self.bytes)}, but only {human_bytes(free)} are free"
                raise ResourceError(what, file=path.parent, hint="choose another directory")
            writer.write_common(self.label_counts, self.label_names, self.text)
            writer.write_thresholds(None if self.decision is None else self.decision.thresholds)
            for t, part in enumerate(self.trees):
                copy_blocks(writer, f"tree-{t}", part)
            writer.finish(cast(Description, {**carried_over(self.manifest), **(extra or {})}))

    def compress(
        self,
        path: Path | str,
        *,
        weights: str | None = None,
        prune: float | None = None,
        max_loss: float | None = None,
        max_size: int | str | None = None,
        validation: Dataset | None = None,
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
        max_loss : float, optional
            Find the smallest model whose P@1, P@3 and P@5 on the validation data are each at most this
            many percentage points below those of this model, by bisection and a few more trials.
        max_size : int or str, optional
            Find the best model of at most this many bytes, or a string such as "50MB", not counting the
            manifest: the one with the largest
            sum of P@1, P@3 and P@5 on the validation data, or without data the one that changes the weights
            least.
        validation : Dataset, optional
            Labeled data that the model was not trained on.
        overwrite : bool, default False
            Replace another existing model, once the new one is complete.
        threads : int, optional
            Default: all CPUs.
        progress : callable, optional
            Called periodically with the fraction of the work that is done.
        report : callable, optional
            Called with each form of the model that is evaluated, as a `labeltree.budget.Trial`.

        Returns
        -------
        Model
            The compact model, opened from disk. With a budget, its weights are still float32 if nothing
            smaller loses as little as ``max_loss``, or if this model fits in ``max_size``.
        """
        budget, path = Budget(max_loss, cast("int | None", max_size)), Path(os.path.abspath(path))
        budget.check(weights, prune, validation is not None)
        limits.checked("weights", weights, limits.Optional(limits.SMALL_WEIGHTS))
        storage = StorageSettings(weights or "int8", prune)
        limits.checked("threads", threads, limits.OPTIONAL_THREADS)
        check_source(self.path, self.trees)
        if self.path is not None:
            check_apart(self.path, path)
        check_target(path, overwrite)
        checked = None if validation is None else Validation.of(validation, self)
        self.verify(threads)
        with temporary_directory(path) as work:

            def write(storage: StorageSettings, place: Path, progress: Progress | None) -> Model:
                return self._write_compact(storage, place, threads_to_use(threads), progress)

            trials = Trials(work, self, write, checked, threads, report)
            other_bytes = self.bytes - dense_bytes(self.trees, "float32")
            if budget:
                forms = list_forms(self.trees, other_bytes, threads_to_use(threads))
                form = choose(forms, budget, trials, checked is not None, progress).form
            else:
                form = form_of(storage, self.trees, other_bytes, threads_to_use(threads))
                if checked is not None:
                    trials.measure(Form(StorageSettings(), self.bytes))
                trials.measure(form, progress)
            publish(trials.path(form, progress), path, overwrite)
        return load_complete(path)

    def _write_compact(
        self, storage: StorageSettings, place: Path, threads: int, progress: Progress | None
    ) -> Model:
        """Write a copy of the model to a new directory."""
        place.mkdir()
        writer = ModelWriter(place)
        writer.write_common(self.label_counts, self.label_names, self.text)
        writer.write_thresholds(None if self.decision is None else self.decision.thresholds)
        described = {**carried_over(self.manifest), **stored_as(storage)}
        if storage.prune is None and storage.codec != "float32":
            described.pop("pruned", None)  # of a float32 model that an earlier version pruned
        if storage.codec == "float32":
            for t, part in enumerate(self.trees):
                copy_blocks(writer, f"tree-{t}", part)
        else:
            stored = write_compact(writer, self.trees, storage, threads, progress)
            if storage.prune is not None:
                described["weights"] = stored
        writer.finish(cast(Description, described))
        return load(place, verify=False)

    def store_decision(self, decision: Decision | None, calibration: Calibration | None) -> Model:
        """Store which labels to accept, and how scores become probabilities, in the model directory.

        The directory is replaced by one that links to the same files: readers find the old model or the new
        one, and a process that is killed leaves one of them.

        Parameters
        ----------
        decision : Decision or None
        calibration : Calibration or None

        Returns
        -------
        Model
            The model, opened from disk again.
        """
        if self.path is None:
            raise InputError("the model has no directory", hint="save it first")
        thresholds = None if decision is None else decision.thresholds
        if thresholds is not None and thresholds.shape != (self.n_labels,):
            what = f"there are thresholds of shape {thresholds.shape} for {self.n_labels:,} labels"
            raise InputError(what)
        changes = {
            "decision": decision and decision.entry(),
            "calibration": calibration and calibration.entry(),
        }
        amend_model(self.path, self.manifest, changes, thresholds)
        return load_complete(self.path)


def load(path: Path | str, *, verify: bool | None = None) -> Model:
    """Open a model directory.

    The blocks are mapped, not read: a model takes only the memory of the pages in use, so models larger
    than memory can be served.

    Parameters
    ----------
    path : path-like
    verify : bool, optional
        Read all blocks, compare their checksums, and check their features and weights. Default: only if
        they fit in the available memory. Everything else is always checked.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        If the directory is not a model, or contains what labeltree would not have written.
    """
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
