"""What this machine can do with some threads: bytes from memory a second, float multiply-adds a second.

Measured in a process of its own, since BLAS takes its number of threads when NumPy is imported.

usage: python benchmarks/machine_peak.py THREADS      prints JSON
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ARRAY_BYTES = 256 << 20  # far more than any cache holds
SIDE = 1536  # of the square matrices that are multiplied
ROUNDS = 5


def machine_peak(threads):
    """Measure with this many threads; a dict of bytes_per_second and multiply_adds_per_second."""
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, str(threads)]
    done = subprocess.run(command, env={**os.environ, **limits}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def best_rate(work, call):
    """Work a second in the best of several rounds: a peak is what nobody disturbed."""
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        rates.append(work / (time.perf_counter() - start))
    return max(rates)


def bandwidth(threads):
    """Bytes a second, of reading (the largest of an array) or of copying, whichever is more."""
    import numpy as np

    source = np.split(np.ones(ARRAY_BYTES // 8 // threads * threads, np.int64), threads)
    target = [np.zeros_like(part) for part in source]
    held = sum(part.nbytes for part in source)
    with ThreadPoolExecutor(threads) as pool:  # NumPy lets go of the interpreter inside both calls
        reading = best_rate(held, lambda: list(pool.map(np.max, source)))
        copying = best_rate(2 * held, lambda: list(pool.map(np.copyto, target, source)))
    return max(reading, copying)


def multiply_adds():
    """Multiply-adds a second of a product of two float matrices, by the BLAS that NumPy came with."""
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
