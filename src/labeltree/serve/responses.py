"""Responses as the OpenAPI document describes them: the fields of answers, and the errors of each path."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from pydantic import create_model
from starlette.responses import Response

from labeltree.explain.label import LabelStep
from labeltree.explain.prediction import Explanation

_STATUSES: dict[int | str, str] = {
    400: "The request is malformed",
    401: "The bearer token is missing or wrong",
    403: "The host name is not allowed",
    404: "There is no such model, label, feature or node",
    408: "The request did not arrive in time",
    409: "The model was not trained on text, or has no threshold; or a row contradicts itself",
    413: "The request, or what it asks for, is too large",
    415: "The encoding of the body is not supported",
    500: "The service failed",
    503: "Too many requests are waiting",
    504: "The request was not answered in time",
    "default": "Any other error",
}


def _object(title: str, /, **fields: Any) -> Any:
    """Make a model from the types of its fields; a tuple is the type of one that may be missing, and None."""
    given: Any = {name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in fields.items()}
    return create_model(title, __module__=__name__, **given)


def _list(item: Any) -> Any:
    return GenericAlias(list, item)


_COUNTS = dict.fromkeys(("labels", "features", "trees", "bytes"), int)
_TABLE = dict[str, Any] | None

Error = _object("Error", status=int, message=str, hint=(str | None, None))
ErrorResponse = _object("ErrorResponse", error=Error)

PredictedLabel = _object("PredictedLabel", label=int, name=str | None, score=float)
Prediction = _object("Prediction", labels=_list(PredictedLabel))
PredictResponse = _object("PredictResponse", model=str, predictions=_list(Prediction))
ExplainResponse = _object("ExplainResponse", model=str, predictions=_list(Explanation))
Suggestion = _object("Suggestion", uri=str, label=str, notation=str | None, score=float)
SuggestResponse = _object("SuggestResponse", results=_list(Suggestion))

ModelEntry = _object("ModelEntry", name=str, **_COUNTS, text=bool, names=bool)
ModelsResponse = _object("ModelsResponse", models=_list(ModelEntry))
# It has more fields: those of `labeltree info --json`.
_MEASURED = {"precision": float | None, "is_trained": bool, "modification_time": str | None}
_MODEL = {"text": _TABLE, "decision": _TABLE, "accepts": str | None, "calibrated": bool, **_MEASURED}
ModelResponse = _object("ModelResponse", model=str, **_COUNTS, **_MODEL)
LabelEntry = _object("LabelEntry", label=int, name=str | None, count=int)
LabelsResponse = _object("LabelsResponse", total=int, labels=_list(LabelEntry))
LabelResponse = _object(
    "LabelResponse", model=str, label=int, name=str, instances=int, paths=_list(_list(LabelStep))
)

_BOX = dict.fromkeys(("node", "label", "instances", "features"), (int | None, None))
_NAMES = {"name": (str | None, None), "names": (list[str] | None, None)}
_SHARES = dict.fromkeys(("alpha", "precision"), (float | None, None))
_BELOW = {"children": ("list[Box] | None", None), "rest": (dict[str, int] | None, None)}
Box = _object("Box", bytes=int, labels=int, **_BOX, **_NAMES, **_SHARES, **_BELOW)
TreeResponse = _object("TreeResponse", tree=int, trees=int, path=_list(Box), root=Box)


def errors(*statuses: int | str) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a path may answer with, as FastAPI documents them."""
    return {status: {"model": ErrorResponse, "description": _STATUSES[status]} for status in statuses}


# Of all paths; the last one also keeps FastAPI from documenting 422, which the service does not use.
COMMON_ERRORS = errors(403, 408, 413, 415, 500, 503, 504, "default")
# Of paths that answer with text; their errors are JSON.
PLAIN_TEXT: dict[str, Any] = {
    "response_class": Response,
    "responses": {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
}
