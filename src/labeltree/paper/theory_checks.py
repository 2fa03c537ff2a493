"""Check the parameters of balanced trees, and compute sums and roots without losing digits, for `theory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeltree.errors import InputError

Array: TypeAlias = NDArray[np.float64]


def whole(name: str, value: ArrayLike, least: int) -> Array:
    """Return integers of at least ``least`` as floats."""
    return _checked(name, value, lambda x: (x >= least) & (x % 1 == 0), f"an integer of at least {least}")


def amount(name: str, value: ArrayLike) -> Array:
    """Return numbers of at least 0 as floats."""
    return _checked(name, value, lambda x: x >= 0, "a number of at least 0")


def share(value: ArrayLike) -> Array:
    """Return alpha, the share of a node's features that a child uses, as floats."""
    return _checked("alpha", value, lambda x: (x > 0) & (x <= 1), "a positive number of at most 1")


def _checked(name: str, value: ArrayLike, allowed: Callable[[Array], Any], expected: str) -> Array:
    """Return finite numbers as float64; refuse those that are not allowed."""
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r:.60}, expected a number or an array of numbers") from None
    for condition, wanted in ((np.isfinite, "a finite number"), (allowed, expected)):
        good = np.asarray(condition(numbers))
        if not good.all():
            raise InputError(f"{name} is {numbers[~good].flat[0]:.12g}, expected {wanted}")
    return numbers


def tree(labels: ArrayLike, clusters: ArrayLike, depth: ArrayLike, *more: Array) -> tuple[Array, ...]:
    """Return L, K, d and more, broadcast to one shape, after checking that there is such a tree."""
    given = whole("labels", labels, 1), whole("clusters", clusters, 2), whole("depth", depth, 1)
    L, K, d, *rest = together(*given, *more)
    most = deepest(L, K, 1)
    if (out := d > most).any():
        raise InputError(
            f"depth is {d[out][0]:.0f}, expected at most {most[out][0]:.0f} for a balanced tree of "
            f"{L[out][0]:.0f} labels and {K[out][0]:.0f} clusters"
        )
    return L, K, d, *rest


def together(*arrays: Array) -> tuple[Array, ...]:
    """Return arrays broadcast to one shape."""
    return tuple(np.broadcast_arrays(*arrays))


def deepest(labels: Array, clusters: Array, bottom: int) -> Array:
    """Return the largest d with bottom K^(d-1) <= L: nodes at depth d - 1 have at least `bottom` labels.

    It multiplies, because a rounded logarithm is wrong at powers of K.
    """
    depth = np.zeros(labels.shape)
    needed = np.full(labels.shape, float(bottom))
    with np.errstate(over="ignore"):  # infinity exceeds any number of labels
        while (fits := needed <= labels).any():
            depth += fits
            needed = needed * clusters
    return depth


def power(base: Array, exponent: Array) -> Array:
    """Return base^exponent for small whole exponents, exact as long as floats hold whole numbers."""
    result = np.ones(base.shape)
    for i in range(int(exponent.max(initial=0))):
        result = np.where(i < exponent, result * base, result)
    return result


def geometric_sum(factor: Array, terms: Array) -> Array:
    """Return 1 + factor + ... + factor^(terms-1), term by term, which loses no digits near a factor of 1."""
    total = np.zeros(factor.shape)
    for i in range(int(terms.max(initial=0))):
        total = np.where(i < terms, 1 + factor * total, total)
    return total


def root_below_1(c: Array, m: Array) -> Array:
    """Return 1 - alpha, where alpha in (0, 1) solves alpha^m (c + alpha) = 1, for 0 < c <= 1 and m >= 1.

    With x = 1 - alpha, the logarithm of the left side is m log(1 - x) + log(1 + c - x): concave and falling.
    Newton's first step from 0 lands beyond the root, and later steps approach it from above. Solving for x
    instead of alpha keeps all digits of a bound near 1.
    """
    x = np.log1p(c) / (m + 1 / (1 + c))
    for _ in range(8):  # each step doubles the correct digits, and the first guess is within a factor of 2
        x = x + (m * np.log1p(-x) + np.log1p(c - x)) / (m / (1 - x) + 1 / (1 + c - x))
    return x
