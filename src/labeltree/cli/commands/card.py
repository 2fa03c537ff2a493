"""`labeltree card`: a description of a model for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeltree.cli import options, printing
from labeltree.cli.cards import About
from labeltree.cli.progress import Stages


@options.takes(about=About)
def card(
    model: options.ModelPath,
    about: About,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="File to write. Default: standard output."),
    ] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Write a card that describes a model.

    It is the README.md of a published model: metadata in YAML, how to use the model, its labels, size,
    training, metrics and limitations. `labeltree push` publishes MODEL/README.md, if it exists, and otherwise
    writes a card itself.
    """
    from labeltree.base.files import check_output, write_whole

    if out is not None:
        check_output(out, overwrite)
    stages = Stages(quiet or json)
    text = about.card(stages, model)
    if out is not None:
        with write_whole(out) as file:
            file.write(text.encode())
    if json:
        place = None if out is None else str(out)
        printing.print_json({"model": str(model), "file": place, "card": text, "seconds": stages.seconds})
    elif out is None:
        print(text, end="")
    elif not quiet:
        print(*printing.facts([("card", str(out))]), sep="\n")
