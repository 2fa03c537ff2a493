"""Loading a model from a directory, or from an address by way of a cache with a directory per address."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labeltree.base.display import Progress, Stage, silent, warn
from labeltree.base.limits import MANIFEST_BYTES, PATH, checked
from labeltree.base.system import CACHE_VARIABLE, cache_directory, free_disk, human_bytes
from labeltree.errors import InputError, ResourceError
from labeltree.hub.address import Address, is_address
from labeltree.hub.remote import Store, UnreachableError, open_store
from labeltree.model import model as models
from labeltree.model.directory import publish, read_manifest, temporary_directory
from labeltree.model.layout import MANIFEST
from labeltree.model.manifest import VersionError
from labeltree.model.model import Model


def load(
    path: str | os.PathLike[str], *, verify: bool | None = None, cache: str | os.PathLike[str] | None = None
) -> Model:
    """Open a model: a directory, or an address that it is downloaded from.

    The blocks are mapped, not read: a model takes only the memory of the pages in use, so models larger
    than memory can be served.

    Parameters
    ----------
    path : path-like
        A model directory; or an address such as ``hf://user/name``, ``s3://bucket/name``,
        ``gs://bucket/name``, ``https://host/name``, ``file:///directory`` or any other of fsspec. A published
        model is downloaded into a cache, verified, and opened there; it is downloaded again only if it has
        changed. Except for ``file://``, this requires ``pip install 'labeltree[hub]'``.
    verify : bool, optional
        Read all blocks, compare their checksums, and check their features and weights. Default: only if
        they fit in the available memory. Everything else is always checked.
    cache : path-like, optional
        Where published models are kept. Default: the environment variable ``LABELTREE_CACHE``, or else
        ``labeltree/models`` in the user's cache directory.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        If there is no model, or it contains what labeltree would not have written.
    """
    path = checked("path", path, PATH)
    if not is_address(path):
        return models.load(Path(path), verify=verify)
    model = models.load(fetch(str(path), None if cache is None else Path(cache)), verify=verify)
    model.address = str(path)
    return model


def fetch(url: str, cache: Path | str | None = None, *, stage: Stage = silent) -> Path:
    """Return the directory of a published model in the cache; it is downloaded if it is new or has changed.

    All files are verified before the model appears. If the address cannot be reached, the model from an
    earlier download is used, with a warning.
    """
    address = Address(url)
    place = cache_directory("models", cache) / address.key / address.name
    store = open_store(address)
    try:
        if _is_current(place, store.read(MANIFEST, MANIFEST_BYTES)):
            return place
    except UnreachableError as error:
        if not (place / MANIFEST).is_file():
            raise
        warn(f"{error.file} {error.what}; the model from an earlier download is used.")
        return place
    with _locked(place.parent), stage("download", f"downloading {address.shown}") as progress:
        content = store.read(MANIFEST, MANIFEST_BYTES)  # again: another process may have downloaded it
        if not _is_current(place, content):
            _download(store, content, place, progress)
    return place


def _is_current(place: Path, content: bytes) -> bool:
    """Return whether the model in the cache has this manifest, and all files that it lists."""
    try:
        if (place / MANIFEST).read_bytes() != content:
            return False
        files = read_manifest(place)["files"]
        return all((place / name).stat().st_size == entry["bytes"] for name, entry in files.items())
    except (InputError, OSError):
        return False


def _download(store: Store, content: bytes, place: Path, progress: Progress) -> None:
    """Download a model with this manifest, verify it, and put it in its place."""
    with temporary_directory(place) as work:
        (work / MANIFEST).write_bytes(content)
        with _naming(store.address, work):
            manifest = read_manifest(work)  # lists files of models only: no name leads elsewhere
        sizes = {name: entry["bytes"] for name, entry in manifest["files"].items()}
        total, free = sum(sizes.values()), free_disk(work)
        if total > free:
            what = f"the model has {human_bytes(total)}, but only {human_bytes(free)} of the disk are free"
            hint = f"free some space, or set {CACHE_VARIABLE} to a directory on another disk"
            raise ResourceError(what, file=place.parent, hint=hint)
        before = 0

        def report(received: int) -> None:
            progress((before + received) / max(total, 1))

        for name, size in sizes.items():
            target = work / name
            target.parent.mkdir(exist_ok=True)
            store.download(name, target, size, report)
            before += size
        with _naming(store.address, work):
            models.load(work, verify=True)
        try:
            publish(work, place, overwrite=True)
        except InputError as error:
            raise error.replace(hint="remove the directory, and what it contains, from the cache") from None


@contextmanager
def _naming(address: Address, work: Path) -> Iterator[None]:
    """Let errors name the address instead of the temporary directory."""
    try:
        yield
    except InputError as error:
        file = Path(error.file or work)
        is_inside = file != work and file.is_relative_to(work)
        shown = address.shown_file(file.relative_to(work).as_posix()) if is_inside else address.shown
        can_retry = not isinstance(error, ResourceError | VersionError)
        hint = "try again; if it fails again, publish the model again" if can_retry else error.hint
        raise error.replace(file=shown, hint=hint) from None


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Make a directory, and wait until no other process downloads a model into it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        hint = f"set {CACHE_VARIABLE} to another directory"
        raise InputError(f"cannot be written ({error.strerror})", file=directory, hint=hint) from None
    try:
        with suppress(OSError):  # without locks, each process downloads its own copy, and the last one stays
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
