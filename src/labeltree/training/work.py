"""The work directory: a model that is being trained, kept if the process ends before the model is complete.

``work.json`` describes data and settings, ``tree-0.npz`` and so on are the trees that are built, ``journal``
says which strips are trained, and ``model`` is the directory that becomes the model.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree._version import __version__
from labeltree.base.files import remove_directory, remove_leftovers
from labeltree.errors import InputError
from labeltree.model.directory import (
    check_target,
    clean_up,
    is_publishable,
    is_published,
    publish,
    temporary_directory,
    write_durably,
)
from labeltree.model.layout import MANIFEST
from labeltree.training.journal import Journal, read_journals, seconds_of
from labeltree.trees.tree import LabelTree

FORMAT = "labeltree work directory"
_DESCRIPTION = "work.json"
# What `publish` writes before it moves the model to its place.
_PUBLISHED = "published"
# Names the process that uses the directory, the last one if it is shared.
_OWNER = "process"


def work_path(model: Path | str) -> Path:
    """Return the work directory of a model directory: next to it, with ``.work`` after its name."""
    path = Path(os.path.abspath(model))
    return path.with_name(f"{path.name}.work")


class WorkDirectory:
    """A work directory that this process uses, as a context manager.

    What the model depends on is ``described``, as JSON: data and settings. A directory that exists must have
    the same description; without one, the directory must exist. If the context ends without results that are
    worth keeping for the model at ``target``, the work directory is removed. With ``shared``, several
    processes use it at the same time.
    """

    def __init__(
        self,
        path: Path,
        described: Mapping[str, Any] | None = None,
        *,
        target: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        sync: bool = True,
        shared: bool = False,
    ) -> None:
        self.path = path
        self.target = target
        self.overwrite = overwrite
        self.sync = sync
        self._is_planned = described is None
        remove_leftovers(path.parent, f".{path.name}.")
        if target is not None:
            clean_up(target)
        self._is_new = not self._is_planned and not path.exists()
        if described is not None:
            path.mkdir(exist_ok=resume)
        elif not is_work_directory(path):
            what = "no such directory" if not path.exists() else "not a work directory"
            raise InputError(what, file=path, hint="make one with `labeltree plan`")
        self._lock = _locked(path, shared)
        try:
            self._open(described)
            (path / _OWNER).write_text(f"process {os.getpid()} on {socket.gethostname()}")
        except BaseException:
            if self._is_new:
                shutil.rmtree(path, ignore_errors=True)
            os.close(self._lock)
            raise

    @classmethod
    def of_model(
        cls,
        model: Path | str,
        described: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
        sync: bool = True,
    ) -> WorkDirectory:
        """Open the work directory of a model that is to be trained, after `check_run`."""
        target = Path(os.path.abspath(model))
        check_run(target, overwrite, resume)
        path = work_path(target)
        return cls(path, described, target=target, resume=resume, overwrite=overwrite, sync=sync)

    def _open(self, described: Mapping[str, Any] | None) -> None:
        if (self.path / _DESCRIPTION).is_file():
            self.described = read_description(self.path)
            if described is not None:
                _check_same(self.path, self.described, described)
        else:
            self.described = dict(described or {})
            content = {"format": FORMAT, "labeltree_version": __version__, "described": described}
            self.write(_DESCRIPTION, json.dumps(content, indent=2).encode())
        if (self.path / _PUBLISHED).exists() and not (self.is_complete or self.is_published):
            what = "the run is complete, but its model no longer exists"
            raise InputError(what, file=self.path, hint="remove the directory to start again")
        self.model.mkdir(exist_ok=True)
        self.records = read_journals(self.path / "journal")

    @property
    def model(self) -> Path:
        """The directory that becomes the model."""
        return self.path / "model"

    @property
    def is_complete(self) -> bool:
        """Whether only the move to its place is missing: the manifest is written last."""
        return is_publishable(self.path / _PUBLISHED, self.model)

    @property
    def is_published(self) -> bool:
        """Whether the model has its place: the process that moved it was killed before it cleaned up."""
        return self.target is not None and _is_published(self.path, self.target)

    @property
    def allocated_bytes(self) -> int:
        """Disk space that the model has already."""
        return sum(512 * file.stat().st_blocks for file in self.model.rglob("*") if file.is_file())

    @cached_property
    def journal(self) -> Journal:
        """The journal of this process."""
        return Journal(self.path / "journal", self.sync)

    def tree(self, number: int) -> LabelTree | None:
        """Return a tree that was built before, or None."""
        file = self.path / f"tree-{number}.npz"
        if not file.is_file():
            return None
        with np.load(file, allow_pickle=False) as arrays:
            return LabelTree(arrays["child_ptr"], arrays["children"], *arrays["build_bytes"].ravel().tolist())

    def keep_tree(self, number: int, tree: LabelTree) -> None:
        """Keep a tree. If there is one with this number already, it must be the same."""
        kept = self.tree(number)
        if kept is None:
            build_bytes = np.array([tree.build_bytes, tree.centroid_bytes], np.int64)
            arrays = {"child_ptr": tree.child_ptr, "children": tree.children, "build_bytes": build_bytes}
            self.write_arrays(f"tree-{number}.npz", arrays)
        elif not (
            np.array_equal(kept.child_ptr, tree.child_ptr) and np.array_equal(kept.children, tree.children)
        ):
            hint = "use the same tree, or remove the directory to start again"
            raise InputError(f"tree {number} is not that of the unfinished run", file=self.path, hint=hint)

    def keep_amounts(self, number: int, amounts: NDArray[np.int64]) -> None:
        """Keep the work of each strip of a tree, which shows the progress of a run."""
        name = f"strips-{number}.npz"
        if not (self.path / name).is_file():
            self.write_arrays(name, {"amounts": amounts})

    def publish(self) -> None:
        """Move the complete model to its place; the work directory is no longer needed."""
        assert self.target is not None
        record = self.path / _PUBLISHED
        if os.stat(self.model).st_dev == os.stat(self.target.parent).st_dev:
            publish(self.model, self.target, self.overwrite, sync=self.sync, record=record)
            return
        with temporary_directory(self.target) as copy:  # a name on another file system
            shutil.copytree(self.model, copy / "model")
            publish(copy / "model", self.target, self.overwrite, sync=self.sync, record=record)

    def __enter__(self) -> WorkDirectory:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if "journal" in self.__dict__:
            self.journal.close()
        if self._is_done(error):
            remove_directory(self.path)
        else:
            (self.path / _OWNER).unlink(missing_ok=True)
        os.close(self._lock)

    def _is_done(self, error: BaseException | None) -> bool:
        """Return whether nothing in the directory is worth keeping."""
        if self.target is None:
            return self._is_new and error is not None
        # Trees that the caller has need not be kept, and those of settings that are refused neither.
        builds_trees = "trees" in self.described and not isinstance(error, InputError)
        has_results = any(self.records.values()) or (builds_trees and self.tree(0) is not None)
        has_results |= self._is_planned  # with data that may have no other copy
        return not has_results or _is_published(self.path, self.target)

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write arrays to a file that is there completely or not at all."""
        content = io.BytesIO()
        np.savez(content, **arrays)
        self.write(name, content.getvalue())

    def write(self, name: str, content: bytes) -> None:
        """Write a file that is there completely or not at all."""
        write_durably(self.path / name, content, self.sync)


