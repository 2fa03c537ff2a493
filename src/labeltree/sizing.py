"""Sizing: the approximate size of a model, before its trees are built.

The exact size needs the trees, and K-means of all labels takes most of the time. Here, K-means splits the
root with a sample of the labels and short vectors, and every label is assigned to a cluster. The features
that nodes use are counted exactly. A random sample of the wide nodes of each depth is split further, and
stands for the others. Rough clusters use slightly more features than those of the real tree, so the result is
divided by a factor, which varies little from one dataset to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from labeltree import _native
from labeltree.build import build_plan
from labeltree.clustering import (
    LEAST_MOVED,
    MAX_KMEANS_ITERATIONS,
    Range,
    clustering_bytes,
    gather,
    grow_tree,
)
from labeltree.codec import Layout
from labeltree.data import Dataset, csr_arrays
from labeltree.plan import LABEL_BYTES, Plan, solver_bytes
from labeltree.progress import Stage, silent
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings
from labeltree.system import INTERPRETER_BYTES, threads_to_use
from labeltree.tree import LabelTree, pointers

# Up to this many multiply-adds per iteration of K-means, the exact size takes a fraction of a second.
EXACT_WORK = 250_000_000
# Short vectors, shorter at the root: non-zeros that are added up per label, and the smallest entry kept.
ROUGH_VECTORS = 700, 0.04
FINE_VECTORS = 2_000, 0.02
# At the root, K-means sees this share of the labels, and so many per cluster if there are as many. Other
# nodes with more labels than that are clustered in fewer iterations.
SAMPLED_SHARE = 0.25
SAMPLED_PER_CLUSTER = 20
LARGE_ITERATIONS = 5
# Wide nodes of each depth that are split: their share of the work for all labels, and their least number.
EXPANDED_SHARE = 0.03
FEWEST_EXPANDED = 5
# Weights below a root split by a sample of labels, relative to real trees. Both numbers were chosen by hand
# after looking at eurlex57k, yso-finna-en, debian-depends and synthetic amazon-670k.
ROUGHNESS = 1.12
ROUGHNESS_DEVIATION = 0.07
CONFIDENCE = 0.95
# Distinct features of N summed non-zeros grow as a power of N: the exponent, and bounds of it.
GROWTH = 0.6, 0.4, 0.8
# Bounds for the counts of the largest nodes of other trees of the same data, relative to the rough tree.
NODE_RANGE = 0.5, 2.0


@dataclass(frozen=True)
class SizeEstimate:
    """The size of a model and the memory for training it, with 95% intervals.

    Attributes
    ----------
    model_bytes, model_bytes_low, model_bytes_high : int
        Size of the model directory without its manifest. If weights are to be pruned, the size if none is.
    training_memory_bytes, training_memory_bytes_low, training_memory_bytes_high : int
        Memory for building the trees and training, including the data.
    exact : bool
        Whether the sizes are exact: of one-vs-rest, of a given tree, and of data so small that the trees
        were built.
    """

    model_bytes: int
    model_bytes_low: int
    model_bytes_high: int
    training_memory_bytes: int
    training_memory_bytes_low: int
    training_memory_bytes_high: int
    exact: bool

    @classmethod
    def of_plan(cls, plan: Plan) -> SizeEstimate:
        """Return the exact sizes of a plan."""
        model, memory = plan.model_bytes, plan.training_memory_bytes
        return cls(model, model, model, memory, memory, memory, exact=True)


def estimate_size(
    dataset: Dataset,
    tree_settings: TreeSettings | None = None,
    solver_settings: SolverSettings | None = None,
    storage: StorageSettings | None = None,
    *,
    threads: int | None = None,
    stage: Stage = silent,
) -> SizeEstimate:
    """Estimate the size of a model without building its trees.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    tree_settings : TreeSettings, optional
        The same ``seed`` gives the same estimate with any number of threads.
    solver_settings : SolverSettings, optional
    storage : StorageSettings, optional
    threads : int, optional
        Number of threads for estimating, and later for training. Default: all CPUs.
    stage : callable, optional
        Called as ``stage(name, description)``; returns a context manager that gives a progress callback.

    Returns
    -------
    SizeEstimate

    See Also
    --------
    labeltree.build_plan : the exact size, which takes the time of building the trees.

    Examples
    --------
    >>> import labeltree
    >>> train, _ = labeltree.synthesize("eur-lex", scale=0.1)
    >>> size = labeltree.estimate_size(train)
    >>> print(size.model_bytes, size.exact)
    21523336 True
    """
    settings = tree_settings or TreeSettings()
    solver, storage = solver_settings or SolverSettings(), storage or StorageSettings()
    threads = threads_to_use(threads)
    ptr, instances = dataset.by_label
    summed = np.diff(np.concatenate([[0], np.cumsum(np.diff(dataset.X.indptr)[instances])])[ptr])
    n_known = np.count_nonzero(np.diff(ptr))
    fixed = settings.tree is not None or settings.max_depth == 1 or n_known <= settings.clusters
    if fixed or np.minimum(summed, dataset.n_features).sum() * settings.clusters < EXACT_WORK:
        return SizeEstimate.of_plan(
            build_plan(dataset, settings, solver, storage, threads=threads, stage=stage)
        )
    with stage("size", "estimating the size"):
        rough = _rough_tree(dataset, settings, summed, threads)
        one_tree = _tree_bytes(rough, storage.codec, solver.bias != 0, dataset.n_features)
        shape = dataset.n_instances, dataset.n_features, dataset.n_labels
        empty = Plan((), solver, storage, *shape, dataset.bytes, threads, dataset.label_names, dataset.text)
        size, low, high = (empty.model_bytes + round(settings.trees * size) for size in one_tree)
        memory = _memory(rough, dataset, settings, solver, storage, threads)
        return SizeEstimate(size, low, high, *memory, exact=False)


class _Splitter:
    """Splits nodes by K-means of short label vectors.

    ``distinct`` is the number of non-zeros of the label vectors: an estimate, and bounds of it. ``roughness``
    is how much larger than real ones the nodes below a rough root are.
    """

    def __init__(
        self, dataset: Dataset, settings: TreeSettings, summed: NDArray[np.int64], threads: int
    ) -> None:
        self.dataset, self.settings, self.summed, self.threads = dataset, settings, summed, threads
        self.random = np.random.default_rng(settings.seed)
        self.distinct = 0, 0, 0
        self.roughness = 1.0

    def split(self, order: NDArray[np.int32], ranges: list[Range], n_before: int) -> list[list[Range]]:
        """Sort the labels of nodes by cluster; return the ranges of the clusters of each node."""
        most = SAMPLED_PER_CLUSTER * self.settings.clusters
        if n_before == 0 and order.size > most:
            return [self._split_root(order[: ranges[0][1]])]
        found: dict[Range, list[Range]] = {}
        for large, iterations in ((False, MAX_KMEANS_ITERATIONS), (True, LARGE_ITERATIONS)):
            nodes = [r for r in ranges if (r[1] - r[0] > most) == large]
            if nodes:
                found |= zip(nodes, self._split_nodes(order, nodes, n_before, iterations), strict=True)
        return [found[r] for r in ranges]

    def _split_nodes(
        self, order: NDArray[np.int32], ranges: list[Range], n_before: int, iterations: int
    ) -> list[list[Range]]:
        labels = np.concatenate([order[a:b] for a, b in ranges])
        place = np.arange(labels.size, dtype=np.int32)
        local = list(pairwise(pointers([b - a for a, b in ranges]).tolist()))
        vectors = self._vectors(labels, *FINE_VECTORS)
        found = self._cluster(vectors, place, local, n_before, iterations)
        for (a, b), (start, end) in zip(ranges, local, strict=True):
            order[a:b] = labels[place[start:end]]
        return [
            [(start + a - s, end + a - s) for start, end in parts]
            for parts, (a, _), (s, _) in zip(found, ranges, local, strict=True)
        ]

    def _split_root(self, labels: NDArray[np.int32]) -> list[Range]:
        """Cluster a sample of the labels, assign all to the nearest cluster, and sort them by cluster."""
        vectors = self._vectors(labels, *ROUGH_VECTORS)
        self.roughness = ROUGHNESS
        n_sampled = max(int(SAMPLED_SHARE * labels.size), SAMPLED_PER_CLUSTER * self.settings.clusters)
        sample = np.sort(self.random.choice(labels.size, n_sampled, replace=False).astype(np.int32))
        parts = self._cluster(vectors, sample, [(0, sample.size)], 0, MAX_KMEANS_ITERATIONS)[0]
        sizes = np.array([end - start for start, end in parts])
        share = np.repeat(1 / sizes, sizes).astype(np.float32)
        means = sparse.csr_matrix((share, sample, pointers(sizes)), shape=(sizes.size, labels.size))
        centroids = np.ascontiguousarray((means @ vectors).toarray().T)
        half_squares = np.square(centroids).sum(axis=0) / 2
        cluster = np.empty(labels.size, np.int32)
        for first in range(0, labels.size, 4096):
            some = slice(first, first + 4096)
            cluster[some] = (vectors[some] @ centroids - half_squares).argmax(axis=1)
        return gather(labels, cluster, 0, labels.size)

    def _cluster(
        self,
        vectors: sparse.csr_matrix,
        order: NDArray[np.int32],
        ranges: list[Range],
        n_before: int,
        iterations: int,
    ) -> list[list[Range]]:
        rows = _native.SparseRows(
            vectors.indptr.astype(np.int64), vectors.indices, vectors.data, vectors.shape[1]
        )
        cluster = _native.cluster_level(
            rows,
            order,
            np.array([a for a, _ in ranges], np.int64),
            np.array([b for _, b in ranges], np.int64),
            np.arange(n_before, n_before + len(ranges), dtype=np.int64),
            self.settings.clusters,
            iterations,
            LEAST_MOVED,
            self.settings.seed,
            self.threads,
            None,
        )
        return [gather(order, cluster, a, b) for a, b in ranges]

    def _vectors(self, labels: NDArray[Any], summed: int, least: float) -> sparse.csr_matrix:
        """Return vectors of labels from some of their instances, without small entries and empty columns."""
        data = self.dataset
        ptr, instances = data.by_label
        count = np.diff(ptr)[labels]
        taken = np.ceil(count * np.minimum(1.0, summed / np.maximum(self.summed[labels], 1)))
        taken = taken.astype(np.int64)
        start = pointers(taken)
        # Evenly spaced instances of each label, from a random start.
        number = np.arange(start[-1]) - np.repeat(start[:-1], taken)
        step = count / np.maximum(taken, 1)
        place = (number + np.repeat(self.random.random(count.size), taken)) * np.repeat(step, taken)
        chosen = instances[np.repeat(ptr[labels], taken) + place.astype(np.int64)]
        native = _native.TrainingData(*csr_arrays(data.X), data.n_features, start, chosen)
        ends = _native.count_label_vectors(native, self.threads)
        index, value = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
        _native.label_vectors(native, ends, index, value, self.threads)
        if not self.distinct[0]:  # the first time, for all labels
            most = np.minimum(self.summed[labels], data.n_features)
            grown = [int(np.minimum(np.diff(ends) * step**power, most).sum()) for power in GROWTH]
            self.distinct = grown[0], grown[1], grown[2]
        kept = np.flatnonzero(np.abs(value) >= least)
        index, value = index[kept], value[kept]
        occurs = np.zeros(data.n_features, bool)
        occurs[index] = True
        columns = np.cumsum(occurs, dtype=np.int32) - 1
        shape = labels.size, max(1, int(np.count_nonzero(occurs)))
        return sparse.csr_matrix((value, columns[index], np.searchsorted(kept, ends)), shape=shape)


@dataclass(frozen=True, eq=False)
class _Stage:
    """The wide nodes of one depth, with the probability of each to be among those that are split."""

    nodes: NDArray[np.int64]
    chance: NDArray[np.float64]
    split: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _RoughTree:
    """A rough tree, in which a random sample of the wide nodes is split."""

    tree: LabelTree
    stages: list[_Stage]
    roughness: float
    instances: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    used_features: NDArray[np.int64]
    vector_nonzeros: tuple[int, int, int]

    @property
    def unsplit(self) -> NDArray[np.int64]:
        """Wide nodes that are not split: their labels stand for a subtree."""
        return np.concatenate([np.zeros(0, np.int64), *[s.nodes[~s.split] for s in self.stages]])


def _rough_tree(
    dataset: Dataset, settings: TreeSettings, summed: NDArray[np.int64], threads: int
) -> _RoughTree:
    splitter = _Splitter(dataset, settings, summed, threads)
    count = np.diff(dataset.by_label[0])
    order = np.argsort(count == 0, kind="stable").astype(np.int32)
    known = int(np.count_nonzero(count))
    stages: list[_Stage] = []

    def split(depth: int, level: list[Range], n_before: int) -> dict[int, list[Range]]:
        if depth == 0:
            parts = splitter.split(order, [(0, known)], 0)[0]
            return {0: [*parts, (known, order.size)] if known < order.size else parts}
        wide = [k for k, (a, b) in enumerate(level) if b - a > settings.clusters and a < known]
        if depth >= settings.max_depth - 1 or not wide:
            return {}
        starts, ends = np.array([level[k] for k in wide]).T
        entries, work = pointers(summed[order]), pointers(np.minimum(summed, FINE_VECTORS[0])[order])
        chance = _chances(
            np.sqrt((ends - starts) * (entries[ends] - entries[starts])),
            (work[ends] - work[starts]) / work[-1],
        )
        chosen = _systematic(chance, splitter.random)
        stages.append(_Stage(np.array(wide) + n_before, chance, chosen))
        nodes = [k for k, c in zip(wide, chosen, strict=True) if c]
        parts_of = splitter.split(order, [level[k] for k in nodes], n_before)
        return dict(zip(nodes, parts_of, strict=True))

    tree = grow_tree(order, settings.max_depth, split)
    counts = _native.used_features(dataset.native, tree.native, threads)
    return _RoughTree(tree, stages, splitter.roughness, *counts, splitter.distinct)


def _chances(sizes: NDArray[np.float64], work: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities in proportion to sizes, at most 1, such that the expected work is limited."""
    number = FEWEST_EXPANDED
    chance = _proportional(sizes, number)
    while number < sizes.size:
        more = _proportional(sizes, number + 1)
        if more @ work > EXPANDED_SHARE:
            break
        number, chance = number + 1, more
    return chance


