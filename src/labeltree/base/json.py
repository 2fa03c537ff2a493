"""Strict JSON: finite numbers and valid strings only, when it is read and when it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def parse_json(content: bytes) -> Any:
    """Parse JSON in UTF-8, whose numbers must be finite, and whose strings must be valid Unicode.

    The message of a ValueError is one short clause.
    """
    try:
        text = content.decode()
        value = _DECODER.decode(text)
        if "\\u" in text:  # only an escape can stand for half a character
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except UnicodeEncodeError:
        raise ValueError("a string contains an unpaired surrogate") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def to_json(value: Any) -> str:
    """Return a value as JSON, which has no infinity and no NaN: they become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
