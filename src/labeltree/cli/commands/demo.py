"""`labeltree demo`: the whole workflow on a small catalog of products, step by step."""

from __future__ import annotations

import contextlib
import tempfile
import time
from importlib.resources import files
from pathlib import Path

from labeltree.base.system import human_bytes
from labeltree.cli import options
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_RANKS, TreeSettings

FILES = ("catalog-train.tsv", "catalog-test.tsv")
DOCUMENTS = (
    "Boots with a good grip on wet rock.",
    "A light for the handlebar that charges from a USB port.",
    "Keeps tea hot on a long walk.",
)


def demo(*, out: Path | None = None, threads: options.Threads = None) -> None:
    """Show the whole workflow on a small catalog of products.

    Estimates the size of a model, trains and evaluates it, predicts the labels of new documents, and
    explains one of them. Takes a few seconds.

    Parameters
    ----------
    out : DIR
        Keep the data and the model in this new directory.
    """
    if out is not None and out.exists():
        raise InputError("already exists", file=out, hint="choose a new directory")
    with contextlib.ExitStack() as stack:
        if out is None:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labeltree-demo-")))
        _run(out, threads)


def _run(directory: Path, threads: int | None) -> None:
    """Estimate, train, evaluate, predict and explain."""
    from labeltree.data.read import read_data
    from labeltree.explain.prediction import explain_prediction
    from labeltree.training.fill import train_model
    from labeltree.training.train import build_plan

    directory.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        content = files("labeltree.data").joinpath("examples", name).read_bytes()
        (directory / name).write_bytes(content)
    train = read_data(directory / FILES[0], threads=threads)

    print(f"$ labeltree estimate {FILES[0]} --clusters 10")
    plan = build_plan(train, TreeSettings(clusters=10), threads=threads)
    print(f"  {train.n_instances:,} documents, {train.n_features:,} terms, {train.n_labels:,} labels")
    print(f"  The model will take {human_bytes(plan.model_bytes)}: exactly {plan.model_bytes:,} bytes.")

    print(f"\n$ labeltree train {FILES[0]} model --clusters 10", flush=True)
    start = time.perf_counter()
    model = train_model(train, plan, directory / "model")
    seconds = time.perf_counter() - start
    print(f"  {plan.n_weights:,} weights in {seconds:.1f} s; {model.bytes:,} bytes on disk")

    print(f"\n$ labeltree evaluate model {FILES[1]}")
    found = model.evaluate(directory / FILES[1])
    print("  " + ", ".join(f"P@{k} {100 * found[f'P@{k}']:.1f}%" for k in DEFAULT_RANKS))

    print("\n$ labeltree predict model documents.txt --top 3")
    names, scores = model.predict(DOCUMENTS, top=3, threads=threads)
    for document, row, row_scores in zip(DOCUMENTS, names, scores, strict=True):
        best = ", ".join(f"{name} {score:.2f}" for name, score in zip(row, row_scores, strict=True))
        print(f"  {document}\n    {best}")

    print(f'\n$ labeltree explain model "{DOCUMENTS[-1]}" --top 1')
    for explanation in explain_prediction(model, DOCUMENTS[-1], top=1, words=3):
        for step in explanation.paths[0].steps:
            terms = ", ".join(f"{word.name} {word.weight:+.2f}" for word in step.supporting)
            print(f"  {'  ' * step.depth}{', '.join(step.child.frequent)}: {terms}")
