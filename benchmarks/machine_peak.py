"""Measure the peak rates of this machine: bytes per second from memory, float multiply-adds per second.

The measurement runs in a separate process, because BLAS fixes its number of threads when NumPy is imported.

usage: python benchmarks/machine_peak.py THREADS      prints JSON
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ARRAY_BYTES = 256 << 20  # far larger than any cache
SIDE = 1536  # of the square matrices to multiply
ROUNDS = 5


def machine_peak(threads):
    """Measure with this many threads; return bytes_per_second and multiply_adds_per_second."""
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, str(threads)]
    done = subprocess.run(command, env={**os.environ, **limits}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def best_rate(work, call):
    """Return the work per second of the best of several rounds, the one least disturbed."""
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        rates.append(work / (time.perf_counter() - start))
    return max(rates)


def bandwidth(threads):
    """Return bytes per second of reading (the maximum of an array) or copying, whichever is higher."""
    import numpy as np

    source = np.split(np.ones(ARRAY_BYTES // 8 // threads * threads, np.int64), threads)
    target = [np.zeros_like(part) for part in source]
    held = sum(part.nbytes for part in source)
    with ThreadPoolExecutor(threads) as pool:  # both calls release the GIL
        reading = best_rate(held, lambda: list(pool.map(np.max, source)))
        copying = best_rate(2 * held, lambda: list(pool.map(np.copyto, target, source)))
    return max(reading, copying)


def multiply_adds():
    """Return multiply-adds per second of a product of two float matrices with NumPy's BLAS."""
    import numpy as np

    a, b = np.random.default_rng(0).random((2, SIDE, SIDE), np.float32)
    return best_rate(SIDE**3, lambda: a @ b)


def main():
    rates = {
        "bytes_per_second": bandwidth(int(sys.argv[1])),
        "multiply_adds_per_second": multiply_adds(),
    }
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
