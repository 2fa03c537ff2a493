"""Write a label tree for other programs: nested lists (JSON), Graphviz (DOT), and a drawing (SVG)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from labeltree.trees.tree import LabelTree

FORMS = ("json", "dot", "svg")
_LINE, _STEP, _LETTER = 18, 150, 6.6  # pixels of an SVG: a line of text, a depth, a character
_LONGEST_NAME = 40


def tree_text(tree: LabelTree, names: Sequence[str] | None, form: str, most: int | None = None) -> str:
    """Return a tree as nested lists (for ``labeltree train --tree``), as a graph, or as a drawing.

    Without names, labels are numbers. ``most`` is how many children of each node are shown, with the number
    of the others; JSON is always complete.
    """
    if form == "json":
        return json.dumps(_nested(tree, names), ensure_ascii=False, indent=0) + "\n"
    shown = [str(label) for label in range(tree.n_labels)] if names is None else names
    lines = _dot(tree, shown, most) if form == "dot" else _svg(tree, shown, most)
    return "\n".join(lines) + "\n"


def _nested(tree: LabelTree, names: Sequence[str] | None) -> list[Any]:
    """Return nested lists; from the last node up, so that a deep tree needs no deep recursion."""
    made: list[list[Any]] = [[] for _ in range(tree.n_nodes)]
    for node in range(tree.n_nodes - 1, -1, -1):
        for child in tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist():
            label = ~child if names is None else names[~child]
            made[node].append(made[child] if child >= 0 else label)
    return made[0]


@dataclass(frozen=True)
class _Item:
    """What is drawn in one place: a node, a label, or how many children are left out."""

    depth: int
    parent: int
    text: str
    kind: str


def _items(tree: LabelTree, names: Sequence[str], most: int | None) -> list[_Item]:
    """Return what is drawn, from top to bottom; each with the place of its parent."""
    n_labels = tree.last - tree.first
    items = [_Item(0, -1, f"{int(n_labels[0]):,} labels", "node")]
    waiting: list[tuple[int, int, int]] = [(0, 0, 0)]  # a node, its place, and how many children are drawn
    while waiting:
        node, place, done = waiting.pop()
        children = tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]].tolist()
        depth = items[place].depth + 1
        if done == len(children):
            continue
        if most is not None and done == most:
            items.append(_Item(depth, place, f"{len(children) - done:,} more", "rest"))
            continue
        waiting.append((node, place, done + 1))
        child = children[done]
        if child >= 0:
            waiting.append((child, len(items), 0))
            items.append(_Item(depth, place, f"{int(n_labels[child]):,} labels", "node"))
        else:
            items.append(_Item(depth, place, names[~child], "label"))
    return items


def _dot(tree: LabelTree, names: Sequence[str], most: int | None) -> Iterator[str]:
    shapes = {"node": "ellipse", "label": "box", "rest": "plaintext"}
    yield "digraph labels {"
    yield '  rankdir=LR; node [fontname="sans-serif", fontsize=10];'
    for place, item in enumerate(_items(tree, names, most)):
        # Graphviz reads backslashes as escapes, and a quote ends the string.
        text = item.text.replace("\\", "\\\\").replace('"', '\\"')
        yield f'  {place} [label="{text}", shape={shapes[item.kind]}];'
        if item.parent >= 0:
            yield f"  {item.parent} -> {place};"
    yield "}"


def _svg(tree: LabelTree, names: Sequence[str], most: int | None) -> Iterator[str]:
    items = _items(tree, names, most)
    texts = [
        item.text if len(item.text) <= _LONGEST_NAME else item.text[: _LONGEST_NAME - 1] + "…"
        for item in items
    ]
    places = [(10 + _STEP * item.depth, _LINE * (row + 1)) for row, item in enumerate(items)]
    width = max(x + _LETTER * len(text) for (x, _), text in zip(places, texts, strict=True)) + 20
    height = _LINE * (len(items) + 1)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" font-size="12">'
    )
    yield "<style>path{fill:none;stroke:#999}.node{font-weight:bold}.rest{fill:#777}</style>"
    yield f'<rect width="{width:.0f}" height="{height}" fill="white"/>'
    for item, (x, y), text in zip(items, places, texts, strict=True):
        if item.parent >= 0:
            start_x, start_y = places[item.parent]
            yield f'<path d="M{start_x + 8} {start_y + 4}V{y - 4}H{x - 4}"/>'
        full = f"<title>{_xml(item.text)}</title>" if text != item.text else ""
        yield f'<text class="{item.kind}" x="{x}" y="{y}">{full}{_xml(text)}</text>'
    yield "</svg>"


def _xml(text: str) -> str:
    """Escape text for XML, which has no place for control characters."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
