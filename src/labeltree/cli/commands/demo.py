"""`labeltree demo`: the whole workflow on synthetic data, with a comment on each step."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_RANKS

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.paper.experiments import Claim
    from labeltree.training.plan import Plan

LIKE, SCALE = "eur-lex", 0.15
# The experiments of the paper that take seconds, with few seeds.
SEEDS = (0, 1)
EXPERIMENTS = ("statistics", "fixed-k", "alpha", "pruning", "theory")


def demo(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data, the model and the report in this new directory."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for the report. Default: `report` in the --out directory, or a temporary one.",
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Show the whole workflow on synthetic data.

    Generates data, estimates the size of a model, trains and evaluates it, predicts labels, and reproduces
    figures of the paper. Takes less than half a minute. The figures need matplotlib (the extra plots).
    """
    from labeltree.paper import experiments

    if out is not None and out.exists():
        raise InputError("already exists", file=out, hint="choose a new directory")
    if report is not None and report.exists() and not report.is_dir():
        raise InputError("is a file, not a directory", file=report, hint="choose another name")
    with_report = True
    try:
        experiments.check_plots(EXPERIMENTS)
    except InputError as error:
        if report is not None:
            raise
        printing.note(f"Skipping the report: {error}.")
        with_report = False
    with contextlib.ExitStack() as stack:
        if report is None and with_report:
            # A temporary report is kept, for the user to open it.
            report = out / "report" if out else Path(tempfile.mkdtemp(prefix="labeltree-report-"))
        if out is None:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labeltree-demo-")))
        figures = run_demo(out, report, threads=threads, write=(lambda line: None) if json else _print)
    if json:
        printing.print_json(figures)


def _print(line: str) -> None:
    print(line, flush=True)


def run_demo(
    directory: Path, report: Path | None, *, write: Callable[[str], None], threads: int | None = None
) -> dict[str, Any]:
    """Generate data, estimate, train, evaluate and predict; then run quick experiments of the paper.

    Parameters
    ----------
    directory : Path
        Where the data and the model are written; created if it does not exist.
    report : Path or None
        Directory for the report of the experiments; created if it does not exist. Files are replaced. None
        for no experiments.
    write : callable
        Takes the comments, line by line.
    threads : int, optional
        Default: all CPUs.

    Returns
    -------
    dict
        The figures in the comments.
    """
    from labeltree.data.svm import read_svm, write_svm
    from labeltree.data.synthetic import synthesize
    from labeltree.evaluation.evaluate import Labeled
    from labeltree.model.publish import directory_bytes
    from labeltree.training.fill import train_model
    from labeltree.training.train import build_plan

    directory.mkdir(parents=True, exist_ok=True)
    train_file, test_file, path = (directory / name for name in ("train.svm", "test.svm", "model"))

    write(f"$ labeltree synth . --like {LIKE} --scale {SCALE}")
    for file, part in zip((train_file, test_file), synthesize(LIKE, SCALE), strict=True):
        write_svm(file, part)
    train, test = read_svm(train_file, threads=threads), read_svm(test_file, threads=threads)
    write(
        f"  Synthetic data like EUR-Lex: {train.n_instances:,} training and {test.n_instances:,} test\n"
        f"  documents, {train.n_features:,} words, {train.n_labels:,} labels."
    )

    write("\n$ labeltree estimate train.svm")
    plan = build_plan(train, threads=threads)
    for line in _estimate(plan):
        write(f"  {line}")

    write("\n$ labeltree train train.svm model")
    start = time.perf_counter()
    model = train_model(train, plan, path)
    seconds = time.perf_counter() - start
    on_disk = directory_bytes(path)
    write(
        f"  {plan.n_nodes:,} nodes, {plan.n_nodes - 1 + plan.n_labels:,} classifiers and "
        f"{plan.n_weights:,} weights in {seconds:.1f} s, without pruning."
    )

    write("\n$ labeltree evaluate model test.svm")
    start = time.perf_counter()
    labels, scores = model.predict(test.X, threads=threads)
    per_row = 1000 * (time.perf_counter() - start) / test.n_instances
    found = Labeled.of(test, model).metrics(labels, DEFAULT_RANKS)
    percent = {name: 100 * value for name, value in found.items()}
    precision = ", ".join(f"P@{k} {percent[f'P@{k}']:.1f}%" for k in DEFAULT_RANKS)
    write(f"  {precision}, {per_row:.2f} ms per document.")

    write("\n$ labeltree predict model test.svm | head")
    for row in range(2):
        write(f"  {_prediction(row, labels[row], scores[row], test.Y[row].indices)}")

    page = None
    if report is not None:
        names, seeds = ",".join(EXPERIMENTS), ",".join(map(str, SEEDS))
        write(f"\n$ labeltree reproduce {names} . -o report --seeds {seeds}")
        page, claims = _experiments(train, test, report, threads)
        write(
            f"  {sum(claim.holds is True for claim in claims)} of {len(claims)} claims of the paper hold on "
            "this data; the report shows which, and why."
        )

    write(f"\nestimated {plan.model_bytes} bytes, on disk {on_disk} bytes")
    if page is not None:
        write(f"report {page}")
    return {
        "instances": train.n_instances,
        "features": train.n_features,
        "labels": train.n_labels,
        "nodes": plan.n_nodes,
        "weights": plan.n_weights,
        "estimated_bytes": plan.model_bytes,
        "model_bytes": on_disk,
        "train_seconds": seconds,
        "milliseconds_per_row": per_row,
        **{name: round(value, 4) for name, value in percent.items()},
        "report": None if page is None else str(page),
    }


def _estimate(plan: Plan) -> list[str]:
    size, one_vs_rest = human_bytes(plan.model_bytes), human_bytes(plan.ovr_bytes)
    alpha = ", ".join(f"{row['alpha']:.2f}" for row in plan.depths()[1:])
    return [
        f"The model will take {size}, exactly {plan.model_bytes:,} bytes: known before training.",
        f"One-vs-rest would take {one_vs_rest} in the same format. A tree takes less because a node needs",
        f"weights only for the words of its own documents, a share of its parent's (alpha: {alpha}).",
    ]


def _prediction(row: int, labels: Any, scores: Any, truth: Any) -> str:
    true_labels = set(truth.tolist())
    best = ", ".join(
        f"{label}{'*' * (label in true_labels)} {score:.2f}"
        for label, score in zip(labels, scores, strict=True)
    )
    return f"document {row}, with {printing.plural(len(true_labels), 'label')} (*): {best}"


def _experiments(
    train: Dataset, test: Dataset, report: Path, threads: int | None
) -> tuple[Path, list[Claim]]:
    from labeltree.paper import experiments

    session = experiments.Session([experiments.Split(f"synthetic-{LIKE}", train, test)], SEEDS, threads)
    results = [experiments.run(name, session) for name in EXPERIMENTS]
    claims = [claim for result in results for claim in result.claims]
    return experiments.save(results, report, overwrite=True), claims
