"""Where published models are kept, as far as fsspec can reach it: files are read, written and removed."""

from __future__ import annotations

import errno
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Protocol

from labeltree.base.extras import optional
from labeltree.base.limits import MANIFEST_BYTES
from labeltree.errors import InputError, ResourceError
from labeltree.hub.address import Address
from labeltree.model.layout import MANIFEST

N_TRIES = 3
WAIT_SECONDS = 1.0  # before the second try; longer before each further one
TIMEOUT_SECONDS = 30.0  # without an answer
CACHE_VARIABLE = "LABELTREE_CACHE"

# Where a directory at the top is a bucket. Errors that are not those of the store.
_BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")
_LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

# Called with the number of bytes that were transferred since the last call.
Report = Callable[[int], None]


class UnreachableError(InputError):
    """There is no answer from where the model is, so that nothing is known about it."""


class TooLargeError(InputError):
    """More was received than was announced."""


class Store(Protocol):
    """Where the files of a published model are."""

    address: Address

    def read_manifest(self) -> bytes:
        """Return the content of the manifest, as it is now."""

    def download(self, name: str, target: Path, size: int, report: Report) -> None:
        """Write a file of the model, which has this size, to a local file."""


class FileStore:
    """A model in any file system of fsspec.

    Parameters
    ----------
    address : Address
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        fsspec, options = optional("fsspec"), _options(address)
        try:
            self._system, manifest = fsspec.core.url_to_fs(address.file(MANIFEST), **options)
        except ValueError:
            what = f"{address.scheme}:// is not known to fsspec"
            raise InputError(what, file=address.shown, hint="check the address") from None
        except ImportError as error:
            what = f"the package for {address.scheme}:// is not installed"
            hint = _first_line(error)  # of fsspec: Install s3fs to access S3
            raise InputError(what, file=address.shown, hint=hint[:1].lower() + hint[1:]) from None
        except Exception as error:
            refuse(address, "", error)
        self._top: str = manifest.removesuffix(MANIFEST)

    def _path(self, name: str) -> str:
        return self.address.file(name) if self.address.is_web else self._top + name

    def read_manifest(self) -> bytes:
        """Return the content of the manifest, as it is now."""
        self._system.invalidate_cache()
        with tempfile.TemporaryDirectory(prefix="labeltree-") as work:
            target = Path(work) / MANIFEST
            self._get(MANIFEST, target, MANIFEST_BYTES, lambda count: None)
            return target.read_bytes()

    def download(self, name: str, target: Path, size: int, report: Report) -> None:
        """Write a file of the model, which has this size, to a local file."""
        for tried in range(1, N_TRIES + 1):
            sent = 0

            def count(received: int) -> None:
                nonlocal sent
                sent += received
                report(received)

            try:
                self._get(name, target, size, count)
                return
            except UnreachableError:
                if tried == N_TRIES:
                    raise
                report(-sent)
                time.sleep(WAIT_SECONDS * tried)

    def _get(self, name: str, target: Path, most: int, report: Report) -> None:
        """Write a file of at most so many bytes to a local file."""
        try:
            if not self.address.is_web:  # where the answer has the size
                check_size(self.address, name, self._system.size(self._path(name)) or 0, most)
            self._system.get_file(
                self._path(name), str(target), callback=_limited(self.address, name, most, report)
            )
        except Exception as error:
            refuse(self.address, name, error)

    def names(self) -> set[str]:
        """Return the files below the address, relative to it."""
        try:
            self._system.invalidate_cache()
            found = self._system.find(self._top)
        except FileNotFoundError:
            return set()
        except Exception as error:
            refuse(self.address, "", error)
        return {path.removeprefix(self._top) for path in found if path.startswith(self._top)}

    def upload(self, source: Path, name: str, report: Report) -> None:
        """Write a local file to the store."""
        try:
            path = self._path(name)
            try:
                self._system.put_file(str(source), path)
            except FileNotFoundError:
                if self.address.scheme in _BUCKETS:  # to make its directory would make a bucket
                    raise
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._system.put_file(str(source), path)
            size = source.stat().st_size
            self._system.invalidate_cache()
            written = self._system.size(path)
        except Exception as error:
            refuse(self.address, name, error, writing=True)
        if written != size:
            what = f"{written:,} of {size:,} bytes were written"
            raise InputError(what, file=self.address.shown_file(name), hint="try again")
        report(size)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files from the store."""
        for name in names:
            with suppress(FileNotFoundError):
                self._remove(name)

    def _remove(self, name: str) -> None:
        try:
            self._system.rm_file(self._path(name))
        except FileNotFoundError:
            raise
        except Exception as error:
            refuse(self.address, name, error, writing=True)


