"""Requests: their fields, which validate and document themselves."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from labeltree.base.limits import LARGEST_INT32, LARGEST_VALUE
from labeltree.errors import alternatives
from labeltree.model.model import Model
from labeltree.serve.errors import RequestError
from labeltree.serve.settings import MOST_LABELS, MOST_NAME, MOST_WORDS, ServiceSettings
from labeltree.settings import DEFAULT_TOP, DEFAULT_WORDS, MAX_ACCEPTED


def _whole(value: Any) -> Any:
    """Return 5.0 as 5, also in a list: both are integers in JSON Schema, and "5" is not."""
    if isinstance(value, list):
        return [_whole(item) for item in value] if float in set(map(type, value)) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


# A limit of the length also refuses unpaired surrogates. The longest text is a setting.
Text = Annotated[str, StringConstraints(max_length=LARGEST_INT32)]
ModelName = Annotated[str | None, Field(description="Name of the model. Default: the first one.")]
Whole = BeforeValidator(_whole)
Top = Annotated[int, Field(ge=1, le=MOST_LABELS, description="Maximum number of labels per text."), Whole]
Index = Annotated[int, Field(ge=0, le=LARGEST_INT32)]
Value = Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    def check_one_of(self, *names: str) -> None:
        """Raise a ValueError unless exactly one of some fields is given."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"there are {' and '.join(given)}" if given else "there is none"
            raise ValueError(f"expected one of the fields {alternatives(names)}, but {found}")


# What the document says beyond the types of the fields; the validators below check it.
_NOT_BOTH: dict[str, Any] = {
    "anyOf": [{"properties": {"accepted": {"const": False}}}, {"properties": {"threshold": {"type": "null"}}}]
}


def _one_of(**types: str) -> dict[str, Any]:
    """Describe that exactly one of some fields is given; others may be null."""
    return {"oneOf": [{"required": [name], "properties": {name: {"type": types[name]}}} for name in types]}


class Row(_Request):
    """The features of a row that are not zero: as many indices as values."""

    indices: Annotated[list[Index], Whole] = Field(
        description="Features from 0, each at most once.", json_schema_extra={"uniqueItems": True}
    )
    values: list[Value]


class PredictRequest(_Request):
    """What POST /predict asks for: labels for a text, for texts, or for rows of features."""

    model_config = ConfigDict(
        json_schema_extra={"allOf": [_one_of(text="string", texts="array", rows="array"), _NOT_BOTH]}
    )

    model: ModelName = None
    text: Text | None = None
    texts: list[Text] | None = None
    rows: list[Row] | None = None
    top: Top | None = Field(
        default=None, description=f"Default: {DEFAULT_TOP}, or {MAX_ACCEPTED} with a threshold."
    )
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="Leave out labels with a lower score."
    )
    accepted: bool = Field(
        default=False, description="Return only labels that reach the threshold stored in the model."
    )

    @model_validator(mode="after")
    def _check(self) -> PredictRequest:
        self.check_one_of("text", "texts", "rows")
        if self.accepted and self.threshold is not None:
            raise ValueError("'accepted' and 'threshold' exclude each other")
        return self


class ExplainRequest(_Request):
    """What POST /explain asks for: why a text or a row has its labels, or a given one."""

    model_config = ConfigDict(json_schema_extra={"allOf": [_one_of(text="string", row="object")]})

    model: ModelName = None
    text: Text | None = None
    row: Row | None = None
    label: Annotated[Index | Annotated[str, StringConstraints(max_length=MOST_NAME)] | None, Whole] = Field(
        default=None, description="Name or number of a label to explain, predicted or not."
    )
    top: Annotated[int, Field(ge=1, le=100), Whole] = DEFAULT_TOP
    words: Annotated[int, Field(ge=0, le=MOST_WORDS), Whole] = DEFAULT_WORDS

    @model_validator(mode="after")
    def _check(self) -> ExplainRequest:
        self.check_one_of("text", "row")
        return self


class SuggestRequest(BaseModel):
    """The form fields that Annif sends; there may be others."""

    text: str
    limit: Top = 10


def check_texts(model: Model, texts: list[str], settings: ServiceSettings) -> list[str]:
    """Return texts that the model and the limits allow."""
    if model.text is None:
        raise RequestError(409, "the model was not trained on text", "send rows of feature values")
    longest = max(map(len, texts), default=0)
    if longest > settings.max_length:
        what = f"a text has {longest:,} characters, expected at most {settings.max_length:,}"
        raise RequestError(413, what)
    return texts


def to_matrix(model: Model, rows: list[Row], settings: ServiceSettings) -> sp.csr_matrix:
    """Return rows as a matrix, if the model and the limits allow them."""
    for row in rows:
        if len(row.indices) != len(row.values):  # JSON Schema has no words for it, so not 400
            raise RequestError(409, "indices and values have different lengths")
    ptr = np.cumsum([0, *(len(row.indices) for row in rows)], dtype=np.int64)
    if rows and np.diff(ptr).max() > settings.max_length:
        what = f"a row has {np.diff(ptr).max():,} features, expected at most {settings.max_length:,}"
        raise RequestError(413, what)
    indices = np.array([index for row in rows for index in row.indices], np.int32)
    values = np.array([value for row in rows for value in row.values], np.float32)
    if indices.size and indices.max() >= model.n_features:
        what = f"there is no feature {indices.max()}, expected integers from 0 to {model.n_features - 1:,}"
        raise RequestError(404, what)
    X = sp.csr_matrix((values, indices, ptr), shape=(len(rows), model.n_features))
    X.sort_indices()
    if not X.has_canonical_format:
        raise RequestError(400, "a row has a feature twice")
    return X
