"""Compare compact models with the float32 model: size, precision on test data, and time to predict.

usage: python benchmarks/compact.py DIR [DIR ...] [--max-loss 0.1%]      DIR holds train.svm and test.svm

The files may be compressed (train.svm.bz2). A tenth of the training rows is held out; a model of the others
shows which threshold loses at most --max-loss on that tenth. A model of all rows is then stored with
this threshold, and evaluated on the test data, which takes no part in the choice.
"""

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import program
from seeds import METRICS, find

from labeltree import Model, Plan, TreeSettings, build_plan, make_plan, read_svm, train_model
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import read_data
from labeltree.model.directory import directory_bytes
from labeltree.model.manifest import storage_of
from labeltree.settings import StorageSettings

ROUNDS = 5  # of each measurement of time, the models in turn
SINGLE_ROWS = 1000
TIMES = {"single_p50_us": ".1f", "batch_seconds": ".3f"}
HEAD = ("", "bytes", "as planned", *METRICS, "p50 (us)", "batch (s)")


def rows_of(data: Dataset, rows: np.ndarray) -> Dataset:
    """Return some rows of a dataset, with all its features and labels."""
    return replace(data, X=data.X[rows], Y=data.Y[rows])


def hold_out(data: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Divide a dataset at random: nine tenths, and one tenth."""
    order = np.random.default_rng(seed).permutation(data.n_instances)
    cut = max(1, data.n_instances // 10)
    return rows_of(data, np.sort(order[cut:])), rows_of(data, np.sort(order[:cut]))


def with_storage(data: Dataset, plan: Plan, storage: StorageSettings) -> Plan:
    """Return a plan of the same trees with other storage."""
    trees = [part.tree for part in plan.trees]
    return make_plan(plan.rows_of(data), trees, plan.settings, storage, threads=plan.threads)


def choose(train: Dataset, place: Path, options: argparse.Namespace) -> tuple[StorageSettings, list[Any]]:
    """Return how to store the model, chosen on a tenth of the training rows, and what was tried."""
    fitted, held_out = hold_out(train, options.seed)
    plan = build_plan(fitted, TreeSettings(clusters=options.clusters), threads=options.threads)
    model = train_model(fitted, plan, place / "nine-tenths")
    tried: list[Any] = []
    small = model.compress(
        place / "chosen",
        max_loss=options.max_loss,
        validation=held_out,
        threads=options.threads,
        report=lambda trial: tried.append(trial.report()),
    )
    storage = storage_of(small.manifest)
    for name in ("nine-tenths", "chosen"):
        shutil.rmtree(place / name)
    return storage, tried


def evaluate(name: str, model: Model, test: Dataset, planned: int | None) -> dict[str, Any]:
    """Return size and precision of a model; precision is in percent."""
    found = model.evaluate(test)
    size = directory_bytes(model.path) if model.path else model.bytes
    return {
        "name": name,
        "model_bytes": size,
        "as_planned": None if planned is None else planned == size,
        **{metric: 100 * found[metric] for metric in METRICS},
    }


def time_models(models: list[Model], test: Dataset, threads: int | None) -> list[dict[str, float]]:
    """Return the median time of a single query on one thread, and the time of all test rows.

    The models take turns, and the best of several rounds counts: other programs only make them slower.
    """
    filled = np.flatnonzero(np.diff(test.X.indptr))[:SINGLE_ROWS]
    queries = [test.X[i : i + 1] for i in filled]
    single: list[list[float]] = [[] for _ in models]
    batch: list[list[float]] = [[] for _ in models]
    for _ in range(ROUNDS):
        for model, of_query, of_batch in zip(models, single, batch, strict=True):
            start = time.perf_counter()
            model.predict(test.X, threads=threads)
            of_batch.append(time.perf_counter() - start)
            times = []
            for query in queries:
                start = time.perf_counter()
                model.predict(query)
                times.append(time.perf_counter() - start)
            of_query.append(float(np.median(times)))
    return [
        {"single_p50_us": 1e6 * min(of_query), "batch_seconds": min(of_batch)}
        for of_query, of_batch in zip(single, batch, strict=True)
    ]


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Choose a threshold for one dataset, and measure all forms of its model."""
    train = read_svm(find(folder, "train"), threads=options.threads)
    test = read_data(find(folder, "test"), like=train, threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="labeltree-compact-", dir=options.work) as directory:
        place = Path(directory)
        storage, tried = choose(train, place, options)
        plan = build_plan(train, TreeSettings(clusters=options.clusters), threads=options.threads)
        model = train_model(train, plan, place / "float32")
        rows = [evaluate("float32", model, test, plan.model_bytes)]
        for codec in ("float16", "int8"):
            small = model.compress(place / codec, weights=codec, threads=options.threads)
            planned = with_storage(train, plan, StorageSettings(codec)).model_bytes
            rows.append(evaluate(codec, small, test, planned))
            shutil.rmtree(place / codec)
        if storage.codec == "float32":  # nothing smaller loses as little
            compact = model
        else:
            weights = None if storage.prune is not None else storage.weights
            compact = model.compress(
                place / "compact", weights=weights, prune=storage.prune, threads=options.threads
            )
        rows.append(evaluate("compact", compact, test, None))
        for row, times in zip(
            (rows[0], rows[-1]), time_models([model, compact], test, options.threads), strict=True
        ):
            row |= times
        plan = build_plan(train, TreeSettings(clusters=options.clusters, trees=3), threads=options.threads)
        three = train_model(train, with_storage(train, plan, storage), place / "three")
        rows.append(evaluate("3 compact trees", three, test, None))
        for size in options.sizes:
            rows += evaluate_size(train, plan, test, place, size)
    return {
        "data": folder.resolve().name,
        "threshold": storage.prune,
        "weights": storage.weight_type,
        "rows": rows,
        "tried": tried,
    }


def evaluate_size(train: Dataset, plan: Plan, test: Dataset, place: Path, size: str) -> list[dict[str, Any]]:
    """Return the precision of one, two and three trees that are compressed to fit in a size."""
    rows = []
    for n_trees in range(1, len(plan.trees) + 1):
        some = replace(plan, trees=plan.trees[:n_trees])
        model = train_model(train, some, place / "some", overwrite=True)
        small = model.compress(place / "fitting", max_size=size, threads=plan.threads, overwrite=True)
        storage = storage_of(small.manifest)
        stored = storage.codec if storage.prune is None else f"threshold {storage.prune:g}"
        rows.append(evaluate(f"{n_trees} tree{'s' * (n_trees > 1)} in {size}: {stored}", small, test, None))
    return rows


def table(result: dict[str, Any]) -> list[str]:
    """Return the lines that show one dataset."""
    threshold = result["threshold"]
    stored = f"all weights as {result['weights']}" if threshold is None else f"threshold {threshold:g}"
    lines = [f"{result['data']}: {stored}, chosen in {len(result['tried'])} evaluations on held-out rows"]
    cells = [HEAD]
    for row in result["rows"]:
        planned = {None: "", True: "yes", False: "NO"}[row["as_planned"]]
        times = [f"{row[key]:{form}}" if key in row else "" for key, form in TIMES.items()]
        precision = [f"{row[metric]:.2f}" for metric in METRICS]
        cells.append((row["name"], f"{row['model_bytes']:,}", planned, *precision, *times))
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEAD))]
    for name, *rest in cells:
        numbers = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        lines.append("  ".join([f"  {name:<{widths[0]}}", *numbers]).rstrip())
    return lines


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--max-loss", default="0.1%", metavar="X%%", help="default: 0.1%%")
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=[],
        metavar="SIZE",
        help="also evaluate 1, 2 and 3 trees that fit in each size, such as 50MB",
    )
    parser.add_argument("--clusters", type=int, default=TreeSettings.clusters, metavar="K")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the held-out rows (default: 0)")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the models (default: TMPDIR)")
    parser.add_argument("--threads", type=int, help="default: all CPUs")
    parser.add_argument("--json", action="store_true", help="print one JSON object per directory")
    return parser.parse_args()


def main() -> None:
    """Measure each directory, and print its table."""
    options = parse()
    for folder in options.folders:  # before anything is trained
        find(folder, "train"), find(folder, "test")
    for folder in options.folders:
        result = measure(folder, options)
        print(json.dumps(result) if options.json else "\n".join([*table(result), ""]), flush=True)


if __name__ == "__main__":
    program.run(main)
