"""Read a LIBSVM file with labeltree and with scikit-learn in one run, and print how many times faster it is.

usage: python benchmarks/reading.py FILE [--threads 2]      (FILE uncompressed; needs scikit-learn)
"""

import argparse
import json
import statistics
import time

import numpy as np
from sklearn.datasets import load_svmlight_file

from labeltree import read_svm


def seconds(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    def ours():
        return seconds(lambda: read_svm(arguments.file, threads=arguments.threads))

    before = [ours() for _ in range(3)]
    theirs, (X, _) = seconds(lambda: load_svmlight_file(arguments.file, multilabel=True))
    runs = before + [ours() for _ in range(3)]
    data = runs[-1][1]
    assert np.array_equal(data.X.indices, X.indices)
    assert np.allclose(data.X.data, X.data)
    median = statistics.median(run for run, _ in runs)
    row = {"labeltree_s": round(median, 3), "sklearn_s": round(theirs, 3), "ratio": round(theirs / median, 1)}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
