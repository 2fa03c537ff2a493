"""`labeltree page`: the tree, the sizes and the labels of a model as one HTML file."""

from __future__ import annotations

from pathlib import Path

from labeltree.base.display import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import open_model


def page(
    model: options.ModelPath,
    *,
    out: Path,
    frontier: Path | None = None,
    precision: Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    json: bool = False,
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
    from labeltree.serve.measurements import Measurements
    from labeltree.serve.page import make_page

    stages = Stages(quiet or json)
    check_output(out, overwrite)
    opened = open_model(stages, model)
    measured = Measurements.read(opened, frontier, precision)
    with stages.stage("page", f"writing {out}"):
        made = make_page(opened, model.resolve().name, measured)
        with write_whole(out) as file:
            file.write(made["content"])
    figures = {
        "model": str(model),
        "page": str(out),
        "bytes": len(made["content"]),
        "boxes": made["boxes"],
        "labels": made["labels"],
        "labels_of_model": opened.n_labels,
        "seconds": stages.seconds,
    }
    labels = f"{made['labels']:,} of {printing.plural(opened.n_labels, 'label')}"
    pairs = [
        ("page", f"{out} ({human_bytes(len(made['content']))})"),
        ("shows", f"{made['boxes']:,} boxes of the map; {labels} can be found"),
    ]
    printing.show(figures, printing.facts(pairs), json, quiet)
