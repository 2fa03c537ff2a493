"""The tree of a model as boxes of a map: for one node as much as can be seen, the rest summed up."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from labeltree.base.limits import Whole, checked
from labeltree.explain.label import N_NAMED, frequent_labels, label_name, path_to
from labeltree.trees.tree import node_alpha

if TYPE_CHECKING:
    from labeltree.model.model import Model
    from labeltree.serve.model_quality import LabelHits


# A node or a label of the map, with the fields of `labeltree.serve.responses.Box`: a node has "node", a label
# has "label". The "rest" of a node sums up the children that are not listed.
Box: TypeAlias = dict[str, Any]


def tree_map(
    model: Model,
    tree: int = 0,
    node: int | None = None,
    *,
    depth: int = 2,
    limit: int = 400,
    label: int | None = None,
    hits: LabelHits | None = None,
) -> dict[str, Any]:
    """Describe a node and what is below it, the largest parts first.

    The bytes of a node's block belong to its children in equal shares; a child has its share and all that is
    below it. The default node is the one above the label, which is listed even if it is small, or the root.
    Of at most `limit` boxes, the largest are opened first; the "rest" of a node sums up its other children.
    """
    checked("tree", tree, Whole(0, len(model.trees) - 1))
    boxes = _Boxes(model, tree, hits)
    wanted: set[int] = set()
    if label is not None:
        checked("label", label, Whole(0, model.n_labels - 1))
        steps = path_to(boxes.shape, label)
        node = steps[-1][0] if node is None else node
        wanted = {int(boxes.shape.child_ptr[u]) + column for u, column in steps}
    node = checked("node", node or 0, Whole(0, boxes.shape.n_nodes - 1))
    root = boxes.whole(node)
    left, order = limit, 0
    largest = [(-root["bytes"], order, root, depth)]
    while largest and left > 0:
        _, _, box, levels = heapq.heappop(largest)
        # Half of what is left at most, except for the node itself: others are opened, too.
        children = boxes.open(box, left if box is root else max(1, left // 2), wanted)
        left -= len(children)
        for child in children:
            if "node" in child and levels > 1:
                order += 1
                heapq.heappush(largest, (-child["bytes"], order, child, levels - 1))
    above: list[Box] = []
    while node:
        node = int(boxes.shape.parent[node])
        above.append(boxes.whole(node))
    return {"tree": tree, "trees": len(model.trees), "path": above[::-1], "root": root}


class _Boxes:
    """Makes the boxes of one tree."""

    def __init__(self, model: Model, tree: int, hits: LabelHits | None) -> None:
        self.model, self.hits = model, hits
        self.part = model.trees[tree]
        self.shape = self.part.tree
        # The bytes of each node and of all nodes below it.
        self.below = self.part.node_bytes.copy()
        for start, end in reversed(list(itertools.pairwise(self.shape.level_ptr[1:].tolist()))):
            np.add.at(self.below, self.shape.parent[start:end], self.below[start:end])
        self._alpha = node_alpha(self.shape, self.part.used_features)

    def whole(self, node: int) -> Box:
        """Return a node with the bytes of all that is below it."""
        return self.box(node, float(self.below[node]))

    def box(self, child: int, n_bytes: float) -> Box:
        """Return a node, or a label given by its complement, with its share of the bytes."""
        shape, model = self.shape, self.model
        box: Box = {"bytes": round(n_bytes)}
        if child < 0:
            label, labels = ~child, np.array([~child])
            box |= {"label": label, "name": label_name(model, label)}
            box["instances"] = int(model.label_counts[label])
        else:
            labels = shape.labels[shape.first[child] : shape.last[child]]
            box |= {"node": child, "names": list(frequent_labels(model, labels, N_NAMED))}
            box["features"] = int(self.part.used_features[child])
            if not np.isnan(self._alpha[child]):
                box["alpha"] = round(float(self._alpha[child]), 4)
        box["labels"] = labels.size
        precision = None if self.hits is None else self.hits.precision(labels)
        if precision is not None:
            box["precision"] = round(precision, 4)
        return box

    def open(self, box: Box, most: int, wanted: set[int]) -> list[Box]:
        """Give a box its largest children, at most so many; return them."""
        node = box["node"]
        first, last = int(self.shape.child_ptr[node]), int(self.shape.child_ptr[node + 1])
        children = self.shape.children[first:last]
        inner, share = children >= 0, int(self.part.node_bytes[node]) / children.size
        sizes = np.full(children.size, share)
        sizes[inner] += self.below[children[inner]]
        counts = np.zeros(children.size, np.int64)
        counts[~inner] = self.model.label_counts[~children[~inner]]
        needed = np.isin(np.arange(first, last), list(wanted))
        shown = np.lexsort((-counts, -sizes, ~needed))[:most]
        shown = shown[np.lexsort((-counts[shown], -sizes[shown]))]
        listed = [self.box(int(children[k]), sizes[k]) for k in shown.tolist()]
        box["children"] = listed
        if shown.size < children.size:
            box["rest"] = {
                "children": children.size - shown.size,
                "labels": box["labels"] - sum(child["labels"] for child in listed),
                "bytes": round(float(np.delete(sizes, shown).sum())),
            }
        return listed
