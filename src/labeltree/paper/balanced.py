"""What ``theory`` is made of: parameters of balanced trees, checked, and sums that lose no digits."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeltree.errors import InputError

Array: TypeAlias = NDArray[np.float64]


def whole(name: str, value: ArrayLike, least: int) -> Array:
    """Check whole numbers."""
    numbers = _numbers(name, value)
    _require(numbers, (numbers >= least) & (numbers % 1 == 0), name, f"a whole number of at least {least}")
    return numbers


def amount(name: str, value: ArrayLike) -> Array:
    """Check numbers that are 0 or more."""
    numbers = _numbers(name, value)
    _require(numbers, numbers >= 0, name, "0 or greater")
    return numbers


def share(value: ArrayLike) -> Array:
    """Check alpha, the share of a node's features that a child uses."""
    numbers = _numbers("alpha", value)
    _require(numbers, (numbers > 0) & (numbers <= 1), "alpha", "greater than 0 and at most 1")
    return numbers


def tree(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, *more: Array) -> tuple[Array, ...]:
    """Check that there is such a tree; L, K, d and more of the same shape."""
    given = whole("labels", labels, 1), whole("clusters", clusters, 2), whole("depth", depth, 1)
    L, K, d, *rest = together(*given, *more)
    most = deepest(L, K, 1)
    if (out := d > most).any():
        raise InputError(
            f"A balanced tree of L = {L[out][0]:.0f} labels and K = {K[out][0]:.0f} clusters has at most "
            f"depth {most[out][0]:.0f}, but got depth {d[out][0]:.0f}, where nodes would have no labels."
        )
    return L, K, d, *rest


def together(*arrays: Array) -> tuple[Array, ...]:
    """Broadcast to one shape."""
    try:
        return tuple(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise InputError(f"Parameters must broadcast to one shape, but have the shapes {shapes}.") from None


def deepest(labels: Array, clusters: Array, bottom: int) -> Array:
    """Largest d with bottom K^(d-1) <= L: nodes at depth d - 1 have at least `bottom` labels each.

    Multiplied, since a rounded logarithm errs at powers of K.
    """
    depth = np.zeros(labels.shape)
    needed = np.full(labels.shape, float(bottom))
    with np.errstate(over="ignore"):  # infinity exceeds any number of labels
        while (fits := needed <= labels).any():
            depth += fits
            needed = needed * clusters
    return depth


def power(base: Array, exponent: Array) -> Array:
    """base^exponent for small whole exponents, exact where whole numbers are."""
    result = np.ones(base.shape)
    for i in range(int(exponent.max(initial=0))):
        result = np.where(i < exponent, result * base, result)
    return result


def geometric_sum(factor: Array, terms: Array) -> Array:
    """1 + factor + ... + factor^(terms-1), term by term: nothing is subtracted, so no digit is lost at 1."""
    total = np.zeros(factor.shape)
    for i in range(int(terms.max(initial=0))):
        total = np.where(i < terms, 1 + factor * total, total)
    return total


def root_below_1(c: Array, m: Array) -> Array:
    """1 - alpha, where alpha in (0, 1) solves alpha^m (c + alpha) = 1, for 0 < c <= 1 and m >= 1.

    With x = 1 - alpha, the logarithm of the left side is m log(1 - x) + log(1 + c - x): concave and falling.
    Newton's first step from 0 lands beyond the root, later ones fall towards it. Solving for x, not for
    alpha, keeps all digits of a bound near 1.
    """
    x = np.log1p(c) / (m + 1 / (1 + c))
    for _ in range(8):  # digits double each time, and the first guess is within a factor of 2
        x = x + (m * np.log1p(-x) + np.log1p(c - x)) / (m / (1 - x) + 1 / (1 + c - x))
    return x


def _numbers(name: str, value: ArrayLike) -> Array:
    """Turn numbers into float64, but nothing else: no strings, no truth values, no NaN."""
    try:
        given = np.asarray(value)
        if given.dtype.kind in "iufO":  # O: whole numbers beyond 64 bits
            numbers = given.astype(np.float64)
            _require(numbers, np.isfinite(numbers), name, "finite")
            return numbers
    except (TypeError, OverflowError):
        pass
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    raise InputError(f"{name} must be a number or an array of numbers, but got {value!r:.60}.")


def _require(numbers: Array, good: Any, name: str, expected: str) -> None:
    if not np.all(good):
        raise InputError(f"{name} must be {expected}, but got {numbers[~np.asarray(good)].flat[0]:.12g}.")
