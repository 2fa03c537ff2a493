"""Turn figures into lines of text, short and aligned."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from labeltree.system import human_bytes

_BAR = 24  # characters at most


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output, a key a line."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    print("{", ",\n".join(lines), "}", sep="\n")


def note(message: str) -> None:
    """Tell the reader something that is no error, on standard error."""
    print("note:", message, file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Tell what the library warns of as notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)


def human_seconds(seconds: float) -> str:
    """Write a time for people.

    Examples
    --------
    >>> human_seconds(0.0123), human_seconds(75), human_seconds(7265)
    ('0.01 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def facts(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Align names and what is to be said about them."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return [f"{name:<{width}}  {text}" for name, text in pairs]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 0) -> list[str]:
    """Align columns to the right, the first `left` of them to the left."""
    cells = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            f"{cell:<{width}}" if i < left else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def plural(number: int, noun: str) -> str:
    """Write a number with its noun: 1 tree, 3 trees."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def shape(figures: dict[str, Any]) -> str:
    """Say what data holds."""
    return ", ".join(plural(figures[name], name[:-1]) for name in ("instances", "features", "labels"))


def forest(figures: dict[str, Any]) -> str:
    """Say what the trees are like."""
    return f"{plural(figures['trees'], 'tree')}, {plural(figures['nodes'], 'node')}, depth {figures['depth']}"


def depth_table(depths: Iterable[dict[str, Any]]) -> list[str]:
    """Show a tree depth by depth."""
    return table(
        ("depth", "nodes", "children", "used features", "alpha", "weights"),
        (
            (
                str(row["depth"]),
                f"{row['nodes']:,}",
                f"{row['children']:,}",
                f"{row['mean_used_features']:,.0f}",
                "" if row["alpha"] is None else f"{row['alpha']:.3f}",
                f"{row['weights']:,}",
            )
            for row in depths
        ),
    )


def shape_lines(model_bytes: int, shapes: Sequence[list[dict[str, Any]]], *, text: bool) -> list[str]:
    """Draw the trees' shapes, from `anatomy.tree_shape`."""
    lines: list[str] = []
    for t, shape in enumerate(shapes):
        title = [f"tree {t}"] if len(shapes) > 1 else []
        lines += [*title, *_with_bars(_shape_table(shape), [row["bytes"] for row in shape]), ""]
    inside = sum(row["bytes"] for shape in shapes for row in shape)
    return [
        *lines,
        "labels: those that hang from the nodes of a depth; instances: theirs, an instance",
        "counted once for each label; used features: a node's, on average; the other",
        f"{human_bytes(model_bytes - inside)} of the model are headers, the labels' counts and names"
        + ", and the words" * text,
    ]


def _shape_table(shape: list[dict[str, Any]]) -> list[str]:
    return table(
        ("depth", "nodes", "labels", "instances", "used features", "alpha", "bytes"),
        (
            (
                str(row["depth"]),
                f"{row['nodes']:,}",
                f"{row['labels']:,}",
                f"{row['label_instances']:,}",
                f"{row['mean_used_features']:,.0f}",
                "" if row["alpha"] is None else f"{row['alpha']:.3f}",
                human_bytes(row["bytes"]),
            )
            for row in shape
        ),
    )


def _with_bars(table: list[str], sizes: list[int]) -> list[str]:
    """Draw each depth's bytes beside its line, as wide as the terminal allows."""
    head, *lines = table
    room = min(_BAR, shutil.get_terminal_size((100, 24)).columns - max(map(len, table)) - 3)
    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    bars = (block * max(1, round(room * size / max(sizes))) if room > 3 else "" for size in sizes)
    return [head, *(f"{line}  {bar}".rstrip() for line, bar in zip(lines, bars, strict=True))]


def estimate_lines(report: Any, memory_limit: int | None) -> list[str]:
    """Answer how large a model will be, from `Plan.report`."""
    memory = (
        (report["available_memory_bytes"], "available") if memory_limit is None else (memory_limit, "allowed")
    )
    exact, per_weight = f"{report['model_bytes']:,} bytes", report["bytes_per_weight"]
    if per_weight:
        exact += f", {per_weight:.2f} a weight"
    return [
        *facts(
            [
                ("model", f"{human_bytes(report['model_bytes'])} on disk, exactly ({exact})"),
                (
                    "paper",
                    f"{human_bytes(report['paper_tree_bytes'])} as a sparse tree, "
                    f"{human_bytes(report['paper_ovr_bytes'])} one-vs-rest, ratio {report['ratio']:.3g}",
                ),
                ("memory", _needed(report["training_memory_bytes"], *memory)),
                ("disk", _needed(report["model_bytes"], report["free_disk_bytes"], "free")),
                ("data", shape(report)),
                ("trees", f"{forest(report)}, {plural(report['weights'], 'weight')}"),
            ]
        ),
        "",
        *depth_table(report["depths"]),
    ]


def _needed(needed: int, have: int, word: str) -> str:
    return f"{human_bytes(needed)} needed, {human_bytes(have)} {word}"


def metric_table(percent: dict[str, float]) -> list[str]:
    """Show metrics such as P@1 by their names and ranks."""
    names = list(dict.fromkeys(key.split("@")[0] for key in percent))
    ranks = list(dict.fromkeys(key.split("@")[1] for key in percent))
    rows = ([name, *(f"{percent[f'{name}@{k}']:.2f}" for k in ranks)] for name in names)
    return table(["%", *(f"@{k}" for k in ranks)], rows, left=1)
