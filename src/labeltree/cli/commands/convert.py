"""`labeltree convert`: the features of a data file as LIBSVM or as NumPy arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labeltree.base.display import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Text, open_model
from labeltree.errors import InputError


def convert(
    data: str,
    out: Path,
    *,
    text: Text,
    model: Path | None = None,
    header: bool = False,
    overwrite: bool = False,
    threads: options.Threads = None,
    one_based: bool | None = None,
    quiet: bool = False,
    json: bool = False,
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
    from labeltree.data.columns import format_of
    from labeltree.data.svm import write_svm

    form = "npz" if out.suffix.lower() == ".npz" else format_of(out)
    if form not in ("npz", "svm"):
        raise InputError(
            "the format cannot be detected from the name of the file",
            file=out,
            hint="end it in .svm, .libsvm or .npz",
        )
    if header and form == "npz":
        raise InputError("--header applies only to LIBSVM files", hint="remove it")
    check_output(out, overwrite)
    stages = Stages(quiet or json)
    opened = None if model is None else open_model(stages, model)
    if opened is not None and text.settings() != Text().settings():
        raise InputError("options for text features are given with --model", hint="remove one of them")
    source = DataFile(data, text, one_based, opened)
    dataset = source.read(stages, threads, require_labels=False)
    if opened is not None:
        dataset = replace(dataset.align(opened.label_names, opened.n_labels), text=dataset.text)
    with stages.stage("write", f"writing {out}"):
        if form == "svm":
            write_svm(out, dataset, header=header)
        else:
            from labeltree.data.export import write_npz

            write_npz(out, dataset)
    size = out.stat().st_size
    figures = {
        "instances": dataset.n_instances,
        "features": dataset.n_features,
        "labels": dataset.n_labels,
    }
    line = f"{out}: {printing.shape(figures)}, {human_bytes(size)}"
    printing.show({"output": str(out), **figures, "bytes": size}, [line], json, quiet)
