"""Measure thresholds and calibration: chosen on a held-out tenth of the training data, measured on test data.

    python benchmarks/decisions.py train.svm test.svm

Trains on nine tenths of the training file. Prints the figures of the accepted labels on the test file, for
the threshold that training chose and for each goal, and the expected calibration error before and after.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import labeltree
from labeltree.data.inputs import read_data
from labeltree.evaluation.accepted import Decision, labeled_candidates
from labeltree.evaluation.calibration import choose_threshold, fit_calibration, reliability
from labeltree.settings import MAX_ACCEPTED

SHOWN = ("precision", "recall", "micro_f1", "macro_f1", "row_f1", "rows_without")


def main(train_file: str, test_file: str) -> None:
    """Train, choose and print."""
    data = labeltree.read_svm(train_file).normalize()
    test = read_data(test_file, like=data)
    order = np.random.default_rng(0).permutation(data.n_instances)
    held_out, kept = np.split(order, [data.n_instances // 10])

    def rows(chosen):
        chosen = np.sort(chosen)
        return replace(data, X=data.X[chosen], Y=data.Y[chosen])

    train = rows(kept)
    with tempfile.TemporaryDirectory() as folder:
        plan = labeltree.make_plan(train, labeltree.build_tree(train))
        model = labeltree.train_model(train, plan, Path(folder) / "model", sync=False)

        def ranked(dataset):
            truth = dataset.align(model.label_names, model.n_labels).Y
            return labeled_candidates(truth, *model.predict(dataset.X, top=MAX_ACCEPTED))

        validation, unseen = ranked(rows(held_out)), ranked(test)
        decisions = {"0.5": Decision(0.5), "training": model.decision}
        for metric in ("micro_f1", "row_f1", "macro_f1"):
            decisions[metric] = choose_threshold(validation, metric, n_labels=model.n_labels)
        print(f"{'chosen by':<10} {'threshold':>9}", *(f"{name:>12}" for name in SHOWN))
        for name, decision in decisions.items():
            if decision is not None:
                figures = unseen.measure(decision)
                cells = (f"{100 * figures[shown]:12.2f}" for shown in SHOWN)
                print(f"{name:<10} {decision.threshold:9.4f}", *cells)
        calibration = fit_calibration(validation)
        calibrated = replace(unseen, scores=calibration.apply(unseen.scores))
        print(f"calibration error {reliability(unseen)[1]:.4f}, calibrated {reliability(calibrated)[1]:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("train_file")
    parser.add_argument("test_file")
    main(**vars(parser.parse_args()))
