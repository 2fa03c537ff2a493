"""A slow, plain beam search in NumPy, and random trees and rows to compare the kernel with."""

import numpy as np

from labeltree._native import BeamSearch

SIGMOID, SQUARED, CUBED = 0, 1, 2
TINY = np.finfo(np.float32).tiny


def log_g(score, margin):
    if score == SIGMOID:
        return -np.logaddexp(0, -3 * margin)
    return -(np.maximum(0, 1 - margin) ** (2 if score == SQUARED else 3))


def twin_tree(tree, x, beam, score):
    """The (log-score, -margin, label) of every label that a dense query reaches with this beam."""
    child_ptr, children, feature_ptr, features, weight_ptr, weights = tree
    reached, level = [], [(0.0, 0.0, 0)]
    while level:
        below = []
        for minus_log, _, u in level:
            kids = children[child_ptr[u] : child_ptr[u + 1]]
            known = features[feature_ptr[u] : feature_ptr[u + 1]]
            block = weights[weight_ptr[u] : weight_ptr[u + 1]].reshape(len(known), len(kids))
            margins = x[known] @ block.astype(np.float64)
            for kid, margin in zip(kids.tolist(), margins.tolist(), strict=True):
                entry = (minus_log - float(log_g(score, margin)), -margin)
                (reached if kid < 0 else below).append((*entry, ~kid if kid < 0 else kid))
        level = sorted(below)[:beam]
    return sorted(reached)


def twin(model, rows, beam, top, score):
    """Labels and scores as lists, best first, one a row; beam=None is exhaustive."""
    trees, n_features, _, bias = model
    out = []
    for indices, values in rows:
        x = np.zeros(n_features + 1)
        known = indices < n_features
        x[indices[known]] = values[known]
        x[n_features] = bias
        reached = [twin_tree(tree, x, beam, score) for tree in trees]
        if len(trees) == 1:
            ranked = [(label, min(1.0, max(TINY, np.exp(-minus)))) for minus, _, label in reached[0]]
        else:
            means = {}
            for minus, _, label in (entry for tree in reached for entry in tree):
                means[label] = means.get(label, 0) + max(TINY, np.exp(-minus)) / len(trees)
            ranked = sorted(means.items(), key=lambda item: (-item[1], item[0]))
        out.append(ranked)
    return out


def make_tree(rng, n_features, n_labels, bias, depth, draw):
    """A random tree of mixed children whose nodes know random features; draw(shape) gives the weights."""
    parents = [(0, 0)]  # of the nodes in breadth-first order: (parent, depth)
    at = 0
    while at < len(parents):
        if parents[at][1] < depth - 1:
            parents += [(at, parents[at][1] + 1)] * int(rng.integers(2 * (at == 0), 4))
        at += 1
    parents = parents[:13]
    m = len(parents)
    kids = [[] for _ in range(m)]
    for node in range(1, m):
        kids[parents[node][0]].append(node)
    holders = rng.integers(0, m, n_labels) if rng.random() < 0.5 else np.full(n_labels, m - 1)
    for label in rng.permutation(n_labels):
        kids[holders[label]].append(~int(label))
    lists, blocks = [], []
    for node in range(m):
        kids[node] = [kids[node][i] for i in rng.permutation(len(kids[node]))]
        share = rng.choice([0.0, 0.01, 0.3, 0.9, 1.0])
        known = np.flatnonzero(rng.random(n_features + (bias != 0)) < share)
        lists.append(known.astype(np.int32))
        blocks.append(draw((len(known), len(kids[node]))).astype(np.float32).ravel())

    def pointers(parts):
        return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)

    return (
        pointers(kids),
        np.array([kid for some in kids for kid in some], np.int32),
        pointers(lists),
        np.concatenate(lists),
        pointers(blocks),
        np.concatenate(blocks),
    )


def make_model(seed, *, n_trees=1, grid=False, n_labels=None, bias=None, depth=None):
    """Arguments of BeamSearch. On a grid every margin is exact in float32, so that ties are ties."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.choice([rng.integers(1, 30), 900]))  # of 900, a node with fewer than 29 has no cells
    n_labels = n_labels or int(rng.choice([1, 2, 7, 8, 9, 20, 40, 120]))
    bias = float(rng.choice([0.0, 1.0, 0.5])) if bias is None else bias
    depth = depth or int(rng.integers(1, 6))

    def draw(shape):
        return rng.integers(-3, 4, shape) / 4 if grid else rng.normal(0, 0.8, shape)

    trees = [make_tree(rng, n_features, n_labels, bias, depth, draw) for _ in range(n_trees)]
    return trees, n_features, n_labels, bias


def make_rows(seed, model, count, *, grid=False):
    """Sparse rows, some empty, some with features that the model does not know.

    Fewer than eight are searched best node first, one by one; more, in chunks, level by level.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        share = rng.choice([0.0, 0.2, 0.6]) * min(1, 30 / model[1])
        indices = np.flatnonzero(rng.random(model[1] + 3) < share)
        values = rng.integers(-2, 3, len(indices)) / 2 if grid else rng.normal(0, 1, len(indices))
        rows.append((indices.astype(np.int32), values.astype(np.float32)))
    return rows


def csr(rows):
    indptr = np.concatenate([[0], np.cumsum([len(i) for i, _ in rows])]).astype(np.int64)
    indices = np.concatenate([np.empty(0, np.int32), *(i for i, _ in rows)])
    return indptr, indices, np.concatenate([np.empty(0, np.float32), *(v for _, v in rows)])


def search(model, rows, *, beam=10, top=5, score=SIGMOID, threads=1):
    labels, scores = BeamSearch(*model).search(*csr(rows), beam, top, score, threads)
    assert labels.dtype == np.int32
    assert scores.dtype == np.float32
    return labels.reshape(-1, top), scores.reshape(-1, top)


def assert_same(got, want, top, *, strict):
    """Equal scores at each rank; equal labels too, but where two scores are all but equal (unless strict)."""
    for labels, scores, ranked in zip(*got, want, strict=True):
        size = min(top, len(ranked))
        assert np.all(labels[size:] == -1)
        assert np.all(scores[size:] == 0)
        expected = np.array([s for _, s in ranked])
        tolerance = 1e-5 * (1 - np.log(expected[:size]))
        assert np.all(np.abs(scores[:size] - expected[:size]) <= tolerance * expected[:size])
        assert np.all((scores[:size] > 0) & (scores[:size] <= 1))
        if strict:
            assert labels[:size].tolist() == [label for label, _ in ranked[:size]]
        of = dict(ranked)
        assert len(set(labels[:size].tolist())) == size
        for label, score, slack in zip(labels[:size].tolist(), scores[:size], tolerance, strict=True):
            assert abs(of[label] - score) <= slack * of[label]
