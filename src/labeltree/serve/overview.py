"""What the page tells about a model as a whole: its figures, and what was measured about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from labeltree.errors import InputError
from labeltree.explain.summary import describe_model
from labeltree.model.layout import MANIFEST
from labeltree.serve.results import LabelHits, known_results

if TYPE_CHECKING:
    from labeltree.model.model import Model

# Of these, the page needs all but the path of the directory, which is nobody else's business.
_PRIVATE = ("model",)
_RESULTS: WeakKeyDictionary[Model, Results] = WeakKeyDictionary()


class Results:
    """What was measured about a model.

    Attributes
    ----------
    frontier : list of dict or None
    hits : LabelHits or None
    faults : list of str
        What is wrong with the files, if they cannot be read.
    written : str or None
        When the model was written, if known.
    """

    def __init__(
        self,
        frontier: list[dict[str, Any]] | None = None,
        hits: LabelHits | None = None,
        faults: tuple[str, ...] = (),
        written: str | None = None,
    ) -> None:
        self.frontier, self.hits, self.faults, self.written = frontier, hits, list(faults), written

    @classmethod
    def of_model(
        cls,
        model: Model,
        frontier: list[dict[str, Any]] | None = None,
        hits: LabelHits | None = None,
        faults: tuple[str, ...] = (),
    ) -> Results:
        """Return what was found, and when the model was written."""
        return cls(frontier, hits, faults, None if model.path is None else _modified(model))

    @classmethod
    def of(cls, model: Model) -> Results:
        """Read the files in the directory of a model, once per model; a damaged one is a fault.

        To be called when the model is opened: later, the directory may have another model.
        """
        if model not in _RESULTS:
            try:
                _RESULTS[model] = cls.of_model(model, *known_results(model))
            except InputError as error:
                name = (error.file or "").rpartition("/")[2]
                _RESULTS[model] = cls.of_model(model, faults=(str(error.replace(file=name)),))
        return _RESULTS[model]


def overview(model: Model, results: Results) -> Mapping[str, Any]:
    """Return the figures of a model, when it was written, its frontier and its precision."""
    figures = {name: value for name, value in describe_model(model).items() if name not in _PRIVATE}
    hits = results.hits
    predictions = 0 if hits is None else int(hits.predicted.sum())
    return {
        **figures,
        "bytes": model.bytes,
        "written": results.written,
        "frontier": results.frontier,
        "precision": int(hits.correct.sum()) / predictions if hits is not None and predictions else None,
        "predictions": predictions,
        "faults": results.faults,
    }


def _modified(model: Model) -> str | None:
    """Return when the manifest was written, as far as the file system knows."""
    assert model.path is not None
    try:
        seconds = (model.path / MANIFEST).stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
