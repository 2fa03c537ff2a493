"""Compare compact models with the float32 model: size, precision on test data, and time to predict.

usage: python benchmarks/compact.py DIR [DIR ...] [--max-loss 0.1%]      DIR holds train.svm and test.svm

The files may be compressed (train.svm.bz2). `Model.compress` chooses the threshold by comparing models on all
training rows, out of fold. The test data, which takes no part in the choice, then shows the loss with this
threshold and with all others: the largest whose loss is below --max-loss plus one standard error is marked.
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
from labeltree.model.compress import Budget
from labeltree.model.directory import directory_bytes
from labeltree.model.manifest import storage_of
from labeltree.settings import StorageSettings

ROUNDS = 5  # of each measurement of time, the models in turn
SINGLE_ROWS = 1000
TIMES = {"single_p50_us": ".1f", "batch_seconds": ".3f"}
HEAD = ("", "bytes", "as planned", *METRICS, "p50 (us)", "batch (s)")


def with_storage(data: Dataset, plan: Plan, storage: StorageSettings) -> Plan:
    """Return a plan of the same trees with other storage."""
    trees = [part.tree for part in plan.trees]
    return make_plan(plan.rows_of(data), trees, plan.settings, storage, threads=plan.threads)


def sweep(model: Model, test: Dataset, max_loss: float, chosen: float | None) -> list[dict[str, Any]]:
    """Return what all thresholds lose on the test data, in percent, with the standard errors."""
    points = list(model.frontier(test, max_loss=max_loss))
    rows = [
        {
            "threshold": point["threshold"],
            "model_bytes": point["model_bytes"],
            "losses": [100 * (points[0][metric] - point[metric]) for metric in METRICS],
            "errors": [100 * point[f"{metric}_error"] for metric in METRICS],
            "chosen": point["threshold"] == chosen,
        }
        for point in points
        if point["threshold"] is not None
    ]
    for row in rows:
        pairs = zip(row["losses"], row["errors"], strict=True)
        row["below"] = all(loss < 100 * max_loss + error for loss, error in pairs)
    last = max((row for row in rows if row["below"]), key=lambda row: row["threshold"], default=None)
    for row in rows:
        row["last"] = row is last
    return rows


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
        plan = build_plan(train, TreeSettings(clusters=options.clusters), threads=options.threads)
        model = train_model(train, plan, place / "float32")
        rows = [evaluate("float32", model, test, plan.model_bytes)]
        for codec in ("float16", "int8"):
            small = model.compress(place / codec, weights=codec, threads=options.threads)
            planned = with_storage(train, plan, StorageSettings(codec)).model_bytes
            rows.append(evaluate(codec, small, test, planned))
            shutil.rmtree(place / codec)
        tried: list[Any] = []
        start = time.perf_counter()
        compact = model.compress(
            place / "compact",
            max_loss=options.max_loss,
            training=train,
            threads=options.threads,
            report=tried.append,
        )
        seconds = time.perf_counter() - start
        storage = storage_of(compact.manifest)
        frontier = sweep(model, test, Budget(options.max_loss).max_loss or 0.0, storage.prune)
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
        "tried": [trial.report() for trial in tried],
        "seconds": seconds,
        "sweep": frontier,
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
    tried, seconds = len(result["tried"]), result["seconds"]
    lines = [f"{result['data']}: {stored}, chosen among {tried} in {seconds:.1f} s, out of fold"]
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
    lines += ["", "  loss on the test data, points with standard errors"]
    for row in result["sweep"]:
        pairs = zip(METRICS, row["losses"], row["errors"], strict=True)
        losses = "  ".join(f"{metric} {loss:6.2f} ± {error:4.2f}" for metric, loss, error in pairs)
        marks = " chosen" * row["chosen"] + " last below the budget" * row["last"]
        lines.append(f"  {row['threshold']:<6g} {row['model_bytes']:>13,}  {losses} {marks}".rstrip())
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
