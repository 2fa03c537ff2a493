"""Compare the time of each kernel with a lower bound for this machine.

usage: python benchmarks/kernels.py [DIR]      DIR holds train.svm and test.svm; default: synthetic data
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, astuple, dataclass, replace
from itertools import pairwise
from pathlib import Path

import bounds
import numpy as np
import program
from bounds import Work
from machine_peak import machine_peak
from rich.console import Console
from rich.table import Table

from labeltree import (
    SolverSettings,
    _native,
    build_tree,
    make_plan,
    read_svm,
    synthesize,
    train_model,
    write_svm,
)
from labeltree.base.system import threads_to_use
from labeltree.data.dataset import csr_arrays
from labeltree.data.inputs import read_data
from labeltree.errors import InputError
from labeltree.settings import ScoreSettings

ITERATIONS = 5  # of K-means, even if it converges earlier
UNSTEADY = 1.25  # warn if the peak rates before and after the run differ by more than this factor
MAX_DEPTH, BEAM, TOP = 6, 10, 5
SCORE = astuple(ScoreSettings())

COUNTS = {
    "reader": "bytes of the file, once",
    "reader, scikit-learn": "as above",
    "label vectors": "features of each (label, instance) pair, read and added; vectors, written",
    "K-means": f"{ITERATIONS} iterations: entries of the label vectors of each split node x clusters",
    "tree": "label vectors and one K-means iteration; further iterations lower the share",
    "plan": "instances of each node's labels, and their feature indices",
    "training, first pass": "features of each node's instances x children x 2; includes copying and writing",
    "solver, next pass": "as above; the time is that of two passes minus that of one",
    "training": "one pass; further passes lower the share",
    "beam search, batch": "matched features x children of the nodes that cannot be skipped",
    "beam search, single": "as above, one row at a time on one thread; every weight comes from memory",
}


@dataclass(frozen=True)
class Row:
    """Median times of a kernel, and a lower bound on its work."""

    name: str
    seconds: float
    processor_seconds: float  # over all threads; steadier on a shared machine
    work: Work
    threads: int

    def figures(self, peaks):
        least, limit = self.work.seconds(peaks[self.threads])
        return {
            **asdict(self),
            "multiply_adds_per_second": self.work.multiply_adds / self.seconds,
            "bytes_per_second": self.work.bytes / self.seconds,
            "bound_seconds": least,
            "bound_by": limit,
            "share": least / self.seconds,
            "counts": COUNTS[self.name],
        }


class Bench:
    """Time calls and collect the rows."""

    def __init__(self, threads, repeats):
        self.threads, self.repeats, self.rows = threads, repeats, {}

    def time(self, call, repeats=None):
        """Return the median wall and CPU seconds, and the result of the last call."""
        clock, processor = [], []
        for _ in range(repeats or self.repeats):
            start = time.perf_counter(), time.process_time()
            result = call()
            clock.append(time.perf_counter() - start[0])
            processor.append(time.process_time() - start[1])
        return (statistics.median(clock), statistics.median(processor)), result

    def add(self, name, times, work, threads=None):
        self.rows[name] = Row(name, *times, work, threads or self.threads)


def bench_reader(bench, path):
    work = Work(0, os.path.getsize(path))
    path.read_bytes()  # into the page cache
    times, dataset = bench.time(lambda: read_svm(path, threads=bench.threads))
    bench.add("reader", times, work)
    try:
        from sklearn.datasets import load_svmlight_file

        times, (X, _) = bench.time(lambda: load_svmlight_file(str(path), multilabel=True), repeats=1)
    except (ImportError, ValueError):  # ValueError: a header, label names, or a compressed file
        return dataset
    X.eliminate_zeros()  # labeltree stores none
    if not (np.array_equal(dataset.X.indices, X.indices) and np.allclose(dataset.X.data, X.data)):
        raise InputError("scikit-learn and labeltree read different features", file=path)
    bench.add("reader, scikit-learn", times, work, threads=1)
    return dataset


def bench_tree(bench, dataset, clusters):
    data = dataset.native
    times, tree = bench.time(lambda: build_tree(dataset, clusters=clusters, threads=bench.threads), repeats=1)

    def vectors():
        ptr = _native.count_label_vectors(data, bench.threads)
        index, value = np.empty(ptr[-1], np.int32), np.empty(ptr[-1], np.float32)
        _native.label_vectors(data, ptr, index, value, bench.threads)
        return ptr, _native.SparseRows(ptr, index, value, dataset.n_features)

    vector_times, (ptr, rows) = bench.time(vectors)
    of_vectors = bounds.label_vectors(dataset, int(ptr[-1]))
    bench.add("label vectors", vector_times, of_vectors)
    nodes = bounds.split_nodes(tree, np.diff(dataset.by_label[0]), clusters, MAX_DEPTH)
    if not nodes.size:
        return tree  # one level, nothing to cluster
    levels = [nodes[tree.node_depth[nodes] == depth] for depth in np.unique(tree.node_depth[nodes])]

    def cluster():
        for at in levels:
            _native.cluster_level(
                rows,
                labels=tree.labels,
                first=tree.first[at],
                last=tree.last[at],
                streams=at.astype(np.int64),
                clusters=clusters,
                max_iterations=ITERATIONS,
                least_moved=0.0,
                seed=0,
                threads=bench.threads,
                progress=None,
            )

    bench.add("K-means", bench.time(cluster)[0], bounds.clustering(tree, nodes, ptr, clusters, ITERATIONS))
    once = bounds.clustering(tree, nodes, ptr, clusters, 1)
    whole = Work(of_vectors.multiply_adds + once.multiply_adds, of_vectors.bytes + once.bytes)
    bench.add("tree", times, whole)
    return tree


def bench_training(bench, dataset, tree, folder):
    """Time the plan, single solver passes and full training; return the trained model."""
    times, plan = bench.time(lambda: make_plan(dataset, tree, threads=bench.threads))
    part = plan.trees[0]
    bench.add("plan", times, bounds.plan(part, np.diff(dataset.by_label[0])))
    plan.check_resources(folder)

    def train(passes):
        chosen = replace(plan, settings=replace(plan.settings, max_iterations=passes))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*did not converge")
            return train_model(dataset, chosen, folder / "model", score=ScoreSettings(), overwrite=True)

    work = bounds.solver_pass(part, write=True)
    train(1)  # the first model also pays for allocating its files
    one, _ = bench.time(lambda: train(1))
    two, _ = bench.time(lambda: train(2))
    bench.add("training, first pass", one, work)
    # The first two passes visit every instance for every child, so their difference is one full pass.
    difference = [b - a for a, b in zip(one, two, strict=True)]
    if min(difference) > 0:  # otherwise it is lost in noise
        bench.add("solver, next pass", difference, bounds.solver_pass(part))
    whole, model = bench.time(lambda: train(SolverSettings().max_iterations))
    bench.add("training", whole, work)
    return model


def bench_search(bench, model, X, singles):
    visits = bounds.beam_search(model, X, BEAM, TOP)
    arrays = csr_arrays(X)
    blocks = [part.native for part in model.trees]
    search = _native.BeamSearch(blocks, model.n_features, model.n_labels, model.bias).search

    def batch():
        return search(*arrays, BEAM, TOP, *SCORE, bench.threads)

    batch()  # maps the model
    bench.add("beam search, batch", bench.time(batch)[0], visits.batch())
    rows = [
        (np.array([0, end - begin]), arrays[1][begin:end], arrays[2][begin:end])
        for begin, end in pairwise(arrays[0][: singles + 1])
    ]

    def one_by_one():
        for row in rows:
            search(*row, BEAM, TOP, *SCORE, 1)

    bench.add("beam search, single", bench.time(one_by_one)[0], visits.singles(len(rows)), threads=1)


def remarks(rows, searched, singles, apart):
    """Return sentences that summarize the rows."""
    sentences = []
    if "solver, next pass" in rows:
        further = rows["training"].seconds - rows["training, first pass"].seconds
        further /= rows["solver, next pass"].seconds
        sentences.append(f"Training takes the time of {1 + further:.1f} passes.")
    else:
        sentences.append("One pass is too short to time; use larger data or more --repeats.")
    if "tree" in rows:
        each = rows["K-means"].seconds / ITERATIONS
        passes = (rows["tree"].seconds - rows["label vectors"].seconds) / each
        sentences.append(f"The tree takes the time of {passes:.1f} K-means iterations.")
    if "reader, scikit-learn" in rows:
        times = rows["reader, scikit-learn"].seconds / rows["reader"].seconds
        sentences.append(f"The reader is {times:.0f} times as fast as scikit-learn's.")
    batch = 1e3 * rows["beam search, batch"].seconds / searched
    single = 1e3 * rows["beam search, single"].seconds / singles
    sentences.append(f"Beam search takes {batch:.4f} ms per row in a batch, {single:.4f} ms one by one.")
    if apart > UNSTEADY:
        sentences.append(
            "The machine is busy: its peak rates before and after the run differ by a factor of "
            f"{apart:.1f}. Compare CPU seconds, or measure again on an idle machine."
        )
    return sentences


def run(options, folder):
    threads = threads_to_use(options.threads)
    bench = Bench(threads, options.repeats)
    before = {n: machine_peak(n) for n in {threads, 1}}
    dataset = bench_reader(bench, folder / "train.svm")
    test = read_data(folder / "test.svm", like=dataset, threads=threads)
    tree = bench_tree(bench, dataset, options.clusters)
    X = test.X[: options.rows]
    singles = min(200, X.shape[0])
    with tempfile.TemporaryDirectory(prefix="labeltree-kernels-") as place:
        model = bench_training(bench, dataset, tree, Path(place))
        bench_search(bench, model, X, singles)
    # Measured before and after, because another process may have interfered once.
    after = {n: machine_peak(n) for n in before}
    peaks = {n: {k: max(v, before[n][k]) for k, v in after[n].items()} for n in after}
    apart = max(peaks[n][k] / min(before[n][k], after[n][k]) for n in peaks for k in peaks[n])
    return {
        "data": str(options.folder or "synthetic"),
        "instances": dataset.n_instances,
        "features": dataset.n_features,
        "labels": dataset.n_labels,
        "threads": threads,
        "repeats": options.repeats,
        "machine": peaks,
        "kernels": [row.figures(peaks) for row in bench.rows.values()],
        "remarks": remarks(bench.rows, X.shape[0], singles, apart),
    }


def show(report):
    console = Console(width=None if sys.stdout.isatty() else 130)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("kernel", "seconds", "CPU s", "Gmadd", "Gmadd/s", "GB", "GB/s", "bound s", "by", "share"):
        table.add_column(head, justify="left" if head in ("kernel", "by") else "right", no_wrap=True)
    for row in report["kernels"]:
        cells = [f"{row['seconds']:.4g}", f"{row['processor_seconds']:.4g}"]
        for kind in ("multiply_adds", "bytes"):
            used = row["work"][kind] > 0
            cells += (
                [f"{row['work'][kind] / 1e9:.3g}", f"{row[f'{kind}_per_second'] / 1e9:.3g}"]
                if used
                else ["", ""]
            )
        table.add_row(
            row["name"], *cells, f"{row['bound_seconds']:.3g}", row["bound_by"], f"{row['share']:.1%}"
        )
    shape = ", ".join(f"{report[name]:,} {name}" for name in ("instances", "features", "labels"))
    console.print(f"{report['data']}: {shape}; median of {report['repeats']}", highlight=False, markup=False)
    for threads, peak in sorted(report["machine"].items()):
        rates = (
            f"{peak['multiply_adds_per_second'] / 1e9:.1f} Gmadd/s, {peak['bytes_per_second'] / 1e9:.1f} GB/s"
        )
        console.print(f"machine, {threads} thread{'s' * (threads != 1)}: {rates}", highlight=False)
    console.print()
    console.print(table)
    console.print()
    for row in report["kernels"]:
        console.print(f"{row['name']}: {row['counts']}", highlight=False, style="dim")
    console.print()
    for remark in report["remarks"]:
        console.print(remark, highlight=False)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR")
    parser.add_argument("--threads", type=int, help="default: all CPUs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000, help="test rows to search (default: 1000)")
    parser.add_argument("--scale", type=float, default=0.2, help="of the synthetic data (default: 0.2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    for name in ("repeats", "rows"):
        if getattr(options, name) < 1:
            raise InputError(f"{name} is {getattr(options, name)}, expected at least 1")
    for name in ("train.svm", "test.svm"):
        if options.folder and not (options.folder / name).is_file():
            raise InputError("no such file", file=options.folder / name)
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="labeltree-data-") as place:
        folder = options.folder or Path(place)
        if not options.folder:
            for name, part in zip(("train", "test"), synthesize("eur-lex", options.scale), strict=True):
                write_svm(folder / f"{name}.svm", part)
        report = run(options, folder)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)


if __name__ == "__main__":
    program.run(main)
