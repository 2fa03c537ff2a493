"""`labeltree demo`: the whole workflow on the documents of an imaginary shop."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from labeltree.base.system import human_bytes
from labeltree.cli import options
from labeltree.errors import InputError

_CLUSTERS = 10  # there are only 84 labels
_NEW = ("Keeps tea hot on a long walk.", "A light for the handlebar of a bicycle.")


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="New directory for the model. Default: a temporary one."
        ),
    ] = None,
    threads: options.Threads = None,
) -> None:
    """Estimate, train, evaluate, predict and explain, on 400 product descriptions."""
    if out is not None and out.exists():
        raise InputError("already exists", file=out, hint="choose another directory")
    if out is not None:
        out.mkdir(parents=True)
        _run(out, threads)
        return
    with tempfile.TemporaryDirectory(prefix="labeltree-demo-") as place:
        _run(Path(place), threads)


def documents(name: str) -> Path:
    """Return a file of the example documents: in an installed package, or in the repository."""
    import labeltree

    package = Path(labeltree.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / name).is_file():
            return folder / name
    raise InputError("the example documents are not installed", file=package / "examples" / name)


def _run(place: Path, threads: int | None) -> None:
    from labeltree.data.read import read_data
    from labeltree.explain import explain_prediction
    from labeltree.settings import ModelSettings, TreeSettings
    from labeltree.training.train import build_plan, train_dataset

    train, test = documents("catalogue-train.tsv"), documents("catalogue-test.tsv")
    dataset = read_data(train, threads=threads)
    tree = TreeSettings(clusters=_CLUSTERS)
    plan = build_plan(dataset, tree, threads=threads)
    _step(
        f"labeltree estimate {train.name} --clusters {_CLUSTERS}",
        f"{dataset.n_instances} documents, {dataset.n_features} words, {dataset.n_labels} labels",
        f"the model will take {human_bytes(plan.model_bytes)}, exactly {plan.model_bytes:,} bytes",
    )
    _, model = train_dataset(dataset, place / "model", ModelSettings(tree), threads=threads)
    _step(
        f"labeltree train {train.name} model --clusters {_CLUSTERS}",
        f"{plan.n_nodes} nodes, {plan.n_problems} classifiers; on disk {model.bytes:,} bytes",
    )
    found = model.evaluate(test)
    _step(
        f"labeltree evaluate model {test.name}",
        ", ".join(f"P@{k} {100 * found[f'P@{k}']:.1f}%" for k in (1, 3, 5)),
    )
    names, scores = model.predict(list(_NEW), top=3)
    _step(
        "labeltree predict model -",
        *(
            f"{text}  {', '.join(f'{name} {score:.2f}' for name, score in zip(*row, strict=True))}"
            for text, row in zip(_NEW, zip(names, scores, strict=True), strict=True)
        ),
    )
    (best,) = explain_prediction(model, _NEW[0], top=1)
    steps = [
        f"{step.score:.2f} {', '.join(step.child.frequent)}{' ...' * (step.child.labels > 3)}: "
        + ", ".join(f"{word.name} {word.product:+.2f}" for word in step.supporting[:3])
        for step in best.paths[0].steps
    ]
    _step(f'labeltree explain model "{_NEW[0]}"', f"{best.name}:", *(f"  {step}" for step in steps))


def _step(command: str, *lines: str) -> None:
    """Print a command and what it finds."""
    print(f"$ {command}", *(f"  {line}" for line in lines), "", sep="\n")
