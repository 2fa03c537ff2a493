"""Try random changes of models or data files, each of which may only be refused with an InputError, or work.

    python tools/fuzz.py models    small models of every kind, half of them with correct checksums
    python tools/fuzz.py readers   small files of every format, plain and compressed

Workers run under a memory limit and are watched. A crash, a hang, any other exception and an allocation out
of proportion are reported with the number of the mutation, which reproduces it: --first NUMBER --count 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
MEMORY_BYTES = 4 << 30  # of address space; an interpreter with its libraries takes about a quarter
PATIENCE = 60  # seconds for one mutation, on a busy machine

# Tries the mutation of a number in a directory: what it is, and how to run it.
Attempt = Callable[[int, Path], tuple[str, Callable[[], str]]]


def main() -> int:
    """Run mutations in worker processes; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("target", choices=["models", "readers"])
    parser.add_argument("--count", type=int, default=20_000, help="number of mutations")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.target, Path(given.worker), given.seed, given.first, given.count)
        return 0
    start = time.monotonic()
    counts, failures = watch(given.target, given.seed, given.first, given.count, given.workers)
    print(*failures, sep="\n", end="\n" * bool(failures))
    kinds = [*sorted(counts.keys() - {"failed", "crashed", "hung"}), "failed", "crashed", "hung"]
    print(
        f"{given.target}: {sum(counts.values()):,} mutations (seed {given.seed}) in "
        f"{time.monotonic() - start:.0f} s: " + ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds)
    )
    return 1 if failures else 0


def work(target: str, place: Path, seed: int, first: int, count: int) -> None:
    """Try mutations one after the other, and report each on standard output."""
    sys.path[:0] = [str(TESTS / folder) for folder in ("common", "oracles", "servers", "fuzz")]
    attempt = (mutated_models if target == "models" else mutated_files)(place, seed)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for number in range(first, first + count):
        note, run = attempt(number, place)
        note = f"{target} mutation {number}: {note!r}"
        print("begin", number, note, flush=True)
        try:
            print(run(), number, flush=True)
        except BaseException:
            print("failed", number, repr(f"{note}\n{traceback.format_exc()}"), flush=True)


def mutated_models(place: Path, seed: int) -> Attempt:
    """Make the models, and return how to try a mutation; even numbers have correct checksums."""
    import numpy as np
    from forgery import write
    from mutations import make_models, mutate, outcome

    models = make_models(place / "models")
    names = sorted(models)

    def attempt(number: int, place: Path) -> tuple[str, Callable[[], str]]:
        rng = np.random.default_rng([seed, number])
        name = names[number // 2 % len(names)]
        files, note = mutate(models[name], rng, sealed=number % 2 == 0)
        write(files, place / "model")
        verify = None if rng.random() < 0.8 else False
        return f"{name}, verify={verify}, {note}", lambda: outcome(place / "model", verify)

    return attempt


def mutated_files(place: Path, seed: int) -> Attempt:
    """Return how to try a mutation of a data file."""
    import numpy as np
    from data_mutations import mutate, outcome

    def attempt(number: int, place: Path) -> tuple[str, Callable[[], str]]:
        name, content, note = mutate(np.random.default_rng([seed, number]))
        (place / name).write_bytes(content)
        return f"{name}, {note}", lambda: outcome(place / name)

    return attempt


class Worker:
    """A process that tries a range of mutations."""

    def __init__(self, target: str, place: Path, seed: int, first: int, last: int) -> None:
        self.target, self.place, self.seed, self.next, self.last = target, place, seed, first, last
        self.start()

    def start(self) -> None:
        """Start a process for the rest of the range."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        options = {"--worker": self.place, "--seed": self.seed}
        options |= {"--first": self.next, "--count": self.last - self.next}
        command = [sys.executable, __file__, self.target]
        command += [str(part) for pair in options.items() for part in pair]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.note, self.since = "", time.monotonic() + PATIENCE


def watch(target: str, seed: int, first: int, count: int, n_workers: int) -> tuple[Counter[str], list[str]]:
    """Start workers, count what they report, and replace those that crash or hang."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, selectors.DefaultSelector() as ready:
        ends = [first + count * k // n_workers for k in range(n_workers + 1)]
        for k in range(n_workers):
            worker = Worker(target, Path(folder) / str(k), seed, ends[k], ends[k + 1])
            ready.register(worker.process.stdout, selectors.EVENT_READ, worker)
        while ready.get_map():
            for key, _ in ready.select(timeout=1):
                worker, line = key.data, key.fileobj.readline()  # type: ignore[union-attr]
                kind, _, rest = line.partition(" ")
                number, _, rest = rest.strip().partition(" ")
                worker.since = time.monotonic()
                if kind == "begin":
                    worker.next, worker.note = int(number) + 1, rest
                elif line:
                    counts[kind] += 1
                    if kind == "failed":
                        failures.append(rest.encode().decode("unicode_escape"))
                else:
                    ended(worker, ready, counts, failures, "crashed")
            for key in list(ready.get_map().values()):
                if time.monotonic() - key.data.since > PATIENCE:
                    key.data.process.kill()
                    ended(key.data, ready, counts, failures, "hung")
    return counts, failures


def ended(
    worker: Worker, ready: selectors.BaseSelector, counts: Counter[str], failures: list[str], how: str
) -> None:
    """Handle the end of a process: continue after the mutation that ended it."""
    ready.unregister(worker.process.stdout)  # type: ignore[arg-type]
    code = worker.process.wait()
    if code == 0:
        return
    counts[how] += 1
    failures.append(f"{how} (exit code {code}): {worker.note or 'before the first mutation'}")
    if worker.note and worker.next < worker.last:
        worker.start()
        ready.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
