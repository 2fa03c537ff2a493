"""Interrupt `labeltree train` again and again, continue it, and compare the model with that of a quiet run.

usage: python tools/crash.py [--kills 300] [--errors 200] [--every-call 400] [--hard-negatives 0] [--seed 0]

--kills       signals at random moments (SIGKILL, SIGTERM, SIGINT, SIGHUP)
--errors      calls that change a file fail, as on a full or broken disk (ENOSPC, EIO)
--every-call  kills at each file-changing call of `train --overwrite`, or at so many of them

After each, the run is continued. With --overwrite, a whole model has the name at every moment. Calls are
counted and made to fail by tools/faults.c, which is compiled with cc and preloaded (Linux).
Exit code 1 if a model differs, is lost or cannot be continued.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ERRORS = (errno.ENOSPC, errno.EIO)
FORMS = ((), ("--weights", "int8"), ("--prune", "0.02"), ("--trees", "2"))
PATIENCE = 120  # seconds that a run may take


class Trial:
    """Runs of `labeltree train` on the same data, in a directory of their own."""

    def __init__(self, place: Path, rows: int, hard_negatives: int = 0) -> None:
        self.place = place
        self.hard_negatives = hard_negatives
        self.data = place / "data.svm"
        self.library = place / "faults.so"
        source = Path(__file__).with_name("faults.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, source, "-ldl"], check=True)
        write_data(self.data, rows)
        self.expected = {form: self._reference(form) for form in FORMS}
        self.outcomes: Counter[str] = Counter()

    def _reference(self, form: tuple[str, ...]) -> dict[str, bytes]:
        model = self.place / "reference"
        self.run(model, form).check_returncode()
        found = contents(model)
        shutil.rmtree(model)
        return found

    def command(self, model: Path, form: tuple[str, ...], *options: str) -> list[str]:
        """Return the command that trains a model."""
        settings = ("--clusters", "10", "--threads", "2", "--quiet", *form, *options)
        settings += ("--hard-negatives", str(self.hard_negatives))
        return [sys.executable, "-m", "labeltree", "train", str(self.data), str(model), *settings]

    def run(
        self, model: Path, form: tuple[str, ...], *options: str, fault: tuple[int, int] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Train; `fault` is the number of a call, and its error or 0 to be killed."""
        environment = dict(os.environ)
        if fault:
            environment |= {
                "LD_PRELOAD": str(self.library),
                "FAULT_UNDER": str(model.parent),
                "FAULT_AT": str(fault[0]),
                "FAULT_ERRNO": str(fault[1]),
                "FAULT_LOG": str(self.place / "calls"),
            }
        command = self.command(model, form, *options)
        return subprocess.run(
            command, env=environment, capture_output=True, encoding="utf-8", timeout=PATIENCE
        )

    def fresh(self, form: tuple[str, ...] | None = None) -> Path:
        """Return the path of a model in a directory that is empty, or has only the model of a form."""
        model = self.place / "target" / "model"
        shutil.rmtree(model.parent, ignore_errors=True)
        model.parent.mkdir()
        for name, content in self.expected[form].items() if form is not None else ():
            (model / name).parent.mkdir(parents=True, exist_ok=True)
            (model / name).write_bytes(content)
        return model

    def finish(self, model: Path, form: tuple[str, ...], *options: str) -> None:
        """Continue a run; complain if the result is not the expected model and nothing else."""
        done = self.run(model, form, "--resume", *options)
        if done.returncode != 0:
            raise SystemExit(f"cannot be continued: {done.stderr}")
        if contents(model) != self.expected[form]:
            raise SystemExit(f"the model differs: {form}")
        if os.listdir(model.parent) != [model.name]:
            raise SystemExit(f"left behind: {os.listdir(model.parent)}")

    def calls(self, *options: str) -> int:
        """Return the number of calls that a run makes."""
        model = self.fresh(FORMS[0] if "--overwrite" in options else None)
        self.run(model, FORMS[1], *options, fault=(10**9, 0)).check_returncode()
        return int((self.place / "calls").read_text())


def write_data(path: Path, rows: int) -> None:
    """Write synthetic data whose training takes a few seconds."""
    import numpy as np
    from scipy import sparse

    from labeltree import Dataset
    from labeltree.data.svm import write_svm

    rng = np.random.default_rng(0)
    X = sparse.random(rows, 3000, 0.02, "csr", rng=rng)
    Y = sparse.random(rows, 400, 0.006, "csr", rng=rng)
    write_svm(path, Dataset.from_matrices(X, Y))


