"""Publishing a model: its files, and a card that describes it, at an address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypedDict

from labeltree.base.display import Stage, silent
from labeltree.base.files import REPLACE
from labeltree.base.limits import PATH, checked
from labeltree.errors import InputError
from labeltree.hub.address import EXPECTED, Address
from labeltree.hub.card import model_card
from labeltree.hub.loading import load
from labeltree.hub.remote import DirectoryStore, Store, open_store
from labeltree.model.layout import CARD, CARD_MARK, MANIFEST, is_model_file
from labeltree.model.model import Model

_LARGEST_CARD = 1 << 24  # bytes

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
    stage: Stage | None = None,
) -> Pushed:
    """Publish a model.

    On the Hugging Face Hub, all files are published in one commit. Elsewhere, the manifest is written last,
    and removed first if a model is replaced: there is never a manifest beside the files of another model.

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
        published: `labeltree.model_card` takes a title, languages, a license and metrics. True for the
        README.md in the directory of the model, or else for a generated card; False for none. A README.md at
        the address is kept, unless `overwrite` is set and it was written by labeltree, or another one is
        given or in the directory of the model.
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
    if not isinstance(address, str):
        raise InputError(f"address is of type {type(address).__name__}, expected a string {EXPECTED}")
    target, stage = Address(address), stage or silent
    if target.is_web:
        hint = "copy the directory of the model to the server"
        raise InputError("nothing can be published at this address", file=target.shown, hint=hint)
    source = model.path if isinstance(model, Model) else Path(checked("model", model, PATH))
    if source is None:
        raise InputError("the model has no directory", hint="save it first")
    with stage("verify", f"verifying {source}"):
        opened = load(source, verify=True)
    manifest = (source / MANIFEST).read_bytes()
    with stage("upload", f"publishing at {target.shown}") as progress:
        store = open_store(target, private=private)
        if isinstance(store, DirectoryStore) and store.is_directory(source):
            what = "is the directory of the model itself"
            raise InputError(what, file=target.shown, hint="choose another address")
        there = store.names()
        old = list(filter(is_model_file, there))
        if old and not overwrite:
            option = {"overwrite": True}
            raise InputError("already exists", file=target.shown, hint=REPLACE, parameters=option)
        text = _new_card(opened, store, there, overwrite, card)
        files: dict[str, Path | bytes] = {name: source / name for name in opened.manifest["files"]}
        if text is not None:
            files[CARD] = text
        files[MANIFEST] = manifest
        sent = 0

        def report(count: int) -> None:
            nonlocal sent
            sent += count
            progress(min(1.0, sent / max(opened.bytes, 1)))
            if (source / MANIFEST).read_bytes() != manifest:  # other files than those that were verified
                what = "the model was replaced while it was published"
                raise InputError(what, file=source, hint="publish it again")

        report(0)
        message = f"Upload a labeltree model with {opened.n_labels:,} labels"
        commit = store.publish(files, old, message, report)
    return {
        "address": target.shown,
        "files": len(files),
        "bytes": opened.bytes,
        "card": "written" if text is not None else "kept" if CARD in there else None,
        "commit": commit,
    }


def _new_card(model: Model, store: Store, there: Iterable[str], overwrite: bool, card: Card) -> bytes | None:
    """Return the card to write; None if the stored card is kept, or none is wanted."""
    assert model.path is not None
    own = model.path / CARD
    if not card:
        return None
    if CARD in there:
        is_given = not isinstance(card, bool) or own.is_file()
        if not (overwrite and (is_given or CARD_MARK.encode() in store.read(CARD, _LARGEST_CARD))):
            return None
    if not isinstance(card, bool):
        return (card if isinstance(card, str) else card()).encode()
    return own.read_bytes() if own.is_file() else model_card(model, address=store.address.shown).encode()
