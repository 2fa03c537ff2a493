"""`labeltree convert`, `tree` and `page`: data and models as files for other programs and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text, open_model
from labeltree.errors import InputError, alternatives

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset


def convert(
    data: list[str],
    out: Path,
    *,
    text: Text,
    model: Path | None = None,
    header: bool = False,
    overwrite: bool = False,
    threads: options.Threads = None,
    display: printing.Display,
) -> None:
    """Write the features of a file as LIBSVM or NumPy arrays.

    Documents become TF-IDF features. An .npz file has the features as `scipy.sparse.load_npz` reads them,
    the labels of each row as labels_indptr and labels_indices, label_names, and for documents
    feature_names.

    Parameters
    ----------
    out
        File to write: .svm or .libsvm (also .gz, .bz2 or .xz after it), or .npz.
    model
        Compute the features of this model, for instance for test data. Default: learn new ones.
    header
        Begin a LIBSVM file with the numbers of rows, features and labels.
    """
    from labeltree.base.files import check_output
    from labeltree.base.paths import format_of
    from labeltree.data.svm import write_svm

    form = "npz" if out.suffix.lower() == ".npz" else format_of(out)
    _check_form(out, form, ("svm", "libsvm", "npz"))
    if header and form == "npz":
        raise InputError("--header applies only to LIBSVM files", hint="remove it")
    check_output(out, overwrite)
    opened = None if model is None else open_model(display, model)
    if opened is not None and text.text_options():
        raise InputError("options for text features are given with --model", hint="remove one of them")
    dataset = DataFile(data, text, opened).read(display, threads, require_labels=False)
    if opened is not None:
        dataset = replace(dataset.align(opened.label_names, opened.n_labels), text=dataset.text)
    with display.stage("write", f"writing {out}"):
        if form == "svm":
            write_svm(out, dataset, header=header)
        else:
            _write_npz(out, dataset)
    size = out.stat().st_size
    figures = {"output": str(out), **printing.counts(dataset), "bytes": size}
    display.show(figures, [f"{out}: {printing.shape(figures)}, {human_bytes(size)}"])


def _write_npz(path: Path, dataset: Dataset) -> None:
    """Write the features and the labels as NumPy arrays in one file, without pickle."""
    import numpy as np

    from labeltree.base.files import write_whole

    X, Y = dataset.X, dataset.Y
    arrays: dict[str, Any] = {
        "format": b"csr",
        "shape": X.shape,
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "labels_indptr": Y.indptr,
        "labels_indices": Y.indices,
        "n_labels": Y.shape[1],
    }
    names = None if dataset.text is None else dataset.text.names
    for key, value in (("label_names", dataset.label_names), ("feature_names", names)):
        if value is not None:
            arrays[key] = np.array(value, dtype=np.str_)
    with write_whole(path) as file:
        np.savez_compressed(file, **arrays)  # no objects, so no pickle


def tree(
    model: options.ModelPath,
    *,
    output: Path,
    number: Annotated[int, limits.Whole(0)] = 0,
    max_children: Annotated[int | None, limits.Whole(1)] = None,
    overwrite: bool = False,
    display: printing.Display,
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
    _check_form(output, form, FORMS)
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
    display.show({"output": str(output), **figures}, [line])


def _check_form(out: Path, form: str | None, forms: Sequence[str]) -> None:
    """Refuse the name of a file that does not end in one of the formats."""
    if form not in forms:
        what = "the format cannot be detected from the name of the file"
        raise InputError(what, file=out, hint=f"end it in {alternatives([f'.{name}' for name in forms])}")


def page(
    model: options.ModelPath,
    *,
    out: Path,
    frontier: Path | None = None,
    precision: Path | None = None,
    overwrite: bool = False,
    display: printing.Display,
) -> None:
    """Write a page that shows what a model contains.

    It has a map of the tree, a search for labels, and how the model was trained. It needs no service, no
    network and no other file. Small groups of a large tree are summed up.

    Parameters
    ----------
    out : FILE
        HTML file to write.
    frontier : FILE
        Size against precision, as written by labeltree compress --report. Default: frontier.csv in MODEL, if
        it exists.
    precision : FILE
        Precision of each label, as written by labeltree evaluate --per-label. Default: precision.csv in
        MODEL, if it exists.
    """
    from labeltree.base.files import check_output, write_whole
    from labeltree.serve.model_quality import Measurements
    from labeltree.serve.page import make_page

    check_output(out, overwrite)
    opened = open_model(display, model)
    measured = Measurements.read(opened, frontier, precision)
    with display.stage("page", f"writing {out}"):
        html, n_boxes, n_labels = make_page(opened, model.resolve().name, measured)
        with write_whole(out) as file:
            file.write(html.encode())
    size = len(html.encode())
    figures = {
        "model": str(model),
        "page": str(out),
        "bytes": size,
        "boxes": n_boxes,
        "labels": n_labels,
        "labels_of_model": opened.n_labels,
    }
    labels = f"{n_labels:,} of {printing.plural(opened.n_labels, 'label')}"
    line = f"{out}: {human_bytes(size)}, {n_boxes:,} boxes of the map; {labels} can be found"
    display.show(figures, [line])
