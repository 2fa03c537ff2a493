"""A slow, plain beam search in NumPy, and random trees and rows to compare the kernel with."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from labeltree._native import SCORES, BeamSearch, TreeBlocks

SIGMOID, SQUARED, CUBED = SCORES
TINY = float(np.finfo(np.float32).tiny)
EPSILON = 2.0**-23


def log_g(score, margin, scale=3):
    if score == SIGMOID:
        return -np.logaddexp(0, -scale * margin)
    return -(np.maximum(0, 1 - margin) ** (2 if score == SQUARED else 3))


def log_g_error(score, margin, error, scale=3):
    """How far the kernel's log g may be off where its margin is off by `error`: it computes in float32."""
    if score == SIGMOID:
        error = scale * error + 2 * EPSILON * np.abs(scale * margin)
        slope = 1 / (1 + np.exp(np.minimum(scale * margin - error, 80)))
    else:
        error = error + EPSILON * np.abs(1 - margin)
        missing = np.maximum(0, 1 - margin + error)
        slope = 2 * missing if score == SQUARED else 3 * missing**2
    return slope * error + 4 * EPSILON * np.abs(log_g(score, margin, scale))


class Reached(NamedTuple):
    """A node or label that a search reaches, or may reach; a smaller one ranks before a larger one."""

    minus_log_score: float
    minus_margin: float
    id: int
    error: float  # of the kernel's log-score, at most
    margin_error: float
    certain: bool  # False where rounding may keep it out of the beam
    terms: tuple[float | str, ...]  # of its log-score: equal ones add up to the same float32


def keep_exact(level, beam):
    """The best of a level, where no arithmetic rounds: ties go by margin, then by number."""
    assert all(np.float32(at.minus_log_score) == at.minus_log_score for at in level)
    return sorted(level)[:beam]


def keep_within_error(level, beam):
    """All that the kernel may keep: certain is what it keeps however it rounds."""
    kept = []
    for at in level:
        others = [other for other in level if other is not at]
        surely_before = sum(other.certain and is_before(other, at, surely=True) for other in others)
        perhaps_before = sum(is_before(other, at, surely=False) for other in others)
        if surely_before < beam:
            kept.append(at._replace(certain=at.certain and perhaps_before < beam))
    return kept


def is_before(one, other, surely):
    """Return whether one ranks before the other, surely or perhaps, however the kernel rounds."""
    if one.terms != other.terms:
        gap, error = other.minus_log_score - one.minus_log_score, one.error + other.error
    else:  # the same log-score in float32, too
        gap, error = other.minus_margin - one.minus_margin, one.margin_error + other.margin_error
        if gap == error == 0:
            return one.id < other.id
    return gap > error if surely else gap >= -error


def twin_tree(tree, x, beam, score, keep, scale=3, n_more=0, path_weight=1.0):
    """Every label that a dense query reaches, or may reach, with this beam.

    A margin is rounded once per feature and product, and `n_more` times.
    """
    child_ptr, children, feature_ptr, features, weight_ptr, weights = tree
    labels, level = [], [Reached(0.0, 0.0, 0, 0.0, 0.0, True, ())]
    while level:
        below = []
        for at in level:
            kids = children[child_ptr[at.id] : child_ptr[at.id + 1]]
            known = features[feature_ptr[at.id] : feature_ptr[at.id + 1]]
            block = weights[weight_ptr[at.id] : weight_ptr[at.id + 1]].reshape(len(known), len(kids))
            block = block.astype(np.float64)
            margins = x[known] @ block
            n_rounded = np.count_nonzero(x[known]) + n_more
            rounded = EPSILON * n_rounded * (np.abs(x[known]) @ np.abs(block))
            totals = path_weight * at.minus_log_score - log_g(score, margins, scale)
            errors = path_weight * at.error + log_g_error(score, margins, rounded, scale)
            errors += (1 if path_weight == 1 else 6) * EPSILON * totals
            for k, kid in enumerate(kids.tolist()):
                if score != SIGMOID and margins[k] - rounded[k] >= 1:
                    terms = at.terms  # log g is 0
                else:
                    terms = (*at.terms, f"of {kid}" if rounded[k] else margins[k])
                into, number = (labels, ~kid) if kid < 0 else (below, kid)
                into.append(Reached(totals[k], -margins[k], number, errors[k], rounded[k], at.certain, terms))
        level = keep(below, beam) if beam and below else below
    return labels


def dense(model, row):
    indices, values = row
    x = np.zeros(model[1] + 1)
    known = indices < model[1]
    x[indices[known]] = values[known]
    x[-1] = model[3]
    return x


def score_of(at):
    return min(1.0, max(TINY, np.exp(-at.minus_log_score)))


def twin(model, rows, beam, score, scale=3, n_more=0, path_weight=1.0):
    """For each row and label the `Reached` of the trees that reach it; beam=None is exhaustive."""
    found = []
    for row in rows:
        by_label = {}
        for tree in model[0]:
            options = scale, n_more, path_weight
            reached = twin_tree(tree, dense(model, row), beam, score, keep_within_error, *options)
            for at in reached:
                by_label.setdefault(at.id, []).append(at)
        found.append(by_label)
    return found


