"""The settings of the service: what a request may contain, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from labeltree.base import limits

# Labels per text, and in one answer; words for and against a label; characters of a label's name.
MOST_LABELS = 1000
MOST_ANSWERS = 100_000
MOST_WORDS = 100
MOST_NAME = 1000


@dataclass(frozen=True)
class RequestLimits:
    """What a request may contain, and how long it may take; the options of `labeltree serve`.

    Limits
    ------
    max_body
        Maximum size of a request.
    max_texts
        Maximum number of texts or rows per request.
    max_length
        Maximum characters of a text, or features of a row.
    timeout : SECONDS
        Time to receive a request and to answer it.
    """

    max_body: Annotated[int, limits.Size()] = 8_000_000
    max_texts: Annotated[int, limits.Whole(1)] = 1000
    max_length: Annotated[int, limits.Whole(1)] = 1_000_000
    timeout: Annotated[float, limits.Number(0.0, 86400.0, above=True)] = 30.0


@dataclass(frozen=True)
class ServiceSettings(RequestLimits):
    """All settings of the service."""

    # Of all requests in one process, which are refused with 503 if there is more: the bytes of the bodies
    # that arrive or wait, and the texts and rows that wait.
    max_buffered: int = 256_000_000
    max_waiting: int = 10_000
    watch: Annotated[float, limits.WATCH] = 0.0
    # The names by which clients may address the service; None for any. A page in a browser cannot choose the
    # name, so it cannot reach a local service under a name of its own (DNS rebinding).
    hosts: frozenset[str] | None = None
    token: str | None = field(default=None, repr=False)
