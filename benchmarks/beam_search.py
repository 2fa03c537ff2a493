"""Milliseconds a row of the beam search kernel, on a random model of realistic shape.

python benchmarks/beam_search.py [--threads 2] [--trees 1] [--skew 1]
"""

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from labeltree._native import BeamSearch

N_FEATURES, NODES, LEAVES = 160_000, 100, 100


def zipf(rng, count, size):
    """Sorted, distinct features; the rank of a feature is its id, its share about 1 / rank."""
    draws = np.exp(rng.random(3 * size) * np.log(count)).astype(np.int64)
    return np.sort(rng.permutation(np.unique(draws - 1))[:size])


def make_tree(rng, skew):
    """A root over NODES nodes of LEAVES labels each; the weights' deviation is skew."""
    lists = [np.arange(N_FEATURES + 1)]
    for _ in range(NODES):
        known = zipf(rng, N_FEATURES, int(rng.integers(5_000, 20_000)))
        lists.append(np.append(known, N_FEATURES))
    children = [np.arange(1, NODES + 1), *np.split(~rng.permutation(NODES * LEAVES), NODES)]
    blocks = [
        (rng.standard_normal((len(known), len(kids)), dtype=np.float32) * skew).ravel()
        for known, kids in zip(lists, children, strict=True)
    ]

    def pointers(parts):
        return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)

    return (
        pointers(children),
        np.concatenate(children).astype(np.int32),
        pointers(lists),
        np.concatenate(lists).astype(np.int32),
        pointers(blocks),
        np.concatenate(blocks),
    )


def make_queries(rng, rows, nnz):
    """Rows of unit length."""
    lists = [zipf(rng, N_FEATURES, nnz) for _ in range(rows)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    data = [(row := rng.random(len(known), dtype=np.float32)) / np.linalg.norm(row) for known in lists]
    return indptr, np.concatenate(lists).astype(np.int32), np.concatenate(data).astype(np.float32)


def best_of(repeats, rows, call):
    """Milliseconds a row: of the clock, and of all processors together (steadier where others work too)."""
    clock, processor = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        call()
        clock.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
    return f"{min(clock) * 1e3 / rows:.4f} ms a row, {min(processor) * 1e3 / rows:.4f} ms of processor time"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--skew", type=float, default=1.0, help="standard deviation of the weights")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        trees = []
        for number in range(options.trees):
            path = Path(folder, f"{number}.npy")
            *arrays, weights = make_tree(rng, options.skew)
            np.save(path, weights)
            trees.append((*arrays, np.load(path, mmap_mode="r")))
        measure(BeamSearch(trees, N_FEATURES, NODES * LEAVES, 1.0), rng, options)


def measure(kernel, rng, options):
    rows, alone = 6000, 500
    for nnz in (235, 11):
        indptr, indices, data = make_queries(rng, rows, nnz)

        def batch(q=(indptr, indices, data)):
            kernel.search(*q, 10, 5, 0, options.threads)

        singles = []
        for begin, end in pairwise(indptr[: alone + 1]):
            singles.append((np.array([0, end - begin]), indices[begin:end], data[begin:end]))

        def one_by_one(singles=singles):
            for single in singles:
                kernel.search(*single, 10, 5, 0, 1)

        batch()
        print(f"{nnz:4} non-zeros, batch of {rows}: {best_of(options.repeats, rows, batch)}")
        print(f"{nnz:4} non-zeros, one by one:    {best_of(options.repeats, alone, one_by_one)}")


if __name__ == "__main__":
    main()
