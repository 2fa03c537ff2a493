"""Training for a command: its options, and the rows and the plan of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.limits import AUTO
from labeltree.cli import printing
from labeltree.cli.printing import Display
from labeltree.cli.reading import DataFile
from labeltree.errors import InputError
from labeltree.settings import (
    ModelSettings,
    SolverSettings,
    StorageSettings,
    TreeSettings,
    stored_score,
)

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.data.summary import DataSummary
    from labeltree.training.plan import Plan


@dataclass(frozen=True)
class Training:
    """How the trees of a model are built, how its classifiers are trained, and how weights are stored.

    Label tree
    ----------
    tree : FILE (rare)
        Use this tree instead of clustering: nested lists (JSON), a table with the columns label and parent,
        or one cluster of labels per line.
    tree_rest (rare)
        Put labels missing from FILE under a separate child of the root.

    Classifiers
    -----------
    score (rare)
        Function that maps classifier outputs to scores, stored as the model's default.
    score_scale : A (rare)
        Scale of the sigmoid, stored as the model's default. Default: chosen with the function,
        {ScoreSettings.scale:g} with --score sigmoid.
    """

    clusters: int = TreeSettings.clusters
    max_depth: int = TreeSettings.max_depth
    trees: int = TreeSettings.trees
    seed: int = TreeSettings.seed
    tree: Path | None = None
    tree_rest: bool = False
    loss: str = SolverSettings.loss
    cost: float | None = SolverSettings.cost
    max_cost: float | None = SolverSettings.max_cost
    positive_cost: Any = SolverSettings.positive_cost
    tolerance: float = SolverSettings.tolerance
    max_iterations: int = SolverSettings.max_iterations
    bias: float = SolverSettings.bias
    hard_negatives: int = SolverSettings.hard_negatives
    foreign_cost: float = SolverSettings.foreign_cost
    normalize: bool = True
    score: Annotated[str, limits.STORED_SCORE] = AUTO
    score_scale: Annotated[float | None, limits.SCORE_SCALE] = None
    weights: str | None = StorageSettings.weights
    prune: float | None = StorageSettings.prune

    def model_settings(self) -> ModelSettings:
        """Return all settings of a model; reads the file of a given tree."""
        from labeltree.trees.file import read_tree

        if self.tree_rest and self.tree is None:
            raise InputError("--tree-rest is given without --tree", hint="add --tree FILE, or leave it out")
        given = None if self.tree is None else read_tree(self.tree, add_missing=self.tree_rest)
        score = stored_score(self.score, self.score_scale, self.hard_negatives)
        return ModelSettings.of({**vars(self), "tree": given}, score, self.normalize)

    def prepare(self, dataset: Dataset, display: Display) -> tuple[Dataset, DataSummary]:
        """Show what was read; return the rows to train on, which may be scaled, and a summary of the data."""
        from labeltree.training.default_cost import default_costs, length_cost

        summary = DataFile.show(dataset, display)
        scaled = dataset.normalize() if self.normalize else dataset
        if scaled.X is not dataset.X and not display.is_quiet:
            printing.note("rows are scaled to length 1; --no-normalize keeps their lengths")
        if self.cost is None and not display.is_quiet and length_cost(scaled.X) != 1:
            cost = default_costs(scaled.X)[0]
            printing.note(f"the cost is {cost:g}, because of the length of the rows; --cost sets another")
        return scaled, summary


def read_and_plan(
    settings: ModelSettings,
    source: DataFile,
    training: Training,
    threads: int | None,
    *,
    display: Display,
    memory_limit: int | None = None,
) -> tuple[Plan, Dataset, DataSummary]:
    """Read data, and plan a model of it; return the plan, the rows to train on and a summary of the data."""
    from labeltree.training.train import build_plan

    dataset, summary = training.prepare(source.read(display, threads), display)
    with printing.warnings_as_notes():
        plan = build_plan(
            dataset,
            settings.tree,
            settings.solver,
            settings.storage,
            normalize=settings.normalize,
            threads=threads,
            memory_limit=memory_limit,
            stage=display.stage,
        )
    return plan, dataset, summary
