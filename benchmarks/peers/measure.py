"""Measure one competitor on one dataset in a separate process, and print one JSON row.

usage: python measure.py {run|read} MODULE DATA WORK [--threads 2] [--options JSON]

This script runs under the competitor's own Python and imports only NumPy, SciPy and the competitor. Anything
else that is printed, by Python or by native code, goes to standard error.
"""

import argparse
import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

TOP = 5
DEPTHS = (1, 3, 5)  # the k of P@k
SINGLE_ROWS = 1000
WARM_ROWS = 8


def load_matrix(folder, name):
    """Load a matrix saved by prepare.py: float32 CSR with sorted indices."""
    return sparse.csr_matrix(sparse.load_npz(Path(folder, f"{name}.npz")))


def precision(Y, top):
    """Return P@k in percent over all rows with labels; missing predictions count as wrong."""
    rows, labels = Y.shape
    table = np.full((rows, TOP), -1, dtype=np.int64)
    for i, row in enumerate(top):
        row = row[:TOP]
        table[i, : len(row)] = row
    truth = np.repeat(np.arange(rows, dtype=np.int64), np.diff(Y.indptr)) * labels + Y.indices
    hit = np.isin(np.arange(rows, dtype=np.int64)[:, None] * labels + table, truth) & (table >= 0)
    labeled = int((np.diff(Y.indptr) > 0).sum())
    return {f"P@{k}": 100 * float(hit[:, :k].sum()) / (k * labeled) for k in DEPTHS}


def resident_bytes():
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return peak_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes():
    """Return the peak resident memory of this process, ever or since `reset_peak`."""
    try:  # ru_maxrss would include the memory of the parent process before exec
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):  # not Linux
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def reset_peak():
    """Reset the high-water mark on Linux, so that the memory of loading does not count as training."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def folder_bytes(path):
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def seconds(call, *arguments):
    start = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - start, result


def run(competitor, folder, work, threads, options):
    """Train, save, predict in a batch, and predict one by one."""
    data = competitor.load(folder)
    gc.collect()
    resident = resident_bytes()
    reset_peak()
    model_path = Path(work, "model")
    elapsed, (model, parts) = seconds(competitor.train, data, model_path, threads, options)
    # A competitor that trains only from a file reads it during training, and reports the reading time.
    row = {"train_s": elapsed - parts.get("read_s", 0), **parts}
    row["peak_bytes"] = peak_bytes()
    row["above_bytes"] = max(0, row["peak_bytes"] - resident)
    del data

    row["save_s"], model = seconds(competitor.save, model, model_path)
    row["model_bytes"] = folder_bytes(model_path)

    Xt, Yt = load_matrix(folder, "Xt"), load_matrix(folder, "Yt")
    queries = competitor.queries(Xt)
    competitor.batch(model, queries[:WARM_ROWS], threads)
    elapsed, found = seconds(competitor.batch, model, queries, threads)
    row |= {"batch_ms": 1e3 * elapsed / Xt.shape[0], "test_rows": Xt.shape[0]}
    row |= precision(Yt, competitor.top(found))
    del queries, found

    filled = np.flatnonzero(np.diff(Xt.indptr))[: getattr(competitor, "SINGLE_ROWS", SINGLE_ROWS)]
    singles = [competitor.queries(Xt[i : i + 1]) for i in filled]
    predict = competitor.single(model)
    for query in singles[:WARM_ROWS]:
        predict(query)
    times = [1e3 * seconds(predict, query)[0] for query in singles]
    row |= {f"single_p{p}_ms": float(np.percentile(times, p)) for p in (50, 99)}
    row["single_rows"] = len(times)
    return row


def read(competitor, folder, work, threads, options):
    """Time the competitor's own reader on a file in the page cache."""
    path = competitor.file_to_read(folder)
    for part in path if isinstance(path, list) else [path]:
        Path(part).read_bytes()
    return {"read_s": seconds(competitor.read, path, threads)[0]}


def settle(threads):
    """Pin the process to this many CPUs, and let the out-of-memory killer choose it first."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=["run", "read"])
    parser.add_argument("module")
    parser.add_argument("folder")
    parser.add_argument("work")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--options", type=json.loads, default={})
    options = parser.parse_args()

    answer = os.dup(1)
    os.dup2(2, 1)
    settle(options.threads)
    competitor = importlib.import_module(f"competitors.{options.module}")
    step = run if options.step == "run" else read
    row = step(competitor, options.folder, options.work, options.threads, options.options)
    row["version"] = importlib.metadata.version(competitor.DISTRIBUTION)
    with os.fdopen(answer, "w") as stream:
        stream.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
