"""Plan the size of a model: find a K and a depth that fit a budget, before training anything.

    labeltree synth data --like eur-lex --scale 0.2
    python examples/size_planning.py data/train.svm --budget 40

The tree of each K is built once and cut at every depth: `LabelTree.clip` returns the tree that `build_tree`
would build with that `max_depth`. For each tree, `make_plan` computes the exact size of the model.
"""

import argparse
import sys

import labeltree


def mb(n_bytes):
    """Return a number of bytes in megabytes."""
    return f"{n_bytes / 1e6:.1f} MB"


def plans(data, clusters, threads):
    """Yield (K, plan) for one-vs-rest, and for the tree of every K cut at every depth."""
    yield None, labeltree.make_plan(data, labeltree.build_tree(data, max_depth=1), threads=threads)
    for k in clusters:
        deepest = labeltree.build_tree(data, clusters=k, threads=threads)
        for depth in range(2, deepest.depth + 1):
            yield k, labeltree.make_plan(data, deepest.clip(depth), threads=threads)


def table(rows, budget):
    """Yield the lines of a table in which models within the budget are marked."""
    yield "    K depth   nodes        weights     model    memory  of one-vs-rest"
    one_vs_rest = rows[0][1].model_bytes
    for k, plan in rows:
        size = plan.model_bytes
        yield (
            f"{k or '-':>5} {plan.depth:>5} {plan.n_nodes:>7,} {plan.n_weights:>14,} {mb(size):>9} "
            f"{mb(plan.training_memory_bytes):>9} {size / one_vs_rest:>15.1%}"
            f"{'  fits' if budget and size <= budget else ''}"
        )


def advice(rows, budget):
    """Recommend the shallowest model within the budget, and the smallest of these."""
    fitting = [(plan.depth, plan.model_bytes, k) for k, plan in rows if plan.model_bytes <= budget]
    if not fitting:
        smallest = mb(min(plan.model_bytes for _, plan in rows))
        return f"No model fits {mb(budget)}; the smallest has {smallest}. Try other clusters."
    depth, size, k = min(fitting)
    clusters = "" if k is None else f" --clusters {k}"
    return f"Train with{clusters} --max-depth {depth}: {mb(size)} of {mb(budget)}."


def main():
    """Read the data and print the table, and a recommendation if there is a budget."""
    parser = argparse.ArgumentParser(description="Find a K and a depth that fit a budget.")
    parser.add_argument("data", help="file with the training data: LIBSVM, TSV, CSV or JSONL")
    parser.add_argument("--clusters", type=int, nargs="+", default=[10, 30, 100, 300], metavar="K")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads for training; more threads need more memory"
    )
    parser.add_argument("--budget", type=float, metavar="MB", help="maximum model size in megabytes")
    arguments = parser.parse_args()
    budget = arguments.budget and round(1e6 * arguments.budget)
    data = labeltree.read_data(arguments.data).normalize()  # rows as `labeltree train` scales them
    clusters = [k for k in arguments.clusters if 1 < k < data.n_labels]
    rows = list(plans(data, clusters, arguments.threads))
    print(*table(rows, budget), sep="\n")
    if budget:
        print(advice(rows, budget))


if __name__ == "__main__":
    try:
        main()
    except labeltree.InputError as error:
        sys.exit(f"error: {error}")
