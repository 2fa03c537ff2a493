"""The paper's tables and figures, one function per experiment, on any data.

>>> from labeltree import synthesize
>>> from labeltree.paper import experiments
>>> train, test = synthesize("eur-lex", scale=0.02)
>>> result = experiments.run("statistics", [experiments.Split("synthetic", train, test)])
>>> result.tables[0].rows[0]["labels"]
79
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from labeltree.base import plots as figures
from labeltree.base.progress import Progress
from labeltree.errors import InputError
from labeltree.paper.experiments.report import save
from labeltree.paper.experiments.result import Plot, Result, Table
from labeltree.paper.experiments.session import Session, Split, load_splits

# Name of an experiment -> its module, in the order of the report.
EXPERIMENTS = {
    "statistics": "statistics",
    "fixed-k": "fixed_k",
    "varied-k": "varied_k",
    "alpha": "alpha",
    "last-depth": "last_depth",
    "growth": "growth",
    "tight-bound": "tight_bound",
    "pruning": "pruning",
    "theory": "theory_tables",
    "kmeans": "kmeans_cost",
    "time": "training_time",
}
WITHOUT_DATA = ("theory", "time")
WITHOUT_PLOTS = ("statistics", "growth")
WITH_TEST = ("pruning",)

__all__ = [
    "EXPERIMENTS",
    "WITHOUT_DATA",
    "WITHOUT_PLOTS",
    "WITH_TEST",
    "Plot",
    "Result",
    "Session",
    "Split",
    "Table",
    "check_data",
    "check_plots",
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
        The datasets. Experiments that are given the same session share its trees and label vectors.
    seeds : sequence of int, default 0 to 4
        One tree is built per seed. Ignored if ``data`` is a session.
    threads : int, optional
        Default: all CPUs. Ignored if ``data`` is a session.
    progress : callable, optional
        Called periodically with the fraction of the work that is done.
    **options
        Options of the experiment, such as ``clusters=50`` for fixed-k.

    Returns
    -------
    Result
        ``save`` writes it.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no such experiment: {name!r}", hint=f"use one of {', '.join(EXPERIMENTS)}")
    session = data if isinstance(data, Session) else Session(data, seeds, threads)
    check_data(name, session.splits)
    check_plots([name])
    module = import_module(f"labeltree.paper.experiments.{EXPERIMENTS[name]}")
    result: Result = module.run(session, progress, **options)
    return result


def check_data(name: str, splits: Sequence[Split]) -> None:
    """Raise an error if an experiment cannot use these datasets."""
    if name not in WITHOUT_DATA and not splits:
        raise InputError(f"{name} needs data", hint="pass a directory with train.svm, or a training file")
    if name in WITH_TEST and not any(split.test for split in splits):
        raise InputError(
            f"{name} needs test data, found none in {', '.join(split.name for split in splits)}",
            hint="add a test.svm to the directory of train.svm, and pass the directory",
        )


def check_plots(names: Sequence[str]) -> None:
    """Raise an error if one of the experiments draws figures and matplotlib is not installed."""
    if not set(names) <= set(WITHOUT_PLOTS):
        figures.require()
