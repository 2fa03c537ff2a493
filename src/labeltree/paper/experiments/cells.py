"""Write the values of a table for readers: thousands separators, units, and as many decimals as needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from labeltree.base.system import human_bytes

HUGE = 1e12  # from here on, numbers are written with an exponent


def format_column(key: str, values: Sequence[Any]) -> list[str]:
    """Write a column; its fractions all get as many decimals as the largest one needs.

    Parameters
    ----------
    key : str
        The key of the column: ``..._bytes`` and ``..._share`` get units.
    values : sequence

    Returns
    -------
    list of str

    Examples
    --------
    >>> format_column("ratio", [0.38731, 0.087, None])
    ['0.3873', '0.0870', '-']
    >>> format_column("threshold", [0.0, 0.02, 0.1])
    ['0.00', '0.02', '0.10']
    >>> format_column("ratio", [1.0, 0.00000214])  # too small for the decimals of the largest
    ['1', '2.14e-06']
    """
    sizes = [abs(value) for value in values if isinstance(value, float) and value]
    floats = all(isinstance(value, (float, type(None))) for value in values)
    if sizes and floats and max(sizes) >= HUGE:
        return ["-" if value is None else f"{value:.2e}" for value in values]
    if sizes and floats and max(sizes) < 1000:
        decimals = 3 - max(math.floor(math.log10(max(sizes))), -1)
        while decimals > 0 and all(round(size, decimals - 1) == size for size in sizes):
            decimals -= 1
        if min(sizes) >= 10**-decimals and not key.endswith(("bytes", "share")):
            return ["-" if value is None else f"{value:.{decimals}f}" for value in values]
    return [format_cell(key, value) for value in values]


def format_cell(key: str, value: Any) -> str:
    """Write one value; ``..._bytes`` and ``..._share`` get units.

    Examples
    --------
    >>> format_cell("labels", 4108), format_cell("tree_bytes", 1_300_000_000), format_cell("ratio", 0.25173)
    ('4,108', '1.3 GB', '0.2517')
    >>> format_cell("one_instance_share", 0.125), format_cell("weights", 2e14), format_cell("note", None)
    ('12.5%', '2.00e+14', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_cell(key, item) for item in value) or "none"
    if not isinstance(value, (int, float)):
        return str(value)
    if key.endswith("bytes"):
        return human_bytes(round(value))
    if key.endswith("share"):
        return f"{100 * value:.3g}%"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= HUGE or 0 < abs(value) < 1e-4:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def is_number(text: str) -> bool:
    """Return whether a value that is already written is a number.

    Examples
    --------
    >>> is_number("0.9999995"), is_number("bibtex")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
