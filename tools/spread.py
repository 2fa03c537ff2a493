"""Train a model in parts, each in a process of its own, and compare it with the model of `labeltree train`.

    python tools/spread.py DATA [--parts 8] [--seed 0] [OPTIONS OF TRAIN]

The parts run in random order; one is killed on its way and run again, another runs twice at
once. Prints the peak memory of each step. Exit code 1 if the models differ.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from crash import contents


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start a command of labeltree."""
    command = [sys.executable, "-m", "labeltree", *map(str, arguments), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def report(process: subprocess.Popen[bytes]) -> dict[str, object]:
    """Return what a command prints, once it has ended."""
    printed = process.communicate()[0]
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {process.args}")
    return dict(json.loads(printed))


def run_parts(work: Path, n_parts: int, rng: random.Random) -> tuple[int, int]:
    """Run all parts; return what is missing afterwards, and the largest peak memory."""
    order = list(range(1, n_parts + 1))
    rng.shuffle(order)
    killed, twice = order[:2]
    jobs = [*order, killed, twice]
    first = start("fill", work, "--part", f"{killed}/{n_parts}", "--threads", 1)
    time.sleep(rng.uniform(0.2, 2.0))
    first.kill()
    first.wait()
    missing, memory = 0, 0
    pairs = [[twice, twice], *([a] for a in jobs)]
    for pair in pairs:
        for process in [start("fill", work, "--part", f"{part}/{n_parts}", "--threads", 1) for part in pair]:
            found = report(process)
            missing, memory = int(str(found["missing"])), max(memory, int(str(found["peak_memory_bytes"])))
    return missing, memory


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    given, options = parser.parse_known_args(arguments)
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="labeltree-spread-") as name:
        place = Path(name)
        trained = report(start("train", given.data, place / "at-once", *options))
        report(start("plan", given.data, place / "work", *options))
        data_bytes = sum(file.stat().st_size for file in (place / "work" / "data").iterdir())
        missing, memory = run_parts(place / "work", given.parts, rng)
        joined = report(start("join", place / "work", place / "joined"))
        same = contents(place / "at-once") == contents(place / "joined")
        print(
            f"fill: {given.parts} parts in random order, one killed and one run twice, {missing} strips "
            f"missing, at most {memory / 1e6:.0f} MB each (data {data_bytes / 1e6:.0f} MB)\n"
            f"join: {int(str(joined['peak_memory_bytes'])) / 1e6:.0f} MB for a model of "
            f"{int(str(joined['model_bytes'])) / 1e6:.1f} MB; train: "
            f"{int(str(trained['peak_memory_bytes'])) / 1e6:.0f} MB\n"
            f"bytes {'identical' if same else 'DIFFER'}"
        )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
