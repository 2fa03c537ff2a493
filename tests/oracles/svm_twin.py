"""The reader's twin: LIBSVM text parsed by plain Python, slowly and plainly right."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
from scipy import sparse


class Fault(Exception):
    """A file that cannot be read: the line, or None for the file as a whole."""

    def __init__(self, line: int | None = None) -> None:
        super().__init__(line)
        self.line = line


NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LABEL = re.compile(r"0|[1-9][0-9]*")


def nearest_float32(text: str) -> np.float32:
    """Correctly rounded, ties to even: no detour over a double."""
    exact = Fraction(text)
    if abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return np.float32(np.inf)
    with np.errstate(over="ignore"):
        near = np.float32(np.clip(float(exact), -np.finfo(np.float32).max, np.finfo(np.float32).max))
    around = [near, np.nextafter(near, np.float32(-3e38)), np.nextafter(near, np.float32(3e38))]
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), f.view(np.uint32) & 1))


def parse_feature(token: str, one_based: bool | None) -> tuple[int, np.float32]:
    index, colon, value = token.partition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,19}", index) or int(index) > 2**31 - 2:
        raise Fault
    if one_based and int(index) == 0:
        raise Fault
    if not NUMBER.fullmatch(value):
        raise Fault
    number = nearest_float32(value)
    if not np.isfinite(number):
        raise Fault
    return int(index), number


def parse(text: str, one_based: bool | None = None):
    """X, Y and names; Fault where it cannot be read."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    header = None
    if lines and re.fullmatch(
        r"(0|[1-9][0-9]{0,8})([ \t\r]+(0|[1-9][0-9]{0,8})){2}", lines[0].strip(" \t\r")
    ):
        header = [int(word) for word in lines[0].split()]
    rows, blank = [], 0
    width, zero = 0, False
    for number, line in enumerate(lines[bool(header) :], 1 + bool(header)):
        try:
            body, comment, _ = line.partition("#")
            tokens = re.findall(r"[^ \t\r]+", body)
            if not tokens and comment:
                continue
            blank = 0 if tokens else blank + 1
            labels = tokens.pop(0).split(",") if tokens and ":" not in tokens[0] else []
            features = [parse_feature(token, one_based) for token in tokens]
            indices = [index for index, _ in features]
            if "" in labels or len(set(indices)) < len(indices):
                raise Fault
            if header and max(indices, default=-1) > header[1] - (one_based is not True):
                raise Fault
        except Fault:
            rows.append((number, labels[: labels.index("")] if "" in labels else labels, []))
            raise Fault(beyond_header(rows[:-1], rows, header) or number) from None
        width, zero = max([width, *(i + 1 for i in indices)]), zero or 0 in indices
        rows.append((number, labels, features))
    content = len(rows) - blank
    rows = rows[: max(content, min(len(rows), header[0]))] if header else rows[:content]
    every = [label for _, labels, _ in rows for label in labels]
    numbers = all(map(is_number, every))
    if number := beyond_header(rows, rows, header):
        raise Fault(number)
    if not rows or not every or (header and (len(rows) != header[0] or len(set(every)) > header[2])):
        raise Fault(None)
    names = None if numbers else tuple(dict.fromkeys(every))
    column = {label: int(label) if numbers else names.index(label) for label in every}
    shift = int(one_based if one_based is not None else not zero and not header)
    shape = len(rows), header[1] if header else max(0, width - shift)
    X = sparse.lil_matrix(shape, dtype=np.float32)
    Y = sparse.lil_matrix((len(rows), _labels(header, column, names)), dtype=np.float32)
    for row, (_, labels, features) in enumerate(rows):
        for index, value in features:
            X[row, index - shift] = value
        for label in labels:
            Y[row, column[label]] = 1
    return X.tocsr(), Y.tocsr(), names


def is_number(label: str) -> bool:
    return bool(LABEL.fullmatch(label)) and int(label) < 2**31 - 1


def beyond_header(rows, seen, header):
    """Line of the first label beyond the header's, as long as no label seen is a name."""
    if not header or not all(is_number(label) for _, labels, _ in seen for label in labels):
        return None
    beyond = (number for number, labels, _ in rows if any(int(label) >= header[2] for label in labels))
    return next(beyond, None)


def _labels(header, column, names):
    if names:
        return len(names)
    return header[2] if header else max(column.values()) + 1
