"""`pruning`: what zeroing small weights costs in precision, and what it saves in bytes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from labeltree.data import Dataset
from labeltree.errors import InputError, ResourceError
from labeltree.model import Model
from labeltree.paper.experiments.pruning_shown import (
    KS,
    Row,
    bytes_figure,
    precision_claim,
    threshold_claim,
    threshold_figure,
)
from labeltree.paper.experiments.result import Plot, Result, Table
from labeltree.paper.experiments.session import Session, Split, check_seeds, part_of
from labeltree.plan import Plan
from labeltree.progress import Progress
from labeltree.settings import SolverSettings
from labeltree.store import directory_bytes
from labeltree.system import free_disk, human_bytes
from labeltree.train import train_model

THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
_SHOWN = {
    **{f"P@{k}": f"P@{k}" for k in KS},
    "pruned_share": "pruned, of non-zeros",
    "disk_bytes": "on disk",
    "paper_bytes": "12 bytes a non-zero",
}


def run(
    session: Session,
    progress: Progress | None = None,
    *,
    seeds: Sequence[int] | None = None,
    threshold: float = 0.1,
    thresholds: Sequence[float] = THRESHOLDS,
    clusters: int = 100,
    max_depth: int = 6,
    tolerance: float = 0.001,
    beam: int = 10,
    score: str = "hinge2",
) -> Result:
    """Train once for each data set and seed, prune by each threshold, and judge on the test set.

    Parameters
    ----------
    session : Session
        Data sets without a test set are left out.
    progress : callable, optional
    seeds : sequence of int, optional
        The first three of the session unless given.
    threshold : float, default 0.1
        The one of the table; the paper's unless given.
    thresholds : sequence of float
        Those of the curves.
    clusters, max_depth : int
        K and d_max.
    tolerance : float, default 0.001
        Of the solver; the smallest that single precision serves.
    beam : int
    score : str
        How margins become scores; that of LibMultiLabel 0.6, which the paper used, unless given.

    Returns
    -------
    Result
    """
    seeds = tuple(session.seeds[:3] if seeds is None else seeds)
    check_seeds(seeds)
    wanted = _check_thresholds([threshold, *thresholds])
    judged = [(split, split.test) for split in session.splits if split.test is not None]
    if not judged:
        raise InputError(
            "none of the data sets has a test set to judge by, expected one at least; give one with a test "
            "file, or leave the experiment `pruning` out."
        )
    settings = SolverSettings(tolerance=tolerance, max_iterations=1000, bias=0)
    rows: list[Row] = []
    runs = [(split, test, seed) for split, test in judged for seed in seeds]
    for number, (split, test, seed) in enumerate(runs):
        part = part_of(progress, number, len(runs))
        plan = session.plan(split.name, clusters, max_depth, seed, part_of(part, 0, 3))
        plan = replace(plan, settings=settings)
        rows += _measure(split, test, plan, seed, wanted, beam, score, session.threads, part)
    means = _means(rows)
    left_out = [split.name for split in session.splits if split.test is None]
    return Result(
        name="pruning",
        title="Pruning: what small weights are worth",
        source="the precision without and with pruning (table:prunning-hurt-performance)",
        introduction=(
            "Many tree-based methods set small weights to zero to save space. What does that cost? Here a "
            f"model is trained once for each seed, every weight w with |w| < {threshold:g} is set to zero in "
            "a copy of it, and both are judged on the test set: the share of right labels among the first "
            "1, 3 and 5 that are predicted. Each number is the mean over "
            f"{_count(len(seeds), 'seed')}. Beside it stand the weights that were pruned, and the bytes: of "
            "the model directory, whose blocks stay dense but for features that no label of a node needs any "
            "more, and of the paper's sparse format, 12 for each weight that is not zero. In the paper's own "
            "table, on four data sets, ten of the twelve scores fall, one stays and one rises."
            + (f" {_names(left_out)} left out: no test set to judge by." if left_out else "")
        ),
        settings={
            "seeds": list(seeds),
            "threshold": threshold,
            "thresholds": wanted,
            "clusters": clusters,
            "max_depth": max_depth,
            "loss": settings.loss,
            "cost": settings.cost,
            "tolerance": settings.tolerance,
            "max_iterations": settings.max_iterations,
            "bias": settings.bias,
            "beam": beam,
            "score": score,
            "left_out": left_out,
        },
        tables=[
            Table(
                "pruning",
                f"Precision without and with |w| < {threshold:g} set to zero, in percent, the mean over "
                f"{_count(len(seeds), 'seed')} (table:prunning-hurt-performance).",
                {"data": "data set", "pruning": "pruning", **_SHOWN},
                [
                    {"pruning": "yes" if row["threshold"] else "no", **row}
                    for row in means
                    if row["threshold"] in (0, threshold)
                ],
            ),
            Table(
                "pruning-thresholds",
                "The same for more thresholds.",
                {"data": "data set", "threshold": "threshold", **_SHOWN},
                means,
            ),
            Table(
                "pruning-runs",
                "Every data set, seed and threshold.",
                {"data": "data set", "seed": "seed", "threshold": "threshold", **_SHOWN},
                rows,
                shown=False,
            ),
        ],
        plots=[
            Plot(
                "pruning-thresholds",
                "Change of precision when weights below a threshold are set to zero. The dotted line is the "
                f"threshold of the table, {threshold:g}.",
                threshold_figure(means, threshold),
            ),
            Plot(
                "pruning-bytes",
                "Change of precision against the size of the model: of its directory (solid), and with 12 "
                "bytes for each weight that is not zero (dashed). Not pruned is at the right.",
                bytes_figure(means),
            ),
        ],
        claims=[
            precision_claim(rows, threshold),
            threshold_claim(means),
        ],
    )


def _measure(
    split: Split,
    test: Dataset,
    plan: Plan,
    seed: int,
    thresholds: Sequence[float],
    beam: int,
    score: str,
    threads: int | None,
    progress: Progress | None,
) -> list[Row]:
    """Train one model, and judge it and its pruned copies, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="labeltree-pruning-") as folder:
        place = Path(folder)
        _check_room(plan, place)
        model = train_model(split.train, plan, place / "model", progress=part_of(progress, 1, 3))
        known = {"data": split.name, "test_instances": test.n_instances, "seed": seed}
        judging = part_of(progress, 2, 3)

        def judge(judged: Model) -> Row:
            predicted, _ = judged.predict(test.X, top=max(KS), beam=beam, score=score, threads=threads)
            found = judged.evaluate(test, predicted, ks=KS)
            return {f"P@{k}": 100 * found[f"P@{k}"] for k in KS}

        rows: list[Row] = []
        for number, threshold in enumerate(thresholds):
            pruned = model.prune(threshold, place / "pruned", overwrite=True)
            report = pruned.pruning_report()
            rows.append(
                {
                    **known,
                    "threshold": threshold,
                    **judge(pruned),
                    "weights": report["weights"],
                    "nonzeros": report["nonzeros_after"],
                    "pruned_share": report["pruned_of_nonzeros"],
                    "pruned_of_all_share": report["pruned_of_all"],
                    "disk_bytes": directory_bytes(place / "pruned"),
                    "paper_bytes": report["paper_bytes_after"],
                }
            )
            if judging is not None:
                judging((number + 1) / len(thresholds))
        whole = {
            **known,
            "threshold": 0.0,
            **judge(model),
            "weights": report["weights"],
            "nonzeros": report["nonzeros_before"],
            "pruned_share": 0.0,
            "pruned_of_all_share": 0.0,
            "disk_bytes": directory_bytes(place / "model"),
            "paper_bytes": report["paper_bytes_before"],
        }
        return [whole, *rows]


