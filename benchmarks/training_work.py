"""Count the work of training a model: non-zeros, and multiply-adds of K-means and of the solver.

usage: python benchmarks/training_work.py TRAIN.svm MODEL      prints JSON
"""

import json
import sys

import bounds
import numpy as np

from labeltree import SolverSettings, _native, load, make_plan, read_svm


def training_work(dataset, model, threads=1):
    """Count one K-means iteration and one solver pass for the first tree of a model."""
    tree, notes = model.trees[0].tree, model.manifest["notes"]
    ptr = _native.count_label_vectors(dataset.native, threads)
    nodes = bounds.split_nodes(tree, np.diff(dataset.by_label[0]), notes["clusters"], notes["max_depth"])
    part = make_plan(dataset, tree, SolverSettings(bias=model.bias), threads=threads).trees[0]
    return {
        "clusters": notes["clusters"],
        "x_nonzeros": int(dataset.X.nnz),
        "y_nonzeros": int(dataset.Y.nnz),
        "vector_nonzeros": int(ptr[-1]),
        "used_features": int(part.used_features[0]),
        "kmeans_multiply_adds": bounds.clustering(tree, nodes, ptr, notes["clusters"], 1).multiply_adds,
        "pass_multiply_adds": bounds.solver_pass(part).multiply_adds,
    }


def main():
    model = load(sys.argv[2], verify=False)
    data = read_svm(sys.argv[1], one_based=model.one_based)
    print(json.dumps(training_work(data.normalize() if model.normalized else data, model)))


if __name__ == "__main__":
    main()
