"""Limits: the values allowed for each setting, declared once for settings, command line and estimator."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Final, Protocol

from labeltree import _native
from labeltree.errors import InputError

LARGEST_INT32 = 2**31 - 1
# The most instances, features, labels or nodes that a model can have.
LARGEST_COUNT = LARGEST_INT32 - 1
# The square of a larger value, summed over a row, may overflow a float32.
LARGEST_VALUE = 1e15
# The inverse of a smaller cost may overflow a float32.
SMALLEST_COST = 1e-15

# Bytes of a line of a data file.
LONGEST_LINE = 10**9
# Bytes that a compressed data file may contain, and how many times its own size, whichever is more: one that
# expands further is hardly data.
UNPACKED_BYTES, UNPACKED_RATIO = 10**9, 1000
# Bytes of the manifest of a published model, which may list the names of millions of features.
MANIFEST_BYTES = 10**9


class Limit(Protocol):
    """The values allowed for one setting; as a string, they end a message: "expected ..."."""

    def plain(self, value: Any) -> Any:
        """Return the value as a plain Python object, or None if it is not allowed."""


@dataclass(frozen=True)
class Whole:
    """An integer in a range."""

    least: int
    most: int = LARGEST_INT32

    def __str__(self) -> str:
        if self.most == LARGEST_INT32:
            return f"an integer of at least {self.least}"
        return f"an integer from {self.least} to {self.most:,}"

    def plain(self, value: Any) -> int | None:
        """Return the value as an int, or None if it is not allowed."""
        if type(value) is int:  # much faster, for single predictions
            return value if self.least <= value <= self.most else None
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if whole and self.least <= value <= self.most else None


@dataclass(frozen=True)
class Number:
    """A finite number in a range; `above` excludes the lower end, which is then 0."""

    least: float
    most: float
    above: bool = False

    def __str__(self) -> str:
        if math.isinf(self.most):
            return "a positive number"
        if self.above:
            return f"a positive number of at most {self.most:g}"
        return f"a number from {self.least:g} to {self.most:g}"

    def plain(self, value: Any) -> float | None:
        """Return the value as a float, or None if it is not allowed."""
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            number = float(value)
        except OverflowError:  # an int beyond all floats
            return None
        inside = self.least <= number <= self.most and not (self.above and number == self.least)
        return number if math.isfinite(number) and inside else None


@dataclass(frozen=True)
class PerDepth:
    """A number, or one per depth; the last holds for all greater depths."""

    each: Number

    def __str__(self) -> str:
        return f"{self.each}, or several, one per depth"

    def plain(self, value: Any) -> float | tuple[float, ...] | None:
        """Return the number or the numbers, or None if they are not allowed."""
        if not isinstance(value, tuple | list):
            return self.each.plain(value)
        numbers = tuple(self.each.plain(number) for number in value)
        return numbers if numbers and None not in numbers else None  # type: ignore[return-value]


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        names = [str(value) for value in self.values]
        return " or ".join(names) if len(names) == 2 else "one of " + ", ".join(names)

    def plain(self, value: Any) -> Any:
        """Return the value, or None if it is not allowed."""
        return next((known for known in self.values if type(known) is type(value) and known == value), None)


@dataclass(frozen=True)
class Size:
    """A number of bytes, alone or with a unit.

    Units are kB, MB, GB, TB (powers of 1000), and KiB, MiB, GiB, TiB (powers of 1024). The B is optional, and
    case is ignored.

    Examples
    --------
    >>> [Size().plain(text) for text in ("8GB", "1.5 GiB", "500")]
    [8000000000, 1610612736, 500]
    """

    def __str__(self) -> str:
        return "a number of bytes such as 8GB or 500000000"

    def plain(self, value: Any) -> int | None:
        """Return the number of bytes, or None if it is not allowed."""
        if isinstance(value, str):
            match = re.fullmatch(
                r"\s*([0-9]{1,30}(?:\.[0-9]*)?)\s*(?:([kmgt])(i?))?b?\s*", value, re.IGNORECASE
            )
            if match is None:
                return None
            number, unit, binary = match.groups()
            power = "kmgt".index(unit.lower()) + 1 if unit else 0
            value = round(float(number) * (1024.0 if binary else 1000.0) ** power)
        return Whole(1, 2**63 - 1).plain(value)


@dataclass(frozen=True)
class Duration:
    """A number of seconds, as a number or with a unit."""

    def __str__(self) -> str:
        return "a time such as 20min, 90s, 1.5h or a number of seconds"

    def plain(self, value: Any) -> float | None:
        """Return the number of seconds, or None if it is not allowed."""
        if isinstance(value, str):
            match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*(s|min|h|d)?\s*", value, re.IGNORECASE)
            if match is None:
                return None
            value = float(match[1]) * {"s": 1, "min": 60, "h": 3600, "d": 86400}[(match[2] or "s").lower()]
        return Number(0.0, LARGEST_VALUE, above=True).plain(value)


@dataclass(frozen=True)
class Loss:
    """A share that may be lost, at most a tenth, as a number or as text.

    Text of 0.01 or more needs a percent sign: 0.1 might mean 0.1% or 10%. For a number, 1 might mean 1%.

    Examples
    --------
    >>> [Loss().plain(value) for value in ("0.1%", "0.001", 0.1, "0.1", 1)]
    [0.001, 0.001, 0.1, None, None]
    """

    def __str__(self) -> str:
        return "a loss such as 0.1% or 0.001, at most 10% (in text, 0.01 or more needs the percent sign)"

    def plain(self, value: Any) -> float | None:
        """Return the share, or None if it is not allowed."""
        if isinstance(value, str):
            match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*(%?)\s*", value)
            if match is None or (not match[2] and float(match[1]) >= 0.01):
                return None
            value = float(match[1]) / (100 if match[2] else 1)
        return Number(0.0, 0.1).plain(value)


@dataclass(frozen=True)
class Span:
    """A minimum and a maximum, both integers."""

    ends: Whole

    def __str__(self) -> str:
        return f"a minimum and a maximum such as (1, 2), each {self.ends}"

    def plain(self, value: Any) -> tuple[int, int] | None:
        """Return the two numbers, or None if they are not allowed."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            return None
        low, high = map(self.ends.plain, value)
        return (low, high) if low is not None and high is not None and low <= high else None


