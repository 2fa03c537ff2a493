"""Compare sampled binary problems of a trained model with LIBLINEAR's optimum.

usage: python benchmarks/optimum.py DIR [DIR ...] [--problems 100] [--max-depth 6] [--cost C]
       [--no-normalize]
DIR holds train.svm

The file may be compressed (train.svm.bz2). The optimum is that of LIBLINEAR's primal solver (-s 2 -e 1e-7),
through scikit-learn. The model is trained with default settings; problems are sampled from all nodes.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import program
import scipy.sparse as sp
from numpy.typing import NDArray
from seeds import find
from sklearn.svm import LinearSVC

from labeltree import (
    Model,
    ScoreSettings,
    SolverSettings,
    TreeSettings,
    build_plan,
    read_svm,
    train_model,
)
from labeltree.data.dataset import Dataset
from labeltree.training.default_cost import node_costs


def objective(
    weights: NDArray[np.float64], x: sp.csr_matrix, signs: NDArray[np.float64], cost: float
) -> float:
    """Return w'w / 2 + C * (sum of squared hinge losses)."""
    missing = np.maximum(0, 1 - signs * (x @ weights))
    return float(weights @ weights / 2 + cost * (missing @ missing))


def excess(data: Dataset, model: Model, node: int, child: int) -> float:
    """Return how far the objective of one problem is above its optimum, relative to the optimum."""
    tree = model.trees[0].tree
    below = int(tree.children[tree.child_ptr[node] + child])
    labels = [~below] if below < 0 else tree.labels[tree.first[below] : tree.last[below]]
    inside = data.Y[:, tree.labels[tree.first[node] : tree.last[node]]].getnnz(axis=1) > 0
    rows = np.flatnonzero(inside) if node else np.arange(data.n_instances)
    if not rows.size:
        return 0.0
    signs = np.where(data.Y[rows][:, labels].getnnz(axis=1) > 0, 1.0, -1.0)
    features, weights = model.block(node)
    constant = sp.csr_matrix(np.full((len(rows), 1), model.bias))
    x = sp.hstack([data.X[rows], constant], format="csr")[:, features].astype(np.float64)
    settings = SolverSettings(**model.manifest["settings"])
    cost = float(node_costs(settings, np.array([data.n_instances, len(rows)]))[1])
    found = objective(weights[:, child].astype(np.float64), x, signs, cost)
    if np.ptp(signs) == 0:  # scikit-learn refuses a single class: all positive or all negative, by symmetry
        x, signs = sp.vstack([x, -x], format="csr"), np.concatenate([signs, -signs])
        best = LinearSVC(C=cost / 2, dual=False, fit_intercept=False, tol=1e-7, max_iter=10_000).fit(x, signs)
        optimum = objective(best.coef_[0].astype(np.float64), x, signs, cost / 2)
    else:
        best = LinearSVC(C=cost, dual=False, fit_intercept=False, tol=1e-7, max_iter=10_000).fit(x, signs)
        optimum = objective(best.coef_[0].astype(np.float64), x, signs, cost)
    return found / optimum - 1


def sample(data: Dataset, model: Model, n_problems: int) -> NDArray[np.float64]:
    """Return the excess of a random sample of problems, some of them at the root, the largest node."""
    tree = model.trees[0].tree
    random = np.random.default_rng(0)
    picked = random.choice(tree.children.size, min(n_problems, tree.children.size), replace=False)
    picked[: min(5, tree.child_count[0])] = random.choice(
        tree.child_count[0], min(5, tree.child_count[0], picked.size), replace=False
    )
    nodes = np.searchsorted(tree.child_ptr, picked, side="right") - 1
    return np.array(
        [excess(data, model, int(u), int(k - tree.child_ptr[u])) for u, k in zip(nodes, picked, strict=True)]
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument(
        "--problems", type=int, default=100, metavar="N", help="problems per dataset (default: 100)"
    )
    parser.add_argument("--max-depth", type=int, default=TreeSettings.max_depth, metavar="D")
    parser.add_argument("--cost", type=float, metavar="C", help="default: labeltree's default for the data")
    parser.add_argument(
        "--no-normalize", dest="normalize", action="store_false", help="do not scale rows to length 1"
    )
    return parser.parse_args()


def main() -> None:
    """Print one line per dataset."""
    options = parse()
    print(f"{'dataset':<20}{'problems':>10}{'not converged':>16}{'mean excess':>14}{'largest':>12}")
    for folder in options.folders:
        data = read_svm(find(folder, "train"))
        settings = TreeSettings(max_depth=options.max_depth), SolverSettings(cost=options.cost)
        plan = build_plan(data, *settings, normalize=options.normalize)
        with tempfile.TemporaryDirectory(prefix="labeltree-optimum-") as place:
            model = train_model(data, plan, Path(place) / "model", score=ScoreSettings())
            found = sample(plan.rows_of(data), model, options.problems)
            left = model.manifest["not_converged"]
        print(
            f"{folder.name:<20}{found.size:>10}{left:>16}{found.mean():>14.4%}{found.max():>12.4%}",
            flush=True,
        )


if __name__ == "__main__":
    program.run(main)
