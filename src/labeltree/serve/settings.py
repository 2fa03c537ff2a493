"""The settings of the service: what a request may contain, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from labeltree.base import limits

# Labels per text, and in one answer; words for and against a label; characters of a label's name.
MOST_LABELS = 1000
MOST_ANSWERS = 100_000
MOST_WORDS = 100
MOST_NAME = 1000


@dataclass(frozen=True)
class ServiceSettings:
    """What a request may contain, and how long it may take.

    Attributes
    ----------
    max_body : int
        Bytes of the body of a request.
    max_texts : int
        Texts or rows in one request.
    max_length : int
        Characters of a text, or features of a row.
    max_buffered : int
        Bytes of the bodies of all requests that arrive or wait in one process; with more, requests are
        refused with 503.
    max_waiting : int
        Texts and rows of all requests that wait in one process; with more, requests are refused with 503.
    timeout : float
        Seconds in which a request must arrive and be answered.
    watch : float
        Seconds between checks for new versions of the models; 0 to check only after SIGHUP.
    hosts : frozenset of str or None
        The names by which clients may address the service; None for any. A page in a browser cannot
        choose the name, so it cannot reach a local service under a name of its own (DNS rebinding).
    token : str or None
        The bearer token that a request needs.
    """

    max_body: int = 8_000_000
    max_texts: int = 1000
    max_length: int = 1_000_000
    max_buffered: int = 256_000_000
    max_waiting: int = 10_000
    timeout: float = 30.0
    watch: float = 0.0
    hosts: frozenset[str] | None = None
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        limits.check_fields(
            self,
            {
                "max_body": limits.MAX_BODY,
                "max_texts": limits.MAX_TEXTS,
                "max_length": limits.MAX_LENGTH,
                "timeout": limits.TIMEOUT,
                "watch": limits.WATCH,
            },
        )
