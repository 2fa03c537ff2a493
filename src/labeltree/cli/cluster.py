"""`labeltree train --dask`: plan here, train on a Dask cluster, join here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from labeltree.cli import printing
from labeltree.cli.progress import Stages

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.model.model import Model
    from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TreeSettings
    from labeltree.training.plan import Plan


class Cluster:
    """A Dask cluster that trains a model.

    Parameters
    ----------
    address : str
        Of the scheduler.
    """

    def __init__(self, address: str) -> None:
        from labeltree.dask.cluster import connect

        self._client = connect(address)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def train(
        self,
        dataset: Dataset,
        settings: tuple[TreeSettings, SolverSettings, StorageSettings],
        score: ScoreSettings | Literal["auto"],
        build: Callable[[], Plan],
        model: Path,
        stages: Stages,
        *,
        threads: int | None,
        overwrite: bool,
        sync: bool,
    ) -> tuple[Plan, Model]:
        """Train a model in the work directory next to it, which is continued if it exists.

        Parameters
        ----------
        dataset : Dataset
        settings : tuple of settings
            Of trees, solver and storage.
        score : ScoreSettings or "auto"
        build : callable
            Builds the trees and returns the plan.
        model : Path
        stages : Stages
        threads : int or None
            Of this process.
        overwrite, sync : bool

        Returns
        -------
        plan : Plan
        model : Model
        """
        from labeltree.dask.cluster import amount, choose_parts, fill_on_cluster, interruptible
        from labeltree.training.parts import describe_parts, join_parts, open_parts, plan_parts
        from labeltree.training.work import WorkDirectory, work_path

        work, (tree_settings, solver, storage) = work_path(model), settings
        notes = tree_settings.notes()
        try:
            if work.exists():
                described = describe_parts(dataset, tree_settings.trees, solver, storage, score, notes)
                with WorkDirectory(work, described, resume=True, shared=True):
                    plan = open_parts(work, threads=threads)[1]
            else:
                plan = build()
                with stages.stage("write", f"writing {work}"):
                    plan_parts(dataset, plan, work, score=score, notes=notes, sync=sync)
            n_workers = len(interruptible(self._client.nthreads))
            if not n_workers:
                printing.note("The cluster has no workers; training starts when there is one.")
            nodes = printing.plural(plan.n_nodes, "node")
            with stages.stage(
                "train", f"training {nodes} on {printing.plural(n_workers, 'worker')}"
            ) as progress:
                n_parts = interruptible(lambda: choose_parts(self._client, *amount(plan)))
                fill_on_cluster(self._client, work, n_parts, sync=sync, progress=progress)
            with stages.stage("join", "joining"):
                return plan, join_parts(work, model, overwrite=overwrite, threads=threads, sync=sync)
        except KeyboardInterrupt:
            if not (work / "ready").exists():
                raise
            place, target = (os.path.relpath(path) for path in (work, model))
            raise KeyboardInterrupt(
                "stopped; the same command with --resume continues, and so do "
                f"`labeltree fill {place}` and `labeltree join {place} {target}`"
            ) from None
