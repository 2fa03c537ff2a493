"""Models without a directory of their own: how they come to be, and how they get one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data import Dataset
from labeltree.errors import ResourceError
from labeltree.model import Model
from labeltree.plan import Plan
from labeltree.store import new_model
from labeltree.system import free_disk, human_bytes
from labeltree.train import SolverSettings, train_model


def train_unsaved(
    dataset: Dataset,
    plan: Plan,
    settings: SolverSettings,
    *,
    memory_limit: int | None = None,
    force: bool = False,
    **options: Any,
) -> Model:
    """Train a model into a temporary folder, map it, and take the folder away.

    The system keeps the mapped files for as long as the model lives in this process or one forked from it,
    and frees their room when the last is gone, however it ends. So nothing stays behind, nothing has to be
    cleaned up, and memory still does not grow with the model.

    Parameters
    ----------
    dataset, plan, settings
        As of :func:`labeltree.train_model`.
    memory_limit : int, optional
        Bytes that training may take.
    force : bool, default False
        Train even if memory or disk look too small.
    **options
        More for :func:`labeltree.train_model`.

    Returns
    -------
    Model
        Its ``path`` is None.
    """
    if not force:
        plan.check_room(Path(tempfile.gettempdir()), memory_limit)
    with tempfile.TemporaryDirectory(prefix="labeltree-", ignore_cleanup_errors=True) as folder:
        model = train_model(dataset, plan, Path(folder) / "model", settings, **options)
        model.path = None
    return model


def write_model(
    model: Model, path: Path | str, *, overwrite: bool = False, manifest: dict[str, Any] | None = None
) -> None:
    """Write a model to a directory, which appears when it is complete.

    Parameters
    ----------
    model : Model
    path : path-like
        The model directory to write.
    overwrite : bool, default False
        Replace a model that is there, once the new one is complete.
    manifest : dict, optional
        More to be kept in the manifest (JSON).
    """
    path = Path(path)
    with new_model(path, overwrite) as writer:
        room = free_disk(path.parent)
        if model.bytes > room:
            raise ResourceError(
                f"The model takes {human_bytes(model.bytes)}, but {path} has {human_bytes(room)} of free "
                "disk; give another place."
            )
        writer.write_facts(model.label_counts, model.label_names, model.text)
        for t, part in enumerate(model.trees):
            for name, array in (("features", part.features), ("weights", part.weights)):
                with writer.grow(f"tree-{t}/{name}.npy", array.dtype.str) as stream:
                    stream.write(np.ascontiguousarray(array).data)
            writer.write(f"tree-{t}/child_ptr.npy", part.tree.child_ptr)
            writer.write(f"tree-{t}/children.npy", part.tree.children)
            writer.write(f"tree-{t}/feature_ptr.npy", part.feature_ptr)
            writer.write(f"tree-{t}/checksums.npy", part.checksums)
        kept = {key: value for key, value in model.manifest.items() if key not in ("files", "crc32c")}
        writer.finish(kept | (manifest or {}))
