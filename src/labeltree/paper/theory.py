"""The paper's formulas and theorems for balanced trees: sizes, depths and training costs without any data.

A balanced tree of depth d splits L labels into K equal parts at every node of the depths 0 to d - 2. Each
node at depth d - 1 has its L / K^(d-1) labels as children. The root uses n features, and every other node
uses the share alpha of the features of its parent. The functions share these parameters, which broadcast
like NumPy arrays:

- ``labels`` (L), ``clusters`` (K, at least 2) and ``depth`` (d): whole numbers. Depth 1 is one-vs-rest. A
  tree needs at least one label per node at depth d - 1: K^(d-1) <= L. The paper's theorems require two,
  d <= D.
- ``alpha``: above 0 and at most 1. With 1, all weight vectors are dense. It is at least 1 / K (Theorem 3) if
  every instance has a label, but the average of an unbalanced tree can be smaller, so less is accepted.
- ``features`` (n), ``instances`` (l) and ``nonzeros`` (n-bar, non-zero features of an average instance): at
  least 0.

Results are float64, or int64 for depths, and scalars if all parameters are scalars. Whole numbers are exact
up to 2^53. Parameters for which there is no tree, and cases that a theorem does not cover, raise an
``InputError``. Equation numbers are the paper's.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeltree.errors import InputError
from labeltree.paper.theory_checks import (
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
    """Return the weights of one-vs-rest: L n (equation 9).

    Examples
    --------
    >>> print(ovr_weights(670_091, 135_909))
    91071397719.0
    """
    L, n = together(whole("labels", labels, 1), amount("features", features))
    return L * n


def meta_labels(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike) -> Floats:
    """Return the number of nodes between root and leaves: K + ... + K^(d-1) = (K^d - K) / (K - 1).

    A tree has this many more weight vectors than one-vs-rest (equation 10).

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
    """Return the weights of a tree of dense vectors: (L + (K^d - K) / (K - 1)) n (equation 11).

    This is ``tree_weights`` with an alpha of 1. It is never less than one-vs-rest.

    Examples
    --------
    >>> print(dense_tree_weights(1000, clusters=10, depth=3, features=50))
    55500.0
    """
    return tree_weights(labels, clusters, depth, 1.0, features)


def tree_weights(
    labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, alpha: ArrayLike, features: ArrayLike
) -> Floats:
    """Return the non-zero weights of a balanced tree (equation 14).

    K n ((K alpha)^(d-1) - 1) / (K alpha - 1) + L alpha^(d-1) n. The fraction is computed as the sum of
    (K alpha)^i for i from 0 to d - 2. So K alpha = 1, where the fraction is 0 / 0 and the sum is d - 1
    (equation 35), needs no special case, and no digits are lost near it.

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
    """Return the weights of a balanced tree relative to one-vs-rest (equation 15).

    K ((K alpha)^(d-1) - 1) / (L (K alpha - 1)) + alpha^(d-1). This counts weights, not bytes. A tree stores
    an index with each weight, 12 bytes instead of 8, so the ratio of the sizes is 1.5 times as large
    (equation 20).

    For K alpha = 1 and d = 2, appendix B.2 prints the ratio as "Kn + L alpha n", which is the number of
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
    """Return the depth of the deepest tree that the paper allows: D = floor(1 + log_K(L / 2)) (equation 13).

    It is found by multiplying, because a rounded logarithm is wrong where L / 2 is a power of K. D = 1 means
    that there are fewer than 2 K labels, too few for a tree.

    Examples
    --------
    >>> print(largest_depth(200_000_000, clusters=100))
    5
    """
    L, K = together(whole("labels", labels, 2), whole("clusters", clusters, 2))
    return deepest(L, K, 2).astype(np.int64)[()]


