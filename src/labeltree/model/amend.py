"""Amending a model: other entries in its manifest, while its blocks stay where they are on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import InputError
from labeltree.model.directory import check_target, publish, temporary_directory
from labeltree.model.files import ModelWriter
from labeltree.model.manifest import Description, Manifest, carried_over, read_manifest


def amend_model(
    path: Path,
    manifest: Manifest,
    changes: Mapping[str, Any],
    thresholds: NDArray[np.float32] | None,
) -> None:
    """Replace a model directory by one with the same files and other entries in its manifest.

    The files are linked, or copied where the file system has no links. At every moment, the name leads to the
    old model or to the new one; a process that is killed leaves one of them.

    Parameters
    ----------
    path : Path
        The model directory.
    manifest : Manifest
        What it contained when it was opened; a model that is not the same any more is not replaced.
    changes : mapping
        Entries to set; None removes one.
    thresholds : ndarray of float32 or None
        The thresholds of labels that belong to the entry ``decision``.
    """
    place = Path(os.path.realpath(path))
    check_target(place, overwrite=True)
    described = {**carried_over(manifest), **changes}
    described = {name: value for name, value in described.items() if value is not None or name == "one_based"}
    with temporary_directory(place) as work:
        writer = ModelWriter(work)
        for name, entry in manifest["files"].items():
            _link(place / name, writer.place(name))
            writer.adopt(name, entry)
        writer.write_thresholds(thresholds)
        writer.finish(cast(Description, described))
        if read_manifest(place)["crc32c"] != manifest["crc32c"]:
            what = "the model was replaced while its thresholds were chosen, so nothing was stored"
            raise InputError(what, file=path, hint="run the command again")
        publish(work, place, overwrite=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # no links here, or not to files of others
        shutil.copyfile(source, target)
