"""The progress of an unfinished run: what is done, and how long the rest will take."""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from labeltree.model.layout import MANIFEST
from labeltree.training.journal import read_journals
from labeltree.training.work import amounts_name, read_description, read_tree


class WorkStatus(TypedDict):
    """The state of a work directory; what is not known yet is None."""

    work: str
    running: bool
    data: dict[str, Any]
    trees: int
    strips: int | None
    trained: int
    done: float | None
    seconds: float
    seconds_left: float | None
    complete: bool


def work_status(path: Path) -> WorkStatus:
    """Describe an unfinished run.

    Parameters
    ----------
    path : Path
        A work directory.

    Returns
    -------
    WorkStatus
        ``done`` is the share of the multiply-adds, ``seconds`` the time that processes have spent on it.
    """
    described = read_description(path)["described"]
    records = read_journals(path / "journal")
    n_trees = next(t for t in count() if read_tree(path, t) is None)
    files = [path / amounts_name(t) for t in range(n_trees)]
    amounts = [np.load(file, allow_pickle=False) for file in files if file.is_file()]
    total = float(sum(amount.sum() for amount in amounts))
    trained = sum(float(amount[list(records.get(t, {}))].sum()) for t, amount in enumerate(amounts))
    done = trained / total if total else None
    seconds = _seconds(path / "journal")
    return {
        "work": str(path),
        "running": _is_locked(path),
        "data": described["data"],
        "trees": n_trees,
        "strips": sum(amount.size for amount in amounts) if amounts else None,
        "trained": sum(map(len, records.values())),
        "done": done,
        "seconds": seconds,
        "seconds_left": seconds * (1 - done) / done if done else None,
        "complete": (path / "model" / MANIFEST).is_file(),
    }


def _seconds(journals: Path) -> float:
    """Return the time from the start of each process to its last entry."""
    total = 0.0
    for file in journals.iterdir() if journals.is_dir() else ():
        started = int(file.name.split("-")[0], 16) / 1e9
        total += max(0.0, file.stat().st_mtime - started)
    return total


def _is_locked(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
