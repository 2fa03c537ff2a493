"""Compare trees with and without hard negatives: metrics, paired differences, CPU time.

usage: python benchmarks/hard_negatives.py DIR [DIR ...] [--variants 10:0.2 5:0.2] [--seeds 3]

DIR holds train.svm and test.svm, plain or compressed. A variant is the number of hard negatives and the cost
of foreign rows; "ovr" is one-vs-rest. Each seed builds its own trees, which all variants share, and holds out
another tenth of the training rows; with --test, all seeds are evaluated on the test file. Every variant
chooses its own score function. Differences to the tree without hard negatives are in points, with their
paired standard errors.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import program
from seeds import find

from labeltree import SolverSettings, TreeSettings, build_plan, read_svm, train_model
from labeltree.evaluation.accepted import labeled_candidates
from labeltree.evaluation.calibration import reliability
from labeltree.evaluation.metrics import Ranking, propensities

METRICS = ("P@1", "P@3", "P@5", "R@5", "PSP@1", "PSP@3", "PSP@5")


def parts(folder, seed, options):
    """Return the rows to train on, and those to evaluate on."""
    train = read_svm(find(folder, "train"))
    order = np.random.default_rng(1).permutation(train.n_instances)
    if options.rows and options.rows < train.n_instances:
        train = train.take(np.sort(order[: options.rows]))
        order = np.random.default_rng(1).permutation(train.n_instances)
    if options.test:
        return train, read_svm(find(folder, "test"), like=train)
    tenth = train.n_instances // 10
    held_out = order[seed * tenth : (seed + 1) * tenth]
    return train.take(np.setdiff1d(order, held_out)), train.take(np.sort(held_out))


def measure(plan, train, test, options):
    """Train and predict; return figures, and each metric row by row in points."""
    with tempfile.TemporaryDirectory(prefix="labeltree-hard-") as place:
        start = time.process_time()
        model = train_model(train, plan, Path(place) / "model")
        seconds = time.process_time() - start
        labels, scores = model.predict(test.X, top=20)  # numbers: the data has no names
    ranking = Ranking.of(test.Y, labels, 5, propensities(train.Y))
    rows = np.array([100 * ranking.metric(name).rows for name in METRICS])
    error = 100 * reliability(labeled_candidates(test.Y, labels, scores))[1]
    score = f"{model.score.function} {model.score.path_weight:g}"
    return {"seconds": seconds, "bytes": model.bytes, "score": score, "ECE": error}, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--variants", nargs="+", default=["5:0.2", "10:0.1", "10:0.2", "10:0.35", "10:1"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clusters", type=int, default=TreeSettings.clusters)
    parser.add_argument("--rows", type=int, help="a random sample of the training rows")
    parser.add_argument("--weights", default=None)
    parser.add_argument("--prune", type=float)
    parser.add_argument("--test", action="store_true", help="evaluate on the test file")
    parser.add_argument("--json", type=Path, help="a file to which figures are added")
    options = parser.parse_args()
    for folder in options.folders:
        found = {variant: [] for variant in ("0", *options.variants)}
        for seed in range(options.seeds):
            train, test = parts(folder, seed, options)
            trees = TreeSettings(seed=seed, clusters=options.clusters)
            start = time.process_time()
            plan = build_plan(train, trees, SolverSettings(seed=seed))
            built = time.process_time() - start
            for variant, runs in found.items():
                number, _, cost = variant.partition(":")
                ready = plan.clip(1) if variant == "ovr" else plan
                if cost:
                    hard = replace(plan.settings, hard_negatives=int(number), foreign_cost=float(cost))
                    ready = replace(plan, settings=hard)
                runs.append(measure(ready, train, test, options))
                runs[-1][0]["seconds"] += built
        base = np.stack([rows for _, rows in found["0"]])  # seeds x metrics x rows of the test data
        print(f"{folder.name}, {options.seeds} seeds: " + ", ".join(METRICS))
        for variant, runs in found.items():
            rows = np.stack([rows for _, rows in runs])
            # Seeds share the rows of the test file; otherwise, each has its own.
            each = rows - base
            each = each.mean(axis=0) if options.test else np.concatenate(list(each), axis=1)
            errors = each.std(axis=1) / each.shape[1] ** 0.5
            figures = [figures for figures, _ in runs]
            ratio = sum(f["seconds"] for f in figures) / sum(f["seconds"] for f, _ in found["0"])
            shown = [f"{m:+.2f}±{e:.2f}" for m, e in zip(each.mean(axis=1), errors, strict=True)]
            if variant == "0":
                shown = [f"{value:.2f}" for value in rows.mean(axis=(0, 2))]
            same = "same" if {f["bytes"] for f in figures} == {f["bytes"] for f, _ in found["0"]} else "other"
            ece = np.mean([f["ECE"] for f in figures])
            scores = ", ".join(f["score"] for f in figures)
            print(
                f"{variant:8} {' '.join(shown)}  ECE {ece:.2f}  x{ratio:.2f}, {same} bytes, {scores}",
                flush=True,
            )
            if options.json:
                report = {"data": folder.name, "variant": variant, "test": options.test, "ratio": ratio}
                report |= {"mean": dict(zip(METRICS, rows.mean(axis=(0, 2)).round(3).tolist(), strict=True))}
                report |= {
                    "difference": each.mean(axis=1).round(3).tolist(),
                    "error": errors.round(3).tolist(),
                }
                with open(options.json, "a") as file:
                    file.write(json.dumps(report | {"ECE": ece, "scores": scores}) + "\n")


if __name__ == "__main__":
    program.run(main)
