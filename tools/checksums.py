"""Train models of every kind, and print a checksum of the weights of each.

    python tools/checksums.py DATA... [--labeltree PROGRAM]

DATA are directories with train.svm, perhaps compressed, and perhaps train.tsv.bz2. Two versions of labeltree
give the same model if they print the same lines: what is compared are the arrays of all trees.
LABELTREE_SIMD fixes the instructions if they run on different machines.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KINDS = {
    "default": [],
    "trees": ["--trees", "3"],
    "int8": ["--weights", "int8"],
    "pruned": ["--prune", "0.1"],
    "one-vs-rest": ["--max-depth", "1"],
}


def checksum(model: Path) -> str:
    """Return a checksum of the arrays of all trees of a model."""
    total = hashlib.sha256()
    for file in sorted(model.glob("tree-*/*.npy")):
        total.update(str(file.relative_to(model)).encode())
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def interrupt(command: list[str], work: Path) -> None:
    """Kill a run as soon as it has recorded a block, if it does not end before."""
    process = subprocess.Popen(command)
    while process.poll() is None and not any(file.stat().st_size for file in work.glob("journal*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def main() -> None:
    """Train, and print a line per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--labeltree", help="program to run; default: this Python's")
    given = parser.parse_args()
    program = [given.labeltree] if given.labeltree else [sys.executable, "-m", "labeltree"]

    def run(*arguments: object) -> None:
        subprocess.run([*program, *map(str, arguments), "--quiet"], check=True)

    with tempfile.TemporaryDirectory() as place:
        for folder in given.data:
            data = next(path for path in sorted(folder.glob("train.svm*")))
            for kind, options in KINDS.items():
                if kind == "one-vs-rest" and data.stat().st_size > 4 << 20:
                    continue  # takes long and much space with many labels
                model = Path(place) / "model"
                run("train", data, model, "--overwrite", *options)
                print(folder.name, kind, checksum(model), flush=True)
            work = Path(place) / "parts"
            run("plan", data, work)
            for part in ("2/2", "1/2"):
                run("fill", work, "--part", part)
            run("join", work, Path(place) / "joined")
            print(folder.name, "parts", checksum(Path(place) / "joined"), flush=True)
            model = Path(place) / "killed"
            command = [*program, "train", str(data), str(model), "--quiet"]
            interrupt(command, Path(f"{model}.work"))
            if not model.exists():
                run("train", data, model, "--resume")
            print(folder.name, "resumed", checksum(model), flush=True)
            text = folder / "train.tsv.bz2"
            if text.exists():
                plain = Path(place) / "train.tsv"
                plain.write_bytes(bz2.decompress(text.read_bytes()))
                run("train", plain, Path(place) / "model", "--overwrite")
                print(folder.name, "text", checksum(Path(place) / "model"), flush=True)
            for name in ("joined", "killed"):
                subprocess.run(["rm", "-rf", str(Path(place) / name)], check=True)


if __name__ == "__main__":
    main()
