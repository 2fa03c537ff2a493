"""Measure what it costs to wait for the disk, so that a run survives a power failure.

usage: python benchmarks/sync_cost.py TRAIN.svm [--pairs 5] [--threads N] [--out DIR]      prints JSON

Runs with ``--sync`` and ``--no-sync`` alternate, and so does which of a pair is first. The mean ratio of the
pairs is reported with its standard error; 1.03 means that waiting costs 3%. Both kinds write the journal.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

KINDS = ("sync", "no-sync")


def run(train, model, kind, threads=None):
    """Train once; return the seconds of CPU and of wall time."""
    command = [sys.executable, "-m", "labeltree", "train", str(train), str(model), f"--{kind}", "--quiet"]
    if threads:
        command += ["--threads", str(threads)]
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"cpu": cpu, "wall": time.perf_counter() - start}


def summary(pairs):
    """Return the mean ratio of each figure over pairs, with its standard error."""
    report = {}
    for figure in ("cpu", "wall"):
        ratios = np.array([pair["sync"][figure] / pair["no-sync"][figure] for pair in pairs])
        error = float(ratios.std(ddof=1) / np.sqrt(ratios.size)) if ratios.size > 1 else None
        report[f"{figure}_ratio"] = {"mean": float(ratios.mean()), "standard_error": error}
    return report


def measure(train, n_pairs, threads=None, out=None):
    """Run pairs, and return all times with their summary."""
    pairs = []
    with tempfile.TemporaryDirectory(dir=out) as folder:
        model = Path(folder) / "model"
        for number in range(n_pairs):
            pair = {}
            for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                os.sync()  # no run waits for what the one before has written
                pair[kind] = run(train, model, kind, threads)
                shutil.rmtree(model)
            pairs.append(pair)
    return {"train": str(train), "pairs": pairs, **summary(pairs)}


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, help="directory on the disk to measure")
    given = parser.parse_args()
    print(json.dumps(measure(given.train, given.pairs, given.threads, given.out), indent=2))


if __name__ == "__main__":
    main()