def contents(model: Path) -> dict[str, bytes]:
    """Return all files of a model."""
    return {str(file.relative_to(model)): file.read_bytes() for file in model.rglob("*") if file.is_file()}


def kill_at_random(trial: Trial, n_kills: int, rng: random.Random, longest: float) -> None:
    """Send signals at random moments, until the model is complete each time."""
    sent = n_models = 0
    while sent < n_kills:
        form, model = rng.choice(FORMS), trial.fresh()
        for _ in range(8):
            process = subprocess.Popen(
                trial.command(model, form, "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            try:
                process.wait(rng.uniform(0, longest))
            except subprocess.TimeoutExpired:
                number = rng.choice(SIGNALS)
                process.send_signal(number)
                sent += 1
                trial.outcomes[signal.Signals(number).name] += 1
            _, err = process.communicate(timeout=PATIENCE)
            # Python itself drops an exception that a signal raises in a callback, and goes on. Before the
            # program's first line runs, it reports Ctrl-C with a traceback.
            is_ours = b"__main__.py" in err and b"Exception ignored in" not in err
            if b"Traceback" in err and is_ours:
                raise SystemExit(err.decode())
            if model.exists():
                break
        if model.exists() and contents(model) != trial.expected[form]:
            raise SystemExit(f"the model differs: {form}")
        if not model.exists():
            trial.finish(model, form)
        n_models += 1
    print(f"{sent} kills at random moments: {n_models} models, all as expected ({dict(trial.outcomes)})")


def fail_calls(trial: Trial, n_errors: int, rng: random.Random) -> None:
    """Let calls fail that change a file, then continue."""
    n_calls, found = trial.calls(), Counter[str]()
    for _ in range(n_errors):
        model, error = trial.fresh(), rng.choice(ERRORS)
        done = trial.run(model, FORMS[1], fault=(rng.randint(1, n_calls), error))
        found[f"exit code {done.returncode}"] += 1
        if done.returncode not in (0, 2) or "Traceback" in done.stderr:
            raise SystemExit(f"exit code {done.returncode}: {done.stderr}")
        if done.returncode == 2 and (done.stderr.count("\n") != 1 or not done.stderr.startswith("error: ")):
            raise SystemExit(f"not one clear message: {done.stderr}")
        if model.exists():
            if contents(model) != trial.expected[FORMS[1]]:
                raise SystemExit("the model differs")
        else:
            trial.finish(model, FORMS[1])
    print(f"{n_errors} failing calls (of {n_calls}): {dict(found)}, all continued to the same bytes")


def kill_at_calls(trial: Trial, most: int) -> None:
    """Kill `train --overwrite` at calls that change a file; the name always leads to a whole model."""
    n_calls, outcome = trial.calls("--overwrite"), Counter[str]()
    step = max(1, n_calls // most)
    for call in range(1, n_calls + 1, step):
        model = trial.fresh(FORMS[0])
        trial.run(model, FORMS[1], "--overwrite", fault=(call, 0))
        found = contents(model) if model.exists() else None
        if found not in (trial.expected[FORMS[0]], trial.expected[FORMS[1]]):
            raise SystemExit(f"killed at call {call} of {n_calls}: no whole model has the name")
        outcome["old" if found == trial.expected[FORMS[0]] else "new"] += 1
        trial.finish(model, FORMS[1], "--overwrite")
    print(f"killed at {sum(outcome.values())} of {n_calls} calls of train --overwrite: {dict(outcome)}")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--errors", type=int, default=200)
    parser.add_argument("--every-call", type=int, default=400, help="at most this many calls")
    parser.add_argument("--rows", type=int, default=4000, help="of the synthetic data")
    parser.add_argument("--hard-negatives", type=int, default=0, help="train level by level, with so many")
    parser.add_argument("--longest", type=float, default=4.0, help="seconds until a signal is sent")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="labeltree-crash-") as place:
        trial = Trial(Path(place), options.rows, options.hard_negatives)
        if options.kills:
            kill_at_random(trial, options.kills, rng, options.longest)
        if options.errors:
            fail_calls(trial, options.errors, rng)
        if options.every_call:
            kill_at_calls(trial, options.every_call)


if __name__ == "__main__":
    main()
