"""Responses as the OpenAPI document describes them: the fields of answers, and the errors of each path."""

from __future__ import annotations

from collections.abc import Container
from types import GenericAlias
from typing import Any

from fastapi import FastAPI
from pydantic import create_model
from pydantic.json_schema import models_json_schema

from labeltree.explain.label import LabelStep
from labeltree.explain.prediction import Explanation

_STATUSES = {
    400: "The request is malformed",
    401: "The bearer token is missing or wrong",
    403: "The host name is not allowed",
    404: "There is no such model, label, feature or node",
    408: "The request did not arrive in time",
    409: "The model was not trained on text, or has no threshold",
    413: "The request, or what it asks for, is too large",
    415: "The encoding of the body is not supported",
    500: "The service failed",
    503: "Too many requests are waiting",
    504: "The request was not answered in time",
}
_OF_ALL_PATHS = (403, 408, 413, 415, 500, 503, 504)
_REFERENCE = "#/components/schemas/{model}"


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
_PATHS: dict[str, tuple[Any, ...]] = {
    "/predict": (PredictResponse, 400, 404, 409),
    "/explain": (ExplainResponse, 400, 404, 409),
    "/models": (ModelsResponse,),
    "/models/{name}": (ModelResponse, 404),
    "/models/{name}/suggest": (SuggestResponse, 400, 404, 409),
    "/models/{name}/labels": (LabelsResponse, 400, 404),
    "/models/{name}/labels/{label}": (LabelResponse, 400, 404),
    "/models/{name}/tree": (TreeResponse, 400, 404),
}


def complete_document(app: FastAPI, without_token: Container[str] | None) -> None:
    """Add responses to the OpenAPI document of an application, and the token if some path needs one."""
    document = app.openapi()  # the application keeps it
    models = [ErrorResponse, *(model for model, *_ in _PATHS.values())]
    _, schemas = models_json_schema([(model, "serialization") for model in models], ref_template=_REFERENCE)
    components = document["components"]
    components["schemas"] |= schemas["$defs"]
    for name in ("HTTPValidationError", "ValidationError"):  # 422, which the service does not use
        del components["schemas"][name]
    for path, operations in document["paths"].items():
        model, *statuses = _PATHS.get(path, (None,))
        if without_token is not None and path not in without_token:
            statuses.append(401)
        for operation in operations.values():
            successful = operation["responses"]["200"]
            if model is not None:
                successful |= _json(model)
            operation["responses"] = {"200": successful} | {
                str(status): {"description": _STATUSES[status], **_json(ErrorResponse)}
                for status in sorted((*statuses, *_OF_ALL_PATHS))
            }
            if 401 in statuses:
                operation["security"] = [{"token": []}]
                components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}


def _json(model: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}}
