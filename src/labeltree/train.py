"""Training: fill the blocks of a plan, each written to its place on disk when it is done."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from labeltree import _native
from labeltree.blocks import BlockFiles, TrainedBlocks, reserve_blocks, write_small
from labeltree.codec import float32_threshold
from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.limits import LARGEST_VALUE, SMALLEST_COST
from labeltree.manifest import Description, ScoreEntry, stored_as
from labeltree.model import Model
from labeltree.opening import load
from labeltree.plan import PANEL_BYTES, Plan, TreePlan
from labeltree.progress import Progress, part_of
from labeltree.publish import new_model
from labeltree.score import choose_score
from labeltree.settings import ScoreSettings


def train_model(
    dataset: Dataset,
    plan: Plan,
    path: Path | str,
    *,
    costs: ArrayLike | None = None,
    score: ScoreSettings | Literal["auto"] = "auto",
    overwrite: bool = False,
    progress: Progress | None = None,
    notes: dict[str, Any] | None = None,
) -> Model:
    """Train every block of a plan and write the model directory.

    Memory does not grow with the model: each block is written as soon as it is trained. The directory
    appears under its name once it is complete; after an error or Ctrl-C nothing is left behind, and an old
    model is kept.

    Parameters
    ----------
    dataset : Dataset
        The data that the plan was made for.
    plan : Plan
        From ``make_plan``; it contains the solver settings.
    path : path-like
        The model directory to write.
    costs : array-like of float, optional
        A positive weight for each instance, multiplied by the cost in the settings.
    score : ScoreSettings or "auto", default "auto"
        How the model turns margins into scores by default. "auto" chooses it by how well the labels of a
        sample of the training rows are ranked, as if the model had been trained without them.
    overwrite : bool, default False
        Replace an existing model, once the new one is complete.
    progress : callable, optional
        Called periodically with the fraction of the work that is done.
    notes : dict, optional
        More entries to keep in the manifest (JSON), such as how the trees were built.

    Returns
    -------
    Model
        The trained model, opened from disk.
    """
    if (plan.n_instances, plan.n_features, plan.n_labels) != (*dataset.X.shape, dataset.n_labels):
        raise InputError("the plan was made for data of a different shape", hint="make the plan again")
    largest = float(np.abs(dataset.X.data).max(initial=0))
    if largest > LARGEST_VALUE:
        raise InputError(
            f"X contains a value of magnitude {largest:.2g}, too large to be squared and summed",
            hint="scale the features, for instance each row to length 1",
        )
    if score != "auto" and not isinstance(score, ScoreSettings):
        raise InputError(f"score is {score!r}, expected ScoreSettings or 'auto'")
    weights = None if costs is None else np.ascontiguousarray(costs, np.float32)
    if weights is not None and not (
        weights.shape == (dataset.n_instances,) and (weights > 0).all() and np.isfinite(weights).all()
    ):
        raise InputError(
            f"expected costs to be a positive number for each of {dataset.n_instances:,} instances"
        )
    if weights is not None and weights.size:
        smallest, most = (float(plan.settings.cost * found) for found in (weights.min(), weights.max()))
        if smallest < SMALLEST_COST or most > LARGEST_VALUE:
            raise InputError(
                f"expected costs times cost to be from {SMALLEST_COST:g} to {LARGEST_VALUE:g}, "
                f"got {smallest:g} to {most:g}"
            )
    path = Path(path)
    with new_model(path, overwrite) as writer:
        writer.write_common(np.diff(dataset.by_label[0]), plan.label_names, plan.text)
        with ExitStack() as open_files:  # allocate the files of all trees before the first is trained
            files = [
                open_files.enter_context(reserve_blocks(writer, f"tree-{t}", part.layout))
                for t, part in enumerate(plan.trees)
            ]
            n_not_converged = n_stored = 0
            blocks: list[TrainedBlocks] = []
            for t, part in enumerate(plan.trees):
                share = part_of(progress, t, len(plan.trees))
                written, not_converged = _train_tree(dataset, plan, part, files[t], t, weights, share)
                n_not_converged += not_converged
                n_stored += int(written[3].sum())
                write_small(writer, f"tree-{t}", part.tree, part.codec, written)
                blocks.append(TrainedBlocks.of(part.codec, written, files[t]))
            chosen = choose_score(dataset, plan, blocks, weights) if score == "auto" else score
        described = {
            "instances": dataset.n_instances,
            "features": dataset.n_features,
            "labels": dataset.n_labels,
            "one_based": dataset.one_based,
            "trees": [{"nodes": part.tree.n_nodes, "depth": part.tree.depth} for part in plan.trees],
            "weights": plan.n_weights if plan.storage.prune is None else n_stored,
            "settings": asdict(plan.settings),
            "score": cast(ScoreEntry, asdict(chosen)),
            "not_converged": n_not_converged,
            "notes": notes or {},
            **stored_as(plan.storage),
        }
        writer.finish(cast(Description, described))
    if n_not_converged:
        warnings.warn(
            f"{n_not_converged:,} of {plan.n_problems:,} binary problems did not converge to the tolerance "
            f"of {plan.settings.tolerance:g}; scale the features, lower the cost or raise max_iterations.",
            stacklevel=2,
        )
    return load(path, verify=False)


def _train_tree(
    dataset: Dataset,
    plan: Plan,
    part: TreePlan,
    files: BlockFiles,
    number: int,
    costs: Any,
    progress: Progress | None,
) -> tuple[_native.WrittenArrays, int]:
    """Fill the large files of a tree; return what was written and the number of problems not converged."""
    settings = plan.settings
    try:
        return _native.train_nodes(
            dataset.native,
            part.tree.native,
            costs,
            settings.positive_costs(part.tree.node_depth),
            part.nonzeros,
            part.layout.feature_ptr,
            part.layout.weight_ptr,
            *files,
            settings.loss,
            settings.cost,
            settings.tolerance,
            settings.max_iterations,
            settings.bias,
            settings.seed + number,
            settings.precise,
            PANEL_BYTES,
            plan.threads,
            progress,
            part.codec,
            float32_threshold(plan.storage.prune or 0.0),
        )
    except ValueError as error:  # the plan belongs to other data of the same shape, or a block is too large
        hint = "make the plan again" if "plan" in str(error) else "use fewer {clusters}"
        raise InputError(str(error), hint=hint, parameters={"clusters": None}) from None
