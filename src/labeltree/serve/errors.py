"""Errors of requests: a status and one clear message, as JSON."""

from __future__ import annotations

from typing import Any

from labeltree.errors import InputError
from labeltree.serve.responses import JsonResponse

# Headers that belong to a status. What is left of a body that is late or too long is not read.
_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    503: {"retry-after": "1"},
}


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
        content: dict[str, Any] = {"status": self.status, "message": self.message}
        if self.hint:
            content["hint"] = self.hint
        return JsonResponse({"error": content}, self.status, _HEADERS.get(self.status))
