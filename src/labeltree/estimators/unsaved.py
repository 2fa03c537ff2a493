"""Models without a directory of their own: how they come to be, and how they get one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from labeltree.data import Dataset
from labeltree.model import Model
from labeltree.plan import Plan
from labeltree.train import train_model


def train_unsaved(
    dataset: Dataset,
    plan: Plan,
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
    dataset, plan
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
        plan.check_resources(Path(tempfile.gettempdir()), memory_limit)
    with tempfile.TemporaryDirectory(prefix="labeltree-", ignore_cleanup_errors=True) as folder:
        model = train_model(dataset, plan, Path(folder) / "model", **options)
        model.path = None
    return model
