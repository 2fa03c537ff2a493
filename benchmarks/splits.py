"""Compare stratified splits with random ones: how far shares of labels are off, and P@k of models.

usage: python benchmarks/splits.py FILE [--seeds 5] [--test 0.1]      FILE is LIBSVM data or documents

For each seed, a model is trained on the training part of both splits, and evaluated on the test part.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import program

import labeltree
from labeltree.data.split import row_keys, share_error, split_rows

METRICS = ("P@1", "P@3", "P@5", "PSP@5", "unknown labels")


def evaluate(dataset, parts):
    """Train on part 0, evaluate on part 1."""
    train, test = (dataset.take(np.flatnonzero(parts == part)) for part in (0, 1))
    found = labeltree.train(train, prune=0.1).evaluate(test)
    unseen = (np.diff(train.by_label[0]) == 0) & (np.diff(test.by_label[0]) > 0)
    return [*(100 * found[name] for name in METRICS[:-1]), int(unseen.sum())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--test", type=float, default=0.1)
    options = parser.parse_args()
    dataset = labeltree.read_data(options.file)
    keys, shares = row_keys(dataset.X), [options.test]
    rows = {"stratified": [], "random": []}
    for seed in range(options.seeds):
        start = time.perf_counter()
        stratified = split_rows(dataset.Y, keys, shares, seed)
        seconds = time.perf_counter() - start
        drawn = np.random.default_rng(seed).permutation(dataset.n_instances)
        random = (drawn < np.count_nonzero(stratified)).astype(np.int8)
        for kind, parts in (("stratified", stratified), ("random", random)):
            error, compared = share_error(dataset.Y, parts, shares)
            rows[kind].append([100 * error, *evaluate(dataset, parts)])
        print(f"seed {seed}: split in {seconds:.2f} s", flush=True)
    print(
        f"{dataset.n_instances:,} rows; largest deviation of a share among {compared:,} labels with 20 rows"
    )
    for kind, found in rows.items():
        columns = list(zip(*found, strict=True))
        shown = [f"deviation {max(columns[0]):.2f}%"]
        for name, values in zip(METRICS, columns[1:], strict=True):
            error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0
            shown.append(f"{name} {statistics.mean(values):.2f} +- {error:.2f}")
        print(f"{kind:10} {', '.join(shown)}")


if __name__ == "__main__":
    program.run(main)
