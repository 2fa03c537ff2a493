"""Compare `labeltree estimate --quick` with the exact size: error, coverage of the interval, and time.

    python benchmarks/quick_size.py DATA... [--seeds 20] [--clusters 100] [--max-depth 6] [--weights float32]

DATA are directories with train.svm, or LIBSVM files. Reading the data is not timed; both times are CPU
seconds: of building the plan, and of the estimate. The exact size is that of the tree with seed 0. Where the
estimate is exact, only seed 0 is compared. Data so small that the
estimate is exact is compared for seed 0 only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import labeltree
from labeltree.sizing import SizeEstimate


def measure(
    path: Path, seeds: int, threads: int, storage: labeltree.StorageSettings, **tree: int
) -> dict[str, object]:
    """Return the figures of one dataset."""
    data = labeltree.read_svm(path / "train.svm" if path.is_dir() else path)
    assert data.native is not None  # both need it
    start = time.process_time()
    plan = labeltree.build_plan(data, labeltree.TreeSettings(**tree), storage=storage, threads=threads)
    exact_seconds = time.process_time() - start
    sizes: list[SizeEstimate] = []
    start = time.process_time()
    for seed in range(seeds):
        settings = labeltree.TreeSettings(seed=seed, **tree)
        sizes.append(labeltree.estimate_size(data, settings, storage=storage, threads=threads))
        if sizes[0].exact:
            break
    seconds = (time.process_time() - start) / len(sizes)
    errors = np.array([size.model_bytes / plan.model_bytes - 1 for size in sizes])
    inside = [size.model_bytes_low <= plan.model_bytes <= size.model_bytes_high for size in sizes]
    memory = plan.training_memory_bytes
    memory_inside = [s.training_memory_bytes_low <= memory <= s.training_memory_bytes_high for s in sizes]
    return {
        "data": path.name,
        **tree,
        "weights": storage.codec,
        "model_bytes": plan.model_bytes,
        "mean_error": float(errors.mean()),
        "rms_error": float(np.sqrt(np.square(errors).mean())),
        "largest_error": float(np.abs(errors).max()),
        "within_15_percent": int((np.abs(errors) <= 0.15).sum()),
        "inside_interval": sum(inside),
        "memory_inside_interval": sum(memory_inside),
        "seeds": len(sizes),
        "exact": sizes[0].exact,
        "exact_seconds": exact_seconds,
        "quick_seconds": seconds,
        "time_ratio": seconds / exact_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--max-depth", type=int, default=6)
    parser.add_argument("--weights", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    storage = labeltree.StorageSettings(args.weights)
    for path in args.data:
        shape = {"clusters": args.clusters, "max_depth": args.max_depth}
        print(json.dumps(measure(path, args.seeds, args.threads, storage, **shape)), flush=True)


if __name__ == "__main__":
    main()