def _proportional(sizes: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """Return probabilities in proportion to sizes, at most 1, whose sum is ``number`` if possible."""
    if number >= sizes.size:
        return np.ones(sizes.size)
    chance = np.zeros(sizes.size)
    certain = np.zeros(sizes.size, bool)
    while True:
        rest = sizes * ~certain
        chance = np.where(certain, 1.0, (number - certain.sum()) * rest / rest.sum())
        if not (chance > 1).any():
            return chance
        certain |= chance >= 1


def _systematic(chance: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.bool_]:
    """Choose each element with its probability; the number of chosen ones varies by less than 1."""
    shuffled = random.permutation(chance.size)
    ends = np.cumsum(chance[shuffled]) + random.random()
    chosen = np.zeros(chance.size, bool)
    chosen[shuffled] = np.diff(np.floor(ends + 1e-9), prepend=np.floor(ends[:1] - chance[shuffled][:1])) > 0
    return chosen


def _tree_bytes(rough: _RoughTree, codec: str, bias: bool, n_features: int) -> tuple[float, float, float]:
    """Return the size of the files of one tree, and bounds of it."""
    tree = rough.tree
    layout = Layout.of(tree, codec, rough.used_features, bias, n_features)
    sizes = layout.node_bytes().astype(np.float64)
    fixed = sum(spec.bytes for spec in layout.files().values()) - sizes.sum() + sizes[0]
    sizes[0] = 0
    # A node of m labels that uses F features has about F sqrt(m K) weights below it.
    measure = (rough.used_features + 1) * np.sqrt(tree.last - tree.first)
    variance = 0.0
    for depth in range(tree.depth - 1, 0, -1):  # sizes of nodes become those of their subtrees
        for stage in rough.stages[depth - 1 : depth]:
            chance, chosen, others = (
                stage.chance[stage.split],
                stage.nodes[stage.split],
                stage.nodes[~stage.split],
            )
            ratio = (sizes[chosen] / chance).sum() / (measure[chosen] / chance).sum()
            sizes[others] = ratio * measure[others]
            errors = np.square((sizes[chosen] - ratio * measure[chosen]) / chance) * (1 - chance)
            freedom = max(chosen.size - 1, 1)
            quantile = special.stdtrit(freedom, (1 + CONFIDENCE) / 2)
            variance += quantile**2 * errors.sum() * (freedom + 1) / freedom
        level = slice(tree.level_ptr[depth], tree.level_ptr[depth + 1])
        np.add.at(sizes, tree.parent[level], sizes[level])
    below = sizes[0] / rough.roughness
    quantile = special.ndtri((1 + CONFIDENCE) / 2)
    deviation = np.hypot(np.sqrt(variance) / rough.roughness, quantile * ROUGHNESS_DEVIATION * below)
    return fixed + below, fixed + max(below - deviation, 0.0), fixed + below + deviation


def _memory(
    rough: _RoughTree,
    dataset: Dataset,
    settings: TreeSettings,
    solver: SolverSettings,
    storage: StorageSettings,
    threads: int,
) -> tuple[int, int, int]:
    """Return the memory for building and training, and bounds of it."""
    children = rough.tree.child_count.copy()
    children[rough.unsplit] = settings.clusters
    base = INTERPRETER_BYTES + dataset.bytes + LABEL_BYTES * dataset.n_labels

    def needed(nonzeros: int, factor: float) -> int:
        instances, entries, used = (
            np.append(counts[:1], np.minimum(counts[1:] * factor, counts[0]).astype(np.int64))
            for counts in (rough.instances, rough.nonzeros, rough.used_features)
        )
        wider = np.minimum(children * factor, dataset.n_labels).astype(np.int64)
        training = solver_bytes(
            np.where(children > settings.clusters, wider, children),
            instances,
            entries,
            used,
            storage.codec,
            dataset.n_features,
            one_vs_rest=False,
            threads=threads,
            precise=solver.precise,
        )
        return base + max(clustering_bytes(dataset, nonzeros, settings.clusters, threads), training)

    nonzeros = rough.vector_nonzeros
    return needed(nonzeros[0], 1), needed(nonzeros[1], NODE_RANGE[0]), needed(nonzeros[2], NODE_RANGE[1])
