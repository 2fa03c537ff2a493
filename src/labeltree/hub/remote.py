"""Where published models are kept, in a directory or what fsspec reaches: files are read and written."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labeltree._version import __version__
from labeltree.base.extras import optional
from labeltree.base.system import CACHE_VARIABLE
from labeltree.errors import InputError, ResourceError
from labeltree.hub.address import Address, HubPath
from labeltree.model.layout import MANIFEST

N_TRIES = 3
WAIT_SECONDS = 1.0  # before the second try; longer before each further one
TIMEOUT_SECONDS = 30.0  # without an answer

# Where a directory at the top is a bucket. Errors that are not those of the store.
_BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")
_LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_PIECE_BYTES = 1 << 22  # of a file that is copied

# Called with a number of bytes: those of a file that have arrived, or the size of a file that was published.
Report = Callable[[int], None]


class UnreachableError(InputError):
    """The server does not respond, so nothing is known about the model."""


class Store:
    """The files of a published model, in any file system of fsspec."""

    def __init__(self, address: Address) -> None:
        self.address = address
        fsspec, options = optional("fsspec"), _options(address)
        with refusing(address):
            try:
                self._system, manifest = fsspec.core.url_to_fs(address.file(MANIFEST), **options)
            except ValueError:
                what = f"{address.scheme}:// is not known to fsspec"
                raise InputError(what, file=address.shown, hint="check the address") from None
            except ImportError as error:
                what = f"the package for {address.scheme}:// is not installed"
                hint = _first_line(error)  # of fsspec: Install s3fs to access S3
                raise InputError(what, file=address.shown, hint=hint[:1].lower() + hint[1:]) from None
        self._top: str = manifest.removesuffix(MANIFEST)

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file of at most so many bytes, as it is now."""
        self._forget()
        with tempfile.TemporaryDirectory(prefix="labeltree-") as work:
            target = Path(work) / name
            self._get(name, target, most, lambda count: None)
            return target.read_bytes()

    def download(self, name: str, target: Path, size: int, report: Report) -> None:
        """Write a file of the model, which has this size, to a local file."""
        for tried in range(1, N_TRIES):
            with suppress(UnreachableError):
                return self._get(name, target, size, report)
            time.sleep(WAIT_SECONDS * tried)
        self._get(name, target, size, report)

    def _get(self, name: str, target: Path, most: int, report: Report) -> None:
        """Write a file of at most so many bytes to a local file."""
        with refusing(self.address, name):
            if not self.address.is_web:  # where the answer has the size
                self._check_size(name, self._system.size(self._path(name)) or 0, most)
            self._system.get_file(self._path(name), str(target), callback=self._callback(name, most, report))

    def _check_size(self, name: str, size: int, most: int) -> None:
        """Refuse a file that has more bytes than announced."""
        if size > most:
            what = f"has more than the {most:,} bytes that were expected"
            raise InputError(what, file=self.address.shown_file(name), hint="publish the model again")

    def _callback(self, name: str, most: int, report: Report) -> Any:
        """Return a callback of fsspec that reports progress, and stops a transfer that is too long."""
        tqdm: Any = optional("tqdm").tqdm
        check_size = self._check_size

        class Bar(tqdm):  # type: ignore[misc]
            def update(self, n: float | None = 1) -> None:
                self.n += int(n or 0)
                check_size(name, self.n, most)
                report(self.n)

        # The only callback with which huggingface_hub downloads a file as a whole.
        return optional("fsspec.callbacks").TqdmCallback({"disable": True}, tqdm_cls=Bar)

    def names(self) -> set[str]:
        """Return the files below the address, relative to it."""
        with refusing(self.address, writing=True):
            return self._find()

    def _find(self) -> set[str]:
        self._forget()
        try:
            found = self._system.find(self._top)
        except FileNotFoundError:
            return set()
        return {path.removeprefix(self._top) for path in found if path.startswith(self._top)}

    def publish(
        self, files: Mapping[str, Path | bytes], remove: Iterable[str], message: str, report: Report
    ) -> str | None:
        """Remove and write files, the manifest first and last; return the address of the commit, if any."""
        # What is mapped from a directory is removed, not written over.
        for name in sorted(remove, key=lambda name: name != MANIFEST):
            with refusing(self.address, name, writing=True), suppress(FileNotFoundError):
                self._remove(name)
        with tempfile.TemporaryDirectory(prefix="labeltree-") as work:
            for name, content in sorted(files.items(), key=lambda item: item[0] == MANIFEST):
                source = content if isinstance(content, Path) else Path(work) / name
                if isinstance(content, bytes):
                    source.write_bytes(content)
                with refusing(self.address, name, writing=True):
                    self._upload(source, name)
                report(source.stat().st_size)
        return None

    def _upload(self, source: Path, name: str) -> None:
        """Write a local file to the store."""
        path = self._path(name)
        try:
            self._system.put_file(str(source), path)
        except FileNotFoundError:
            if self.address.scheme in _BUCKETS:  # to make its directory would make a bucket
                raise
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(source), path)

    def _remove(self, name: str) -> None:
        self._system.rm_file(self._path(name))

    def _forget(self) -> None:
        """Look at the files as they are now."""
        self._system.invalidate_cache()

    def _path(self, name: str) -> str:
        return self.address.file(name) if self.address.is_web else self._top + name


