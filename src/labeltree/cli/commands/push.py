"""`labeltree push`: a model is published for others."""

from __future__ import annotations

from typing import Annotated

import typer

from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.cards import About
from labeltree.cli.progress import Stages


@options.takes(about=About)
def push(
    model: options.ModelPath,
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="Where to publish it: hf://user/name, s3://bucket/name, gs://bucket/name, "
            "file:///directory or any other address of fsspec.",
        ),
    ],
    about: About,
    card: Annotated[
        bool, typer.Option("--card/--no-card", help="Publish a card, README.md, unless there is one.")
    ] = True,
    private: Annotated[
        bool,
        typer.Option("--private", help="Create a repository on the Hugging Face Hub that others cannot see."),
    ] = False,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Publish a model.

    All files are verified first. Anybody who may read ADDRESS can use it in place of a model directory, in
    every command and in labeltree.load. Files at ADDRESS that are not of a model are kept.
    """
    from labeltree.errors import InputError
    from labeltree.hub.address import Address
    from labeltree.hub.push import push as publish

    if about.is_given and not card:
        raise InputError("--no-card is given with options of the card", hint="remove one of them")
    stages = Stages(quiet or json)
    shown = Address(address).shown
    text = (lambda: about.card(stages, model, shown)) if about.is_given else card
    done = publish(model, address, overwrite=overwrite, private=private, card=text, stage=stages.stage)
    if json:
        printing.print_json({"model": str(model), **done, "seconds": stages.seconds})
    elif not quiet:
        cards = {"written": "README.md, written", "kept": "README.md, kept as it was", None: "none"}
        pairs = [
            ("published", f"{printing.plural(done['files'], 'file')}, {human_bytes(done['bytes'])}"),
            ("address", done["address"]),
            *([("commit", done["commit"])] if done["commit"] else []),
            ("card", cards[done["card"]]),
        ]
        print(*printing.facts(pairs), sep="\n")
