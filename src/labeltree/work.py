"""The work directory: a model that is being trained, kept if the process ends before the model is complete.

``work.json`` describes data and settings, ``tree-0.npz`` and so on are the trees that are built, ``journal``
says which panels are trained, and ``model`` is the directory that becomes the model.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from labeltree._version import __version__
from labeltree.errors import InputError
from labeltree.journal import Journal, read_journals, sync_path
from labeltree.manifest import MANIFEST, read_manifest
from labeltree.publish import check_target, publish
from labeltree.store import ModelWriter
from labeltree.tree import LabelTree

FORMAT = "labeltree work directory"
FORMAT_VERSION = 1
SUFFIX = ".work"
_DESCRIPTION = "work.json"
# The checksum of the manifest of a model that is being moved to its place, where it may be already.
_PUBLISHED = "published"


def work_path(model: Path | str) -> Path:
    """Return the work directory of a model directory: next to it, with ``.work`` after its name."""
    path = Path(os.path.abspath(model))
    return path.with_name(path.name + SUFFIX)


class WorkDirectory:
    """A work directory that this process holds; at most one process does at a time.

    Used as a context manager. If the context ends with an exception, what is done is kept, unless nothing is.

    Parameters
    ----------
    model : path-like
        The model directory to write.
    described : mapping
        What the result depends on: data and settings, as JSON. If an unfinished run has another description,
        it is not continued.
    resume : bool, default False
        Continue an unfinished run, if there is one. Otherwise an existing work directory is an error.
    overwrite : bool, default False
        The model replaces an existing one, once it is complete.
    sync : bool, default True
        Wait for the disk before anything is claimed to be done, so that it survives a power failure.
    """

    def __init__(
        self,
        model: Path | str,
        described: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
        sync: bool = True,
    ) -> None:
        self.target = Path(os.path.abspath(model))
        self.path = work_path(model)
        self.overwrite = overwrite
        self.sync = sync
        self.builds_trees = "trees" in described
        check_target(self.target, overwrite)
        check_no_work(self.target, resume)  # which removes one that is not needed any more
        is_new = not self.path.exists()
        self.path.mkdir(exist_ok=resume)
        self._lock = _locked(self.path)
        try:
            self._open(described)
        except BaseException:
            if is_new:
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            raise

    def _open(self, described: Mapping[str, Any]) -> None:
        if (self.path / _DESCRIPTION).is_file():
            _check_same(self.path, read_description(self.path)["described"], described)
        else:
            content = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "labeltree_version": __version__,
                "described": described,
            }
            self._write(_DESCRIPTION, json.dumps(content, indent=2).encode())
        self.model.mkdir(exist_ok=True)
        self.records = read_journals(self.path / "journal")

    @property
    def model(self) -> Path:
        """The directory that becomes the model."""
        return self.path / "model"

    @property
    def is_complete(self) -> bool:
        """Whether only the move to its place is missing: the manifest is written last."""
        return (self.model / MANIFEST).is_file()

    @property
    def allocated_bytes(self) -> int:
        """Disk space that the model has already."""
        return sum(512 * file.stat().st_blocks for file in self.model.rglob("*") if file.is_file())

    @cached_property
    def journal(self) -> Journal:
        """The journal of this process."""
        return Journal(self.path / "journal", self.sync)

    def writer(self) -> ModelWriter:
        """Return a writer of the model's files."""
        return ModelWriter(self.model)

    def tree(self, number: int) -> LabelTree | None:
        """Return a tree that was built before, or None."""
        return read_tree(self.path, number)

    def keep_tree(self, number: int, tree: LabelTree) -> None:
        """Keep a tree. If there is one with this number already, it must be the same."""
        kept = self.tree(number)
        if kept is None:
            content = io.BytesIO()
            build_bytes = np.int64(tree.build_bytes)
            np.savez(content, child_ptr=tree.child_ptr, children=tree.children, build_bytes=build_bytes)
            self._write(_tree_name(number), content.getvalue())
        elif not (
            np.array_equal(kept.child_ptr, tree.child_ptr) and np.array_equal(kept.children, tree.children)
        ):
            raise InputError(
                f"tree {number} is not that of the unfinished run",
                file=self.path,
                hint="use the same tree, or remove the directory to start again",
            )

    def publish(self) -> None:
        """Move the complete model to its place; the work directory is not needed any more."""
        self._write(_PUBLISHED, str(read_manifest(self.model)["crc32c"]).encode())
        publish(self.model, self.target, self.overwrite, sync=self.sync)

    def __enter__(self) -> WorkDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if "journal" in self.__dict__:
            self.journal.close()
        # Trees that the caller has need not be kept, and those of settings that are refused neither.
        has_trees = self.builds_trees and self.tree(0) is not None and not isinstance(error, InputError)
        has_results = has_trees or any(self.records.values())
        if not has_results or _is_published(self.path, self.target):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _write(self, name: str, content: bytes) -> None:
        """Write a file that is there completely or not at all."""
        temporary = self.path / f"{name}.new"
        temporary.write_bytes(content)
        if self.sync:
            sync_path(temporary)
        temporary.replace(self.path / name)
        if self.sync:
            sync_path(self.path)