class DirectoryStore(Store):
    """A model in a directory of this machine, such as file:///mnt/share/name; it needs no packages."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._directory = Path(os.path.abspath(os.path.expanduser(address.url.partition("://")[2])))

    def is_directory(self, path: Path) -> bool:
        """Return whether the files are in this local directory."""
        return self._directory.is_dir() and self._directory.samefile(path)

    def _find(self) -> set[str]:
        found = self._directory.rglob("*")
        return {path.relative_to(self._directory).as_posix() for path in found if path.is_file()}

    def _get(self, name: str, target: Path, most: int, report: Report) -> None:
        with refusing(self.address, name):
            self._check_size(name, os.path.getsize(self._directory / name), most)
            with open(self._directory / name, "rb") as source, open(target, "wb") as copy:
                while piece := source.read(_PIECE_BYTES):
                    copy.write(piece)
                    report(copy.tell())

    def _upload(self, source: Path, name: str) -> None:
        (self._directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self._directory / name)

    def _remove(self, name: str) -> None:
        (self._directory / name).unlink()

    def _forget(self) -> None:
        pass  # nothing is remembered


class HubStore(Store):
    """A model in a repository of the Hugging Face Hub, which is created `private` or for all to see."""

    def __init__(self, address: Address, place: HubPath, private: bool) -> None:
        self._hub = optional("huggingface_hub")
        super().__init__(address)
        self._place, self._private = place, private
        self._api = self._hub.HfApi(library_name="labeltree", library_version=__version__)
        self._commit: str | None = None

    def _find(self) -> set[str]:
        if not self._api.repo_exists(self._place.repo):
            return set()
        self._commit = self._api.model_info(self._place.repo, revision=self._place.revision).sha
        return super()._find()

    def publish(
        self, files: Mapping[str, Path | bytes], remove: Iterable[str], message: str, report: Report
    ) -> str:
        """Remove and write files in one commit, which fails if the files were changed since `names`."""
        place, hub = self._place, self._hub
        operations: list[Any] = [
            hub.CommitOperationDelete(place.file(name), is_folder=False)
            for name in remove
            if name not in files
        ]
        operations += [
            hub.CommitOperationAdd(place.file(name), content if isinstance(content, bytes) else str(content))
            for name, content in files.items()
        ]
        shows_bars = not hub.utils.are_progress_bars_disabled()
        hub.utils.disable_progress_bars()
        try:
            with refusing(self.address, writing=True):
                self._api.create_repo(place.repo, private=self._private or None, exist_ok=True)
                done = self._api.create_commit(
                    place.repo,
                    operations,
                    commit_message=message,
                    revision=place.revision,
                    parent_commit=self._commit,
                )
        finally:
            if shows_bars:
                hub.utils.enable_progress_bars()
        return str(done.commit_url)


def _options(address: Address) -> dict[str, Any]:
    """Return options of the file system: for the web, no limit on the whole time, and no way out of https."""
    if not address.is_web:
        return {}
    aiohttp = optional("aiohttp")
    secure = address.scheme == "https"

    async def check_redirect(session: Any, context: Any, parameters: Any) -> None:
        target = parameters.response.headers.get("Location", "")
        if secure and target.lower().startswith("http:"):
            raise InputError("the server redirects from https:// to http://", file=address.shown)

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(check_redirect)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECONDS, sock_read=TIMEOUT_SECONDS)
    return {
        "client_kwargs": {"timeout": timeout, "trace_configs": [trace], "trust_env": True},
        # The size of the content is that of the file.
        "headers": {"Accept-Encoding": "identity"},
        "skip_instance_cache": True,
    }


def open_store(address: Address, *, private: bool = False) -> Store:
    """Return the store of an address; `private` is for a repository that is created."""
    if address.hub:
        return HubStore(address, address.hub, private)
    return DirectoryStore(address) if address.scheme in ("file", "local") else Store(address)


@contextmanager
def refusing(address: Address, name: str = "", *, writing: bool = False) -> Iterator[None]:
    """Turn errors of reading or writing a file of a store into ones that say what to do."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise _refusal(error, address, name, writing) from None


def _refusal(error: Exception, address: Address, name: str, writing: bool) -> InputError:
    shown = address.shown_file(name) if name else address.shown
    if isinstance(error, OSError) and error.errno in _LOCAL and not writing:
        what = f"cannot be stored in the cache ({error.strerror})"
        return ResourceError(what, file=shown, hint=f"free some space, or set {CACHE_VARIABLE}")
    if isinstance(error, FileNotFoundError) and not writing:
        if name != MANIFEST:
            return InputError("no such file", file=shown, hint="publish the model again")
        what, hint = f"there is no model at this address: it has no {MANIFEST}", "check the address"
        if address.hub:
            hint += "; a private or gated model needs a token, see `hf auth login`"
        return InputError(what, file=address.shown, hint=hint)
    status = getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)
    done = f"be {'written' if writing else 'read'} ({_reason(address, error)})"
    if isinstance(error, PermissionError) or status in (401, 403):
        return InputError(f"may not {done}", file=shown, hint="check your credentials")
    is_final = isinstance(status, int) and 400 <= status < 500 and status not in (408, 425, 429)
    hint = "check the address and the network, or try again later"
    return (InputError if is_final else UnreachableError)(f"cannot {done}", file=shown, hint=hint)


def _reason(address: Address, error: Exception) -> str:
    """Describe an error in a few words, without a secret part of the address."""
    status = getattr(error, "status", None)
    if status:
        return f"the server responded with {status} {getattr(error, 'message', '')}".rstrip()
    return type(error).__name__ if address.shown != address.url else _first_line(error)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
