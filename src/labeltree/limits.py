"""What the parameters of an estimator may be: a table, and the check that reads it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

from labeltree.errors import InputError
from labeltree.system import parse_bytes
from labeltree.tree import LabelTree

_INT32_MAX = 2**31 - 1


class Constraint(Protocol):
    """What one parameter may be."""

    @property
    def expected(self) -> str:
        """What may be given, to end a sentence with."""

    def plain(self, value: Any) -> Any:
        """Bring a value into its plain Python form; None is returned where it is not allowed."""


@dataclass(frozen=True)
class Whole:
    """A whole number in a range."""

    least: int
    most: int = _INT32_MAX

    @property
    def expected(self) -> str:
        """What may be given, to end a sentence with."""
        return f"a whole number from {self.least} to {self.most}"

    def plain(self, value: Any) -> int | None:
        """Return an int, if it is one in the range."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if whole and self.least <= value <= self.most else None


@dataclass(frozen=True)
class Number:
    """A finite number in a range, the least itself only where it is allowed."""

    least: float
    most: float
    open: bool = False

    @property
    def expected(self) -> str:
        """What may be given, to end a sentence with."""
        return (
            f"a number {'above' if self.open else 'from'} {self.least:g} {'up ' * self.open}to {self.most:g}"
        )

    def plain(self, value: Any) -> float | None:
        """Return a float, if it is one in the range."""
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            number = float(value)
        except OverflowError:  # an int beyond all floats
            return None
        inside = self.least <= number <= self.most and not (self.open and number == self.least)
        return number if math.isfinite(number) and inside else None


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: Iterable[Any]

    @property
    def expected(self) -> str:
        """What may be given, to end a sentence with."""
        return "one of " + ", ".join(map(repr, self.values))

    def plain(self, value: Any) -> Any:
        """Return it, if it is one of them."""
        return next((known for known in self.values if type(known) is type(value) and known == value), None)


@dataclass(frozen=True)
class Size:
    """A number of bytes, as a number or as people write it."""

    expected: str = "a number of bytes such as '8GB' or 500000000"

    def plain(self, value: Any) -> int | None:
        """Return the bytes, if it is a size above 0."""
        if isinstance(value, str):
            try:
                return parse_bytes(value)
            except InputError:
                return None
        return Whole(1, 2**63 - 1).plain(value)


@dataclass(frozen=True)
class GivenTree:
    """A label tree, or nested lists that make one."""

    expected: str = "a LabelTree or nested lists of labels"

    def plain(self, value: Any) -> LabelTree | Sequence[Any] | None:
        """Return it, if it may be a tree; whether it is one, the labels tell."""
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return value if listed or isinstance(value, LabelTree) else None


@dataclass(frozen=True)
class OrNone:
    """None, or what another constraint allows."""

    other: Constraint

    @property
    def expected(self) -> str:
        """What may be given, to end a sentence with."""
        return f"None or {self.other.expected}"

    def plain(self, value: Any) -> Any:
        """Return what the other constraint makes of it."""
        return self.other.plain(value)


def checked(owner: str, values: Mapping[str, Any], table: Mapping[str, Constraint]) -> dict[str, Any]:
    """Check values against a table of constraints.

    Parameters
    ----------
    owner : str
        Whose parameters they are.
    values : mapping of str to anything
        The parameters.
    table : mapping of str to Constraint
        What each of them may be.

    Returns
    -------
    dict
        The values as plain Python numbers and strings.

    Raises
    ------
    InputError
        If one of them is not allowed.
    """
    plain = {}
    for name, value in values.items():
        constraint = table[name]
        plain[name] = None if value is None else constraint.plain(value)
        if plain[name] is None and not (value is None and isinstance(constraint, OrNone)):
            raise InputError(f"{owner} got {name}={value!r}, expected {constraint.expected}")
    return plain
