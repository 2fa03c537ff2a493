"""Models with arbitrary weights, and the ways to store them."""

from dataclasses import asdict
from itertools import pairwise

import numpy as np
from beam_twin import make_tree, one_node

from labeltree._native import crc32c
from labeltree.model.blocks import NO_FLOATS, TreeBlocks
from labeltree.model.model import load
from labeltree.model.pack import copy_blocks
from labeltree.model.writer import new_model
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings
from labeltree.trees.tree import LabelTree

STORED = {
    "float16": StorageSettings("float16"),
    "int8": StorageSettings("int8"),
    "sparse": StorageSettings(prune=0.3),
    "unpruned": StorageSettings(prune=0),
    "empty": StorageSettings(prune=1000),
}
# Children of the root, and features: panels that are full or one more, segments that are full or one more.
SHAPES = [
    *((n_children, 6) for n_children in (1, 2, 7, 8, 9, 20, 255, 256, 257, 512, 513)),
    *((5, n_features) for n_features in (1, 15, 16, 17, 33, 65_535, 65_536, 65_537, 131_072, 140_000)),
    (300, 70_000),
]


def wide_tree(rng, n_labels, n_features, draw, n_used=40, bias=0.0):
    """A root over all labels that uses some features, at the ends of segments, too."""
    ends = [f for f in (0, 65_535, 65_536, 131_071, 131_072, n_features - 1) if f < n_features]
    ends += [n_features] * (bias != 0)
    used = np.union1d(ends, rng.integers(0, n_features, n_used))
    return one_node(draw((used.size, n_labels)), used, rng.permutation(n_labels))


def drawing(rng, share):
    """Draw weights of a share of all entries, of very different sizes; children and rows may be empty."""

    def draw(shape):
        sizes = 2.0 ** rng.choice([0, 0, 0, -3, -20, -60], shape[1])
        weights = rng.normal(0, 0.8, shape) * sizes * (rng.random(shape) < share)
        weights[rng.random(shape[0]) < 0.2] = 0
        return weights.astype(np.float32)

    return draw


def make_model(seed, *, shape=None, n_trees=1):
    """Trees as arrays, features, labels, bias, as `beam_twin` makes them; a bias is always the last row."""
    rng = np.random.default_rng(seed)
    bias = float(rng.choice([0.0, 1.0, 0.5]))
    draw = drawing(rng, rng.choice([0.02, 0.3, 1.0]))
    n_labels, n_features = shape or (int(rng.choice([1, 9, 40, 300])), int(rng.choice([1, 20, 900])))
    trees = []
    while len(trees) < n_trees:
        if shape:
            tree = wide_tree(rng, n_labels, n_features, draw, bias=bias)
        else:
            depth = int(rng.integers(1, 5))
            tree = make_tree(rng, n_features, n_labels, bias, depth, draw, always_bias=True)
            tree[1][tree[1] >= 0] = np.arange(1, tree[0].size - 1)  # the nodes of a stored tree are in order
        if np.diff(tree[0]).min() > 0:  # and have children
            trees.append(tree)
    return trees, n_features, n_labels, bias


def as_blocks(tree, n_features, has_bias):
    """Return a tree and its weights, with the checksums of its blocks."""
    child_ptr, children, feature_ptr, features, weight_ptr, weights = tree
    pairs = zip(pairwise(feature_ptr), pairwise(weight_ptr), strict=True)
    content = [features[a:b].tobytes() + weights[c:d].tobytes() for (a, b), (c, d) in pairs]
    sums = np.array([crc32c(np.frombuffer(block, np.uint8)) for block in content], np.uint32)
    arrays = feature_ptr, features, weight_ptr, weights, NO_FLOATS, NO_FLOATS, sums
    return TreeBlocks(LabelTree(child_ptr, children), "float32", n_features, has_bias, *arrays)


def store_model(path, model):
    """Write a model with float32 weights, and open it."""
    trees, n_features, n_labels, bias = model
    parts = [as_blocks(tree, n_features, bool(bias)) for tree in trees]
    with new_model(path, False) as writer:
        writer.write_common(np.ones(n_labels, np.int64), None, None)
        for t, part in enumerate(parts):
            copy_blocks(writer, f"tree-{t}", part)
        writer.finish(
            {
                "instances": 1,
                "features": n_features,
                "labels": n_labels,
                "one_based": None,
                "normalized": False,
                "codec": "float32",
                "trees": [{"nodes": part.tree.n_nodes, "depth": part.tree.depth} for part in parts],
                "weights": sum(int(part.used_features @ part.tree.child_count) for part in parts),
                "settings": asdict(SolverSettings(cost=1.0, bias=bias)),
                "score": asdict(ScoreSettings()),
                "not_converged": 0,
                "notes": {},
            }
        )
    return load(path)