def _check_room(plan: Plan, place: Path) -> None:
    """Refuse what memory or disk cannot hold; there are two pruned copies when one replaces the other."""
    plan.check_resources(place)
    free = free_disk(place)
    if 3 * plan.model_bytes > free:
        raise ResourceError(
            f"A model and its pruned copies take up to {human_bytes(3 * plan.model_bytes)}, but "
            f"{place.parent} has {human_bytes(free)} of free disk; set TMPDIR to a folder with more."
        )


def _means(rows: list[Row]) -> list[Row]:
    """The mean over the seeds of each data set and threshold."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["threshold"]), []).append(row)
    return [
        {
            "data": name,
            "threshold": threshold,
            "test_instances": group[0]["test_instances"],
            "seeds": len(group),
            **{f"P@{k}": float(np.mean([row[f"P@{k}"] for row in group])) for k in KS},
            **{
                key: float(np.mean([row[key] for row in group]))
                for key in ("pruned_share", "pruned_of_all_share")
            },
            **{
                key: round(float(np.mean([row[key] for row in group])))
                for key in ("weights", "nonzeros", "disk_bytes", "paper_bytes")
            },
        }
        for (name, threshold), group in groups.items()
    ]


def _check_thresholds(thresholds: Iterable[float]) -> list[float]:
    """Those above 0, each once, rising; 0, the model as it is, is always judged."""
    given = [float(threshold) for threshold in thresholds]
    if not all(math.isfinite(threshold) and threshold >= 0 for threshold in given) or given[0] == 0:
        raise InputError(
            f"got the thresholds {given}, expected finite numbers of at least 0, and that of the table, the "
            "first, above 0"
        )
    return sorted({threshold for threshold in given if threshold > 0})


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _names(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
