"""Download a file: go on where a broken transfer stopped, and keep only what was checked."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from labeltree.errors import InputError
from labeltree.system import umask

# What to tell -> a context that takes the fraction that is done.
Telling = Callable[[str], AbstractContextManager[Callable[[float], None]]]

TRIES = 5
WAIT_SECONDS = 1.0  # before the second try; longer before each other
TIMEOUT_SECONDS = 30.0  # of silence
_CHUNK_BYTES = 1 << 18
# Statuses of the server that may pass; 416: there was nothing left to send from where we asked to go on.
_PASSING = {408, 416, 425, 429, 500, 502, 503, 504}


def download(
    file: str, address: str, folder: Path, tell: Telling, check: Callable[[Path, str], None]
) -> Path:
    """Fetch a file into a folder, unless it is there already.

    Parameters
    ----------
    file : str
    address : str
        Of the folder on the web that has the file.
    folder : Path
        Where to keep it; made if need be.
    tell : callable
        Told what begins; gives a context, and in it what to tell how far the transfer has come.
    check : callable
        Called with the complete file, under a temporary name, and its address; if it raises, nothing is kept.

    Returns
    -------
    Path
        The file.
    """
    import pooch

    def fill(url: str, target: str, _: Any) -> None:
        with tell(f"downloading {file}") as report, open(target, "wb") as stream:
            _Transfer(url, stream, report).run()
        os.chmod(target, 0o666 & ~umask())  # temporary files are for their owner only
        check(Path(target), url)

    keeper = pooch.create(folder, address.rstrip("/") + "/", registry={file: None})
    logger: logging.Logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # the stages tell it
    try:
        return Path(keeper.fetch(file, downloader=fill))
    finally:
        logger.setLevel(level)


class _Transfer:
    """A transfer in several tries. It is its own progress bar, as Pooch's downloader drives one."""

    def __init__(self, url: str, stream: BinaryIO, report: Callable[[float], None]) -> None:
        self.total = 0  # set by Pooch: bytes of this try
        self._url, self._stream, self._report = url, stream, report
        self._response: Any = None
        self._stamp: str | None = None  # what the server knows this version of the file by
        self._had = self._got = 0  # bytes before this try and within it

    def run(self) -> None:
        """Fill the stream."""
        import pooch
        from requests import exceptions

        for tried in range(1, TRIES + 1):
            fetch = pooch.HTTPDownloader(
                self,
                _CHUNK_BYTES,
                timeout=TIMEOUT_SECONDS,
                headers=self._headers(),
                hooks={"response": self._begin},
            )
            self._got = 0
            try:
                fetch(self._url, self._stream, None)
                return
            except exceptions.HTTPError as error:
                answer: Any = error.response
                status = answer.status_code
                if tried == TRIES or status not in _PASSING:
                    raise InputError(
                        f"{self._url}: got the server's answer {status} {answer.reason}, expected a "
                        "file; try again later, or set LABELTREE_MIRROR to another copy's address"
                    ) from None
                if status == 416:
                    self._stamp = None
            except (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError) as error:
                if tried == TRIES:
                    raise InputError(
                        f"{self._url}: got no whole file in {TRIES} tries ({_reason(error)}), expected one; "
                        "check the network, or set LABELTREE_MIRROR to another copy's address"
                    ) from None
            except exceptions.RequestException as error:
                raise InputError(
                    f"{self._url}: got an address that cannot be fetched ({_reason(error)}), expected "
                    "http:// or https://; check LABELTREE_MIRROR"
                ) from None
            finally:
                if self._response is not None:
                    self._response.close()
            time.sleep(WAIT_SECONDS * tried)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity"}  # lengths are those of the file
        size = self._stream.tell()
        if size and self._stamp:
            headers |= {"Range": f"bytes={size}-", "If-Range": self._stamp}
        return headers

    def _begin(self, response: Any, **_: Any) -> None:
        """Look at an answer before its content is taken: does it go on, or begin anew?"""
        self._response = response
        self._had = self._stream.tell()
        goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {self._had}-")
        if response.status_code == 206 and not goes_on:
            from requests import exceptions

            self._stamp = None
            raise exceptions.ConnectionError("the server sent another range than was asked for")
        if response.status_code == 200:
            self._stream.seek(0)
            self._stream.truncate()
            self._had = 0
            tag = response.headers.get("ETag", "W/")
            self._stamp = response.headers.get("Last-Modified") if tag.startswith("W/") else tag

    def update(self, count: int) -> None:
        """Pooch tells that bytes have come."""
        self._got += count
        if self.total:
            self._report(min(1.0, (self._had + self._got) / (self._had + self.total)))

    def reset(self) -> None:
        """Pooch is about to fill the bar."""
        self._got = 0

    def close(self) -> None:
        """Pooch is done with the bar."""


def _reason(error: BaseException) -> str:
    """What lies behind an error: the last words of the innermost one."""
    inner: Any = error
    while inner is not None:
        error = inner
        inner = getattr(error, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((part for part in error.args if isinstance(part, BaseException)), None)
    return str(error).rsplit(": ", 1)[-1] or type(error).__name__
