"""`labeltree demo`: the whole workflow on a small catalog of products."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from importlib.resources import files
from pathlib import Path

import typer

from labeltree.errors import InputError

FILES = ("catalog-train.tsv", "catalog-test.tsv")
DOCUMENTS = (
    "Boots with a good grip on wet rock.",
    "A light for the handlebar that charges from a USB port.",
    "Keeps tea hot on a long walk.",
)
COMMANDS = (
    f"estimate {FILES[0]} --clusters 10 --quiet",
    f"train {FILES[0]} model --clusters 10",
    f"evaluate model {FILES[1]}",
    "predict model documents.txt --top 3 --quiet",
    f"explain model '{DOCUMENTS[-1]}' --top 1 --words 3",
)


def demo(*, out: Path | None = None) -> None:
    """Show the whole workflow on a small catalog of products.

    Estimates the size of a model, trains and evaluates it, predicts the labels of new documents, and
    explains one of them. Takes a few seconds.

    Parameters
    ----------
    out : DIR
        Keep the data and the model in this new directory.
    """
    from labeltree.cli.app import main

    if out is not None and out.exists():
        raise InputError("already exists", file=out, hint="choose a new directory")
    with contextlib.ExitStack() as stack:
        if out is None:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labeltree-demo-")))
        out.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (out / name).write_bytes(files("labeltree.data").joinpath("examples", name).read_bytes())
        (out / "documents.txt").write_text("".join(f"{document}\n" for document in DOCUMENTS))
        stack.callback(os.chdir, Path.cwd())
        os.chdir(out)
        for command in COMMANDS:
            print(f"$ labeltree {command}", flush=True)
            if code := main(shlex.split(command)):
                raise typer.Exit(code)
            print()
