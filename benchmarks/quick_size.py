"""Compare `labeltree estimate --quick` with the exact size: error, coverage of the interval, and time.

    python benchmarks/quick_size.py DATA... [--seeds 20] [--clusters 100] [--max-depth 6] [--weights float32]

DATA are directories with train.svm, LIBSVM files, or a synthetic preset and a scale (amazon-670k:0.05). Times
are measured after reading the data, which takes the same time for both: those of building the plan, and of
the estimate, as CPU seconds; and the ratios of both kinds of time. Plans are built before and between the
estimates; the exact size is that of seed 0.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import labeltree
from labeltree.training.sizing import SizeEstimate

PLANS = 3


def read(source: str) -> labeltree.Dataset:
    """Read a dataset, or generate a synthetic one."""
    preset, _, scale = source.partition(":")
    if scale:
        return labeltree.synthesize(preset, scale=float(scale))[0]
    path = Path(source)
    return labeltree.read_svm(path / "train.svm" if path.is_dir() else path)


def times() -> np.ndarray:
    """Return the CPU time and the wall time, in seconds."""
    return np.array([time.process_time(), time.perf_counter()])


def measure(
    source: str, seeds: int, threads: int, storage: labeltree.StorageSettings, **tree: int
) -> dict[str, object]:
    """Return the figures of one dataset."""
    data = read(source).normalize()
    assert data.normalize().native is not None  # both need it
    sizes: list[SizeEstimate] = []
    plans: list[labeltree.Plan] = []
    exact_seconds, quick_seconds = np.zeros(2), np.zeros(2)
    for part in range(PLANS):
        start = times()
        settings = labeltree.TreeSettings(seed=0, **tree)
        plans.append(labeltree.build_plan(data, settings, storage=storage, threads=threads))
        exact_seconds += times() - start
        start = times()
        for seed in range(seeds * part // PLANS, seeds * (part + 1) // PLANS):
            settings = labeltree.TreeSettings(seed=seed, **tree)
            sizes.append(labeltree.estimate_size(data, settings, storage=storage, threads=threads))
        quick_seconds += times() - start
    plan, exact_seconds, seconds = plans[0], exact_seconds / len(plans), quick_seconds / len(sizes)
    errors = np.array([size.model_bytes / plan.model_bytes - 1 for size in sizes])
    inside = [size.model_bytes_low <= plan.model_bytes <= size.model_bytes_high for size in sizes]
    memory = plan.training_memory_bytes
    memory_inside = [s.training_memory_bytes_low <= memory <= s.training_memory_bytes_high for s in sizes]
    return {
        "data": source,
        **tree,
        "weights": storage.codec,
        "model_bytes": plan.model_bytes,
        "mean_error": float(errors.mean()),
        "rms_error": float(np.sqrt(np.square(errors).mean())),
        "largest_error": float(np.abs(errors).max()),
        "within_15_percent": int((np.abs(errors) <= 0.15).sum()),
        "inside_interval": sum(inside),
        "interval_width": float(
            np.mean([(s.model_bytes_high - s.model_bytes_low) / s.model_bytes for s in sizes])
        ),
        "memory_inside_interval": sum(memory_inside),
        "seeds": len(sizes),
        "exact": sizes[0].exact,
        "threads": threads,
        "exact_seconds": float(exact_seconds[0]),
        "quick_seconds": float(seconds[0]),
        "time_ratio": float(seconds[0] / exact_seconds[0]),
        "wall_ratio": float(seconds[1] / exact_seconds[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--max-depth", type=int, default=6)
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--weights", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    storage = labeltree.StorageSettings(args.weights)
    for source in args.data:
        shape = {"clusters": args.clusters, "max_depth": args.max_depth, "trees": args.trees}
        print(json.dumps(measure(source, args.seeds, args.threads, storage, **shape)), flush=True)


if __name__ == "__main__":
    main()
