"""Cut the power of a simulated disk after and during `labeltree train --overwrite`, and look for the model.

usage: sudo python tools/powercut.py [--cuts 16] [--during 16] [--no-sync] [--seed 0]

--cuts     after exit code 0, at once or up to 10 seconds later: the new model must be there, whole
--during   at random moments of the run: the old or the new model must be there, and the run is continued

The disk is a file with an ext4 file system, mounted through a loop device with its default options. What the
kernel has not written to the disk yet is not in that file, so a copy of it, made while it is mounted, is what
a power failure leaves; it is mounted, which replays the journal of ext4, and the model is compared. Writes
that a real disk holds in a cache of its own, against the order of its barriers, are not simulated.
--no-sync lets training not wait for the disk, which shows that the simulation loses models.
Needs Linux, root and mkfs.ext4. Exit code 1 if a model is lost.
"""

from __future__ import annotations

import argparse
import filecmp
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crash import FORMS, contents, write_data

_IMAGE_BYTES = 192 << 20
_LONGEST_WAIT = 10.0  # seconds from the end of the run to the cut; ext4 writes everything after 5 to 30
_PATIENCE = 120


class Disk:
    """A file with a file system.

    Parameters
    ----------
    image : Path
        The file.
    place : Path
        The directory that it is mounted on.
    """

    def __init__(self, image: Path, place: Path) -> None:
        self.image, self.place = image, place
        place.mkdir(exist_ok=True)

    def format(self) -> None:
        """Make an empty file system."""
        self.image.unlink(missing_ok=True)
        with self.image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """Mount it."""
        subprocess.run(["mount", "-o", "loop", self.image, self.place], check=True)
        try:
            yield self.place
        finally:
            subprocess.run(["umount", "--lazy", self.place], check=True)

    def cut(self, to: Path) -> Disk:
        """Return a copy as it is on the disk now; one that was not changed while it was copied."""
        for _ in range(50):
            subprocess.run(["cp", "--sparse=always", self.image, to], check=True)
            if filecmp.cmp(self.image, to, shallow=False):
                return Disk(to, self.place.with_name("after"))
        raise SystemExit("the disk is never at rest")


class Trial:
    """Replacements of a model on a disk, in a directory of their own."""

    def __init__(self, place: Path, options: Sequence[str], rows: int) -> None:
        self.data, self.options = place / "data.svm", options
        self.disk, self.copy = Disk(place / "disk", place / "mounted"), place / "copy"
        write_data(self.data, rows)
        self.expected = []
        for form in FORMS[:2]:
            self.command(place / "reference", form).check_returncode()
            self.expected.append(contents(place / "reference"))
            shutil.rmtree(place / "reference")

    def start(self, model: Path, form: Sequence[str], *options: str) -> subprocess.Popen[bytes]:
        """Start training."""
        settings = ("--clusters", "10", "--threads", "2", "--quiet", *form, *options)
        command = [sys.executable, "-m", "labeltree", "train", str(self.data), str(model), *settings]
        return subprocess.Popen(command)

    def command(self, model: Path, form: Sequence[str], *options: str) -> subprocess.CompletedProcess[bytes]:
        """Train."""
        process = self.start(model, form, *options)
        return subprocess.CompletedProcess(process.args, process.wait(_PATIENCE))

    def cut(self, wait: float, during: bool) -> str:
        """Replace the first model by the second, cut the power, and return what is there afterwards.

        `wait` is a fraction of the time that the run takes, or of the longest time after it.
        """
        self.disk.format()
        with self.disk.mounted() as place:
            model = place / "model"
            start = time.monotonic()
            self.command(model, FORMS[0]).check_returncode()
            longest = time.monotonic() - start if during else _LONGEST_WAIT
            subprocess.run(["sync", "-f", place], check=True)
            process = self.start(model, FORMS[1], "--overwrite", *self.options)
            if not during and process.wait(_PATIENCE) != 0:
                raise SystemExit("training failed")
            time.sleep(wait * longest)
            after = self.disk.cut(self.copy)
            process.wait(_PATIENCE)
        with after.mounted() as place:
            try:
                found = contents(place / "model")
            except OSError:
                found = {}
            states = {"old": found == self.expected[0], "new": found == self.expected[1]}
            state = next((name for name, is_it in states.items() if is_it), "lost")
            if during and state != "lost":
                done = self.command(place / "model", FORMS[1], "--overwrite", "--resume")
                if done.returncode != 0 or contents(place / "model") != self.expected[1]:
                    return "cannot be continued"
        return state


def main() -> int:
    """Cut the power; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cuts", type=int, default=16)
    parser.add_argument("--during", type=int, default=16)
    parser.add_argument("--rows", type=int, default=2000, help="of the synthetic data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-sync", action="store_true")
    given = parser.parse_args()
    rng, failed = random.Random(given.seed), False
    with tempfile.TemporaryDirectory(prefix="labeltree-powercut-") as name:
        trial = Trial(Path(name), ["--no-sync"] * given.no_sync, given.rows)
        for during, count in ((False, given.cuts), (True, given.during)):
            found: Counter[str] = Counter()
            for number in range(count):
                found[trial.cut(rng.random() if number % 2 or during else 0.0, during)] += 1
            right = found["new"] + found["old"] * during
            failed |= right < count
            when = "during train --overwrite" if during else "after exit code 0"
            print(f"{count} power cuts {when}: {count - right} lost {dict(found)}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