@dataclass(frozen=True)
class Value:
    """What a function accepts: it returns the value as a plain Python object, or None."""

    expected: str
    plain: Callable[[Any], Any]

    def __str__(self) -> str:
        return self.expected


@dataclass(frozen=True)
class Optional:
    """None, or what another limit allows."""

    limit: Limit

    def __str__(self) -> str:
        return f"None or {self.limit}"

    def plain(self, value: Any) -> Any:
        """Return what the other limit makes of the value."""
        return self.limit.plain(value)


def _increasing(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, tuple | list) or not 2 <= len(value) <= 100:
        return None
    numbers = [number for item in value if (number := Number(0.0, 1.0).plain(item)) is not None]
    is_valid = len(numbers) == len(value) and all(a < b for a, b in pairwise(numbers))
    return tuple(numbers) if is_valid else None


def _words(value: Any) -> str | tuple[str, ...] | None:
    if isinstance(value, str):
        return value if value == "english" else None
    strings = isinstance(value, Collection) and all(isinstance(word, str) for word in value)
    return tuple(value) if strings else None


FLAG = OneOf((True, False))
_FLAGS = dict.fromkeys(("1", "yes", "true", "on"), True) | dict.fromkeys(("0", "no", "false", "off"), False)

# The tree.
CLUSTERS = Whole(2)
MAX_DEPTH = Whole(1)
TREE_DEPTH = Whole(1, 1000)  # of any tree: some steps take time for every node above a label
TREES = Whole(1, 10_000)
SEED = Whole(0)

# The solver.
LOSS = OneOf(_native.LOSSES)
COST = Number(SMALLEST_COST, LARGEST_VALUE)
TOLERANCE = Number(0.0, 1.0, above=True)

