"""Train with several seeds, and print the mean and the standard error of P@1, P@3 and P@5.

usage: python benchmarks/seeds.py DIR [DIR ...] [--seeds 10]      DIR holds train.svm and test.svm

The files may be compressed (train.svm.bz2). The seed determines the trees and the order in which the solver
visits instances.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import program

from labeltree import InputError, SolverSettings, TreeSettings, build_plan, read_svm, train_model
from labeltree.base.display import Progress
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import read_data
from labeltree.settings import DEFAULT_BEAM

METRICS = ("P@1", "P@3", "P@5")
FIGURES = (*METRICS, "model_bytes", "nodes", "tree_cpu_seconds", "train_cpu_seconds")
NOT_OPTIONS = {"seed", "tree"}


def find(folder: Path, name: str) -> Path:
    """Return the file of a directory, plain or compressed."""
    for suffix in ("", ".bz2", ".gz", ".xz"):
        if (path := folder / f"{name}.svm{suffix}").is_file():
            return path
    raise InputError("no such file, plain or compressed", file=str(folder / f"{name}.svm"))


def options_of(settings: type) -> dict[str, Any]:
    """Return the settings that are options, with their defaults."""
    return {item.name: item.default for item in fields(settings) if item.name not in NOT_OPTIONS}


def chosen(options: argparse.Namespace, settings: type) -> dict[str, Any]:
    """Return the settings given on the command line."""
    return {name: getattr(options, name) for name in options_of(settings)}


def measure(train: Dataset, test: Dataset, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Train and evaluate with one seed; precision is in percent."""
    trees = TreeSettings(seed=seed, **chosen(options, TreeSettings))
    solver = SolverSettings(seed=seed, **chosen(options, SolverSettings))
    cpu: dict[str, float] = {}

    @contextmanager
    def stage(name: str, _: str) -> Iterator[Progress]:
        start = time.process_time()
        yield lambda done: None
        cpu[name] = time.process_time() - start

    plan = build_plan(train, trees, solver, normalize=options.normalize, threads=options.threads, stage=stage)
    with tempfile.TemporaryDirectory(prefix="labeltree-seeds-") as place:
        with stage("train", ""):
            model = train_model(train, plan, Path(place) / "model")
        labels, _ = model.predict(test.X, beam=options.beam, score=options.score, threads=options.threads)
        found = model.evaluate(test, labels)
    return {
        **{name: 100 * found[name] for name in METRICS},
        "model_bytes": plan.model_bytes,
        "nodes": plan.n_nodes,
        "tree_cpu_seconds": cpu["tree"],
        "train_cpu_seconds": cpu["train"],
    }


def summarize(runs: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Return mean and standard error of each figure; one run has no standard error."""
    summary: dict[str, dict[str, Any]] = {}
    for name in FIGURES:
        values = [run[name] for run in runs]
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        summary[name] = {"mean": statistics.fmean(values), "error": error}
    return summary


def row(name: str, metrics: list[str], others: list[str]) -> str:
    """Return a row of the table."""
    cells = (*(f"{cell:<15}" for cell in metrics), *(f"{cell:>13}" for cell in others))
    return f"{name:<20}  {''.join(cells)}"


def cells(summary: dict[str, dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the cells of a row: metrics with standard errors, and other means."""
    metrics = []
    for metric in METRICS:
        error = summary[metric]["error"]
        metrics.append(f"{summary[metric]['mean']:6.2f}" + ("" if error is None else f" ± {error:.2f}"))
    return metrics, [
        f"{summary['model_bytes']['mean'] / 1e6:.2f}",
        *(f"{summary[f'{kind}_cpu_seconds']['mean']:.2f}" for kind in ("tree", "train")),
    ]


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="number of seeds (default: 10)")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="default: 0")
    for kind in (TreeSettings, SolverSettings):
        for name, default in options_of(kind).items():
            flag = "--" + name.replace("_", "-")
            kind_of, shown = (float, "depends on the data") if default is None else (type(default), default)
            parser.add_argument(flag, type=kind_of, default=default, help=f"default: {shown}")
    parser.add_argument(
        "--no-normalize", dest="normalize", action="store_false", help="do not scale rows to length 1"
    )
    parser.add_argument("--beam", type=int, default=DEFAULT_BEAM, help=f"default: {DEFAULT_BEAM}")
    parser.add_argument("--score", help="default: that of the model")
    parser.add_argument("--threads", type=int, help="default: all CPUs")
    parser.add_argument("--json", action="store_true", help="print one JSON object per directory")
    options = parser.parse_args()
    if options.seeds < 1:
        raise InputError(f"seeds is {options.seeds}, expected at least 1")
    return options


def main() -> None:
    """Measure each directory, and print a row for it."""
    options = parse()
    paths = [(find(folder, "train"), find(folder, "test")) for folder in options.folders]
    if not options.json:
        print("mean ± standard error over", f"{options.seeds} seed{'s' * (options.seeds > 1)}")
        print(row("", [f"{name:>6}" for name in METRICS], ["MB", "tree CPU s", "train CPU s"]))
    for folder, (train_path, test_path) in zip(options.folders, paths, strict=True):
        train = read_svm(train_path, threads=options.threads)
        test = read_data(test_path, like=train, threads=options.threads)
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        runs = [{"seed": seed, **measure(train, test, seed, options)} for seed in seeds]
        if options.json:
            print(json.dumps({"data": str(folder), "summary": summarize(runs), "runs": runs}), flush=True)
        else:
            print(row(folder.resolve().name, *cells(summarize(runs))), flush=True)


if __name__ == "__main__":
    program.run(main)
