"""The whole way once, on made-up data, told as a short story."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labeltree.clustering import build_tree
from labeltree.data import Dataset
from labeltree.datasets.synthetic import synthesize
from labeltree.paper import experiments
from labeltree.plan import Plan, make_plan
from labeltree.store import directory_bytes
from labeltree.svm import read_svm, write_svm
from labeltree.system import human_bytes, threads_to_use
from labeltree.train import train_model

LIKE, SCALE = "eur-lex", 0.5
# What of the paper's experiments takes seconds, with so few seeds.
SEEDS = (0, 1)
EXPERIMENTS = ("statistics", "fixed-k", "alpha", "pruning", "theory")


def run_demo(
    folder: Path, report: Path, *, tell: Callable[[str], None], threads: int | None = None
) -> dict[str, Any]:
    """Synthesise data, estimate, train, evaluate and predict; then the paper's quick experiments on them.

    Parameters
    ----------
    folder : Path
        Where the data and the model are written; made if need be.
    report : Path
        Folder for the experiments' report; made if need be, and files of the same names replaced.
    tell : callable
        Takes the story, line by line.
    threads : int, optional
        All usable processors unless given.

    Returns
    -------
    dict
        The figures of the story.
    """
    threads = threads_to_use(threads)
    folder.mkdir(parents=True, exist_ok=True)
    train_file, test_file, path = folder / "train.svm", folder / "test.svm", folder / "model"

    tell(f"$ labeltree synth . --like {LIKE} --scale {SCALE}")
    for file, part in zip((train_file, test_file), synthesize(LIKE, SCALE), strict=True):
        write_svm(file, part)
    train, test = read_svm(train_file, threads=threads), read_svm(test_file, threads=threads)
    tell(
        f"  Synthetic data like EUR-Lex: {train.n_instances:,} training and {test.n_instances:,} test\n"
        f"  documents, {train.n_features:,} words, {train.n_labels:,} labels."
    )

    tell("\n$ labeltree estimate train.svm")
    tree = build_tree(train, threads=threads)
    plan = make_plan(train, tree, threads=threads)
    for line in _estimate(plan):
        tell(f"  {line}")

    tell("\n$ labeltree train train.svm model")
    start = time.perf_counter()
    model = train_model(train, plan, path)
    seconds = time.perf_counter() - start
    on_disk = directory_bytes(path)
    tell(
        f"  {plan.n_nodes:,} nodes, {plan.n_nodes - 1 + plan.n_labels:,} classifiers and "
        f"{plan.n_weights:,} weights in {seconds:.1f} s, nothing pruned."
    )

    tell("\n$ labeltree evaluate model test.svm")
    start = time.perf_counter()
    labels, scores = model.predict(test.X, threads=threads)
    per_row = 1000 * (time.perf_counter() - start) / test.n_instances
    percent = {name: 100 * value for name, value in model.evaluate(test, labels).items()}
    tell(
        "  "
        + ", ".join(f"P@{k} {percent[f'P@{k}']:.1f} %" for k in (1, 3, 5))
        + f", {per_row:.2f} ms a text."
    )

    tell("\n$ labeltree predict model test.svm | head")
    for row in range(2):
        tell(f"  {_prediction(row, labels[row], scores[row], test.Y[row].indices)}")

    tell(f"\n$ labeltree reproduce {','.join(EXPERIMENTS)} . -o report --seeds {','.join(map(str, SEEDS))}")
    page, claims = _experiments(train, test, report, threads)
    tell(
        f"  Of {len(claims)} statements of the paper, {sum(claim.holds is True for claim in claims)} hold "
        "on these data; the report tells which, and why."
    )

    tell(f"\nestimated {plan.model_bytes} bytes, on disk {on_disk} bytes")
    tell(f"report {page}")
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
        "report": str(page),
    }


def _experiments(
    train: Dataset, test: Dataset, report: Path, threads: int | None
) -> tuple[Path, list[experiments.Claim]]:
    session = experiments.Session([experiments.Split(f"like {LIKE}", train, test)], SEEDS, threads)
    results = [experiments.run(name, session) for name in EXPERIMENTS]
    claims = [claim for result in results for claim in result.claims]
    return experiments.save(results, report, overwrite=True), claims


def _estimate(plan: Plan) -> list[str]:
    size, ovr = human_bytes(plan.model_bytes), human_bytes(plan.paper_ovr_bytes)
    alpha = ", ".join(f"{row['alpha']:.2f}" for row in plan.depths()[1:])
    return [
        f"The model will take {size}, exactly {plan.model_bytes:,} bytes: known before it is trained.",
        f"One-vs-rest would take {ovr}. A tree takes less because a node needs weights only for the",
        f"words of its own texts, a share of its parent's (alpha, from depth 1 down: {alpha}).",
    ]


def _prediction(row: int, labels: Any, scores: Any, truth: Any) -> str:
    right = set(truth.tolist())
    found = ", ".join(
        f"{label}{'*' * (label in right)} {score:.2f}" for label, score in zip(labels, scores, strict=True)
    )
    return f"text {row}, with {len(right)} labels (*): {found}"
