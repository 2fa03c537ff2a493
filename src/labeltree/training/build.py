"""Building: from data and settings to trees and plan, the same way for every caller."""

from __future__ import annotations

from dataclasses import replace

from labeltree.base import limits
from labeltree.base.progress import Stage, part_of, silent
from labeltree.base.system import available_memory, human_bytes, threads_to_use
from labeltree.data.dataset import Dataset
from labeltree.errors import ResourceError
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings
from labeltree.training.plan import Plan, make_plan
from labeltree.training.work import WorkDirectory
from labeltree.trees.kmeans import LabelVectors, build_tree

# Memory that a label takes while trees are built and planned, even one without instances.
_LABEL_BYTES = 50


def build_plan(
    dataset: Dataset,
    tree_settings: TreeSettings | None = None,
    solver_settings: SolverSettings | None = None,
    storage: StorageSettings | None = None,
    *,
    normalize: bool = True,
    threads: int | None = None,
    memory_limit: int | None = None,
    vectors: LabelVectors | None = None,
    stage: Stage = silent,
    work: WorkDirectory | None = None,
) -> Plan:
    """Build the trees of a model and plan its files.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    tree_settings : TreeSettings, optional
    solver_settings : SolverSettings, optional
    storage : StorageSettings, optional
    normalize : bool, default True
        Scale every row of features to length 1, for training and for prediction.
    threads : int, optional
        Number of threads for building, and later for training. Default: all CPUs.
    memory_limit : int, optional
        Bytes that this process may use to build the trees. Default: what is available.
    vectors : LabelVectors, optional
        The label vectors of the dataset that is trained on, to share them between calls.
    stage : callable, optional
        Called as ``stage(name, description)`` for the stages "tree" and "plan"; returns a context manager
        that gives a progress callback.
    work : WorkDirectory, optional
        Where to keep the trees. Those that it has already are not built again.

    Returns
    -------
    Plan
        For ``train_model`` with the same dataset.
    """
    limits.checked("normalize", normalize, limits.FLAG)
    unscaled, dataset = dataset, dataset.normalize() if normalize else dataset
    settings = tree_settings or TreeSettings()
    threads = threads_to_use(threads)
    memory = available_memory() if memory_limit is None else memory_limit
    if dataset.n_labels * _LABEL_BYTES > memory:
        raise ResourceError(
            f"a tree of {dataset.n_labels:,} labels needs {human_bytes(dataset.n_labels * _LABEL_BYTES)} of "
            f"memory, but only {human_bytes(memory)} can be used",
            hint="use a machine with more memory, or raise {memory_limit}",
            parameters={"memory_limit": None},
        )
    count = settings.trees
    with stage("tree", f"building {count} tree{'s' * (count > 1)}") as progress:
        given = settings.given_tree(dataset)
        if given is not None:
            trees = [given]
        else:
            # Several trees share the label vectors; a single one lets go of them when it is built.
            shared = vectors or (LabelVectors(dataset) if count > 1 else None)
            trees = []
            for number in range(count):
                tree = work.tree(number) if work else None
                if tree is None:
                    tree = build_tree(
                        dataset,
                        clusters=settings.clusters,
                        max_depth=settings.max_depth,
                        seed=settings.seed + number,
                        threads=threads,
                        memory_limit=memory_limit,
                        progress=part_of(progress, number, count),
                        vectors=shared,
                    )
                    if work:
                        work.keep_tree(number, tree)
                trees.append(tree)
    with stage("plan", "planning"):
        plan = make_plan(dataset, trees, solver_settings, storage, threads=threads)
        return replace(plan, data_bytes=unscaled.bytes)  # of both: the caller keeps the rows as they were
