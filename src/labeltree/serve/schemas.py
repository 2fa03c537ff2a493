"""Requests, responses and errors: their fields, which validate and document themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from starlette.responses import Response

from labeltree.base.json import to_json
from labeltree.base.limits import LARGEST_INT32, LARGEST_VALUE
from labeltree.errors import InputError, alternatives
from labeltree.model.model import Model
from labeltree.serve.settings import MOST_LABELS, MOST_NAME, MOST_WORDS, ServiceSettings
from labeltree.settings import DEFAULT_TOP, DEFAULT_WORDS, MAX_ACCEPTED

# Headers that belong to a status. What is left of a body that is late or too long is not read.
_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    503: {"retry-after": "1"},
}


def _check_unicode(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("a string contains an unpaired surrogate") from None
    return text


Text = Annotated[str, AfterValidator(_check_unicode)]
ModelName = Annotated[str | None, Field(description="Name of the model. Default: the first one.")]
Top = Annotated[int, Field(ge=1, le=MOST_LABELS, description="Maximum number of labels per text.")]
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


class Row(_Request):
    """The features of a row that are not zero."""

    indices: list[Index] = Field(description="Features from 0, each at most once.")
    values: list[Value]

    @model_validator(mode="after")
    def _check(self) -> Row:
        if len(self.indices) != len(self.values):
            raise ValueError("indices and values have different lengths")
        return self


class PredictRequest(_Request):
    """What POST /predict asks for: labels for a text, for texts, or for rows of features."""

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
    names: bool = Field(default=True, description="Return the names of labels.")
    scores: bool = Field(default=True, description="Return the scores of labels.")

    @model_validator(mode="after")
    def _check(self) -> PredictRequest:
        self.check_one_of("text", "texts", "rows")
        if self.accepted and self.threshold is not None:
            raise ValueError("'accepted' and 'threshold' exclude each other")
        return self


class ExplainRequest(_Request):
    """What POST /explain asks for: why a text or a row has its labels, or a given one."""

    model: ModelName = None
    text: Text | None = None
    row: Row | None = None
    label: Index | Annotated[str, StringConstraints(max_length=MOST_NAME)] | None = Field(
        default=None, description="Name or number of a label to explain, predicted or not."
    )
    top: int = Field(default=DEFAULT_TOP, ge=1, le=100)
    words: int = Field(default=DEFAULT_WORDS, ge=0, le=MOST_WORDS)

    @model_validator(mode="after")
    def _check(self) -> ExplainRequest:
        self.check_one_of("text", "row")
        return self


class SuggestRequest(BaseModel):
    """The form fields that Annif sends; there may be others."""

    text: str
    limit: Top = 10


def read_form(fields: dict[str, str]) -> SuggestRequest:
    """Validate form fields."""
    try:
        return SuggestRequest.model_validate(fields)
    except ValidationError as error:
        raise first_problem(error.errors()) from None


def check_texts(model: Model, texts: list[str], settings: ServiceSettings) -> list[str]:
    """Return texts that the model and the limits allow."""
    if model.text is None:
        raise RequestError(400, "the model was not trained on text", "send rows of feature values")
    _check_number(len(texts), settings)
    longest = max(map(len, texts), default=0)
    if longest > settings.max_length:
        what = f"a text has {longest:,} characters, expected at most {settings.max_length:,}"
        raise RequestError(413, what)
    return texts


def to_matrix(model: Model, rows: list[Row], settings: ServiceSettings) -> sp.csr_matrix:
    """Return rows as a matrix, if the model and the limits allow them."""
    _check_number(len(rows), settings)
    ptr = np.cumsum([0, *(len(row.indices) for row in rows)], dtype=np.int64)
    if rows and np.diff(ptr).max() > settings.max_length:
        what = f"a row has {np.diff(ptr).max():,} features, expected at most {settings.max_length:,}"
        raise RequestError(413, what)
    indices = np.array([index for row in rows for index in row.indices], np.int32)
    values = np.array([value for row in rows for value in row.values], np.float32)
    if indices.size and indices.max() >= model.n_features:
        what = f"there is no feature {indices.max()}, expected integers from 0 to {model.n_features - 1:,}"
        raise RequestError(400, what)
    X = sp.csr_matrix((values, indices, ptr), shape=(len(rows), model.n_features))
    X.sort_indices()
    if not X.has_canonical_format:
        raise RequestError(400, "a row has a feature twice")
    return X


def _check_number(number: int, settings: ServiceSettings) -> None:
    if number > settings.max_texts:
        what = f"there are {number:,} texts or rows, expected at most {settings.max_texts:,}"
        raise RequestError(413, what, "send several requests")


class JsonResponse(Response):
    """JSON without NaN and infinity, which become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return to_json(content).encode()


class PredictedLabel(BaseModel):
    """A label of a prediction."""

    label: int
    name: str | None = None
    score: float = Field(default=0.0, description="From 0 to 1; a probability if the model is calibrated.")


class PredictedLabels(BaseModel):
    """The labels of one text or row, best first."""

    labels: list[PredictedLabel]


class PredictResponse(BaseModel):
    """What POST /predict returns."""

    model: str
    predictions: list[PredictedLabels]


class ErrorDetails(BaseModel):
    """What is wrong with a request."""

    status: int
    message: str
    hint: str | None = Field(default=None, description="What to do about it.")


class ErrorResponse(BaseModel):
    """What is returned with a status from 400 on."""

    error: ErrorDetails


class RequestError(Exception):
    """A request cannot be answered.

    Parameters
    ----------
    status : int
        The HTTP status.
    message : str
        What is wrong.
    hint : str, optional
        What to do about it.
    """

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        self.status, self.message, self.hint = status, message, hint
        super().__init__(message)

    @classmethod
    def of(cls, error: InputError, status: int = 400) -> RequestError:
        """Return an error of the library as one of a request, without the paths of files."""
        plain = error.replace(file=None, line=None)
        return cls(status, plain.what, str(plain)[len(plain.what) + 2 :] or None)

    def response(self) -> JsonResponse:
        """Return what is sent to the client."""
        details = ErrorDetails(status=self.status, message=self.message, hint=self.hint)
        content = {"error": details.model_dump(exclude_none=True)}
        return JsonResponse(content, self.status, _HEADERS.get(self.status))


def first_problem(errors: Sequence[Any]) -> RequestError:
    """Return the first of pydantic's errors as one message with the field that it is about."""
    error = errors[0]
    place = [part for part in error["loc"] if part not in ("body", "query", "path")]
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if error["type"] == "json_invalid":
        return RequestError(400, f"the body is not JSON ({error['ctx']['error'][:200]})")
    if error["type"] == "extra_forbidden":
        hint = "GET /openapi.json lists the fields"
        return RequestError(400, f"unknown field {str(place[-1])[:100]!r}", hint)
    if not place and error["type"] != "value_error":
        hint = "send an object, with the header Content-Type: application/json"
        return RequestError(400, "the body is not a JSON object", hint)
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:101]
    return RequestError(400, f"{field}: {message}" if field else message)
