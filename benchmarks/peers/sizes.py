"""Describe datasets: their shapes, and the sizes of a tree and of one-vs-rest, both exact.

usage: python benchmarks/peers/sizes.py DATA > benchmarks/results/datasets.json

DATA holds one directory per dataset, as for run.py. Nothing is trained.
"""

import argparse
import json
from pathlib import Path

from prepare import describe, read_split, shared_matrices
from sources import find_datasets

import labeltree


def sizes(folder, threads=None):
    """Return the shape of a dataset and the bytes of its models."""
    X, Y, Xt, _ = shared_matrices(*(read_split(folder, split, threads) for split in ("train", "test")))
    data = labeltree.Dataset.from_matrices(X, Y).normalize()
    tree, one_vs_rest = (
        labeltree.make_plan(data, labeltree.build_tree(data, threads=threads, **options), threads=threads)
        for options in ({}, {"max_depth": 1})
    )
    return {
        **describe(X, Y, Xt),
        "model_bytes": tree.model_bytes,
        "one_vs_rest_bytes": one_vs_rest.model_bytes,
        "paper_tree_bytes": tree.paper_tree_bytes,
        "paper_one_vs_rest_bytes": tree.paper_ovr_bytes,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--threads", type=int, help="default: all CPUs")
    options = parser.parse_args()
    found = {name: sizes(folder, options.threads) for name, folder in find_datasets(options.data).items()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
