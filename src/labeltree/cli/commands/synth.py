"""`labeltree synth`: synthetic data modeled on a well-known dataset."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.cli import options, printing
from labeltree.data.published import SOURCES
from labeltree.errors import InputError


def synth(
    out_dir: Path,
    *,
    like: Annotated[str, limits.OneOf(tuple(SOURCES))] = "eur-lex",
    scale: Annotated[float, limits.Number(0, math.inf, above=True)] = 1.0,
    seed: options.Seed = 0,
    overwrite: bool = False,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Generate a synthetic dataset modeled on a well-known one.

    Parameters
    ----------
    out_dir
        Directory for train.svm and test.svm.
    like
        Dataset to imitate.
    scale : S
        Factor for the number of instances and labels.
    """
    from labeltree.base.files import check_output
    from labeltree.data.svm import write_svm
    from labeltree.data.synthetic import synthesize

    files = {name: out_dir / f"{name}.svm" for name in ("train", "test")}
    if out_dir.is_dir():
        for path in files.values():
            check_output(path, overwrite)
    elif out_dir.exists():
        raise InputError("is a file, not a directory", file=out_dir, hint="choose another name")
    stages = Stages(quiet or json)
    with stages.stage("synth", f"generating data like {like}"):
        parts = dict(zip(files, synthesize(like, scale, seed), strict=True))
    with stages.stage("write", f"writing to {out_dir}"):
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, path in files.items():
            write_svm(path, parts[name])
    figures: dict[str, dict[str, Any]] = {
        name: {
            "path": str(path),
            "instances": parts[name].n_instances,
            "features": parts[name].n_features,
            "labels": parts[name].n_labels,
        }
        for name, path in files.items()
    }
    report = {"like": like, "scale": scale, "seed": seed, **figures, "seconds": stages.seconds}
    lines = printing.facts((part["path"], printing.shape(part)) for part in figures.values())
    printing.show(report, lines, json, quiet)
