"""Errors of requests: a status and one clear message, as JSON."""

from __future__ import annotations

import json
from typing import Any

from labeltree.errors import InputError


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
    def of(cls, error: InputError) -> RequestError:
        """Return an error of the library as one of a request, without the paths of files."""
        plain = error.replace(file=None, line=None)
        return cls(400, plain.what, str(plain)[len(plain.what) + 2 :] or None)

    def body(self) -> bytes:
        """Return the JSON that is sent."""
        content: dict[str, Any] = {"status": self.status, "message": self.message}
        if self.hint:
            content["hint"] = self.hint
        return json.dumps({"error": content}, ensure_ascii=False).encode("utf-8", "replace")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that belong to the status.

        What is left of the body of a request that is late or too long is not read: the connection is closed.
        """
        return _HEADERS.get(self.status, [])


_HEADERS = {
    401: [(b"www-authenticate", b"Bearer")],
    408: [(b"connection", b"close")],
    413: [(b"connection", b"close")],
    503: [(b"retry-after", b"1")],
}
# The client learns that it failed; why is for the operator.
FAILED = RequestError(500, "the service failed", "see its log")
