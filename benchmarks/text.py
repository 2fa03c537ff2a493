"""Time the reading of a file of documents, and scikit-learn's TfidfVectorizer on the same documents.

usage: python benchmarks/text.py [FILE]      FILE is TSV, CSV or JSONL; default: synthetic documents
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import program

import labeltree
from labeltree import InputError, TextSettings
from labeltree.base.paths import format_of
from labeltree.base.system import threads_to_use
from labeltree.data.columns import Columns
from labeltree.data.records import Documents

N_DOCUMENTS, WORDS, N_TERMS = 50_000, 70, 100_000  # of the synthetic file


def write_synthetic(path):
    """Write documents of words with a Zipf distribution, and two labels each."""
    random = np.random.default_rng(0)
    words = np.array([f"word{i:x}" for i in range(N_TERMS)])
    with open(path, "w", encoding="utf-8") as file:
        for row in range(N_DOCUMENTS):
            text = " ".join(words[random.zipf(1.2, WORDS) % N_TERMS])
            file.write(f"{row}\t{row % 997} {row % 1009}\t{text}\n")


def timed(call, repeats):
    """Return the median wall and CPU seconds, and the last result."""
    wall, processor = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        result = call()
        wall.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
    return statistics.median(wall), statistics.median(processor), result


def run(path, threads, repeats):
    path.read_bytes()  # into the page cache
    rows = {}
    for n in sorted({1, threads}):
        *rows[f"labeltree, {n} thread{'s' * (n != 1)}"], dataset = timed(
            lambda n=n: labeltree.read_data(path, threads=n), repeats
        )
    name = "Documents and TfidfVectorizer"
    vectorizer = TextSettings().vectorizer()
    documents = Documents([str(path)], format_of(path), Columns(), require_labels=True, strict=False)
    *rows[name], X = timed(lambda: vectorizer.fit_transform(text for text, *_ in documents), 1)
    X = X.astype(np.float32)
    X.sort_indices()
    if X.indices.tobytes() != dataset.X.indices.tobytes() or X.data.tobytes() != dataset.X.data.tobytes():
        raise InputError("scikit-learn and labeltree compute different features", file=path)
    return {
        "file": path.name,
        "bytes": path.stat().st_size,
        "documents": dataset.n_instances,
        "terms": dataset.n_features,
        "seconds": {name: wall for name, (wall, _) in rows.items()},
        "cpu_seconds": {name: processor for name, (_, processor) in rows.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--threads", type=int, help="default: all CPUs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.file and not options.file.is_file():
        raise InputError("no such file", file=options.file)
    with tempfile.TemporaryDirectory(prefix="labeltree-data-") as place:
        path = options.file or Path(place, "synthetic.tsv")
        if not options.file:
            write_synthetic(path)
        report = run(path, threads_to_use(options.threads), options.repeats)
    if options.json:
        print(json.dumps(report, indent=1))
        return
    size = report["bytes"] / 1e6
    print(f"{report['file']}: {size:.1f} MB, {report['documents']:,} documents, {report['terms']:,} terms")
    for name, seconds in report["seconds"].items():
        cpu = report["cpu_seconds"][name]
        print(f"{name:30} {seconds:6.2f} s, {cpu:6.2f} CPU seconds, {size / seconds:6.1f} MB/s")


if __name__ == "__main__":
    program.run(main)
