"""Lower bounds on the work of each kernel: multiply-adds, and bytes read from or written to memory.

Each bound counts what the result requires, not what the kernel does, and assumes that data used more than
once stays in cache.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

INDEX, VALUE = 4, 4  # bytes per feature index and per value


@dataclass(frozen=True)
class Work:
    """Minimum number of multiply-adds and bytes."""

    multiply_adds: int
    bytes: int

    def seconds(self, peak):
        """Return the minimum time on a machine with this peak (`machine_peak`), and the limiting resource."""
        times = {
            "multiply-adds": self.multiply_adds / peak["multiply_adds_per_second"],
            "bytes": self.bytes / peak["bytes_per_second"],
        }
        limit = max(times, key=times.get)
        return times[limit], limit


def label_vectors(dataset, vector_nonzeros):
    """Read and add each feature of each (label, instance) pair once; write the vectors once."""
    entries = int(np.diff(dataset.X.indptr).astype(np.int64) @ np.diff(dataset.Y.indptr))
    return Work(entries, (INDEX + VALUE) * (entries + vector_nonzeros))


def split_nodes(tree, label_counts, clusters, max_depth):
    """Return the nodes that K-means splits: more non-empty labels than clusters, above the maximum depth."""
    non_empty = np.concatenate([[0], np.cumsum(label_counts[tree.labels] > 0)])
    return np.flatnonzero(
        (non_empty[tree.last] - non_empty[tree.first] > clusters) & (tree.node_depth < max_depth - 1)
    )


def clustering(tree, nodes, vector_ptr, clusters, iterations):
    """Multiply each entry of a label vector with each centroid of its node, in each iteration."""
    before = np.concatenate([[0], np.cumsum(np.diff(vector_ptr)[tree.labels])])
    entries = int((before[tree.last[nodes]] - before[tree.first[nodes]]).sum()) * iterations
    return Work(entries * clusters, (INDEX + VALUE) * entries)


def plan(part, label_counts):
    """Read, at each node, the instances of its labels and the features of those instances."""
    before = np.concatenate([[0], np.cumsum(label_counts[part.tree.labels])])
    listed = int((before[part.tree.last] - before[part.tree.first])[1:].sum())  # the root uses all instances
    return Work(0, INDEX * (int(part.nonzeros.sum()) + listed))


def solver_pass(part, write=False):
    """Multiply each feature of a node's instances with the weights of each child twice: margin and update.

    The instances are read once for all children; the weights are written once with ``write=True``.
    """
    entries = part.nonzeros + part.bias * part.instances
    written = int(part.layout.weight_ptr[-1]) if write else 0
    return Work(
        2 * int(entries @ part.tree.child_count),
        (INDEX + VALUE) * int(part.nonzeros.sum()) + VALUE * written,
    )


@dataclass(frozen=True, eq=False)
class Visits:
    """The visits that a beam search cannot avoid: nodes whose children may be among the best labels."""

    labels: np.ndarray  # rows x top, best first; padded with -1
    query: np.ndarray  # per visit
    multiply_adds: np.ndarray  # per visit
    touched: int  # distinct weights over all visits

    def batch(self):
        """Return the work for all rows at once: each weight is read from memory once."""
        return Work(int(self.multiply_adds.sum()), VALUE * self.touched)

    def singles(self, rows):
        """Return the work for the first rows, one by one: every weight is read from memory."""
        work = int(self.multiply_adds[self.query < rows].sum())
        return Work(work, VALUE * work)


def beam_search(model, X, beam, top):
    """Search the first tree of a model slowly, and count the visits that no search with this beam can skip.

    A node must be visited if it scores at least as high as the last label returned, because one of its
    labels could then be among the best. The work of a visit is matched features x children.
    """
    tree = model.trees[0].tree
    X = sparse.csr_matrix(X)[:, : model.n_features]
    if model.bias:
        X = sparse.csr_matrix(sparse.hstack([X, np.full((X.shape[0], 1), model.bias, np.float32)]))
    row_of = np.full(model.n_features + 1, -1)
    query, node, score = np.arange(X.shape[0]), np.zeros(X.shape[0], int), np.zeros(X.shape[0])
    visited, leaves = [], []
    while query.size:
        below = []
        for u in np.unique(node):
            here = node == u
            features, weights = model.block(u)
            row_of[features] = np.arange(features.size)
            matched = _match(X[query[here]], row_of, features.size)
            row_of[features] = -1
            visited.append((query[here], score[here], matched, weights.shape[1]))
            child_score = score[here, None] - np.logaddexp(0, -3 * (matched @ weights))
            children = tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]]
            of_query = np.repeat(query[here], children.size)
            candidates = (of_query, np.tile(children, matched.shape[0]), child_score.ravel())
            for kind, into in ((children < 0, leaves), (children >= 0, below)):
                chosen = np.tile(kind, matched.shape[0])
                into.append(tuple(column[chosen] for column in candidates))
        query, node, score, _ = _best(below, beam)
    query, leaf, score, rank = _best(leaves, top)
    labels, bar = np.full((X.shape[0], top), -1), np.full(X.shape[0], -np.inf)
    labels[query, rank] = ~leaf
    bar[query[rank == top - 1]] = score[rank == top - 1]
    return _count(visited, labels, bar)


def _match(rows, row_of, n_features):
    """Keep the features that a node uses, renumbered as in its block."""
    at = row_of[rows.indices]
    before = np.concatenate([[0], np.cumsum(at >= 0)])
    return sparse.csr_matrix(
        (rows.data[at >= 0], at[at >= 0], before[rows.indptr]), (rows.shape[0], n_features)
    )


def _best(parts, limit):
    """Return the best (query, id, score) of each query, with their ranks."""
    query, ids, score = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((ids, -score, query))
    query, ids, score = query[order], ids[order], score[order]
    rank = np.arange(query.size) - np.searchsorted(query, query)
    kept = rank < limit
    return query[kept], ids[kept], score[kept], rank[kept]


def _count(visited, labels, bar):
    queries, work, touched = [], [], 0
    for query, score, matched, n_children in visited:
        needed = score >= bar[query] - 1e-6  # the kernel computes in single precision
        matched = matched[needed]
        queries.append(query[needed])
        work.append(np.diff(matched.indptr).astype(np.int64) * n_children)
        touched += np.unique(matched.indices).size * n_children
    return Visits(labels, np.concatenate(queries), np.concatenate(work), touched)
