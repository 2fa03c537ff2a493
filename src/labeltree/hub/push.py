"""Publishing a model: its files, and a card that describes it, at an address."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from labeltree.base.files import REPLACE
from labeltree.base.progress import Progress, Stage, silent
from labeltree.errors import InputError
from labeltree.hub.address import Address, local_directory
from labeltree.hub.card import CARD, is_generated, model_card
from labeltree.hub.hugging_face import HubStore
from labeltree.hub.loading import load
from labeltree.hub.store import FileStore, Store, TooLargeError
from labeltree.model.directory import check_target, publish, temporary_directory
from labeltree.model.layout import MANIFEST, is_model_file
from labeltree.model.model import Model

_LARGEST_CARD = 1 << 20  # bytes of one that may be replaced

# The text of a card, what returns it, or whether to write one.
Card = str | bool | Callable[[], str]


class Pushed(TypedDict):
    """What was published.

    ``card`` is "written" or "kept", or None if there is none; ``commit`` is the address of the commit on the
    Hugging Face Hub.
    """

    address: str
    files: int
    bytes: int
    card: str | None
    commit: str | None


def push(
    model: Model | str | os.PathLike[str],
    address: str,
    *,
    overwrite: bool = False,
    private: bool = False,
    card: Card = True,
    stage: Stage = silent,
) -> Pushed:
    """Publish a model.

    On the Hugging Face Hub, all files are published in one commit; in a directory (``file://``), they appear
    in one step. In other stores, the manifest is written last, and removed first if a model is replaced:
    there is never a manifest beside the files of another model.

    Parameters
    ----------
    model : Model or path-like
        A model or its directory. All checksums are compared before anything is published.
    address : str
        Such as ``hf://user/name``, ``s3://bucket/name``, ``gs://bucket/name`` or ``file:///mnt/share/name``.
    overwrite : bool, default False
        Replace a model that is there. Files that are not of a model are kept.
    private : bool, default False
        Create a repository on the Hugging Face Hub that only you can see.
    card : str, bool or callable, default True
        The text of README.md, or a function that returns it, called once it is known that the model can be
        published. True for the README.md in the directory of the model, or else for what
        `labeltree.model_card` returns; False for none. A README.md at the address is kept, unless
        `overwrite` is set and it was written by labeltree, or another one is given or in the directory of the
        model.
    stage : callable, optional
        Called as ``stage(name, description)``; returns a context manager that gives a progress callback.

    Returns
    -------
    dict
        The address, the number of files and bytes, and what became of the card.

    Raises
    ------
    InputError
        If there is a model already, or the address cannot be written.
    """
    target = Address(address)
    if target.is_web:
        hint = "copy the directory of the model to the server"
        raise InputError("nothing can be published at this address", file=target.shown, hint=hint)
    source = _directory_of(model)
    with stage("verify", f"verifying {source}"):
        opened = load(source, verify=True)
    content = (source / MANIFEST).read_bytes()
    files = {name: source / name for name in opened.manifest["files"]}
    upload = _Upload(opened, target, files, content, overwrite, card)
    with stage("upload", f"publishing at {target.shown}") as progress:
        directory = local_directory(target)
        if directory is not None:
            return upload.to_directory(directory, progress)
        if target.is_hub:
            return upload.to_hub(HubStore(target), private)
        return upload.to_store(FileStore(target), progress)


def _stored_card(store: Store) -> bytes:
    """Return the card in a store; nothing if it is too large for one that labeltree has written."""
    with tempfile.TemporaryDirectory(prefix="labeltree-") as work:
        try:
            store.download(CARD, Path(work) / CARD, _LARGEST_CARD, lambda count: None)
        except TooLargeError:
            return b""
        return (Path(work) / CARD).read_bytes()


def _directory_of(model: Model | str | os.PathLike[str]) -> Path:
    if not isinstance(model, Model):
        return Path(model)
    if model.path is None:
        raise InputError("the model has no directory", hint="save it first")
    return model.path


class _Upload:
    """A model on its way to an address."""

    def __init__(
        self,
        model: Model,
        target: Address,
        files: Mapping[str, Path],
        manifest: bytes,
        overwrite: bool,
        card: Card,
    ) -> None:
        self._model, self._target, self._overwrite = model, target, overwrite
        self._files, self._manifest, self._card = files, manifest, card
        self._source = _directory_of(model)

    def to_hub(self, store: HubStore, private: bool) -> Pushed:
        """Publish in one commit on the Hugging Face Hub."""
        there = store.names() if store.exists() else set()
        self._check(there)
        card = self._new_card(there, lambda: _stored_card(store))
        store.create(private)
        there = there or store.names()
        files: dict[str, Path | bytes] = {**self._files, MANIFEST: self._manifest}
        if card is not None:
            files[CARD] = card
        message = f"Upload a labeltree model with {self._model.n_labels:,} labels"
        self._check_unchanged()
        commit = store.commit(files, self._stale(there), message)
        return self._report(card, there, commit)

    def to_store(self, store: FileStore, progress: Progress) -> Pushed:
        """Publish in a store, where files are written one by one."""
        there = store.names()
        self._check(there)
        card = self._new_card(there, lambda: _stored_card(store))
        total, sent = max(self._model.bytes, 1), 0

        def report(count: int) -> None:
            nonlocal sent
            sent += count
            progress(min(1.0, sent / total))

        if MANIFEST in there:
            store.remove([MANIFEST])
        with tempfile.TemporaryDirectory(prefix="labeltree-") as scratch:
            work = Path(scratch)
            for name, file in self._files.items():
                store.upload(file, name, report)
            if card is not None:
                (work / CARD).write_bytes(card)
                store.upload(work / CARD, CARD, lambda count: None)
            store.remove(self._stale(there))
            self._check_unchanged()
            (work / MANIFEST).write_bytes(self._manifest)
            store.upload(work / MANIFEST, MANIFEST, lambda count: None)
        return self._report(card, there)

    def to_directory(self, directory: Path, progress: Progress) -> Pushed:
        """Publish in a directory, which appears in one step."""
        there = sorted(file.name for file in directory.glob("*") if file.is_file())
        others = [name for name in there if not is_model_file(name)]
        check_target(directory, self._overwrite, others)
        card = self._new_card(there, (directory / CARD).read_bytes)
        with temporary_directory(directory) as work:
            sent = 0
            for name, file in {**{name: directory / name for name in others}, **self._files}.items():
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, work / name)
                sent += file.stat().st_size
                progress(min(1.0, sent / max(self._model.bytes, 1)))
            if card is not None:
                (work / CARD).write_bytes(card)
            (work / MANIFEST).write_bytes(self._manifest)
            self._check_unchanged()
            publish(work, directory, self._overwrite, kept=others)
        return self._report(card, there)

    def _check(self, there: Iterable[str]) -> None:
        if not self._overwrite and any(map(is_model_file, there)):
            raise InputError(
                "already exists", file=self._target.shown, hint=REPLACE, parameters={"overwrite": True}
            )

    def _check_unchanged(self) -> None:
        """Refuse a model that is not the one any more whose files were verified."""
        if (self._source / MANIFEST).read_bytes() != self._manifest:
            what = "the model was replaced while it was published"
            raise InputError(what, file=self._source, hint="publish it again")

    def _new_card(self, there: Iterable[str], stored: Callable[[], bytes]) -> bytes | None:
        """Return the card to write; None if the stored card is kept, or none is wanted."""
        card, own = self._card, self._source / CARD
        is_given = not isinstance(card, bool) or own.is_file()
        if not card:
            return None
        if CARD in there and not (self._overwrite and (is_given or is_generated(stored()))):
            return None
        if isinstance(card, bool):
            if own.is_file():
                return own.read_bytes()
            return model_card(self._model, address=self._target.shown).encode()
        return (card if isinstance(card, str) else card()).encode()

    def _stale(self, there: Iterable[str]) -> list[str]:
        """Return files of an earlier model that this one does not have."""
        return sorted(name for name in there if is_model_file(name) and name not in {*self._files, MANIFEST})

    def _report(self, card: bytes | None, there: Iterable[str], commit: str | None = None) -> Pushed:
        written = "written" if card is not None else "kept" if CARD in there else None
        return {
            "address": self._target.shown,
            "files": len(self._files) + 1 + (card is not None),
            "bytes": self._model.bytes,
            "card": written,
            "commit": commit,
        }