def check_no_work(model: Path, resume: bool) -> None:
    """Refuse to train a model whose work directory exists, unless that run is to be continued."""
    path = work_path(model)
    if _is_published(path, model):
        shutil.rmtree(path)
    if path.exists() and not resume:
        raise InputError(
            "there is an unfinished run",
            file=path,
            hint="use {resume} to continue it, or remove the directory to start again",
            parameters={"resume": True},
        )


def read_description(path: Path) -> dict[str, Any]:
    """Read and check ``work.json``."""
    try:
        content = json.loads((path / _DESCRIPTION).read_text(encoding="utf-8"))
        if content["format"] != FORMAT or not isinstance(content["described"], dict):
            raise ValueError("not that of a work directory")
        version = content["format_version"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        what = f"{_DESCRIPTION} cannot be read ({error})"
        raise InputError(what, file=path, hint="remove the directory and start again") from None
    if version != FORMAT_VERSION or content["labeltree_version"] != __version__:
        raise InputError(
            f"the run was started with labeltree {content['labeltree_version']}, this is {__version__}",
            file=path,
            hint="continue with the same version, or remove the directory to start again",
        )
    return dict(content)


def is_work_directory(path: Path) -> bool:
    """Return whether a directory is a work directory."""
    return (path / _DESCRIPTION).is_file()


def read_tree(path: Path, number: int) -> LabelTree | None:
    """Read a tree of a work directory; None if it is not built yet."""
    file = path / _tree_name(number)
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as arrays:
        return LabelTree(arrays["child_ptr"], arrays["children"], int(arrays["build_bytes"]))


def _tree_name(number: int) -> str:
    return f"tree-{number}.npz"


def _locked(path: Path) -> int:
    """Lock a directory for this process; return the handle that holds the lock."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        what = "another process is training this model"
        raise InputError(what, file=path, hint="wait until it has ended, or choose another name") from None
    return handle


def _is_published(path: Path, model: Path) -> bool:
    """Return whether the model of a work directory has its place: the process ended before it cleaned up."""
    try:
        return int((path / _PUBLISHED).read_text()) == read_manifest(model)["crc32c"]
    except (OSError, ValueError, InputError):
        return False


def _check_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    now = json.loads(json.dumps(now))
    for key in {**before, **now}:
        if before.get(key) != now.get(key):
            raise InputError(
                f"the unfinished run has other {key} ({_difference(before.get(key), now.get(key))})",
                file=path,
                hint="continue with the same data and options, or remove the directory to start again",
            )


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{key}: {_difference(before.get(key), now.get(key))}" for key in changed)
    return f"{before} before, {now} now"
