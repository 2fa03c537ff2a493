"""Sizing: the approximate size of a model, before its trees are built.

The exact size needs the trees, and K-means of all labels takes most of the time. Here, a tree of rough
clusters is built in part (`sampled_tree`), and what is missing is estimated from what is there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from labeltree import _native
from labeltree.base import limits
from labeltree.base.progress import Stage, silent
from labeltree.base.system import INTERPRETER_BYTES, human_bytes, threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings
from labeltree.training.build import build_plan
from labeltree.training.memory import LABEL_BYTES, solver_bytes, trial_bytes
from labeltree.training.plan import Plan
from labeltree.training.sampled_tree import CONFIDENCE, SampledTree, used_features
from labeltree.training.sampling import proportional, systematic
from labeltree.training.tree_plan import centroids_held
from labeltree.trees.kmeans import centroid_bytes, clustering_bytes

# Up to this many multiply-adds per iteration of K-means, the exact size takes a fraction of a second.
EXACT_WORK = 250_000_000
# Labels whose vectors are computed to estimate the memory of all of them.
COUNTED_VECTORS = 50
# A few labels with unusual vectors may be missing in the sample, and so in its variance; this is for them.
UNSEEN_MARGIN = 0.12
# What the largest nodes of other trees of the same data need, relative to the sampled tree: the bounds of the
# memory for training.
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
        Whether the sizes are exact: of one-vs-rest, of a given tree, of trees of depth 2, and of data so
        small that the trees were built.
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

    def obstacle(self, memory: int, disk: int | None) -> str:
        """Say what is too large, even at the lower end of its interval; an empty string if nothing is.

        Parameters
        ----------
        memory : int
            Bytes that training may use.
        disk : int or None
            Bytes that the model may take; None if it will be pruned.
        """
        least = "" if self.exact else " or more"
        if self.training_memory_bytes_low > memory:
            needed = f"{human_bytes(self.training_memory_bytes_low)} of memory{least}"
            return f"training needs {needed}, but only {human_bytes(memory)} can be used"
        if disk is not None and self.model_bytes_low > disk:
            taken = f"{human_bytes(self.model_bytes_low)}{least}"
            return f"the model takes {taken}, but only {human_bytes(disk)} are free on this disk"
        return ""


def estimate_size(
    dataset: Dataset,
    tree_settings: TreeSettings | None = None,
    solver_settings: SolverSettings | None = None,
    storage: StorageSettings | None = None,
    *,
    normalize: bool = True,
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
    normalize : bool, default True
        Scale every row of features to length 1, as `build_plan` does.
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
    21460260 True
    """
    settings = tree_settings or TreeSettings()
    solver, storage = solver_settings or SolverSettings(), storage or StorageSettings()
    threads = threads_to_use(threads)
    limits.checked("normalize", normalize, limits.FLAG)
    unscaled, dataset = dataset, dataset.normalize() if normalize else dataset
    with stage("size", "estimating the size"):
        size = approximate_size(dataset, settings, solver, storage, threads, unscaled.bytes)
    if size is not None:
        return size
    return SizeEstimate.of_plan(
        build_plan(unscaled, settings, solver, storage, normalize=normalize, threads=threads, stage=stage)
    )


def approximate_size(
    dataset: Dataset,
    settings: TreeSettings,
    solver: SolverSettings,
    storage: StorageSettings,
    threads: int,
    data_bytes: int,
) -> SizeEstimate | None:
    """Approximate the size of a model of scaled rows; None if the exact size takes hardly longer.

    ``data_bytes`` is the memory of the data as it was given.
    """
    # The size of a tree of depth 2 depends most on the largest clusters of the root, which need K-means.
    if settings.tree is not None or settings.max_depth <= 2:
        return None
    summed = _native.count_entries(dataset.native, threads)
    work = np.minimum(summed, dataset.n_features).sum() * settings.clusters
    if np.count_nonzero(summed) <= settings.clusters or work < EXACT_WORK:
        return None
    sampled = SampledTree.grow(dataset, settings, summed, threads)
    one_tree = sampled.tree_bytes(storage.codec, solver.bias != 0, dataset.n_features)
    shape = dataset.n_instances, dataset.n_features, dataset.n_labels
    empty = Plan((), solver, storage, *shape, dataset.bytes, threads, dataset.label_names, dataset.text)
    size, low, high = (empty.model_bytes + round(settings.trees * size) for size in one_tree)
    nonzeros = _vector_nonzeros(dataset, summed, settings.seed, threads)
    memory = _memory(sampled, nonzeros, dataset, data_bytes, settings, solver, storage, threads)
    return SizeEstimate(size, low, high, *memory, exact=False)


def _vector_nonzeros(
    data: Dataset, summed: NDArray[np.int64], seed: int, threads: int
) -> tuple[int, int, int]:
    """Estimate the number of non-zeros of all label vectors from those of some labels; with bounds."""
    random = np.random.default_rng(seed)
    most = np.minimum(summed, data.n_features)
    known = np.flatnonzero(summed)
    # A vector of N summed non-zeros has fewer, the fewer the more they are.
    chance = proportional(np.sqrt(most[known]), COUNTED_VECTORS)
    chosen = systematic(chance, random)
    labels, chance = known[chosen], chance[chosen]
    number = np.arange(labels.size)
    found = used_features(data, labels.astype(np.int32), number, number + 1, threads)[2]
    factor = (found / chance).sum() / (most[labels] / chance).sum()
    freedom = max(labels.size - 1, 1)
    error = (found - factor * most[labels]) / chance
    variance = (np.square(error) * (1 - chance)).sum() * labels.size / freedom
    total = factor * most.sum()
    sampled = special.stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(variance)
    margin = np.hypot(sampled, UNSEEN_MARGIN * total)
    return round(total), max(0, round(total - margin)), round(min(total + margin, most.sum()))


def _memory(
    sampled: SampledTree,
    vector_nonzeros: tuple[int, int, int],
    dataset: Dataset,
    data_bytes: int,
    settings: TreeSettings,
    solver: SolverSettings,
    storage: StorageSettings,
    threads: int,
) -> tuple[int, int, int]:
    """Return the memory for building and training, and bounds of it."""
    children = sampled.children
    base = INTERPRETER_BYTES + data_bytes + LABEL_BYTES * dataset.n_labels

    def needed(nonzeros: int, factor: float) -> int:
        instances, entries, used = (
            np.append(counts[:1], np.minimum(counts[1:] * factor, counts[0]).astype(np.int64))
            for counts in sampled.usage
        )
        wider = np.minimum(children * factor, dataset.n_labels).astype(np.int64)
        training = solver_bytes(
            np.where(children > settings.clusters, wider, children),
            instances,
            entries,
            used,
            storage.codec,
            dataset.n_features,
            threads=threads,
            precise=solver.precise,
        )
        # Centroids of the features that nodes use, as in `labeltree.plan.TreePlan`.
        at_once = min(threads, _native.MOST_MATRICES)
        held = centroids_held(used, at_once)
        not_held = max(0, at_once * dataset.n_features - held) * centroid_bytes(settings.clusters)
        building = clustering_bytes(dataset, nonzeros, settings.clusters, threads) - not_held
        return base + max(building, training, trial_bytes(dataset.n_instances))

    estimate, low, high = vector_nonzeros
    return needed(estimate, 1), needed(low, NODE_RANGE[0]), needed(high, NODE_RANGE[1])
