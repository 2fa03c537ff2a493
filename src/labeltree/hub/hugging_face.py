"""Models on the Hugging Face Hub: published in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labeltree._version import __version__
from labeltree.base.extras import optional
from labeltree.hub.address import Address, HubPath
from labeltree.hub.store import Report, Store, refusing


class HubStore(Store):
    """A model in a repository of the Hugging Face Hub, which is created `private` or for all to see."""

    def __init__(self, address: Address, place: HubPath, private: bool) -> None:
        super().__init__(address)
        self._place, self._private = place, private
        self._hub = optional("huggingface_hub")
        self._api = self._hub.HfApi(library_name="labeltree", library_version=__version__)
        self._commit: str | None = None

    def names(self) -> set[str]:
        """Return the files below the address, relative to it."""
        with refusing(self.address, writing=True):
            if not self._api.repo_exists(self._place.repo):
                return set()
            self._commit = self._api.model_info(self._place.repo, revision=self._place.revision).sha
        return super().names()

    def publish(
        self, files: Mapping[str, Path | bytes], remove: Iterable[str], message: str, report: Report
    ) -> str:
        """Remove and write files in one commit; return its address.

        The repository is created, unless it exists. If it was changed since `names` was called, it fails.
        """
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
