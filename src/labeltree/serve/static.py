"""The page as one file: the tree, the sizes and the labels of a model, without a service."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from labeltree.base.limits import MAP_DEPTH
from labeltree.explain.parts import label_name
from labeltree.serve.assets import SCRIPTS, STYLE, asset, with_inline_files
from labeltree.serve.overview import Results, overview
from labeltree.serve.tree_map import Box, tree_view

if TYPE_CHECKING:
    from labeltree.model.model import Model

# Bounds of the file, whatever the size of the model: boxes of all trees, and of each at least; labels that
# can be found; characters of a name.
_BOXES, _LEAST_BOXES = 4000, 100
_LABELS = 20_000
_NAME_LENGTH = 100


class StaticPage(TypedDict):
    """A page, and how much of the model is in it."""

    content: bytes
    boxes: int
    labels: int


def static_page(model: Model, name: str, results: Results) -> StaticPage:
    """Make a page that needs nothing else: no service, no network, no other file.

    Parameters
    ----------
    model : Model
    name : str
        What the page calls the model.
    results : Results
        What was measured about the model.

    Returns
    -------
    StaticPage
        The largest groups of each tree are in it, and the most frequent labels; the rest is summed up.
    """
    limit = max(_LEAST_BOXES, _BOXES // len(model.trees))
    roots = [
        tree_view(model, tree, depth=MAP_DEPTH.most, limit=limit, hits=results.hits)["root"]
        for tree in range(len(model.trees))
    ]
    frequent = np.argsort(-model.label_counts, kind="stable")[:_LABELS]
    boxes = [box for root in roots for box in _all_boxes(root)]
    for box in boxes:
        if "name" in box:
            box["name"] = _short(box["name"])
        else:
            box["names"] = [_short(name) for name in box["names"]]
    data = {
        "model": {"name": name},
        "overview": {**overview(model, results), "labels_embedded": frequent.size},
        "trees": roots,
        "labels": {
            "numbers": frequent.tolist(),
            "names": [_short(label_name(model, label)) for label in frequent.tolist()],
            "counts": model.label_counts[frequent].tolist(),
            "nodes": [_lowest_nodes(model, t, root)[frequent].tolist() for t, root in enumerate(roots)],
        },
    }
    return {"content": _render(data).encode(), "boxes": len(boxes), "labels": frequent.size}


def _all_boxes(box: Box) -> Iterator[Box]:
    yield box
    for child in box.get("children", ()):
        yield from _all_boxes(child)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "\u2026"


def _lowest_nodes(model: Model, tree: int, root: Box) -> Any:
    """Return for each label the lowest node above it that is in the page."""
    shape = model.trees[tree].tree
    nodes = np.zeros(model.n_labels, np.int32)
    # Nodes are numbered breadth-first, so a deeper one replaces those above it.
    for node in sorted(box["node"] for box in _all_boxes(root) if "node" in box):
        nodes[shape.labels[shape.first[node] : shape.last[node]]] = node
    return nodes


def _render(data: dict[str, Any]) -> str:
    """Return the page. Its policy allows its own style and script by their hashes, and nothing else."""
    style, script = asset(STYLE), "".join(map(asset, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # No name can end the element: JSON may write any character as an escape.
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        embedded = embedded.replace(character, f"\\u{ord(character):04x}")
    page = with_inline_files(style, script, f'<script type="application/json" id="data">{embedded}</script>')
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}', 1)


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
