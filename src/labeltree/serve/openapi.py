"""The documentation of the interface: what is sent with POST, and a page that needs no network."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from labeltree.serve.settings import MOST_LABELS, MOST_WORDS
from labeltree.settings import DEFAULT_TOP, DEFAULT_WORDS

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean", "default": True}
_ROW = {
    "type": "object",
    "required": ["indices", "values"],
    "properties": {
        "indices": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
            "description": "Features from 0",
        },
        "values": {"type": "array", "items": {"type": "number"}},
    },
    "additionalProperties": False,
}
_MODEL = {"type": "string", "description": "Name of the model. Default: the first one."}
_TOP = {"type": "integer", "minimum": 1, "maximum": MOST_LABELS, "default": DEFAULT_TOP}


def post_paths() -> dict[str, Any]:
    """Return the paths of the schema that FastAPI does not know."""
    label = _object(
        {
            "label": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "score": {
                "type": "number",
                "description": "In [0, 1]; a probability if the model is calibrated.",
            },
        }
    )
    labels = _object({"labels": {"type": "array", "items": label}})
    return {
        "/predict": _post(
            "Predict the labels of texts or rows",
            _object(
                {
                    "model": _MODEL,
                    "text": _TEXT,
                    "texts": {"type": "array", "items": _TEXT},
                    "rows": {"type": "array", "items": _ROW},
                    "top": _TOP,
                    "threshold": {
                        "type": "number",
                        "minimum": 0,
                        "maximum": 1,
                        "description": "Leave out labels with a lower score.",
                    },
                    "accepted": {
                        "type": "boolean",
                        "default": False,
                        "description": "Only labels that the stored threshold of the model accepts.",
                    },
                    "names": _FLAG,
                    "scores": _FLAG,
                },
                one_of=("text", "texts", "rows"),
            ),
            _object({"model": _TEXT, "predictions": {"type": "array", "items": labels}}),
        ),
        "/explain": _post(
            "Explain the labels of a text or a row: paths, and words for and against",
            _object(
                {
                    "model": _MODEL,
                    "text": _TEXT,
                    "row": _ROW,
                    "label": {
                        "type": ["string", "integer"],
                        "description": "Name or number of a label to explain, predicted or not.",
                    },
                    "top": {**_TOP, "maximum": 100},
                    "words": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": MOST_WORDS,
                        "default": DEFAULT_WORDS,
                    },
                },
                one_of=("text", "row"),
            ),
            _object({"model": _TEXT, "predictions": {"type": "array", "items": {"type": "object"}}}),
        ),
        "/models/{name}/suggest": _post(
            "Predict the labels of a text, as Annif's http backend does",
            {
                "type": "object",
                "required": ["text"],
                "properties": {"text": _TEXT, "limit": {**_TOP, "default": 10}},
            },
            _object({"results": {"type": "array", "items": {"type": "object"}}}),
            "application/x-www-form-urlencoded",
            parameters=[{"name": "name", "in": "path", "required": True, "schema": _TEXT}],
        ),
    }


def _object(properties: dict[str, Any], one_of: tuple[str, ...] = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if one_of:
        made["oneOf"] = [{"required": [name]} for name in one_of]
    return made


def _post(
    summary: str,
    request: dict[str, Any],
    response: dict[str, Any],
    kind: str = "application/json",
    **more: Any,
) -> dict[str, Any]:
    error = _object({"error": {"type": "object"}})
    responses = {
        "200": {"description": "OK", "content": {"application/json": {"schema": response}}},
        "4XX": {"description": "Error", "content": {"application/json": {"schema": error}}},
    }
    body = {"required": True, "content": {kind: {"schema": request}}}
    return {"post": {"summary": summary, **more, "requestBody": body, "responses": responses}}


def docs_page(schema: dict[str, Any]) -> str:
    """Return a page that lists the paths of a schema."""
    parts = []
    for path, item in sorted(schema["paths"].items()):
        for method, operation in item.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(operation.get('summary', ''))}</p>")
            rows = [
                (p["name"], p["schema"], p.get("description", "")) for p in operation.get("parameters", ())
            ]
            for content in operation.get("requestBody", {}).get("content", {}).values():
                properties = content["schema"]["properties"].items()
                rows += [(name, field, field.get("description", "")) for name, field in properties]
            if rows:
                parts.append("<table><tr><th>Field<th>Type<th>Description</tr>")
                parts += [
                    f"<tr><td><code>{escape(name)}</code><td>{escape(_type(field))}<td>{escape(text)}</tr>"
                    for name, field, text in rows
                ]
                parts.append("</table>")
    return _PAGE.replace("PATHS", "\n".join(parts))


def _type(field: dict[str, Any]) -> str:
    kind = field.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if kind == "array":
        text = f"list of {_type(field['items'])}s"
    if "minimum" in field and "maximum" in field:
        text += f", {field['minimum']} to {field['maximum']:,}"
    return text + (f", default {json.dumps(field['default'])}" if "default" in field else "")


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>labeltree: HTTP interface</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
td, th { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
</style>
<h1>labeltree: HTTP interface</h1>
<p>The same as <a href="openapi.json">OpenAPI schema</a>. Errors are answered with
<code>{"error": {"status": ..., "message": ..., "hint": ...}}</code>.</p>
PATHS
</html>
"""
