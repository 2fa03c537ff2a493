"""`labeltree estimate` and `labeltree train`: from a data file to a plan, and on to a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.cli import options, show
from labeltree.cli.progress import Stages
from labeltree.errors import InputError, RoomError
from labeltree.system import human_bytes, parse_bytes, peak_memory, threads_to_use

if TYPE_CHECKING:
    from labeltree.data import Dataset
    from labeltree.plan import Plan
    from labeltree.train import SolverSettings
    from labeltree.tree import LabelTree


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
) -> None:
    """Tell to the byte how large a model will be, and whether it can be trained here."""
    from labeltree.train import SolverSettings

    settings = SolverSettings(bias=bias)
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    grown = _Trees(clusters, max_depth, trees, seed, tree, tree_rest)
    _, plan = _planned(Stages(quiet or json), data, grown, settings, threads, one_based)
    report = plan.report()
    try:
        plan.check_room(Path("."), limit)
        verdict = None
    except RoomError as error:
        verdict = str(error)
    if json:
        show.print_json({**report, "memory_limit_bytes": limit, "fits": verdict is None})
        return
    print(*show.estimate_lines(report, limit), "", verdict or "It fits.", sep="\n")


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
) -> None:
    """Train a model: plan it, check that it fits, and fill it."""
    from labeltree.store import check_target, directory_bytes
    from labeltree.train import SolverSettings, train_model

    # Whatever can be wrong without the data is said before it is read.
    settings = SolverSettings(loss.replace("-", "_"), cost, tolerance, max_iterations, bias, seed)
    limit = sys.maxsize if force else None if memory_limit is None else parse_bytes(memory_limit)
    grown = _Trees(clusters, max_depth, trees, seed, tree, tree_rest)
    check_target(model, overwrite)
    stages = Stages(quiet or json)
    try:
        dataset, plan = _planned(stages, data, grown, settings, threads, one_based, limit)
        if not force:
            plan.check_room(model, limit)
        what = f"training {show.plural(trees, 'tree')}, {show.plural(plan.nodes, 'node')}"
        with stages.stage("train", what) as progress:
            train_model(
                dataset, plan, model, settings, overwrite=overwrite, progress=progress, notes=grown.notes()
            )
    except RoomError as error:
        raise InputError(f"{error} Or go on all the same with --force.") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; nothing was written") from None
    figures: dict[str, Any] = {
        "model": str(model),
        "instances": plan.instances,
        "features": plan.features,
        "labels": plan.labels,
        "trees": trees,
        "nodes": plan.nodes,
        "depth": plan.depth,
        "weights": plan.weights,
        "threads": plan.threads,
        "seconds": stages.seconds,
        "planned_bytes": plan.model_bytes,
        "model_bytes": directory_bytes(model),
        "peak_memory_bytes": peak_memory(),
    }
    if json:
        show.print_json(figures)
    elif not quiet:
        print(*_trained_lines(figures), sep="\n")


class _Trees:
    """How the trees of a model come about: clustered, or given in a file."""

    def __init__(
        self, clusters: int, max_depth: int, trees: int, seed: int, given: Path | None, rest: bool
    ) -> None:
        from labeltree.tree_file import read_tree

        if given is not None and trees > 1:
            raise InputError(
                f"got --tree together with --trees {trees}, expected one tree; leave out one of them"
            )
        if rest and given is None:
            raise InputError("got --tree-rest without a --tree, expected both; give one, or leave it out")
        self.clusters, self.max_depth, self.trees, self.seed = clusters, max_depth, trees, seed
        self.rest = rest
        self.given = None if given is None else read_tree(given)

    def build(
        self, dataset: Dataset, threads: int, memory_limit: int | None, progress: Any
    ) -> list[LabelTree]:
        """Build them, each with a seed of its own."""
        from labeltree.clustering import build_tree

        if self.given is not None:
            with show.warnings_as_notes():
                return [self.given.join(dataset, rest=self.rest)]
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
    data: str,
    grown: _Trees,
    settings: SolverSettings,
    threads: int | None,
    one_based: bool | None,
    memory_limit: int | None = None,
) -> tuple[Dataset, Plan]:
    """Read the data, build the trees and lay them out."""
    from labeltree.files import display_name
    from labeltree.plan import make_plan
    from labeltree.svm import read_svm

    threads = threads_to_use(threads)
    with stages.stage("read", f"reading {display_name(data)}"):
        dataset = read_svm(data, one_based=one_based, threads=threads)
    with stages.stage("tree", f"building {show.plural(grown.trees, 'tree')}") as progress:
        trees = grown.build(dataset, threads, memory_limit, progress)
    with stages.stage("plan", "planning"):
        plan = make_plan(dataset, trees, bias=settings.bias != 0, threads=threads, precise=settings.precise)
    return dataset, plan


def _trained_lines(figures: dict[str, Any]) -> list[str]:
    size, expected = figures["model_bytes"], figures["planned_bytes"]
    planned = "as planned" if size == expected else f"but {expected:,} were planned"
    times = ", ".join(f"{name} {show.human_seconds(spent)}" for name, spent in figures["seconds"].items())
    return show.facts(
        [
            ("model", figures["model"]),
            ("data", show.shape(figures)),
            ("trees", f"{show.forest(figures)}, {show.plural(figures['weights'], 'weight')}"),
            ("size", f"{human_bytes(size)} ({size:,} bytes on disk, {planned})"),
            ("time", f"{times} ({show.plural(figures['threads'], 'thread')})"),
            ("memory", f"{human_bytes(figures['peak_memory_bytes'])} at most"),
        ]
    )