# Prediction.
TOP = Whole(1)
BEAM = Whole(1)
SCORE = OneOf(_native.SCORES)
AUTO: Final = "auto"  # chosen when the model is trained
STORED_SCORE = OneOf((AUTO, *_native.SCORES))
SCORE_SCALE = Number(0.001, 1000.0)
PATH_WEIGHT = Number(0.05, 1.0)
WORDS = Whole(0)

# The map of a tree: levels below a node, and boxes.
MAP_DEPTH = Whole(1, 8)
MAP_BOXES = Whole(1, 5000)

# Decisions.
THRESHOLD = Number(0.0, 1.0)
THRESHOLD_OR_STORED = Value(
    "a number from 0 to 1 or 'stored'",
    lambda value: value if isinstance(value, str) and value == "stored" else THRESHOLD.plain(value),
)
TARGET = Number(0.0, 1.0, above=True)
F1 = OneOf(("micro_f1", "macro_f1", "row_f1"))
DECISION_METRIC = OneOf((*F1.values, "precision", "recall"))
DECISION_ROWS = Whole(0)
# The points of a map from scores to probabilities.
POINTS = Value("2 to 100 increasing numbers from 0 to 1", _increasing)

# Text.
TEXT_FORMAT = OneOf(("tsv", "csv", "jsonl", "txt", "parquet", "arrow"))
DATA_FORMAT = OneOf((*TEXT_FORMAT.values, "svm", "npz"))
MIN_DF = Whole(1)
UNICODE = OneOf(("nfkc",))
STOP_WORDS = Value("'english' or a list of words", _words)

# The machine.
PATH = Value("a path", lambda value: os.fspath(value) if isinstance(value, str | os.PathLike) else None)
THREADS = Whole(1, 1024)
PARTS = Whole(1, 1_000_000)
OPTIONAL_THREADS = Optional(THREADS)
MEMORY = Size()

# Compact models.
WEIGHTS = OneOf(tuple(name for name in _native.CODECS if name != "sparse"))
SMALL_WEIGHTS = OneOf(tuple(name for name in WEIGHTS.values if name != "float32"))
PRUNE = Number(0.0, LARGEST_VALUE)
MAX_LOSS = Loss()
MAX_SIZE = Size()

# The service.
PORT = Whole(0, 65535)
WATCH = Number(0.0, 86400.0)

# Tuning.
MAX_TIME = Duration()
TUNING_METRIC = OneOf(("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "F1"))
VALIDATION_SHARE = Number(0.01, 0.5)
TEST_SHARE = Number(0.0, 1.0, above=True)


def checked(name: str, value: Any, limit: Limit) -> Any:
    """Return a value as a plain Python object; refuse one that is not allowed, under this name."""
    if value is None and isinstance(limit, Optional):
        return None
    plain = None if value is None else limit.plain(value)
    if plain is None:
        expected = str(limit)
        if isinstance(limit, Whole) and isinstance(value, int) and value > limit.most:
            expected = f"at most {limit.most:,}"
        raise InputError(f"{name} is {reprlib.repr(value)}, expected {expected}")
    return plain


def from_text(value: Any, limit: Limit) -> Any:
    """Return what the text of a value means; other values, and text that means nothing, stay as they are."""
    if not isinstance(value, str):
        return value
    limit, text = (limit.limit if isinstance(limit, Optional) else limit), value.strip()
    try:
        if isinstance(limit, Whole):
            return int(text)
        if isinstance(limit, Number):
            return float(text)
        if isinstance(limit, PerDepth):
            numbers = tuple(map(float, text.split(",")))
            return numbers if len(numbers) > 1 else numbers[0]
        if isinstance(limit, Span):
            ends = tuple(map(int, text.split(",")))
            return ends * 2 if len(ends) == 1 else ends
    except ValueError:
        return value
    if limit is FLAG:
        return _FLAGS.get(text.lower(), value)
    underscored = text.replace("-", "_")  # squared-hinge is squared_hinge
    return underscored if isinstance(limit, OneOf) and underscored in limit.values else value


def check_fields(target: Any, table: Mapping[str, Limit]) -> None:
    """Check fields of a frozen dataclass, and replace each by its plain value."""
    for name, limit in table.items():
        object.__setattr__(target, name, checked(name, getattr(target, name), limit))
