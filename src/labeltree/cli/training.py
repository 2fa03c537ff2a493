"""`labeltree estimate` and `labeltree train`: from a data file to a plan, and on to a model."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.cli import options, printing, text_options
from labeltree.cli.progress import Stages
from labeltree.errors import InputError, ResourceError
from labeltree.system import human_bytes, parse_bytes, peak_memory, threads_to_use

if TYPE_CHECKING:
    from labeltree.data import Dataset
    from labeltree.plan import Plan
    from labeltree.settings import SolverSettings
    from labeltree.tree import LabelTree


@text_options.takes(text_options.Text)
def estimate(
    data: options.Data,
    clusters: options.Clusters = 100,
    max_depth: options.MaxDepth = 6,
    trees: options.Trees = 1,
    tree: options.Tree = None,
    tree_rest: options.TreeRest = False,
    seed: options.Seed = 0,
    bias: options.Bias = 1.0,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    one_based: options.OneBased = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    text: text_options.Text = text_options.NOTHING,
) -> None:
    """Tell to the byte how large a model will be, and whether it can be trained here."""
    from labeltree.settings import SolverSettings

    settings = SolverSettings(bias=bias)
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    grown = _Trees(clusters, max_depth, trees, seed, tree, tree_rest)
    source = _Source(data, text, one_based)
    _, plan = _planned(Stages(quiet or json), source, grown, settings, threads)
    report = plan.report()
    try:
        plan.check_resources(Path("."), limit)
        verdict = None
    except ResourceError as error:
        verdict = str(error)
    if json:
        printing.print_json({**report, "memory_limit_bytes": limit, "fits": verdict is None})
        return
    print(*printing.estimate_lines(report, limit), "", verdict or "It fits.", sep="\n")


@text_options.takes(text_options.Text)
def train(
    data: options.Data,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model directory to write.", show_default=False)
    ],
    clusters: options.Clusters = 100,
    max_depth: options.MaxDepth = 6,
    trees: options.Trees = 1,
    tree: options.Tree = None,
    tree_rest: options.TreeRest = False,
    seed: options.Seed = 0,
    loss: options.Loss = "squared_hinge",
    cost: options.Cost = 1.0,
    tolerance: options.Tolerance = 0.1,
    max_iterations: options.MaxIterations = 300,
    bias: options.Bias = 1.0,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    force: options.Force = False,
    overwrite: options.Overwrite = False,
    one_based: options.OneBased = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    text: text_options.Text = text_options.NOTHING,
) -> None:
    """Train a model: plan it, check that it fits, and fill it."""
    from labeltree.settings import SolverSettings
    from labeltree.store import check_target, directory_bytes
    from labeltree.train import train_model

    # Whatever can be wrong without the data is said before it is read.
    settings = SolverSettings(loss.replace("-", "_"), cost, tolerance, max_iterations, bias, seed)
    limit = sys.maxsize if force else None if memory_limit is None else parse_bytes(memory_limit)
    grown = _Trees(clusters, max_depth, trees, seed, tree, tree_rest)
    source = _Source(data, text, one_based)
    check_target(model, overwrite)
    stages = Stages(quiet or json)
    try:
        dataset, plan = _planned(stages, source, grown, settings, threads, limit)
        if not force:
            plan.check_resources(model, limit)
        what = f"training {printing.plural(trees, 'tree')}, {printing.plural(plan.n_nodes, 'node')}"
        with stages.stage("train", what) as progress:
            train_model(dataset, plan, model, overwrite=overwrite, progress=progress, notes=grown.notes())
    except ResourceError as error:
        raise InputError(f"{error} Or go on all the same with --force.") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; nothing was written") from None
    figures: dict[str, Any] = {
        "model": str(model),
        "instances": plan.n_instances,
        "features": plan.n_features,
        "labels": plan.n_labels,
        "trees": trees,
        "nodes": plan.n_nodes,
        "depth": plan.depth,
        "weights": plan.n_weights,
        "threads": plan.threads,
        "seconds": stages.seconds,
        "planned_bytes": plan.model_bytes,
        "model_bytes": directory_bytes(model),
        "peak_memory_bytes": peak_memory(),
    }
    if json:
        printing.print_json(figures)
    elif not quiet:
        print(*_trained_lines(figures), sep="\n")


class _Source:
    """Where the data is, and how it is read."""

    def __init__(self, data: str, text: text_options.Text, one_based: bool | None) -> None:
        from labeltree.text.formats import Columns

        self._data, self._one_based = data, one_based
        self._format = text.format(data, "svm")
        self._assumed = text.format(data, "unknown") == "unknown"
        if self._format == "svm":
            text.refuse()
            return
        text_options.refuse_base(one_based)
        self._columns, self._settings = text.columns(self._format, Columns()), text.settings()

    def read(self, stages: Stages, threads: int) -> Dataset:
        """Read it."""
        from labeltree.files import display_name
        from labeltree.svm import read_svm
        from labeltree.text.documents import read_documents

        name = display_name(self._data)
        with stages.stage("read", f"reading {name}") as progress:
            if self._format == "svm":
                try:
                    dataset = read_svm(self._data, one_based=self._one_based, threads=threads)
                except InputError as error:
                    if self._assumed and re.match(r"\d", str(error).removeprefix(f"{name}:")):
                        raise InputError(f"{error}; or, if it is text, say --data-format tsv") from None
                    raise
                if dataset.X.nnz == 0:  # a list of names, say
                    raise InputError(
                        f"{name}: got {dataset.n_instances:,} rows without a single feature, expected some "
                        "as index:value; check that it is the right file"
                    )
                return dataset
            return read_documents(
                self._data, self._format, self._columns, settings=self._settings, progress=progress
            )


class _Trees:
    """How the trees of a model come about: clustered, or given in a file."""

    def __init__(
        self, clusters: int, max_depth: int, trees: int, seed: int, given: Path | None, rest: bool
    ) -> None:
        from labeltree.trees.file import read_tree

        if given is not None and trees > 1:
            raise InputError(
                f"got --tree together with --trees {trees}, expected one tree; leave out one of them"
            )
        if rest and given is None:
            raise InputError("got --tree-rest without a --tree, expected both; give one, or leave it out")
        self.clusters, self.max_depth, self.trees, self.seed = clusters, max_depth, trees, seed
        self.given = None if given is None else read_tree(given, add_missing=rest)

    def build(
        self, dataset: Dataset, threads: int, memory_limit: int | None, progress: Any
    ) -> list[LabelTree]:
        """Build them, each with a seed of its own."""
        from labeltree.clustering import build_tree

        if self.given is not None:
            with printing.warnings_as_notes():
                return [self.given.to_tree(dataset)]
        return [
            build_tree(
                dataset,
                clusters=self.clusters,
                max_depth=self.max_depth,
                seed=self.seed + t,
                threads=threads,
                memory_limit=memory_limit,
                progress=lambda done, t=t: progress((t + done) / self.trees),  # type: ignore[misc]
            )
            for t in range(self.trees)
        ]

    def notes(self) -> dict[str, Any]:
        """What the manifest keeps of it."""
        if self.given is not None:
            return {"tree": self.given.name, "tree_form": self.given.form}
        return {"clusters": self.clusters, "max_depth": self.max_depth}


def _planned(
    stages: Stages,
    source: _Source,
    grown: _Trees,
    settings: SolverSettings,
    threads: int | None,
    memory_limit: int | None = None,
) -> tuple[Dataset, Plan]:
    """Read the data, build the trees and lay them out."""
    from labeltree.plan import make_plan

    threads = threads_to_use(threads)
    dataset = source.read(stages, threads)
    with stages.stage("tree", f"building {printing.plural(grown.trees, 'tree')}") as progress:
        trees = grown.build(dataset, threads, memory_limit, progress)
    with stages.stage("plan", "planning"):
        plan = make_plan(dataset, trees, settings, threads=threads)
    return dataset, plan


def _trained_lines(figures: dict[str, Any]) -> list[str]:
    size, expected = figures["model_bytes"], figures["planned_bytes"]
    planned = "as planned" if size == expected else f"but {expected:,} were planned"
    times = ", ".join(f"{name} {printing.human_seconds(spent)}" for name, spent in figures["seconds"].items())
    return printing.facts(
        [
            ("model", figures["model"]),
            ("data", printing.shape(figures)),
            ("trees", f"{printing.forest(figures)}, {printing.plural(figures['weights'], 'weight')}"),
            ("size", f"{human_bytes(size)} ({size:,} bytes on disk, {planned})"),
            ("time", f"{times} ({printing.plural(figures['threads'], 'thread')})"),
            ("memory", f"{human_bytes(figures['peak_memory_bytes'])} at most"),
        ]
    )