def alpha_bound(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike) -> Floats:
    """Return the bound of Theorem 1: a tree with an alpha below it has fewer weights than one-vs-rest.

    For d = 2 the bound is 1 - 1 / (2 K^(D-2)) (equation 25), and exact where L = 2 K^(D-1). For d > 2 and
    K >= 4 it is alpha*, the root of alpha^(d-2) (K^(d-D) + alpha) = 1 in (0, 1): a sufficient condition, not
    a necessary one.

    The theorem prints max{2 / K, alpha*}. Its proof shows that this is alpha*: at alpha = 2 / K, the left
    side of the equation is at most 3/4 (equation 30).

    Raises
    ------
    InputError
        If the theorem does not apply: d < 2, d > D, or K < 4 with d > 2.

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
            f"depth is {d[out][0]:.0f}, expected 2 to D = {D[out][0]:.0f} for Theorem 1 with "
            f"{L[out][0]:.0f} labels and {K[out][0]:.0f} clusters"
        )
    if (out := (d > 2) & (K < 4)).any():
        raise InputError(
            f"clusters is {K[out][0]:.0f}, expected at least 4 for Theorem 1 and trees deeper than 2",
            hint="use weight_ratio to find whether such a tree is smaller",
        )
    return 1 - np.where(d == 2, 0.5 * K ** (2 - D), root_below_1(K ** (d - D), np.maximum(d - 2, 1)))


def shrinks_with_depth(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, alpha: ArrayLike) -> Flags:
    """Return whether Theorem 2 promises that a tree of depth d + 1 has fewer weights than one of depth d.

    It does for 2 <= d <= D - 2 and alpha < 1 - 1 / (2 K). Its second sentence states that the ratio at depth
    d is "smaller" than at depth d + 1, but its first sentence and the proof show that it is larger. False
    means that the theorem does not apply; ``weights_saved`` gives the answer in all cases.

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
    """Return how many more weights a tree of depth d has than one of depth d + 1 (equation 42).

    alpha^(d-1) n (L (1 - alpha) - K^d). One more level makes the model smaller where this is above 0.

    Examples
    --------
    >>> print(np.sign(weights_saved(200_000_000, 100, 4, alpha=[0.4, 0.5, 0.6])))
    [ 1.  0. -1.]
    """
    L, K, d, a, n = tree(labels, clusters, depth, share(alpha), amount("features", features))
    if (out := deepest(L, K, 1) == d).any():
        raise InputError(
            f"depth is {d[out][0]:.0f}, expected less, so that there is a deeper tree of "
            f"{L[out][0]:.0f} labels and {K[out][0]:.0f} clusters"
        )
    return a ** (d - 1) * n * (L * (1 - a) - power(K, d))


def ovr_cost(labels: ArrayLike, instances: ArrayLike, nonzeros: ArrayLike) -> Floats:
    """Return the training cost of one-vs-rest: L l n-bar (equation 4).

    Like all costs here, this is the expression inside O(...): costs can be compared with each other, but
    are not in seconds.

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
    """Return the training cost of a balanced tree: l n-bar log L (K (d - 1) + L / K^(d-1)) (equation 5).

    An instance has O(log L) labels, so it is in that many nodes of each depth. The formula also counts it
    log L times at the root, where it is only once. Depth 1 would count one-vs-rest log L times, so it is not
    allowed.

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
    """Return the training cost of a tree of depth log_K L: K l n-bar log^2 L (equation 6).

    It omits a constant factor: where L is a power of K, ``tree_cost`` at this depth is 1 / log K times as
    large.

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


def kmeans_cost(
    vector_nonzeros: ArrayLike, clusters: ArrayLike, iterations: ArrayLike, depth: ArrayLike
) -> Floats:
    """Return the cost of building a tree by K-means: nnz(V) K iterations d (appendix A).

    ``vector_nonzeros`` is nnz(V), the number of non-zeros of all label vectors. At each depth, each
    iteration compares all of them with K centroids. Labels are clustered at the depths 0 to d - 2, so d - 1
    is the exact factor for a balanced tree; in real trees, labels that are separated early cost less.

    Examples
    --------
    >>> print(kmeans_cost(1_000_000, clusters=100, iterations=20, depth=3))
    6000000000.0
    """
    nonzeros, K, count, d = together(
        amount("vector_nonzeros", vector_nonzeros),
        whole("clusters", clusters, 2),
        whole("iterations", iterations, 1),
        whole("depth", depth, 1),
    )
    return nonzeros * K * count * d


def cheapest_depth(labels: ArrayLike, clusters: ArrayLike) -> Depths:
    """Return the depth, at least 2, with the lowest ``tree_cost``; the smaller of two that cost the same.

    One more level adds K to K (d - 1) + L / K^(d-1) and removes (1 - 1/K) L / K^(d-1), which pays off while
    K^(d+1) < L (K - 1). The paper gives d = log_K L, rounded up, where its inequality of arithmetic and
    geometric means becomes an equality (equation 24). Where L is slightly above a power of K, and always for
    K = 2, one level less costs less or the same. The result can be D + 1.

    Examples
    --------
    >>> print(cheapest_depth([10_000, 10_050, 11_000], clusters=100))
    [2 2 3]
    """
    L, K, _ = tree(labels, clusters, 2)
    smaller_powers = deepest(np.nextafter(L * (K - 1), 0), K, 1)  # K^0, K^1, ... below L (K - 1)
    return np.maximum(smaller_powers - 1, 2).astype(np.int64)