def check_run(model: Path, overwrite: bool, resume: bool) -> None:
    """Refuse to train a model that exists, or whose work directory exists, unless the caller allows it.

    A run that was killed after its model had taken its place is complete: it can be continued, which only
    removes the work directory.
    """
    path = work_path(model)
    if _is_published(path, model):
        if resume:
            return
        remove_directory(path)
    if resume and not (overwrite or path.exists()) and (model / MANIFEST).is_file():
        clean_up(Path(os.path.abspath(model)))
        what, hint = "the model is complete", "load it, or use {overwrite} to train it again"
        raise InputError(what, file=model, hint=hint, parameters={"overwrite": True})
    check_target(model, overwrite)
    if path.exists() and not resume:
        os.close(_locked(path, shared=False))  # an error if a process is running
        hint = "use {resume} to continue it, or remove the directory to start again"
        raise InputError("there is an unfinished run", file=path, hint=hint, parameters={"resume": True})


def read_description(path: Path) -> dict[str, Any]:
    """Read and check ``work.json``; return what it describes."""
    try:
        content = json.loads((path / _DESCRIPTION).read_text(encoding="utf-8"))
        if content["format"] != FORMAT or not isinstance(content["described"], dict):
            raise ValueError("not that of a work directory")
        version = content["labeltree_version"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        what = f"{_DESCRIPTION} cannot be read ({error})"
        raise InputError(what, file=path, hint="remove the directory and start again") from None
    if version != __version__:
        what = f"the run was started with labeltree {version}, this is {__version__}"
        hint = "continue with the same version, or remove the directory to start again"
        raise InputError(what, file=path, hint=hint)
    return dict(content["described"])


@contextmanager
def resumable(model: Path) -> Iterator[None]:
    """If the disk becomes full while a model is trained, say that the run can be continued."""
    try:
        yield
    except OSError as error:
        path = work_path(model)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not path.exists():
            raise
        hint = "free some space, then continue with {resume}"
        what = "the disk is full, but what is trained is kept"
        raise InputError(what, file=path, hint=hint, parameters={"resume": True}) from error


def is_work_directory(path: Path) -> bool:
    """Return whether a directory is a work directory."""
    return (path / _DESCRIPTION).is_file()


def _locked(path: Path, shared: bool) -> int:
    """Lock a directory for this process, or for those that share it; return the handle of the lock."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        what = f"{_owner(path)} is running and uses the work directory"
        hint = f"wait until it has ended, or choose another name; `labeltree info {path}` shows its progress"
        raise InputError(what, file=path, hint=hint) from None
    return handle


def _owner(path: Path) -> str:
    """Return what is known of the process that uses a directory."""
    with suppress(OSError):
        return (path / _OWNER).read_text() or "another process"
    return "another process"


def _is_published(path: Path, model: Path) -> bool:
    return is_published(path / _PUBLISHED, path / "model", model)


def _check_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    now = json.loads(json.dumps(now))
    for key in {**before, **now}:
        if before.get(key) != now.get(key):
            name = "settings" if key == "notes" else key
            what = f"the unfinished run has other {name} ({_difference(before.get(key), now.get(key))})"
            hint = "continue with the same data and options, or remove the directory to start again"
            raise InputError(what, file=path, hint=hint)


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{key}: {_difference(before.get(key), now.get(key))}" for key in changed)
    return f"{before} before, {now} now"


def work_status(path: Path) -> dict[str, Any]:
    """Describe an unfinished run; what is not known yet is None.

    ``done`` is the share of the multiply-adds, ``seconds`` the time that processes have spent on it.
    """
    described = read_description(path)
    records = read_journals(path / "journal")
    n_trees = len(list(path.glob("tree-*.npz")))
    files = [path / f"strips-{t}.npz" for t in range(n_trees)]
    amounts = [np.load(file, allow_pickle=False)["amounts"] for file in files if file.is_file()]
    total = float(sum(amount.sum() for amount in amounts))
    trained = sum(float(amount[list(records.get(t, {}))].sum()) for t, amount in enumerate(amounts))
    done = trained / total if total else None
    seconds, process = seconds_of(path / "journal"), None
    try:
        os.close(_locked(path, shared=False))
    except InputError:
        process = _owner(path)
    return {
        "work": str(path),
        "running": process is not None,
        "process": process,
        "data": described["data"],
        "trees": n_trees,
        "strips": sum(amount.size for amount in amounts) if amounts else None,
        "trained": sum(map(len, records.values())),
        "done": done,
        "seconds": seconds,
        "seconds_left": seconds * (1 - done) / done if done else None,
        "complete": (path / "model" / MANIFEST).is_file(),
    }
