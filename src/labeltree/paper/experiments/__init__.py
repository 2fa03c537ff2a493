"""The paper's tables and figures, each made by one function on a session's data.

>>> from labeltree import synthesize
>>> from labeltree.paper import experiments
>>> train, test = synthesize("eur-lex", scale=0.02)
>>> result = experiments.run("statistics", [experiments.Split("made-up", train, test)])
>>> result.tables[0].rows[0]["labels"]
79
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from labeltree.errors import InputError
from labeltree.paper.experiments.output import save
from labeltree.paper.experiments.result import Claim, Plot, Result, Table
from labeltree.paper.experiments.session import Session, Split
from labeltree.paper.experiments.sources import load_splits
from labeltree.progress import Progress

# Name of an experiment -> its module, in the order of the report.
EXPERIMENTS = {
    "statistics": "statistics",
    "fixed-k": "fixed_k",
    "varied-k": "varied_k",
    "alpha": "alpha",
    "pruning": "pruning",
    "theory": "formulas",
    "time": "training_time",
}
WITHOUT_DATA = ("theory", "time")
WITH_TEST = ("pruning",)

__all__ = [
    "EXPERIMENTS",
    "WITHOUT_DATA",
    "WITH_TEST",
    "Claim",
    "Plot",
    "Result",
    "Session",
    "Split",
    "Table",
    "check_data",
    "load_splits",
    "run",
    "save",
]


def run(
    name: str,
    data: Session | Sequence[Split] = (),
    *,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Run one experiment.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`, as in ``labeltree reproduce NAME``.
    data : Session or sequence of Split
        The data sets. Pass one session to several experiments, and they share trees and label vectors.
    seeds : sequence of int, default 0 to 4
        One tree is built for each; a session has its own.
    threads : int, optional
        All usable processors unless given; a session has its own.
    progress : callable, optional
        Called now and then with the fraction that is done.
    **options
        Of the experiment's own ``run``, such as ``clusters=50`` for fixed-k.

    Returns
    -------
    Result
        To be looked at, or written with ``save``.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"got the unknown experiment {name!r}, expected one of {', '.join(EXPERIMENTS)}")
    session = data if isinstance(data, Session) else Session(data, seeds, threads)
    check_data(name, session.splits)
    module = import_module(f"labeltree.paper.experiments.{EXPERIMENTS[name]}")
    result: Result = module.run(session, progress, **options)
    return result


def check_data(name: str, splits: Sequence[Split]) -> None:
    """Refuse data that an experiment cannot use."""
    if name not in WITHOUT_DATA and not splits:
        raise InputError(f"{name} needs data, but got none; name a folder with train.svm, or a training file")
    if name in WITH_TEST and not any(split.test for split in splits):
        raise InputError(
            f"{name} judges models by test data, but {', '.join(split.name for split in splits)} has none; "
            "put a test.svm beside the train.svm, and name the folder"
        )
