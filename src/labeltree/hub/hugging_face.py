"""Models on the Hugging Face Hub: read at one commit, published in one commit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labeltree._version import __version__
from labeltree.base.extras import optional
from labeltree.base.limits import MANIFEST_BYTES
from labeltree.errors import InputError
from labeltree.hub.address import Address
from labeltree.hub.store import Report, check_size, refuse
from labeltree.model.layout import MANIFEST


class HubStore:
    """A model in a repository of the Hugging Face Hub.

    Parameters
    ----------
    address : Address
        It begins with hf://.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._place = address.hub
        self._hub = optional("huggingface_hub")
        self._api = self._hub.HfApi(library_name="labeltree", library_version=__version__)
        self._commit: str | None = None
        self._sizes: dict[str, int] = {}

    @contextmanager
    def _refusing(self, name: str, *, writing: bool = False) -> Iterator[None]:
        """Turn errors of the Hub into ones that say what to do."""
        errors = optional("huggingface_hub.errors")
        missing = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError)
        try:
            yield
        except missing as error:
            if writing or isinstance(error, errors.LocalEntryNotFoundError):
                refuse(self.address, name, ConnectionError(str(error)), writing=writing)
            what = "there is no such model on the Hugging Face Hub"
            hint = "check the address; a private or gated model needs a token, see `hf auth login`"
            raise InputError(what, file=self.address.shown, hint=hint) from None
        except Exception as error:
            refuse(self.address, name, error, writing=writing)

    def names(self) -> set[str]:
        """Return the files below the address, relative to it, as of now; downloads are of this commit."""
        place = self._place
        with self._refusing(MANIFEST):
            info = self._api.model_info(place.repo, revision=place.revision, files_metadata=True)
        self._commit = info.sha
        top = place.file("")
        self._sizes = {
            item.rfilename.removeprefix(top): item.size or 0
            for item in info.siblings or ()
            if item.rfilename.startswith(top)
        }
        return set(self._sizes)

    def read_manifest(self) -> bytes:
        """Return the content of the manifest, as it is now."""
        if MANIFEST not in self.names():
            refuse(self.address, MANIFEST, FileNotFoundError())
        with tempfile.TemporaryDirectory(prefix="labeltree-") as work:
            target = Path(work) / MANIFEST
            self.download(MANIFEST, target, MANIFEST_BYTES, lambda count: None)
            return target.read_bytes()

    def download(self, name: str, target: Path, size: int, report: Report) -> None:
        """Write a file of the model, which has this size, to a local file."""
        if name not in self._sizes:
            refuse(self.address, name, FileNotFoundError())
        check_size(self.address, name, self._sizes[name], size)
        with self._refusing(name), tempfile.TemporaryDirectory(dir=target.parent) as work:
            found = self._hub.hf_hub_download(
                self._place.repo,
                self._place.file(name),
                revision=self._commit,
                local_dir=work,
                library_name="labeltree",
                library_version=__version__,
                tqdm_class=_reporting(report),
            )
            os.replace(found, target)

    def commit(self, files: Mapping[str, Path | bytes], remove: Iterable[str], message: str) -> str:
        """Write and remove files in one commit; return its address.

        It fails if somebody else has changed the repository since `names` was called.
        """
        place, hub = self._place, self._hub
        operations: list[Any] = [
            hub.CommitOperationAdd(place.file(name), content if isinstance(content, bytes) else str(content))
            for name, content in files.items()
        ]
        operations += [hub.CommitOperationDelete(place.file(name), is_folder=False) for name in remove]
        with self._refusing("", writing=True), _no_bars():
            done = self._api.create_commit(
                place.repo,
                operations,
                commit_message=message,
                revision=place.revision,
                parent_commit=self._commit,
            )
        return str(done.commit_url)

    def exists(self) -> bool:
        """Return whether there is such a repository, as far as one may know."""
        with self._refusing("", writing=True):
            return bool(self._api.repo_exists(self._place.repo))

    def create(self, private: bool) -> None:
        """Create the repository, unless it exists."""
        with self._refusing("", writing=True):
            self._api.create_repo(self._place.repo, private=private or None, exist_ok=True)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Keep huggingface_hub from showing progress bars of its own."""
    utils = optional("huggingface_hub.utils")
    if utils.are_progress_bars_disabled():
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()


def _reporting(report: Report) -> Any:
    """Return a progress bar for huggingface_hub that shows nothing, and reports."""
    tqdm: Any = optional("huggingface_hub.utils").tqdm

    class Reporting(tqdm):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            report(int(n or 0))

    return Reporting
