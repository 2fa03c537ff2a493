"""The least that each kernel has to do: multiply-adds, and bytes that go to or come from memory.

Every count is of what the result needs, not of what the kernel does, and assumes that whatever is used again
is still in the cache.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

INDEX, VALUE = 4, 4  # bytes of a feature's number and of its value


@dataclass(frozen=True)
class Work:
    """Multiply-adds and bytes, at least."""

    multiply_adds: int
    bytes: int

    def seconds(self, peak):
        """Time that a machine of this peak (`machine_peak`) needs at least, and what limits it."""
        by = {
            "multiply-adds": self.multiply_adds / peak["multiply_adds_per_second"],
            "bytes": self.bytes / peak["bytes_per_second"],
        }
        limit = max(by, key=by.get)
        return by[limit], limit


def label_vectors(dataset, vector_nonzeros):
    """Each feature of each (label, instance) pair is read and added once; the vectors are written once."""
    entries = int(np.diff(dataset.X.indptr).astype(np.int64) @ np.diff(dataset.Y.indptr))
    return Work(entries, (INDEX + VALUE) * (entries + vector_nonzeros))


def split_nodes(tree, label_counts, clusters, max_depth):
    """Nodes that K-means splits: more labels with instances than clusters, and room for another depth."""
    known = np.concatenate([[0], np.cumsum(label_counts[tree.labels] > 0)])
    return np.flatnonzero(
        (known[tree.last] - known[tree.first] > clusters) & (tree.node_depth < max_depth - 1)
    )


def clustering(tree, nodes, vector_ptr, clusters, iterations):
    """In each iteration, each entry of a label vector meets each centroid of its node."""
    before = np.concatenate([[0], np.cumsum(np.diff(vector_ptr)[tree.labels])])
    entries = int((before[tree.last[nodes]] - before[tree.first[nodes]]).sum()) * iterations
    return Work(entries * clusters, (INDEX + VALUE) * entries)


def plan(part, label_counts):
    """Each node reads the instances of its labels, and the features of those instances."""
    before = np.concatenate([[0], np.cumsum(label_counts[part.tree.labels])])
    listed = int((before[part.tree.last] - before[part.tree.first])[1:].sum())  # the root takes all
    return Work(0, INDEX * (int(part.nonzeros.sum()) + listed))


def solver_pass(part, write=False):
    """Each feature of a node's instances meets the weights of each child twice: margin, and step.

    The instances are read once for all children, and the weights written once, if at all.
    """
    entries = part.nonzeros + part.bias * part.instances
    written = int(part.weight_ptr[-1]) if write else 0
    return Work(
        2 * int(entries @ part.tree.child_count),
        (INDEX + VALUE) * int(part.nonzeros.sum()) + VALUE * written,
    )


@dataclass(frozen=True, eq=False)
class Visits:
    """What a beam search has to look at: the nodes whose children may still be among the best."""

    labels: np.ndarray  # rows x top, best first; -1 where fewer were reached
    query: np.ndarray  # of each visit
    multiply_adds: np.ndarray  # of each visit
    touched: int  # different weights of all visits

    def batch(self):
        """All rows at once: a weight comes from memory once, whoever asks for it."""
        return Work(int(self.multiply_adds.sum()), VALUE * self.touched)

    def singles(self, rows):
        """The first rows, one by one: every weight comes from memory."""
        work = int(self.multiply_adds[self.query < rows].sum())
        return Work(work, VALUE * work)


def beam_search(model, X, beam, top):
    """Search a model's first tree slowly, to count the visits that no search with this beam can leave out.

    A node must be visited if it scores no less than the last of the best labels: then one of its labels could
    be among them. The work of a visit is matched features x children.
    """
    tree = model.trees[0].tree
    X = sparse.csr_matrix(X)[:, : model.n_features]
    if model.bias:
        X = sparse.csr_matrix(sparse.hstack([X, np.full((X.shape[0], 1), model.bias, np.float32)]))
    row_of = np.full(model.n_features + 1, -1)
    query, node, score = np.arange(X.shape[0]), np.zeros(X.shape[0], int), np.zeros(X.shape[0])
    seen, leaves = [], []
    while query.size:
        below = []
        for u in np.unique(node):
            here = node == u
            features, weights = model.block(u)
            row_of[features] = np.arange(features.size)
            known = _known(X[query[here]], row_of, features.size)
            row_of[features] = -1
            seen.append((query[here], score[here], known, weights.shape[1]))
            reached = score[here, None] - np.logaddexp(0, -3 * (known @ weights))
            children = tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]]
            asked = np.repeat(query[here], children.size)
            offered = (asked, np.tile(children, known.shape[0]), reached.ravel())
            for kind, into in ((children < 0, leaves), (children >= 0, below)):
                chosen = np.tile(kind, known.shape[0])
                into.append(tuple(column[chosen] for column in offered))
        query, node, score, _ = _best(below, beam)
    query, leaf, score, rank = _best(leaves, top)
    labels, bar = np.full((X.shape[0], top), -1), np.full(X.shape[0], -np.inf)
    labels[query, rank] = ~leaf
    bar[query[rank == top - 1]] = score[rank == top - 1]
    return _count(seen, labels, bar)


def _known(rows, row_of, features):
    """The rows without the features that a node does not know, numbered as in its block."""
    at = row_of[rows.indices]
    before = np.concatenate([[0], np.cumsum(at >= 0)])
    return sparse.csr_matrix(
        (rows.data[at >= 0], at[at >= 0], before[rows.indptr]), (rows.shape[0], features)
    )


def _best(parts, limit):
    """The best of each query among (query, id, score), and their ranks."""
    query, ids, score = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((ids, -score, query))
    query, ids, score = query[order], ids[order], score[order]
    rank = np.arange(query.size) - np.searchsorted(query, query)
    kept = rank < limit
    return query[kept], ids[kept], score[kept], rank[kept]


def _count(seen, labels, bar):
    queries, work, touched = [], [], 0
    for query, score, known, children in seen:
        needed = score >= bar[query] - 1e-6  # the kernel computes in single precision
        known = known[needed]
        queries.append(query[needed])
        work.append(np.diff(known.indptr).astype(np.int64) * children)
        touched += np.unique(known.indices).size * children
    return Visits(labels, np.concatenate(queries), np.concatenate(work), touched)
