"""Extrapolate model size and training time from measured sizes to the paper's datasets and to 2e8 labels.

usage: python benchmarks/extrapolate.py DIR/scale.jsonl      prints Markdown
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import program

from labeltree import InputError
from labeltree.base.system import human_bytes
from labeltree.cli.printing import human_seconds
from labeltree.paper.theory import largest_depth, tree_weights


@dataclass(frozen=True)
class Shape:
    """The shape of a training set; vector_nonzeros is nnz(Y'X), the entries of the label vectors."""

    instances: int
    features: int
    labels: int
    x_nonzeros: int
    y_nonzeros: int
    vector_nonzeros: int

    def scaled(self, labels):
        """Return a shape of equal density with this many labels; features grow by Heaps' law."""
        factor = labels / self.labels
        x, y, v = (round(factor * n) for n in (self.x_nonzeros, self.y_nonzeros, self.vector_nonzeros))
        return Shape(
            round(factor * self.instances), round(math.sqrt(factor) * self.features), labels, x, y, v
        )


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
    """Count the multiply-adds of one solver pass over a balanced tree, as in appendix A of the paper.

    The root trains on every instance, and each further depth visits an instance once per label; every
    feature is multiplied with every child of the node twice, in the margin and in the update.
    """
    if depth == 1:
        return 2 * shape.labels * shape.x_nonzeros
    below = (depth - 2) * clusters + shape.labels / clusters ** (depth - 1)
    return 2 * shape.x_nonzeros * (clusters + below * shape.y_nonzeros / shape.instances)


def balanced_kmeans(shape, clusters, depth):
    """Count the multiply-adds of one K-means iteration at every depth that is split."""
    return shape.vector_nonzeros * clusters * (depth - 1)


@dataclass(frozen=True)
class Rates:
    """Rates derived from one measured size."""

    clusters: int
    alpha: float
    bytes_per_weight: float
    train_seconds: float  # per multiply-add of one pass over the balanced tree
    tree_seconds: float  # per multiply-add of one K-means iteration over the balanced tree
    weights_ratio: float  # measured weights / weights of the balanced tree
    pass_ratio: float  # measured multiply-adds per pass / multiply-adds of the balanced tree

    @classmethod
    def of(cls, record):
        """Return the rates of a record of scale.py, or None if the tree is too shallow to measure alpha."""
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
    """Return depth, weights, bytes and seconds of a model of this shape."""
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
    """Group records by (like, threads), smallest size first; keep the last run of each size."""
    found = {}
    for record in records:
        found.setdefault((record["like"], record["threads"]), {})[record["scale"]] = record
    return {kind: [sizes[scale] for scale in sorted(sizes)] for kind, sizes in sorted(found.items())}


def extrapolate(records):
    """Extrapolate from the data with the largest measured size; return None if all are too small.

    Returns
    -------
    dict
        ``like``; ``measured``: (record, Rates) of each size, smallest first; ``sets``: the result of
        ``predict`` for each dataset by name, with the rates of the largest size.
    """
    (like, _), own = max(kinds(records).items(), key=lambda item: item[1][-1]["labels"])
    measured = [(record, rates) for record in own if (rates := Rates.of(record)) is not None]
    if not measured:
        return None
    shapes = {**PAPER, "2e8 labels": PAPER["amazon-3m"].scaled(LARGEST)}
    sets = {name: {"labels": s.labels, **predict(s, measured[-1][1])} for name, s in shapes.items()}
    return {"like": like, "measured": measured, "sets": sets}


def markdown(records, notes=True):
    """Return the extrapolation as Markdown; with notes, also assumptions and a check."""
    found = extrapolate(records)
    if found is None:
        return "Too small to extrapolate: no size has at least twice as many labels as clusters.\n"
    lines = [
        "| Dataset | Labels | Depth | Weights | Share of one-vs-rest | Model | Tree | Training |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in found["sets"].items():
        lines.append(
            f"| {name} | {row['labels']:,} | {row['depth']} | {row['weights']:.3g} | {row['ratio']:.3g} | "
            f"{human_bytes(round(row['model_bytes']))} | {human_seconds(row['tree_seconds'])} | "
            f"{human_seconds(row['train_seconds'])} |"
        )
    if not notes:
        return "\n".join(lines) + "\n"
    lines += ["", "Assumptions:", "", *_assumptions(found), ""]
    lines += ["The formulas compared with the measured sizes (1.00 is exact agreement):", ""]
    lines += [
        "| Labels | Alpha | Weights / formula | Multiply-adds per pass / formula | "
        "Training, ns per multiply-add | Tree, ns per multiply-add |",
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
        f"- The tree is balanced, with {rates.clusters} clusters per node and the largest depth that the "
        "paper allows.",
        f"- The number of used features shrinks by alpha = {rates.alpha:.3f} per depth, the geometric mean "
        f"over the depths of {largest}, the largest size measured. Alpha differs between datasets.",
        f"- A weight takes {rates.bytes_per_weight:.2f} bytes, as measured at that size.",
        f"- Training takes {train[-1]:.3f} ns per multiply-add of one solver pass, and the tree "
        f"{tree[-1]:.3f} ns per multiply-add of one K-means iteration, as measured at that size with "
        f"{threads}; further passes and iterations are included in these rates. Over all sizes they range "
        f"from {min(train):.3f} to {max(train):.3f} ns and from {min(tree):.3f} to {max(tree):.3f} ns, so "
        "the times may be off by as much.",
        "- An instance belongs to as many nodes per depth as it has labels. This is too many where labels "
        "share nodes, so times are overestimated for data with many labels per instance.",
        "- Memory and disk are sufficient, and caches work as well for large data as at the measured sizes.",
        f"- For {LARGEST:,} labels, the data is like amazon-3m: instances and non-zeros grow in proportion "
        "to the labels, features with their square root.",
    ]


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        raise InputError("expected the path of a scale.jsonl", hint="run benchmarks/scale.py to write one")
    print(markdown([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]))


if __name__ == "__main__":
    program.run(main)
