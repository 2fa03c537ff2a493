"""Train on a Dask cluster of this machine while a worker is killed and another is added; compare the bytes.

    python tools/lose_workers.py DATA [--workers 3] [OPTIONS OF TRAIN]

Prints the seconds of `labeltree train` with as many threads as the cluster has, and of `train --dask`, both
undisturbed and with one worker killed (SIGKILL) mid-way and one added. Exit code 1 if models differ.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import distributed
from crash import contents

from labeltree.training.work import work_status


def started(data: Path, model: Path, *options: object) -> subprocess.Popen[bytes]:
    """Start training."""
    command = [sys.executable, "-m", "labeltree", "train", data, model, *options, "--quiet"]
    return subprocess.Popen(list(map(str, command)))


def finished(process: subprocess.Popen[bytes], since: float) -> float:
    """Wait for the end; return the seconds."""
    if process.wait() != 0:
        raise SystemExit(f"exit code {process.returncode}")
    return time.monotonic() - since


def disturb(cluster: Any, work: Path, process: subprocess.Popen[bytes]) -> float:
    """Kill a worker once some of the work is done, and add one; return how much was done."""
    while process.poll() is None:
        time.sleep(0.05)
        if not (work / "journal").is_dir():
            continue
        status = work_status(work)
        if status["trained"]:
            victim = next(iter(cluster.workers.values()))
            os.kill(victim.pid, signal.SIGKILL)
            cluster.scale(len(cluster.workers) + 1)
            return float(status["trained"])
    raise SystemExit("training ended before a worker was killed; use more data")


def main() -> int:
    """Compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--workers", type=int, default=3)
    given, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="labeltree-dask-") as name:
        place = Path(name)
        since = time.monotonic()
        alone = finished(started(given.data, place / "alone", "--threads", given.workers, *options), since)
        with distributed.LocalCluster(
            n_workers=given.workers,
            threads_per_worker=1,
            dashboard_address=None,
            local_directory=str(place),
            silence_logs=50,
        ) as cluster:
            options += ["--dask", cluster.scheduler_address, "--threads", str(given.workers)]
            since = time.monotonic()
            quiet = finished(started(given.data, place / "quiet", *options), since)
            since = time.monotonic()
            process = started(given.data, place / "disturbed", *options)
            n_trained = disturb(cluster, place / "disturbed.work", process)
            disturbed = finished(process, since)
        expected = contents(place / "alone")
        same = [contents(place / kind) == expected for kind in ("quiet", "disturbed")]
        size = sum(map(len, expected.values()))
    print(
        f"train: {alone:.1f} s; train --dask with {given.workers} workers: {quiet:.1f} s "
        f"({quiet / alone - 1:+.0%}); one worker killed after {n_trained:.0f} strips and one added: "
        f"{disturbed:.1f} s\nbytes of {size / 1e6:.0f} MB {'identical' if all(same) else 'DIFFER'}"
    )
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
