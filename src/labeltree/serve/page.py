"""The page: its files for the service, or one file with the tree, the sizes and the labels of a model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.base.limits import MAP_DEPTH
from labeltree.explain.label import label_name
from labeltree.explain.overview import describe_model
from labeltree.serve.model_quality import Measurements
from labeltree.serve.tree_map import Box, tree_map

if TYPE_CHECKING:
    from labeltree.model.model import Model

# The scripts in the order in which they are loaded, and the type of every file that the service sends.
SCRIPTS = (
    *("dom.js", "source.js", "words.js", "ask.js", "squares.js"),
    *("map.js", "labels.js", "about.js", "main.js"),
)
_STYLE = "page.css"
FILES = {
    "index.html": "text/html; charset=utf-8",
    _STYLE: "text/css; charset=utf-8",
    **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
}
# Only files of the service itself; no frame, no form to other sites, no code in the markup.
SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Bounds of the single file, whatever the size of the model: boxes of all trees, and of each at least;
# labels that can be found; characters of a name.
_BOXES, _LEAST_BOXES = 4000, 100
_LABELS = 20_000
_NAME_LENGTH = 100


@cache
def page_file(name: str) -> str:
    """Return the content of one of `FILES`."""
    return (files("labeltree.serve") / "web" / name).read_text(encoding="utf-8")


def overview(model: Model, measured: Measurements) -> dict[str, Any]:
    """Return the figures of a model, when it was written, its frontier and its precision."""
    figures = describe_model(model)
    del figures["model"]  # the path of the directory
    hits = measured.hits
    return {
        **figures,
        "bytes": model.bytes,
        "written": measured.written,
        "frontier": measured.frontier,
        "precision": None if hits is None else hits.precision(),
        "predictions": 0 if hits is None else int(hits.predicted.sum()),
    }


def make_page(model: Model, name: str, measured: Measurements) -> tuple[str, int, int]:
    """Return a page that needs no service and no other file, and how many boxes and labels are in it."""
    limit = max(_LEAST_BOXES, _BOXES // len(model.trees))
    roots = [
        tree_map(model, tree, depth=MAP_DEPTH.most, limit=limit, hits=measured.hits)["root"]
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
        "overview": {**overview(model, measured), "labels_embedded": frequent.size},
        "trees": roots,
        "labels": {
            "numbers": frequent.tolist(),
            "names": [_short(label_name(model, label)) for label in frequent.tolist()],
            "counts": model.label_counts[frequent].tolist(),
            "nodes": [_lowest_nodes(model, t, root)[frequent].tolist() for t, root in enumerate(roots)],
        },
    }
    return _render(data), len(boxes), frequent.size


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
    style, script = page_file(_STYLE), "".join(map(page_file, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # No name can end the element: JSON may write any character as an escape.
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        embedded = embedded.replace(character, f"\\u{ord(character):04x}")
    data_element = f'<script type="application/json" id="data">{embedded}</script>'
    page = re.sub(r'<script defer src="page/[^"]+"></script>\n', "", page_file("index.html"))
    page = page.replace(f'<link rel="stylesheet" href="page/{_STYLE}">', f"<style>{style}</style>")
    page = page.replace("</body>", f"{data_element}\n<script>{script}</script>\n</body>")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}', 1)


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
