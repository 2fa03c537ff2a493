"""The paper's formulas and theorems for balanced trees: sizes, depths and training costs without any data.

A balanced tree of depth d splits L labels into K equal parts at every node of the depths 0 to d - 2; each
node at depth d - 1 has its L / K^(d-1) labels as children. The root uses n features, every other node the
share alpha of what its parent uses. The functions share these parameters, which broadcast as NumPy's do:

- ``labels`` (L), ``clusters`` (K, at least 2) and ``depth`` (d): whole numbers. Depth 1 is one-vs-rest. A
  tree needs a label for every node at depth d - 1: K^(d-1) <= L. The paper's theorems ask for two, d <= D.
- ``alpha``: in (0, 1); 1 as well, where nothing is sparse.
- ``features`` (n), ``instances`` (l) and ``nonzeros`` (n-bar, feature values of a mean instance): from 0.

Results are float64, or int64 for depths, and scalars where all parameters are. Whole numbers are exact up to
2^53. What cannot be a tree, and what a theorem does not speak of, is refused with an ``InputError``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeltree.errors import InputError
from labeltree.paper.balanced import (
    amount,
    deepest,
    geometric_sum,
    power,
    root_below_1,
    share,
    together,
    tree,
    whole,
)

Floats: TypeAlias = NDArray[np.float64] | np.float64
Depths: TypeAlias = NDArray[np.int64] | np.int64
Flags: TypeAlias = NDArray[np.bool_] | np.bool_


def ovr_weights(labels: ArrayLike, features: ArrayLike) -> Floats:
    """Weights of one-vs-rest: L n (eq:space-for-OVR).

    Examples
    --------
    >>> print(ovr_weights(670_091, 135_909))
    91071397719.0
    """
    L, n = together(whole("labels", labels, 1), amount("features", features))
    return L * n


def meta_labels(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike) -> Floats:
    """Nodes between root and leaves: K + ... + K^(d-1) = (K^d - K) / (K - 1).

    A tree has so many weight vectors more than one-vs-rest: L-hat = L + meta-labels (eq:num-weight-vector).

    Examples
    --------
    >>> print(meta_labels(1000, clusters=10, depth=3))
    110.0
    """
    _, K, d = tree(labels, clusters, depth)
    return K * geometric_sum(K, d - 1)


def dense_tree_weights(
    labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, features: ArrayLike
) -> Floats:
    """Weights of a tree whose vectors are all dense: (L + (K^d - K) / (K - 1)) n (eq:space-for-tree).

    This is ``tree_weights`` with an alpha of 1, and never less than one-vs-rest.

    Examples
    --------
    >>> print(dense_tree_weights(1000, clusters=10, depth=3, features=50))
    55500.0
    """
    return tree_weights(labels, clusters, depth, 1.0, features)


def tree_weights(
    labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, alpha: ArrayLike, features: ArrayLike
) -> Floats:
    """Non-zero weights of a balanced tree (eq:balanced-tree-nnz).

    K n ((K alpha)^(d-1) - 1) / (K alpha - 1) + L alpha^(d-1) n. The fraction is the sum of (K alpha)^i for i
    from 0 to d - 2, and is summed as such. So K alpha = 1, where the fraction is 0 / 0 and the sum d - 1
    (eq:balanced-tree-nnz-for-kalpha-1), is no exception, and no digit is lost near it.

    Examples
    --------
    >>> print(tree_weights(1000, clusters=10, depth=3, alpha=0.5, features=100))
    31000.0
    >>> print(tree_weights(1000, clusters=10, depth=3, alpha=0.1, features=100))  # K alpha = 1
    3000.0
    """
    L, K, d, a, n = tree(labels, clusters, depth, share(alpha), amount("features", features))
    return n * (K * geometric_sum(K * a, d - 1) + L * a ** (d - 1))


def weight_ratio(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, alpha: ArrayLike) -> Floats:
    """Weights of a balanced tree over those of one-vs-rest (eq:balanced-nnz-ratio).

    K ((K alpha)^(d-1) - 1) / (L (K alpha - 1)) + alpha^(d-1). It counts weights, not bytes: with an index
    beside each weight of the tree, 12 bytes against 8, the ratio of sizes is 1.5 times this one
    (eq:model-size-ratio).

    For K alpha = 1 and d = 2, appendix B.2 prints the ratio as "Kn + L alpha n"; that is the number of
    weights. The ratio is K / L + alpha.

    Examples
    --------
    >>> for depth in (2, 3, 4, 5):
    ...     print(depth, f"{weight_ratio(200_000_000, 100, depth, alpha=0.6):.4f}")
    2 0.6000
    3 0.3600
    4 0.2178
    5 0.2394
    """
    L, K, d, a = tree(labels, clusters, depth, share(alpha))
    return K * geometric_sum(K * a, d - 1) / L + a ** (d - 1)


def largest_depth(labels: ArrayLike, clusters: ArrayLike) -> Depths:
    """Depth of the deepest tree that the paper allows: D = floor(1 + log_K(L / 2)) (eq:def-of-D).

    It is found by multiplying, since a rounded logarithm errs where L / 2 is a power of K. D = 1 says that
    there are fewer labels than 2 K, too few for a tree.

    Examples
    --------
    >>> print(largest_depth(200_000_000, clusters=100))
    5
    """
    L, K = together(whole("labels", labels, 2), whole("clusters", clusters, 2))
    return deepest(L, K, 2).astype(np.int64)[()]


def alpha_bound(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike) -> Floats:
    """Theorem 1: a tree with an alpha below this bound has fewer weights than one-vs-rest.

    For d = 2 the bound is 1 - 1 / (2 K^(D-2)) (eq:alpha-bound-for-depth-2), reached where L = 2 K^(D-1).
    For d > 2 and K >= 4 it is alpha*, the root of alpha^(d-2) (K^(d-D) + alpha) = 1 in (0, 1): enough, not
    necessary.

    The theorem prints max{2 / K, alpha*}. Its proof shows that this is alpha*: at alpha = 2 / K, the left
    side of the equation is at most 3/4 (eq:tmp2-in-small-alpha).

    Raises
    ------
    InputError
        Where the theorem is silent: d < 2, d > D, or K < 4 with d > 2.

    Examples
    --------
    >>> for depth in (2, 3, 4, 5):
    ...     print(depth, f"{alpha_bound(200_000_000, 100, depth):.7f}")
    2 0.9999995
    3 0.9999500
    4 0.9966778
    5 0.8191725
    """
    L, K, d = tree(labels, clusters, depth)
    D = deepest(L, K, 2)
    if (out := (d < 2) | (d > D)).any():
        raise InputError(
            f"Theorem 1 is about trees of depth 2 to D = {D[out][0]:.0f} (K = {K[out][0]:.0f}, "
            f"L = {L[out][0]:.0f}), but got depth {d[out][0]:.0f}; 1 is one-vs-rest itself, and beyond D "
            "nodes above the labels have fewer than two."
        )
    if (out := (d > 2) & (K < 4)).any():
        raise InputError(
            f"Theorem 1 needs clusters (K) of at least 4 for trees deeper than 2, but got {K[out][0]:.0f}; "
            "weight_ratio tells whether such a tree is smaller."
        )
    return 1 - np.where(d == 2, 0.5 * K ** (2 - D), root_below_1(K ** (d - D), np.maximum(d - 2, 1)))


def shrinks_with_depth(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, alpha: ArrayLike) -> Flags:
    """Theorem 2: whether it promises that a tree of depth d + 1 has fewer weights than one of depth d.

    It does for 2 <= d <= D - 2 and alpha < 1 - 1 / (2 K). Its second sentence says that the ratio at depth
    d is "smaller" than at depth d + 1; the first sentence and the proof show that it is larger. False says
    that the theorem is silent; ``weights_saved`` always knows.

    Examples
    --------
    >>> print(shrinks_with_depth(200_000_000, 100, [2, 3, 4], alpha=0.6))
    [ True  True False]
    """
    L, K, d, a = tree(labels, clusters, depth, share(alpha))
    return (d >= 2) & (d <= deepest(L, K, 2) - 2) & (a < 1 - 0.5 / K)


def weights_saved(
    labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, alpha: ArrayLike, features: ArrayLike = 1
) -> Floats:
    """Weights that a tree of depth d has more than one of depth d + 1 (eq:tmp-in-thm-2).

    alpha^(d-1) n (L (1 - alpha) - K^d): one more depth makes the model smaller where this is above 0.

    Examples
    --------
    >>> print(np.sign(weights_saved(200_000_000, 100, 4, alpha=[0.4, 0.5, 0.6])))
    [ 1.  0. -1.]
    """
    L, K, d, a, n = tree(labels, clusters, depth, share(alpha), amount("features", features))
    if (out := deepest(L, K, 1) == d).any():
        raise InputError(
            f"weights_saved compares with a tree one deeper, but depth {d[out][0]:.0f} is the largest "
            f"for L = {L[out][0]:.0f} labels and K = {K[out][0]:.0f} clusters."
        )
    return a ** (d - 1) * n * (L * (1 - a) - power(K, d))


def least_alpha(clusters: ArrayLike) -> Floats:
    """Theorem 3: alpha is at least 1 / K.

    The K children of a node use, together, every feature that the node uses. (At the root this takes for
    granted that a feature of an instance without labels occurs in one with labels, too.) The other
    functions take a smaller alpha nevertheless: the formulas hold, and the mean alpha of a real, unbalanced
    tree can be smaller.

    Examples
    --------
    >>> print(least_alpha(100))
    0.01
    """
    return 1 / whole("clusters", clusters, 2)


def ovr_cost(labels: ArrayLike, instances: ArrayLike, nonzeros: ArrayLike) -> Floats:
    """Training cost of one-vs-rest: L l n-bar (eq:time-for-OVR).

    Like all costs here, this is what stands within O(...): costs can be compared, but are no seconds.

    Examples
    --------
    >>> print(ovr_cost(1000, instances=500, nonzeros=20))
    10000000.0
    """
    L, count, mean = together(
        whole("labels", labels, 1), amount("instances", instances), amount("nonzeros", nonzeros)
    )
    return L * count * mean


def tree_cost(
    labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, instances: ArrayLike, nonzeros: ArrayLike
) -> Floats:
    """Training cost of a balanced tree: l n-bar log L (K (d - 1) + L / K^(d-1)) (eq:time-complexity).

    An instance has O(log L) labels, so that at each depth it is in as many nodes. The root, where it is in
    one, is counted like the others; so depth 1 would count one-vs-rest log L times, and is refused.

    Examples
    --------
    >>> print(f"{tree_cost(1000, 10, depth=3, instances=500, nonzeros=20):.0f}")
    2072327
    """
    L, K, d, count, mean = tree(
        labels,
        clusters,
        whole("depth", depth, 2),
        amount("instances", instances),
        amount("nonzeros", nonzeros),
    )
    return count * mean * np.log(L) * (K * (d - 1) + L / power(K, d - 1))


def lowest_tree_cost(
    labels: ArrayLike, clusters: ArrayLike, instances: ArrayLike, nonzeros: ArrayLike
) -> Floats:
    """Training cost of a tree of depth log_K L in short: K l n-bar log^2 L (eq:lowest-time-complexity).

    It leaves a factor out, as O(...) may: where L is a power of K, ``tree_cost`` at this depth is 1 / log K
    times it.

    Examples
    --------
    >>> print(f"{lowest_tree_cost(1000, 10, instances=500, nonzeros=20):.0f}")
    4771708
    """
    L, K, count, mean = together(
        whole("labels", labels, 1),
        whole("clusters", clusters, 2),
        amount("instances", instances),
        amount("nonzeros", nonzeros),
    )
    return K * count * mean * np.square(np.log(L))


def cheapest_depth(labels: ArrayLike, clusters: ArrayLike) -> Depths:
    """Depth, from 2 on, at which ``tree_cost`` is least; the smaller of two that cost the same.

    One more depth adds K to K (d - 1) + L / K^(d-1) and takes (1 - 1/K) L / K^(d-1) away, which pays while
    K^(d+1) < L (K - 1). The paper names d = log_K L, where the inequality of the means, for this d, is an
    equality (eq:AM-GM-inequality), and rounds up. Where L is a little more than a power of K, and always
    for K = 2, one depth less costs less or the same. The result can be D + 1.

    Examples
    --------
    >>> print(cheapest_depth([10_000, 10_050, 11_000], clusters=100))
    [2 2 3]
    """
    L, K, _ = tree(labels, clusters, 2)
    smaller_powers = deepest(np.nextafter(L * (K - 1), 0), K, 1)  # K^0, K^1, ... below L (K - 1)
    return np.maximum(smaller_powers - 1, 2).astype(np.int64)