def is_in_doubt(by_label):
    """Return whether rounding decides which labels a row reaches."""
    return not all(at.certain for trees in by_label.values() for at in trees)


def assert_agrees(got, found, top, n_trees):
    """Check a search against its twin.

    A label's score is the mean over the trees that reach it; every label that is certainly reached is
    returned, unless `top` others are as good.
    """
    for labels, scores, by_label in zip(*got, found, strict=True):
        size = np.count_nonzero(labels >= 0)
        returned = labels[:size].tolist()
        assert np.all(labels[size:] == -1)
        assert np.all(scores[size:] == 0)
        assert np.all((scores[:size] > 0) & (scores[:size] <= 1))
        assert np.all(np.diff(scores[:size]) <= 0)
        assert len(set(returned)) == size
        for label, score in zip(returned, scores[:size].tolist(), strict=True):
            assert any(
                abs(mean - score) <= off * mean for mean, off in possible_scores(by_label[label], n_trees)
            )
        for label in by_label.keys() - set(returned):
            mean, off = possible_scores(by_label[label], n_trees)[0]
            assert mean == 0 or (size == top and mean * (1 - off) <= scores[top - 1])


def possible_scores(trees, n_trees):
    """Means over the trees that may have reached a label, the lowest first; how far off, relatively."""
    off = 1e-5 + max(at.error for at in trees)
    sure = sum(score_of(at) for at in trees if at.certain)
    doubtful = [score_of(at) for at in trees if not at.certain]
    sums = [sum(some) for k in range(len(doubtful) + 1) for some in combinations(doubtful, k)]
    return [((sure + more) / n_trees, off) for more in sums]


def assert_equals_exact_twin(model, rows, got, beam, top, score):
    """Check every label and its rank on a grid, for one tree and a score without rounding."""
    for labels, scores, row in zip(*got, rows, strict=True):
        ranked = sorted(twin_tree(model[0][0], dense(model, row), beam, score, keep_exact))[:top]
        assert all(np.float32(at.minus_log_score) == at.minus_log_score for at in ranked)
        assert labels.tolist() == [at.id for at in ranked] + [-1] * (top - len(ranked))
        expected = [score_of(at) for at in ranked] + [0.0] * (top - len(ranked))
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


def one_node(weights, features=None, labels=None):
    """A root over labels: its weights, features x labels, and their numbers, if they are not 0, 1, 2, ..."""
    size, n_labels = weights.shape
    features = np.arange(size) if features is None else features
    labels = np.arange(n_labels) if labels is None else labels
    return (
        np.array([0, n_labels]),
        ~labels.astype(np.int32),
        np.array([0, size]),
        features.astype(np.int32),
        np.array([0, weights.size]),
        weights.astype(np.float32).ravel(),
    )


def make_tree(rng, n_features, n_labels, bias, depth, draw, *, always_bias=False):
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
        chances = rng.random(n_features + (bias != 0))
        if always_bias:
            chances[n_features:] = -1
        known = np.flatnonzero(chances < share)
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
    """Trees as arrays, features, labels and bias.

    On a grid every margin is exact in float32, so that ties are ties.
    """
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
        indices = indices[:22] if grid else indices  # so that the cubes of margins are exact, too
        values = rng.integers(-2, 3, len(indices)) / 2 if grid else rng.normal(0, 1, len(indices))
        rows.append((indices.astype(np.int32), values.astype(np.float32)))
    return rows


def csr(rows):
    indptr = np.concatenate([[0], np.cumsum([len(i) for i, _ in rows])]).astype(np.int64)
    indices = np.concatenate([np.empty(0, np.int32), *(i for i, _ in rows)])
    return indptr, indices, np.concatenate([np.empty(0, np.float32), *(v for _, v in rows)])


def tree_blocks(arrays, codec="float32", **changes):
    """Return the blocks of a tree of a model, which are float32."""
    names = ("child_ptr", "children", "feature_ptr", "features", "weight_ptr", "weights")
    named = dict(zip(names, arrays, strict=True))
    named |= dict.fromkeys(("scales", "biases"), np.zeros(0, np.float32))
    named["weights"] = named["weights"].view(np.uint8)
    return TreeBlocks(codec, **named | changes)


def kernel_arguments(model):
    """Return the arguments of BeamSearch."""
    return [tree_blocks(arrays) for arrays in model[0]], *model[1:]


def search(model, rows, *, beam=10, top=5, score=SIGMOID, scale=3, path_weight=1.0, threads=1):
    kernel, options = BeamSearch(*kernel_arguments(model)), (beam, top, score, scale, path_weight, threads)
    labels, scores = kernel.search(*csr(rows), *options)
    assert labels.dtype == np.int32
    assert scores.dtype == np.float32
    return labels.reshape(-1, top), scores.reshape(-1, top)
