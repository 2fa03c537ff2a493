"""Download a file: resume an interrupted transfer, and keep the file only if it passes a check."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from labeltree.base.extras import optional
from labeltree.base.progress import Progress
from labeltree.base.system import umask
from labeltree.errors import InputError

N_TRIES = 5
WAIT_SECONDS = 1.0  # before the second try; longer before each further one
TIMEOUT_SECONDS = 30.0  # without an answer
_CHUNK_BYTES = 1 << 18
# HTTP status codes of errors that may be temporary; 416: the requested range lies beyond the end of the file.
_TEMPORARY = {408, 416, 425, 429, 500, 502, 503, 504}
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_MIRROR_HINT = "set LABELTREE_MIRROR to the address of a mirror"


def download(
    file: str,
    address: str,
    directory: Path,
    begin: Callable[[str], AbstractContextManager[Progress]],
    check: Callable[[Path, str], None],
) -> Path:
    """Download a file into a directory.

    Parameters
    ----------
    file : str
        Name of the file.
    address : str
        Address of the web directory that has the file.
    directory : Path
        Where to save it; created if it does not exist.
    begin : callable
        Called with a description of the transfer; returns a context that provides the progress callback.
    check : callable
        Called with the complete file, under a temporary name, and its address. If it raises an exception,
        the file is deleted. Otherwise its SHA-256 is recorded next to it, for `verify`.

    Returns
    -------
    Path
        The file.
    """
    from labeltree.base.files import write_whole

    pooch = optional("pooch")
    _check_address(address)

    def fill(url: str, target: str, _: Any) -> None:
        with begin(f"downloading {file}") as progress, open(target, "wb") as stream:
            _Transfer(url, stream, progress).run()
        os.chmod(target, 0o666 & ~umask())  # a temporary file can be read by its owner only
        check(Path(target), url)
        with write_whole(_record(directory / file)) as record:
            record.write(f"{_sha256(Path(target))}  {file}\n".encode())

    cache = pooch.create(directory, address.rstrip("/") + "/", registry={file: None})
    logger: logging.Logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # the progress callback reports the download
    try:
        return Path(cache.fetch(file, downloader=fill))
    finally:
        logger.setLevel(level)


def verify(path: Path) -> None:
    """Refuse a file that is not the one that was downloaded: its SHA-256 was recorded next to it then.

    A file without a record, which was not downloaded by labeltree, is accepted.

    Parameters
    ----------
    path : Path
    """
    try:
        recorded = _record(path).read_text("utf-8", errors="replace").split()
    except FileNotFoundError:
        return
    if recorded[:1] != [_sha256(path)]:
        raise InputError(
            f"the file has changed since it was downloaded: its SHA-256 differs from {_record(path).name}",
            file=path,
            hint="remove both files to download it again",
        )


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(_CHUNK_BYTES):
            digest.update(content)
    return digest.hexdigest()


def _check_address(url: str) -> None:
    """Refuse addresses whose answers could be forged in transit."""
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname and parts.hostname not in _THIS_MACHINE:
        raise InputError(
            "http:// is not protected against changes on the way",
            file=url,
            hint="use https://, or download the file yourself and save it in the directory of the datasets",
        )


class _Transfer:
    """A transfer in several tries. It acts as the progress bar of Pooch's downloader."""

    def __init__(self, url: str, stream: BinaryIO, progress: Progress) -> None:
        self.total = 0  # set by Pooch: bytes of this try
        self._url, self._stream, self._progress = url, stream, progress
        self._response: Any = None
        self._version: str | None = None  # the server's identifier for this version of the file
        self._resumed_at = self._received = 0  # bytes before this try, and in this try

    def run(self) -> None:
        """Fill the stream."""
        pooch, exceptions = optional("pooch"), optional("requests.exceptions")
        for tried in range(1, N_TRIES + 1):
            fetch = pooch.HTTPDownloader(
                self,
                _CHUNK_BYTES,
                timeout=TIMEOUT_SECONDS,
                headers=self._headers(),
                hooks={"response": self._start},
            )
            self._received = 0
            try:
                fetch(self._url, self._stream, None)
                return
            except exceptions.HTTPError as error:
                answer: Any = error.response
                status = answer.status_code
                if tried == N_TRIES or status not in _TEMPORARY:
                    raise InputError(
                        f"the server responded with {status} {answer.reason}",
                        file=self._url,
                        hint=f"try again later, or {_MIRROR_HINT}",
                    ) from None
                if status == 416:
                    self._version = None
            except (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError) as error:
                if tried == N_TRIES:
                    raise InputError(
                        f"the download failed {N_TRIES} times ({_reason(error)})",
                        file=self._url,
                        hint=f"check the network, or {_MIRROR_HINT}",
                    ) from None
            except exceptions.RequestException as error:
                raise InputError(
                    f"not a valid web address ({_reason(error)})",
                    file=self._url,
                    hint="check LABELTREE_MIRROR",
                ) from None
            finally:
                if self._response is not None:
                    self._response.close()
            time.sleep(WAIT_SECONDS * tried)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity"}  # so that Content-Length is the size of the file
        size = self._stream.tell()
        if size and self._version:
            headers |= {"Range": f"bytes={size}-", "If-Range": self._version}
        return headers

    def _start(self, response: Any, **_: Any) -> None:
        """Inspect a response before its content is read: does it resume the transfer, or start again?"""
        self._response = response
        if response.is_redirect:
            self._check_redirect(urljoin(response.url, response.headers["Location"]))
        self._resumed_at = self._stream.tell()
        resumes = response.headers.get("Content-Range", "").startswith(f"bytes {self._resumed_at}-")
        if response.status_code == 206 and not resumes:
            self._version = None
            raise optional("requests.exceptions").ConnectionError("the server sent the wrong range")
        if response.status_code == 200:
            self._stream.seek(0)
            self._stream.truncate()
            self._resumed_at = 0
            tag = response.headers.get("ETag", "W/")
            self._version = response.headers.get("Last-Modified") if tag.startswith("W/") else tag

    def _check_redirect(self, url: str) -> None:
        _check_address(url)
        if self._url.startswith("https:") and not url.startswith("https:"):
            what = f"the server redirects to {url}, which is not protected against changes on the way"
            raise InputError(what, file=self._url, hint=_MIRROR_HINT)

    def update(self, count: int) -> None:
        """Count bytes that Pooch received."""
        self._received += count
        if self.total:
            self._progress(min(1.0, (self._resumed_at + self._received) / (self._resumed_at + self.total)))

    def reset(self) -> None:
        """Start again: Pooch calls this before it fills the bar."""
        self._received = 0

    def close(self) -> None:
        """Do nothing: Pooch calls this at the end."""


def _reason(error: BaseException) -> str:
    """Return the cause of an error: the last part of the innermost message."""
    inner: Any = error
    while inner is not None:
        error = inner
        inner = getattr(error, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((part for part in error.args if isinstance(part, BaseException)), None)
    return str(error).rsplit(": ", 1)[-1] or type(error).__name__
