"""The keyword arguments that several verbs share: their types for editors, their names in signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, Literal, TypedDict, TypeVar, cast


class ReadingOptions(TypedDict, total=False):
    """How data is read, besides its columns; a model reads other data as its training data by default.

    Attributes
    ----------
    separator : str or sequence of str
        What separates labels in a string; a space stands for any whitespace. Default: a comma, and
        whitespace in TSV files.
    delimiter : str
        The character that separates the fields of a CSV file. Default: detected from the header.
    id : str
        The column that identifies a document of a file.
    format : str
        Of a file. Default: detected from its name.
    one_based : bool
        Whether the first feature of a LIBSVM file has the index 1. Default: as in training, or detected.
    strict : bool, default False
        Refuse documents without text or labels instead of counting them.
    """

    separator: str | Sequence[str] | None
    delimiter: str | None
    id: str | None
    format: str | None
    one_based: bool | None
    strict: bool


class TextOptions(TypedDict, total=False):
    """How documents become features, as in `labeltree.TextSettings`."""

    analyzer: str
    ngrams: tuple[int, int]
    min_df: int
    max_features: int | None
    sublinear: bool
    stop_words: str | Sequence[str] | None
    lowercase: bool
    strip_html: bool
    unicode: Literal["nfkc"] | None


class TuningOptions(TextOptions, ReadingOptions, total=False):
    """How data is read, and how documents become features."""


class ModelOptions(TypedDict, total=False):
    """How a model is built, trained and stored.

    As in `labeltree.TreeSettings`, `labeltree.SolverSettings`, `labeltree.StorageSettings` and
    `labeltree.ScoreSettings`, whose function is called ``score`` here.
    """

    clusters: int
    max_depth: int
    trees: int
    seed: int
    tree: Any
    loss: Literal["squared_hinge", "hinge", "logistic"]
    cost: float | None
    max_cost: float | None
    positive_cost: float | tuple[float, ...]
    tolerance: float
    max_iterations: int
    bias: float
    hard_negatives: int
    foreign_cost: float
    weights: Literal["float32", "float16", "int8"] | None
    prune: float | None
    score: Literal["auto", "sigmoid", "hinge2", "hinge3"]
    score_scale: float | None
    normalize: bool


class TrainingOptions(ModelOptions, TextOptions, ReadingOptions, total=False):
    """Everything that training can be told, besides data and machine."""


Verb = TypeVar("Verb", bound=Callable[..., Any])


def shows(options: type, *settings: Any) -> Callable[[Verb], Verb]:
    """Return a decorator for a function with ``**options``: its signature shows and accepts only these.

    The fields of the `settings`, which are dataclasses, have the defaults that are shown.
    """
    defaults = {
        item.name: item.default for kind in settings for item in fields(kind) if item.default is not MISSING
    }

    def decorate(function: Verb) -> Verb:
        signature = inspect.signature(function)
        named = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
        more = []
        for name, annotation in options.__annotations__.items():
            kind = annotation.__forward_arg__
            default = defaults.get(name, False if kind == "bool" else None)
            more.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            )
        names = [item.name for item in (*named, *more)]

        @wraps(function)
        def call(*given: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in names:
                    similar = get_close_matches(name, names, 1)
                    hint = f"; did you mean {similar[0]!r}?" if similar else ""
                    raise TypeError(f"{function.__name__}() has no argument {name!r}{hint}")
            return function(*given, **keywords)

        call.__signature__ = signature.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return cast(Verb, call)

    return decorate
