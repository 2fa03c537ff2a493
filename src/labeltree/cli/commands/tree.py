"""`labeltree tree`: the label tree of a model for other programs, or as a drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.errors import InputError, alternatives


def tree(
    model: options.ModelPath,
    *,
    output: Path,
    number: Annotated[int, limits.Whole(0)] = 0,
    max_children: Annotated[int | None, limits.Whole(1)] = None,
    overwrite: bool = False,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Write the label tree of a model as JSON, DOT or a drawing.

    The JSON file has nested lists of labels, which `labeltree train --tree` takes.

    Parameters
    ----------
    output : FILE
        File to write: .json for nested lists, .dot for Graphviz, .svg for a drawing.
    number
        Which tree of the model, from 0.
    max_children
        Draw only N children of each node (.dot, .svg). Default: all.
    """
    from labeltree.base.files import check_output, write_whole
    from labeltree.model.model import load
    from labeltree.trees.export import FORMS, tree_text

    form = output.suffix.lower().removeprefix(".")
    if form not in FORMS:
        endings = alternatives([f".{name}" for name in FORMS])
        raise InputError(
            "the format cannot be detected from the name of the file",
            file=output,
            hint=f"end it in {endings}",
        )
    if form == "json" and max_children is not None:
        raise InputError("--max-children applies only to .dot and .svg", hint="remove it")
    check_output(output, overwrite)
    opened = load(model, verify=False)
    if number >= len(opened.trees):
        count = printing.plural(len(opened.trees), "tree")
        raise InputError(f"--number is {number}, but the model has {count}", hint="count from 0")
    labels = opened.trees[number].tree
    text = tree_text(labels, opened.label_names, form, max_children)
    with write_whole(output) as file:
        file.write(text.encode())
    figures = {"trees": 1, "nodes": labels.n_nodes, "depth": labels.depth, "labels": labels.n_labels}
    line = f"{output}: {printing.forest(figures)}, {printing.plural(labels.n_labels, 'label')}"
    printing.show({"output": str(output), **figures}, [line], json, quiet)
