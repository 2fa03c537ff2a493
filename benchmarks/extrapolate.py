"""From measured sizes to the paper's six data sets and to 2e8 labels: how large a model, how long to train.

usage: python benchmarks/extrapolate.py FOLDER/scale.jsonl      prints Markdown
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from labeltree.cli.printing import human_seconds
from labeltree.paper.theory import largest_depth, tree_weights
from labeltree.system import human_bytes


@dataclass(frozen=True)
class Shape:
    """A training set; vector_nonzeros is nnz(Y'X), the entries of the label vectors."""

    instances: int
    features: int
    labels: int
    x_nonzeros: int
    y_nonzeros: int
    vector_nonzeros: int

    def scaled(self, labels):
        """As dense, with so many labels: everything grows with them, the features by Heaps' law."""
        by = labels / self.labels
        x, y, v = (round(by * n) for n in (self.x_nonzeros, self.y_nonzeros, self.vector_nonzeros))
        return Shape(round(by * self.instances), round(math.sqrt(by) * self.features), labels, x, y, v)


PAPER = {
    "eurlex-4k": Shape(15_449, 186_104, 3_956, 4_194_123, 82_265, 6_126_348),
    "wiki10-31k": Shape(14_146, 101_938, 30_938, 9_526_572, 263_705, 72_574_211),
    "amazoncat-13k": Shape(1_186_239, 203_882, 13_330, 84_415_397, 5_979_439, 33_409_040),
    "amazon-670k": Shape(490_449, 135_909, 670_091, 37_119_040, 2_674_356, 146_741_011),
    "wiki-500k": Shape(1_779_881, 2_381_304, 501_070, 689_526_754, 8_446_236, 1_255_206_075),
    "amazon-3m": Shape(1_717_899, 337_067, 2_812_281, 84_600_285, 61_916_857, 1_375_859_565),
}
LARGEST = 200_000_000


def balanced_pass(shape, clusters, depth):
    """Multiply-adds of one pass of the solver over a balanced tree, as the paper's appendix A counts.

    The root trains on every instance, and each other depth on an instance as often as it has labels; every
    feature meets every child of the node, in the margin and in the step.
    """
    if depth == 1:
        return 2 * shape.labels * shape.x_nonzeros
    below = (depth - 2) * clusters + shape.labels / clusters ** (depth - 1)
    return 2 * shape.x_nonzeros * (clusters + below * shape.y_nonzeros / shape.instances)


def balanced_kmeans(shape, clusters, depth):
    """Multiply-adds of one iteration of K-means at every depth that is split."""
    return shape.vector_nonzeros * clusters * (depth - 1)


@dataclass(frozen=True)
class Rates:
    """What one measured size tells."""

    clusters: int
    alpha: float
    bytes_per_weight: float
    train_seconds: float  # for a multiply-add of one pass over the balanced tree
    tree_seconds: float  # for a multiply-add of one iteration of K-means over the balanced tree
    weights_ratio: float  # measured weights / those of the balanced tree
    pass_ratio: float  # measured multiply-adds of a pass / those of the balanced tree

    @classmethod
    def of(cls, record):
        """Take them from a record of scale.py; None where the tree is too shallow to tell an alpha."""
        labels, clusters = record["labels"], record["clusters"]
        depth = int(largest_depth(labels, clusters))
        if depth < 2 or len(record["alpha"]) < depth - 1:
            return None
        alpha = math.prod(record["alpha"][: depth - 1]) ** (1 / (depth - 1))
        names = ("instances", "features", "labels", "x_nonzeros", "y_nonzeros", "vector_nonzeros")
        shape = Shape(*(record[name] for name in names))
        one_pass = balanced_pass(shape, clusters, depth)
        return cls(
            clusters,
            alpha,
            record["disk_bytes"] / record["weights"],
            record["seconds"]["train"] / one_pass,
            record["seconds"]["tree"] / balanced_kmeans(shape, clusters, depth),
            record["weights"] / float(tree_weights(labels, clusters, depth, alpha, record["used_features"])),
            record["pass_multiply_adds"] / one_pass,
        )


def predict(shape, rates):
    """Depth, weights, bytes and seconds of a model of this shape."""
    depth = int(largest_depth(shape.labels, rates.clusters))
    weights = float(tree_weights(shape.labels, rates.clusters, depth, rates.alpha, shape.features))
    return {
        "depth": depth,
        "weights": weights,
        "model_bytes": weights * rates.bytes_per_weight,
        "ratio": weights / (shape.labels * shape.features),
        "tree_seconds": balanced_kmeans(shape, rates.clusters, depth) * rates.tree_seconds,
        "train_seconds": balanced_pass(shape, rates.clusters, depth) * rates.train_seconds,
    }


def kinds(records):
    """The sizes of each (like, threads), smallest first; of a size that was run twice, the last run."""
    found = {}
    for record in records:
        found.setdefault((record["like"], record["threads"]), {})[record["scale"]] = record
    return {kind: [sizes[scale] for scale in sorted(sizes)] for kind, sizes in sorted(found.items())}


def extrapolate(records):
    """Extrapolate from the kind of data whose largest size is the largest; None if all are too small.

    Returns
    -------
    dict
        ``measured``: (record, Rates) of each size, smallest first; ``like``; ``sets``: by name, the
        predictions of ``predict`` by the rates of the largest size.
    """
    (like, _), own = max(kinds(records).items(), key=lambda item: item[1][-1]["labels"])
    measured = [(record, rates) for record in own if (rates := Rates.of(record)) is not None]
    if not measured:
        return None
    shapes = {**PAPER, "2e8 labels": PAPER["amazon-3m"].scaled(LARGEST)}
    sets = {name: {"labels": s.labels, **predict(s, measured[-1][1])} for name, s in shapes.items()}
    return {"like": like, "measured": measured, "sets": sets}


def markdown(records):
    """The predictions as Markdown, with what they assume and how the measured sizes bear it out."""
    found = extrapolate(records)
    if found is None:
        return "No size has twice as many labels as clusters, the least to extrapolate from.\n"
    lines = [
        "| data | labels | depth | weights | of one-vs-rest | model | tree | training |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in found["sets"].items():
        lines.append(
            f"| {name} | {row['labels']:,} | {row['depth']} | {row['weights']:.3g} | {row['ratio']:.3g} | "
            f"{human_bytes(round(row['model_bytes']))} | {human_seconds(row['tree_seconds'])} | "
            f"{human_seconds(row['train_seconds'])} |"
        )
    lines += ["", "It assumes:", "", *_assumptions(found), ""]
    lines += ["How the measured sizes bear it out (1 is as the formula says):", ""]
    lines += [
        "| labels | alpha | weights / formula | multiply-adds of a pass / formula | "
        "ns a multiply-add, training | ns a multiply-add, tree |",
        "|" + "--:|" * 6,
    ]
    for record, rates in found["measured"]:
        ratios = f"{rates.alpha:.3f} | {rates.weights_ratio:.2f} | {rates.pass_ratio:.2f}"
        times = f"{1e9 * rates.train_seconds:.3f} | {1e9 * rates.tree_seconds:.3f}"
        lines.append(f"| {record['labels']:,} | {ratios} | {times} |")
    return "\n".join(lines) + "\n"


def _assumptions(found):
    record, rates = found["measured"][-1]
    largest = f"{found['like']} x {record['scale']:.4g}"
    threads = f"{record['threads']} thread{'s' * (record['threads'] != 1)}"
    train, tree = (
        [1e9 * getattr(r, f"{kind}_seconds") for _, r in found["measured"]] for kind in ("train", "tree")
    )
    return [
        f"- a balanced tree of {rates.clusters} clusters a node, as deep as the paper allows (eq:def-of-D);",
        f"- that the used features shrink by alpha = {rates.alpha:.3f} a depth everywhere: the geometric "
        f"mean over the depths of {largest}, the largest size measured. Other data have another alpha;",
        f"- {rates.bytes_per_weight:.2f} bytes a weight, as measured there;",
        f"- {train[-1]:.3f} ns for each multiply-add of one pass of the solver, and {tree[-1]:.3f} ns for "
        f"each of one iteration of K-means, as measured there with {threads}; further passes and iterations "
        f"are in these figures. Over the sizes measured they were {min(train):.3f} to {max(train):.3f}, and "
        f"{min(tree):.3f} to {max(tree):.3f}: by as much the times may be wrong;",
        "- that an instance belongs to as many nodes of a depth as it has labels: too many where its labels "
        "share nodes, so that the times of data with many labels an instance are too long;",
        "- memory and disk enough, and caches that serve large data as well as the measured;",
        f"- for {LARGEST:,} labels, data like amazon-3m with instances and non-zeros in proportion to the "
        "labels, and features to their square root.",
    ]


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        print("error: expected the path of a scale.jsonl, as benchmarks/scale.py writes it", file=sys.stderr)
        return 2
    print(markdown([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
