"""Requests: the fields of a JSON body, checked one by one, so that an error names the field."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import numpy as np
import scipy.sparse as sp

from labeltree.base import limits
from labeltree.base.json import parse_json
from labeltree.errors import InputError, alternatives
from labeltree.evaluation.decisions import Decision
from labeltree.explain.label import find_label
from labeltree.model.model import Model
from labeltree.serve.batching import Queries
from labeltree.serve.errors import RequestError
from labeltree.serve.registry import Registry, Served
from labeltree.serve.settings import LARGE_ANSWER, MOST_LABELS, MOST_NAME, MOST_WORDS, ServiceSettings
from labeltree.settings import DEFAULT_TOP, DEFAULT_WORDS, MAX_ACCEPTED

TOP = limits.Whole(1, MOST_LABELS)
WORDS = limits.Whole(0, MOST_WORDS)
THRESHOLD = limits.Number(0.0, 1.0)
# Labels in one answer, of all its texts.
MOST_ANSWERS = 100_000

_PREDICT = ("model", "text", "texts", "rows", "top", "threshold", "accepted", "names", "scores")
_EXPLAIN = ("model", "text", "row", "label", "top", "words")
# What Annif sends; it may send more.
_FORM_FIELDS = 1000

T = TypeVar("T")


class PredictRequest(NamedTuple):
    """What POST /predict asks for."""

    served: Served
    queries: Queries
    n_rows: int
    top: int
    decision: Decision | None
    names: bool
    scores: bool

    @property
    def is_large(self) -> bool:
        """Whether the answer is written by a thread, so that others need not wait."""
        return self.n_rows * self.top > LARGE_ANSWER


class ExplainRequest(NamedTuple):
    """What POST /explain asks for."""

    served: Served
    query: str | sp.csr_matrix
    label: int | None
    top: int
    words: int


class SuggestRequest(NamedTuple):
    """What Annif asks for."""

    served: Served
    text: str
    limit: int


class Reader:
    """Reads the bodies of requests.

    Parameters
    ----------
    registry : Registry
    settings : ServiceSettings
    """

    def __init__(self, registry: Registry, settings: ServiceSettings) -> None:
        self._registry, self._settings = registry, settings

    def predict(self, body: bytes) -> PredictRequest:
        """Read the body of POST /predict."""
        fields = _fields(body, _PREDICT)
        served = self.find(fields.get("model"))
        kind = _one_of(fields, ("text", "texts", "rows"))
        queries: Queries
        if kind == "rows":
            queries = self._rows(served.model, _list(fields, kind, self._settings.max_texts))
            n_rows = queries.shape[0]
        else:
            texts = [fields["text"]] if kind == "text" else _list(fields, kind, self._settings.max_texts)
            queries = self._texts(served.model, texts, kind)
            n_rows = len(queries)
        decision = _decision(served.model, fields)
        top = DEFAULT_TOP if decision is None else MAX_ACCEPTED
        if "top" in fields:
            top = _checked("top", fields["top"], TOP)
        if n_rows * top > MOST_ANSWERS:
            what = f"{n_rows:,} texts or rows with {top:,} labels each are too many for one answer"
            raise RequestError(400, what, f"ask for at most {MOST_ANSWERS:,} labels in all")
        return PredictRequest(
            served,
            queries,
            n_rows,
            top,
            decision,
            "names" not in fields or _checked("names", fields["names"], limits.FLAG),
            "scores" not in fields or _checked("scores", fields["scores"], limits.FLAG),
        )

    def explain(self, body: bytes) -> ExplainRequest:
        """Read the body of POST /explain."""
        fields = _fields(body, _EXPLAIN)
        served = self.find(fields.get("model"))
        query: str | sp.csr_matrix
        if _one_of(fields, ("text", "row")) == "text":
            [query] = self._texts(served.model, [fields["text"]], "text")
        else:
            query = self._rows(served.model, [fields["row"]])
        label = fields.get("label")
        return ExplainRequest(
            served,
            query,
            None if label is None else _label(served.model, label),
            _checked("top", fields.get("top", DEFAULT_TOP), limits.Whole(1, 100)),
            _checked("words", fields.get("words", DEFAULT_WORDS), WORDS),
        )

    def suggest(self, name: str, body: bytes) -> SuggestRequest:
        """Read the form fields of POST /models/NAME/suggest."""
        served = self.find(name)
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS
            )
        except ValueError:  # also UnicodeDecodeError
            raise RequestError(400, "the form fields cannot be read", "send them URL-encoded") from None
        fields = dict(pairs)
        if "text" not in fields:
            raise RequestError(400, "there is no form field 'text'", "send text, and limit if you like")
        [text] = self._texts(served.model, [fields["text"]], "text")
        limit = fields.get("limit") or "10"
        number = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 10 else limit
        return SuggestRequest(served, text, _checked("limit", number, TOP))

    def find(self, name: Any) -> Served:
        """Find a model, or raise an error with status 404."""
        if name is not None and not isinstance(name, str):
            raise RequestError(400, "'model' is not a string", "send the name of a model")
        try:
            return self._registry.find(name)
        except KeyError:
            what = f"there is no model {str(name)[:100]!r}"
            raise RequestError(404, what, "GET /models lists the models") from None

    def _texts(self, model: Model, texts: list[Any], field: str) -> list[str]:
        if model.text is None:
            what = "the model was not trained on text"
            raise RequestError(400, what, "send rows of feature values")
        longest = self._settings.max_length
        for i, text in enumerate(texts):
            where = f"'{field}'" if field == "text" else f"text {i}"
            if not isinstance(text, str):
                raise RequestError(400, f"{where} is not a string")
            if len(text) > longest:
                what = f"{where} has {len(text):,} characters, expected at most {longest:,}"
                raise RequestError(413, what)
        return texts

    def _rows(self, model: Model, rows: list[Any]) -> sp.csr_matrix:
        indices: list[int] = []
        values: list[float] = []
        ptr = [0]
        for i, row in enumerate(rows):
            self._check_row(model, i, row)
            pairs = sorted(zip(row["indices"], row["values"], strict=True))
            for (one, _), (other, _) in itertools.pairwise(pairs):
                if one == other:
                    raise RequestError(400, f"row {i} has feature {one} twice")
            indices += [index for index, _ in pairs]
            values += [value for _, value in pairs]
            ptr.append(len(indices))
        arrays = np.array(values, np.float32), np.array(indices, np.int32), np.array(ptr, np.int32)
        X = sp.csr_matrix(arrays, shape=(len(rows), model.n_features))
        X.has_canonical_format = True
        return X

    def _check_row(self, model: Model, i: int, row: Any) -> None:
        if not (isinstance(row, dict) and row.keys() == {"indices", "values"}):
            raise RequestError(400, f"row {i} is not an object with the lists indices and values")
        indices, values = row["indices"], row["values"]
        if not (isinstance(indices, list) and isinstance(values, list) and len(indices) == len(values)):
            raise RequestError(400, f"row {i} has no lists of indices and values of the same length")
        if len(indices) > self._settings.max_length:
            what = f"row {i} has {len(indices):,} features, expected at most {self._settings.max_length:,}"
            raise RequestError(413, what)
        if not all(type(index) is int and 0 <= index < model.n_features for index in indices):
            expected = f"expected integers from 0 to {model.n_features - 1:,}"
            raise RequestError(400, f"row {i} has an index that no feature has, {expected}")
        largest = limits.LARGEST_VALUE
        if not all(type(value) in (int, float) and abs(value) <= largest for value in values):
            raise RequestError(400, f"row {i} has a value that is not a number from -1e15 to 1e15")


def _fields(body: bytes, known: tuple[str, ...]) -> dict[str, Any]:
    try:
        fields = parse_json(body)
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON ({str(error)[:200]})") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "the body is not a JSON object", f"send an object with {known[1]!r}")
    for name in fields:
        if name not in known:
            raise RequestError(400, f"unknown field {name[:100]!r}", f"use {alternatives(known)}")
    return fields


def _one_of(fields: dict[str, Any], names: tuple[str, ...]) -> str:
    given = [name for name in names if name in fields]
    if len(given) != 1:
        found = "there is none" if not given else f"there are {' and '.join(given)}"
        raise RequestError(400, f"expected one of the fields {alternatives(names)}, but {found}")
    return given[0]


def _list(fields: dict[str, Any], name: str, most: int) -> list[Any]:
    values = fields[name]
    if not isinstance(values, list):
        raise RequestError(400, f"'{name}' is not a list")
    if len(values) > most:
        what = f"'{name}' has {len(values):,} entries, expected at most {most:,}"
        raise RequestError(413, what, "send several requests")
    return values


def _decision(model: Model, fields: dict[str, Any]) -> Decision | None:
    """Return which labels to accept: by a threshold, or as stored in the model; None for all."""
    threshold = fields.get("threshold")
    if "accepted" not in fields or not _checked("accepted", fields["accepted"], limits.FLAG):
        return None if threshold is None else Decision(_checked("threshold", threshold, THRESHOLD))
    if threshold is not None:
        raise RequestError(400, "'accepted' and 'threshold' exclude each other", "send one of them")
    if model.decision is None:
        hint = "send a threshold, or choose one with `labeltree threshold`"
        raise RequestError(400, "the model has no threshold", hint)
    return model.decision


def _label(model: Model, label: Any) -> int:
    if type(label) is int:
        if 0 <= label < model.n_labels:
            return label
    elif isinstance(label, str) and len(label) <= MOST_NAME:
        return _converted(lambda: find_label(model, label))
    what = f"'label' is not the name of a label or a number from 0 to {model.n_labels - 1:,}"
    raise RequestError(400, what)


def _checked(name: str, value: Any, limit: limits.Limit) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise RequestError(400, f"'{name}' is not finite")
    return _converted(lambda: limits.checked(name, value, limit))


def _converted(call: Callable[[], T]) -> T:
    try:
        return call()
    except InputError as error:
        raise RequestError.of(error) from None
