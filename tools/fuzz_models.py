"""Change the files of small models at random, half of them with correct checksums, and use the results.

A model from a stranger may only be refused, with an InputError, or work. Workers run under a memory limit and
are watched: a crash, a hang, any other exception and an allocation out of proportion are reported with the
number of the mutation, which reproduces it: --first NUMBER --count 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
MEMORY_BYTES = 4 << 30  # of address space; an interpreter with its libraries takes about a quarter
PATIENCE = 60  # seconds for one mutation, on a busy machine


def main() -> int:
    """Run mutations in worker processes; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="number of mutations")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(Path(arguments.worker), arguments.seed, arguments.first, arguments.count)
        return 0
    start = time.monotonic()
    counts, failures = watch(arguments.seed, arguments.first, arguments.count, arguments.workers)
    for failure in failures:
        print(failure)
    print(
        f"{sum(counts.values()):,} mutated models (seed {arguments.seed}, half of them sealed) in "
        f"{time.monotonic() - start:.0f} s: "
        + ", ".join(f"{counts[name]:,} {name}" for name in ("refused", "opened", "failed", "crashed", "hung"))
    )
    return 1 if failures else 0


def work(place: Path, seed: int, first: int, count: int) -> None:
    """Try mutations one after the other, and report each on standard output."""
    sys.path.insert(0, str(TESTS))
    import numpy as np
    from mutations import make_models, mutate, outcome, write

    models = make_models(place / "models")
    names = sorted(models)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for number in range(first, first + count):
        rng = np.random.default_rng([seed, number])
        name = names[number // 2 % len(names)]
        files, note = mutate(models[name], rng, sealed=number % 2 == 0)
        note = f"mutation {number} of {name}, {note!r}"
        print("begin", number, note, flush=True)
        write(files, place / "model")
        try:
            result = outcome(place / "model", verify=None if rng.random() < 0.8 else False)
            print(result, number, flush=True)
        except BaseException:
            print("failed", number, repr(f"{note}\n{traceback.format_exc()}"), flush=True)


class Worker:
    """A process that tries a range of mutations."""

    def __init__(self, place: Path, seed: int, first: int, last: int) -> None:
        self.place, self.seed, self.next, self.last = place, seed, first, last
        self.note, self.since = "start", time.monotonic()
        place.mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start a process for the rest of the range."""
        options = {"--worker": self.place, "--seed": self.seed}
        options |= {"--first": self.next, "--count": self.last - self.next}
        command = [sys.executable, __file__, *(str(part) for pair in options.items() for part in pair)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run(["rm", "-rf", str(self.place / "models")], check=True)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.note, self.since = "start", time.monotonic() + PATIENCE


def watch(seed: int, first: int, count: int, n_workers: int) -> tuple[Counter[str], list[str]]:
    """Start workers, count what they report, and replace those that crash or hang."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, selectors.DefaultSelector() as ready:
        ends = [first + count * k // n_workers for k in range(n_workers + 1)]
        for k in range(n_workers):
            worker = Worker(Path(folder) / str(k), seed, ends[k], ends[k + 1])
            ready.register(worker.process.stdout, selectors.EVENT_READ, worker)
        while ready.get_map():
            for key, _ in ready.select(timeout=1):
                worker, line = key.data, key.fileobj.readline()  # type: ignore[union-attr]
                kind, _, rest = line.partition(" ")
                worker.since = time.monotonic()
                if kind == "begin":
                    number, _, worker.note = rest.strip().partition(" ")
                    worker.next = int(number) + 1
                elif line:
                    counts[kind] += 1
                    if kind == "failed":
                        failures.append(rest.partition(" ")[2].strip().encode().decode("unicode_escape"))
                else:
                    ended(worker, ready, counts, failures, "crashed")
            for key in list(ready.get_map().values()):
                if time.monotonic() - key.data.since > PATIENCE:
                    key.data.process.kill()
                    ended(key.data, ready, counts, failures, "hung")
    return counts, failures


def ended(
    worker: Worker,
    ready: selectors.BaseSelector,
    counts: Counter[str],
    failures: list[str],
    how: str,
) -> None:
    """Handle the end of a process: continue after the mutation that ended it."""
    ready.unregister(worker.process.stdout)  # type: ignore[arg-type]
    code = worker.process.wait()
    if code == 0:
        return
    counts[how] += 1
    failures.append(f"{how} (exit code {code}): {worker.note}")
    if worker.note != "start" and worker.next < worker.last:
        worker.start()
        ready.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
