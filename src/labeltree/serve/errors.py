"""Errors of requests, and how they are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from labeltree.base.json import to_json
from labeltree.errors import InputError

# Headers that belong to a status. What is left of a body that is late or too long is not read.
_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    415: {"accept-encoding": "gzip"},
    503: {"retry-after": "1"},
}


class JsonResponse(JSONResponse):
    """JSON without NaN and infinity, which become null."""

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return to_json(content).encode()


class RequestError(Exception):
    """A request cannot be answered: the HTTP status, what is wrong, and what to do about it."""

    def __init__(
        self, status: int, message: str, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.message, self.hint = status, message, hint
        self.headers = {**_HEADERS.get(status, {}), **(headers or {})}
        super().__init__(message)

    @classmethod
    def of(cls, error: Exception) -> RequestError:
        """Return an error of the library or of FastAPI as one of a request; any other is a failure."""
        if isinstance(error, RequestError):
            return error
        if isinstance(error, InputError):  # not in the model; shown without the paths of files
            plain = error.replace(file=None, line=None)
            return cls(404, plain.what, str(plain)[len(plain.what) + 2 :] or None)
        if isinstance(error, RequestValidationError | ValidationError):
            return cls(400, *_first_problem(error.errors()))
        if isinstance(error, HTTPException):
            hint = "GET /openapi.json lists paths and fields"
            return cls(error.status_code, error.detail.lower(), hint, error.headers)
        return cls(500, "the service failed", "see its log")

    def response(self) -> JsonResponse:
        """Return what is sent to the client."""
        details = {"status": self.status, "message": self.message}
        if self.hint is not None:
            details["hint"] = self.hint
        return JsonResponse({"error": details}, self.status, self.headers)


def _first_problem(errors: Sequence[Any]) -> tuple[str, str | None]:
    """Return the first of pydantic's errors as a message with the field that it is about, and a hint."""
    error = errors[0]
    place = [part for part in error["loc"] if part not in ("body", "query", "path")]
    if error["type"] == "json_invalid":
        return f"the body is not JSON ({error['ctx']['error'][:200]})", None
    if error["type"] == "extra_forbidden":
        return f"unknown field {str(place[-1])[:100]!r}", "GET /openapi.json lists the fields"
    if not place and error["type"] != "value_error":
        hint = "send an object, with the header Content-Type: application/json"
        return "the body is not a JSON object", hint
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:101]
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{field}: {message}" if field else message, None