def _options(address: Address) -> dict[str, Any]:
    """Return options of the file system: for the web, no limit on the whole time, and no way out of https."""
    if not address.is_web:
        return {}
    aiohttp = optional("aiohttp")
    secure = address.scheme == "https"

    async def check_redirect(session: Any, context: Any, parameters: Any) -> None:
        target = parameters.response.headers.get("Location", "")
        if secure and target.lower().startswith("http:"):
            raise InputError("the server leads from https:// to http://", file=address.shown)

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(check_redirect)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECONDS, sock_read=TIMEOUT_SECONDS)
    return {
        "client_kwargs": {"timeout": timeout, "trace_configs": [trace], "trust_env": True},
        # The size of the content is that of the file.
        "headers": {"Accept-Encoding": "identity"},
        "skip_instance_cache": True,
    }


def _limited(address: Address, name: str, most: int, report: Report) -> Any:
    """Return a callback of fsspec that reports progress, and stops a transfer that is too long."""
    fsspec: ModuleType = optional("fsspec")

    class Limited(fsspec.callbacks.Callback):  # type: ignore[name-defined, misc]
        def relative_update(self, inc: int = 1) -> None:
            self.value += inc
            check_size(address, name, self.value, most)
            report(inc)

        def absolute_update(self, value: int) -> None:
            self.relative_update(value - self.value)

    return Limited()


def check_size(address: Address, name: str, size: int, most: int) -> None:
    """Refuse a file that has more bytes than announced."""
    if size > most:
        what = f"has more than the {most:,} bytes that were expected"
        raise TooLargeError(what, file=address.shown_file(name), hint="publish the model again")


def refuse(address: Address, name: str, error: Exception, *, writing: bool = False) -> NoReturn:
    """Turn an error of a store into one that says what to do."""
    shown = address.shown_file(name) if name else address.shown
    if isinstance(error, InputError):
        raise error
    if isinstance(error, MemoryError):
        raise ResourceError("not enough memory", file=shown) from None
    if isinstance(error, OSError) and error.errno in _LOCAL and not writing:
        what = f"cannot be stored in the cache ({error.strerror})"
        raise ResourceError(what, file=shown, hint=f"free some space, or set {CACHE_VARIABLE}") from None
    if isinstance(error, FileNotFoundError) and not writing:
        if name == MANIFEST:
            what = f"there is no model at this address: it has no {MANIFEST}"
            raise InputError(what, file=address.shown, hint="check the address") from None
        raise InputError("no such file", file=shown, hint="publish the model again") from None
    status = getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)
    denied = isinstance(error, PermissionError) or status in (401, 403)
    verb = "written" if writing else "read"
    if denied:
        what, hint = f"may not be {verb} ({_reason(address, error)})", "check your credentials"
        raise InputError(what, file=shown, hint=hint) from None
    what = f"cannot be {verb} ({_reason(address, error)})"
    hint = "check the address and the network, or try again later"
    if isinstance(status, int) and 400 <= status < 500 and status not in (408, 425, 429):
        raise InputError(what, file=shown, hint=hint) from None
    raise UnreachableError(what, file=shown, hint=hint) from None


def _reason(address: Address, error: Exception) -> str:
    """Describe an error in a few words, without a secret part of the address."""
    status = getattr(error, "status", None)
    if status:
        return f"the server responded with {status} {getattr(error, 'message', '')}".rstrip()
    return type(error).__name__ if address.has_secret else _first_line(error)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
