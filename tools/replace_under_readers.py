"""Load a model while another process replaces it as fast as it can; count what goes wrong.

    python tools/replace_under_readers.py [LOADS]

Two small models take turns under one name. Each load must give one of them, whole: the same bytes everywhere.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from labeltree import Dataset, Model, build_tree, load, make_plan, train_model

_REPLACE = """
import os, sys
from labeltree import load
first, second, target = sys.argv[1:]
models = load(first), load(second)
while os.getppid() == int(os.environ["PARENT"]):
    for model in models:
        model.save(target, overwrite=True)
"""


def run(loads: int) -> Counter[str]:
    """Load a model so many times, and until both were seen; return how often each, a mix, or an error was."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        expected = {}
        for seed, kind in enumerate(("first", "second")):
            expected[kind] = _content(_train(place / kind, seed))
        shutil.copytree(place / "first", place / "model")
        command = [sys.executable, "-c", _REPLACE, place / "first", place / "second", place / "model"]
        seen: Counter[str] = Counter()
        replacing = subprocess.Popen(command, env={**os.environ, "PARENT": str(os.getpid())})
        try:
            while replacing.poll() is None and (seen.total() < loads or not expected.keys() <= seen.keys()):
                try:
                    found = _content(load(place / "model"))
                except ValueError as error:
                    seen[f"error: {error}"] += 1
                    continue
                seen[next((kind for kind, right in expected.items() if found == right), "mixed")] += 1
            if replacing.poll() is not None:
                seen["error: the process that replaces the model has ended"] += 1
        finally:
            replacing.kill()
            replacing.wait()
    return seen


def _train(path: Path, seed: int) -> Model:
    random = np.random.default_rng(seed)
    X, Y = random.random((40, 20)), random.random((40, 8 + seed)) < 0.3
    data = Dataset.from_matrices(X, Y, [f"label {seed} {j}" for j in range(Y.shape[1])])
    return train_model(data, make_plan(data, [build_tree(data, clusters=3)] * 3), path)


def _content(model: Model) -> list[object]:
    """Return everything that the files of a model hold."""
    arrays = [model.label_counts]
    for part in model.trees:
        arrays += [part.tree.child_ptr, part.tree.children, part.features, part.weights, part.checksums]
    return [model.label_names, model.manifest["labels"], *(array.tobytes() for array in arrays)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("loads", type=int, nargs="?", default=10_000)
    counts = run(parser.parse_args().loads)
    for kind, count in counts.most_common():
        print(f"{count:>8,}  {kind}")
    sys.exit(bool(counts.keys() - {"first", "second"}))
