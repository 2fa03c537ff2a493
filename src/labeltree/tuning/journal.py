"""The journal of a search: every finished trial on a line of its own, so that a killed run continues."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from labeltree.base.json import parse_json
from labeltree.errors import InputError
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.trial import Trial

NAME = "trials.jsonl"


def check_no_search(directory: Path, resume: bool) -> None:
    """Refuse a directory that has a search already, unless it is to be continued."""
    if not resume and (directory / NAME).exists():
        raise InputError(
            "there is a search in this directory already",
            file=directory,
            hint="use {resume} to continue it, or another directory",
            parameters={"resume": True},
        )


def _other(name: str) -> str:
    what = name.replace("_", " ")
    return f"different {what}" if what.endswith("data") else f"a different {what}"


class TrialJournal:
    """Trials that are done.

    Parameters
    ----------
    directory : Path
        Created if it does not exist.
    described : mapping
        What the search depends on: data, seed, metric, size. A journal of another search is refused.
    resume : bool
        Continue the journal that the directory has.
    """

    def __init__(self, directory: Path, described: Mapping[str, Any], resume: bool) -> None:
        self._path = directory / NAME
        self._is_new = not directory.exists()
        self.trials: list[Trial] = []
        header = json.dumps({"search": described})
        check_no_search(directory, resume)
        if self._path.exists():
            self._read(json.loads(header)["search"])
        else:
            directory.mkdir(parents=True, exist_ok=True)
            self._path.write_text(header + "\n", "utf-8")

    def _read(self, described: Mapping[str, Any]) -> None:
        lines = self._path.read_bytes().split(b"\n")
        whole = lines[:-1]  # what follows the last line break was being written when the run was killed
        try:
            before = parse_json(whole[0])["search"]
            self.trials = [Trial.from_dict(parse_json(line)) for line in whole[1:]]
        except (IndexError, KeyError, TypeError, ValueError):
            hint = "remove the file to start again"
            raise InputError("the file is not the journal of a search", file=self._path, hint=hint) from None
        for name, value in described.items():
            if before.get(name) != value:
                raise InputError(
                    f"the search in this directory was started with {_other(name)}",
                    file=self._path.parent,
                    hint="use the same data and options, or another directory",
                )
        if lines[-1]:
            with open(self._path, "rb+") as file:
                file.truncate(sum(len(line) + 1 for line in whole))

    def discard(self) -> None:
        """Remove the journal of a search that found nothing, and the directory if it was created for it."""
        self._path.unlink()
        if self._is_new:
            with suppress(OSError):
                self._path.parent.rmdir()

    def find(self, candidate: Candidate, share: float, trees: int) -> Trial | None:
        """Return a trial that is done."""
        key = candidate, share, trees
        same = (trial for trial in self.trials if (trial.candidate, trial.share, trial.trees) == key)
        return next(same, None)

    def add(self, trial: Trial) -> None:
        """Record a trial; it is on disk when this returns."""
        with open(self._path, "ab") as file:
            file.write(json.dumps(trial.to_dict()).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.trials.append(trial)
