"""The paper's tables and figures by name, on any data (docs/reproduce.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from labeltree.base.display import Progress, ignore
from labeltree.errors import InputError
from labeltree.paper.alpha import alpha, last_depth
from labeltree.paper.session import Session, Split, load_splits
from labeltree.paper.sizes import fixed_k, statistics, varied_k
from labeltree.paper.tables import Result, Table, save
from labeltree.paper.theory_tables import theory_tables
from labeltree.paper.weights import pruning, tight_bound

__all__ = ["EXPERIMENTS", "Experiment", "Result", "Session", "Split", "Table", "load_splits", "run", "save"]


@dataclass(frozen=True)
class Experiment:
    """A declared experiment: its title, and the part of the paper that it reproduces (``source``).

    ``measure`` takes a session, a progress callback and the options of the experiment, and returns its
    tables. It runs on datasets if it ``needs_data``, and only on those with test data if it ``needs_test``.
    """

    measure: Callable[..., list[Table]]
    title: str
    source: str
    needs_data: bool = True
    needs_test: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Names of the options, and their defaults."""
        parameters = signature(self.measure).parameters.values()
        return {one.name: one.default for one in parameters if one.kind is Parameter.KEYWORD_ONLY}

    def check(self, name: str, splits: Sequence[Split]) -> None:
        """Raise an error if the experiment cannot use these datasets."""
        if self.needs_data and not splits:
            raise InputError(f"{name} needs data", hint="pass a directory with train.svm, or a training file")
        if self.needs_test and not any(split.test for split in splits):
            raise InputError(
                f"{name} needs test data, found none in {', '.join(split.name for split in splits)}",
                hint="add a test.svm to the directory of train.svm, and pass the directory",
            )


# By name, in the order of the report. What needs no data comes first: its options are then checked early.
EXPERIMENTS = {
    "theory": Experiment(
        theory_tables, "Balanced trees", "Figures 3 and 6, Tables 2 and 4, Theorem 1", needs_data=False
    ),
    "statistics": Experiment(statistics, "The datasets", "Table 5"),
    "fixed-k": Experiment(fixed_k, "Size of a tree relative to one-vs-rest, fixed K", "Figure 4"),
    "varied-k": Experiment(varied_k, "Size of a tree relative to one-vs-rest, K by depth", "Figure 5"),
    "alpha": Experiment(alpha, "Used features relative to the parent node", "Figure 7"),
    "last-depth": Experiment(last_depth, "Alpha of unfinished nodes at the last depth", "appendix E"),
    "tight-bound": Experiment(tight_bound, "Non-zero weights after training", "equations 7, 8 and 18"),
    "pruning": Experiment(pruning, "Precision and size without small weights", "Table 3", needs_test=True),
}


def run(name: str, session: Session, *, progress: Progress = ignore, **options: Any) -> Result:
    """Run one of `EXPERIMENTS`, as ``labeltree reproduce NAME`` does; the ``save`` of the result writes it.

    Experiments that are given the same session share its trees and label vectors. The options are those of
    the experiment, such as ``clusters=50`` for fixed-k.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no such experiment: {name!r}", hint=f"use one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    experiment.check(name, session.splits)
    tables = experiment.measure(session, progress, **options)
    settings = {**experiment.options, **options, "seeds": list(session.seeds)}
    return Result(name, experiment.title, experiment.source, settings, tables)
