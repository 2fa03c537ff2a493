"""The options for training: how trees are built, classifiers trained, and weights stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from labeltree.base import limits
from labeltree.base.limits import AUTO
from labeltree.cli import options, printing
from labeltree.cli.options import TREE, limited
from labeltree.errors import InputError
from labeltree.settings import ModelSettings, ScoreSettings, SolverSettings, StorageSettings, TreeSettings

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset

_SOLVER = "Classifiers"


@dataclass(frozen=True)
class Training:
    """How the trees of a model are built, how its classifiers are trained, and how weights are stored."""

    clusters: options.Clusters = TreeSettings.clusters
    max_depth: Annotated[
        int,
        limited(
            "--max-depth",
            limits.MAX_DEPTH,
            "N",
            "Maximum depth of the tree (the root has depth 0); 1 means one-vs-rest",
            TREE,
        ),
    ] = TreeSettings.max_depth
    trees: Annotated[
        int,
        limited("--trees", limits.TREES, "N", "Number of trees; scores are averaged", TREE),
    ] = TreeSettings.trees
    tree: Annotated[
        Path | None,
        typer.Option(
            "--tree",
            metavar="FILE",
            help="Use this tree instead of clustering: nested lists (JSON), a table with the columns label "
            "and parent, or one cluster of labels per line.",
            rich_help_panel=TREE,
        ),
    ] = None
    tree_rest: Annotated[
        bool,
        typer.Option(
            "--tree-rest",
            help="Put labels missing from FILE under a separate child of the root.",
            rich_help_panel=TREE,
        ),
    ] = False
    seed: options.Seed = TreeSettings.seed
    loss: Annotated[str, limited("--loss", limits.LOSS, "NAME", "Loss function", _SOLVER)] = (
        SolverSettings.loss
    )
    cost: Annotated[
        float | None,
        limited(
            "--cost",
            limits.COST,
            "C",
            "Regularization parameter C; larger values fit the training data more closely",
            _SOLVER,
            default="0.5 to 2, by the numbers of features and rows, over the mean squared norm of the rows",
        ),
    ] = SolverSettings.cost
    max_cost: Annotated[
        float | None,
        limited(
            "--max-cost",
            limits.COST,
            "C",
            "C grows in smaller nodes, up to this: times p^-0.2 with the share p of all rows",
            _SOLVER,
            default="C, if it is given; otherwise 1 for rows of length 1, or C if that is larger",
        ),
    ] = SolverSettings.max_cost
    positive_cost: Annotated[
        Any,
        limited(
            "--positive-cost",
            limits.POSITIVE_COST,
            "X,...",
            "Factor of the cost of positive instances; or one per depth, separated by commas",
            _SOLVER,
        ),
    ] = SolverSettings.positive_cost
    tolerance: Annotated[
        float,
        limited(
            "--tolerance",
            limits.TOLERANCE,
            "X",
            "Relative distance of every objective from its optimum, at most",
            _SOLVER,
        ),
    ] = SolverSettings.tolerance
    max_iterations: Annotated[
        int,
        limited(
            "--max-iterations",
            limits.MAX_ITERATIONS,
            "N",
            "Maximum number of passes over a node's instances",
            _SOLVER,
        ),
    ] = SolverSettings.max_iterations
    bias: Annotated[
        float,
        limited(
            "--bias",
            limits.BIAS,
            "X",
            "Value of a constant feature added to every instance; 0 for none",
            _SOLVER,
        ),
    ] = SolverSettings.bias
    normalize: Annotated[
        bool,
        typer.Option(
            "--normalize/--no-normalize",
            help="Scale every row of features to length 1, also those that the model is to predict. Rows of "
            "TF-IDF have this length already.",
            rich_help_panel=_SOLVER,
        ),
    ] = True
    weights: options.Weights = StorageSettings.weights
    prune: options.Prune = StorageSettings.prune

    def model_settings(self, score: ScoreSettings | Literal["auto"] = AUTO) -> ModelSettings:
        """Return all settings of a model; reads the file of a given tree."""
        from labeltree.trees.file import read_tree

        if self.tree_rest and self.tree is None:
            raise InputError("--tree-rest is given without --tree", hint="add --tree FILE, or leave it out")
        given = None if self.tree is None else read_tree(self.tree, add_missing=self.tree_rest)
        return ModelSettings.of({**vars(self), "tree": given}, score, self.normalize)

    def rows_of(self, dataset: Dataset, *, quiet: bool) -> Dataset:
        """Return the data to train on; notes report that rows are scaled, or what their length changes."""
        from labeltree.training.costs import default_cost, length_cost

        scaled = dataset.normalize() if self.normalize else dataset
        if scaled.X is not dataset.X and not quiet:
            printing.note("rows are scaled to length 1; --no-normalize keeps their lengths")
        if self.cost is None and not quiet and length_cost(scaled.X) != 1:
            cost = default_cost(scaled.X)
            printing.note(f"the cost is {cost:g}, because of the length of the rows; --cost sets another")
        return scaled
