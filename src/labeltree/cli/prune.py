"""`labeltree prune`: sets small weights to zero, and reports the space saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeltree import limits
from labeltree.cli import options, printing
from labeltree.cli.progress import Stages
from labeltree.system import human_bytes


def prune(
    model: options.ModelPath,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Model directory to write.")],
    threshold: Annotated[
        float,
        options.limited(
            "--threshold",
            limits.THRESHOLD,
            "T",
            "Set weights and biases with an absolute value below T to zero",
        ),
    ],
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Write a copy of a model with small weights set to zero.

    Reports the space saved. Pruning can cost precision: evaluate the result.
    """
    from labeltree.model import load
    from labeltree.prune import check_apart
    from labeltree.store import check_target, directory_bytes, read_manifest

    read_manifest(model)
    check_apart(model, out)
    check_target(out, overwrite)
    stages = Stages(quiet or json)
    with stages.stage("load", f"opening {model}"):
        opened = load(model, verify=False)  # each block is verified when it is read
    try:
        with stages.stage("prune", f"pruning {model}") as progress:
            pruned = opened.prune(threshold, out, overwrite=overwrite, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; nothing was written") from None
    figures: dict[str, Any] = {
        "model": str(model),
        "out": str(out),
        **pruned.pruning_report(),
        "bytes_after": directory_bytes(out),
        "seconds": stages.seconds,
    }
    if json:
        printing.print_json(figures)
    elif not quiet:
        print(*_summary(figures), sep="\n")


def _summary(figures: dict[str, Any]) -> list[str]:
    zeroed = figures["nonzeros_before"] - figures["nonzeros_after"]
    paper = _change(figures["paper_bytes_before"], figures["paper_bytes_after"])
    return printing.facts(
        [
            ("model", figures["out"]),
            (
                "pruned",
                f"{zeroed:,} weights with an absolute value below {figures['threshold']:g}: "
                f"{figures['pruned_of_nonzeros']:.1%} of the non-zero weights, "
                f"{figures['pruned_of_all']:.1%} of all weights",
            ),
            ("size", f"{_change(figures['bytes_before'], figures['bytes_after'])} on disk"),
            ("paper", f"{paper} as a sparse tree, 12 bytes per non-zero weight"),
            ("time", printing.human_seconds(figures["seconds"]["prune"])),
        ]
    )


def _change(before: int, after: int) -> str:
    return f"{human_bytes(before)} -> {human_bytes(after)} ({before:,} -> {after:,} bytes)"
