"""Run labeltree and its peers on the same data, interleaved, and report.

usage: python benchmarks/peers/run.py DATA [--out build/bench] [--peers ...] [--datasets ...] [--variants ...]

Every finished row is appended to OUT/rows.jsonl at once. This process imports no NumPy: what a process has
resident counts for the peak memory of those that it starts.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from environments import NoEnvironment, python_of
from registry import PEERS, VARIANTS, choose
from sources import find_datasets
from summary import not_measured, read_rows

from labeltree.system import available_memory, human_bytes

HERE = Path(__file__).resolve().parent
# Libraries that take no number of threads take it from these.
THREAD_VARIABLES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")


def words(text):
    return text.replace(",", " ").split()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", help="folder with one folder a data set, each with train.svm and test.svm")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--envs", type=Path, help="folder of the peers' environments, OUT/envs by default")
    parser.add_argument("--peers", type=words, default=list(PEERS), help=f"some of: {' '.join(PEERS)}")
    parser.add_argument("--variants", type=words, default=[], help=f"some of: {' '.join(VARIANTS)}")
    parser.add_argument("--datasets", type=words, default=[], help="all of DATA by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--patience", type=float, default=240, help="seconds of a first run beyond which it is not repeated"
    )
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which a run is ended")
    parser.add_argument("--continue", dest="resume", action="store_true", help="skip rows that are there")
    parser.add_argument("--no-plots", action="store_true", help="tables only, without matplotlib")
    given = parser.parse_args()
    found = find_datasets(given.data)
    if not found:
        parser.error(f"{given.data} has no folder with train.svm and test.svm; pass the folder above them")
    given.datasets = given.datasets or list(found)
    for kind, names, known in (
        ("peer", given.peers, PEERS),
        ("variant", given.variants, VARIANTS),
        ("data set", given.datasets, found),
    ):
        for name in names:
            if name not in known:
                parser.error(f"got the {kind} {name!r}, expected some of: {' '.join(known)}")
    if min(given.rounds, given.threads) < 1:
        parser.error("rounds and threads must be at least 1")
    rows = read_rows(given.out / "rows.jsonl")
    if rows and not given.resume:
        parser.error(f"{given.out} holds rows already; add --continue (CONTINUE=1), or choose another OUT")
    if any(row["threads"] != given.threads for row in rows):
        parser.error(f"{given.out} holds rows of {rows[0]['threads']} threads; choose another OUT")
    given.sources = {name: found[name] for name in given.datasets}
    given.envs = given.envs or given.out / "envs"
    return given


class Bench:
    """A run of the benchmark: its rows so far, and how to make the next one."""

    def __init__(self, given):
        self.given = given
        self.rows_path = given.out / "rows.jsonl"
        self.logs = given.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.rows = read_rows(self.rows_path)
        self.resumed = bool(self.rows)
        self.pythons = {}

    def prepare(self, dataset):
        """Make the matrices; return what is known about them, or None with a sentence printed."""
        folder = self.given.out / "data" / dataset
        command = [sys.executable, HERE / "prepare.py", self.given.sources[dataset], folder]
        result = subprocess.run([*command, f"--threads={self.given.threads}"], capture_output=True, text=True)
        if result.returncode:
            print(f"{dataset}: left out, {last_line(result.stderr)}", flush=True)
            return None
        return json.loads(result.stdout)

    def find_python(self, peer):
        """Where a peer runs, its environment made if it is missing; where that fails, the reason."""
        try:
            return python_of(peer, self.given.envs, self.logs / "environments.log")
        except NoEnvironment as error:
            return error

    def find_row(self, dataset, name, number):
        key = (dataset, name, number)
        return next((r for r in self.rows if (r["dataset"], r["competitor"], r["round"]) == key), None)

    def turn(self, about, competitor, number):
        """One run of one competitor, unless it is there already or not to be repeated."""
        dataset = about["name"]
        first = self.find_row(dataset, competitor.name, 1)
        if self.find_row(dataset, competitor.name, number):
            return
        if number > 1 and first and (not_measured(first) or first["wall_s"] > self.given.patience):
            return
        row = {
            "dataset": dataset,
            "competitor": competitor.name,
            "round": number,
            "threads": self.given.threads,
            "settings": competitor.settings,
            "load": os.getloadavg()[0],
        }
        start = time.monotonic()
        row |= self.measure(about, competitor)
        row["wall_s"] = time.monotonic() - start
        self.rows.append(row)
        with open(self.rows_path, "a") as file:
            # The newline comes first too: a line that was cut off must not swallow this one.
            file.write("\n" * self.resumed + json.dumps(row) + "\n")
        self.resumed = False
        outcome = not_measured(row) or f"trained in {row['train_s']:.2f} s, P@1 {row['P@1']:.2f}"
        print(f"{dataset}, round {number}, {competitor.name}: {outcome}", flush=True)

    def measure(self, about, competitor):
        needed = competitor.cell_bytes * about["features"] * about["labels"]
        if needed > available_memory():
            return {
                "skipped": f"needs about {human_bytes(needed)} of memory, "
                f"but {human_bytes(available_memory())} are available"
            }
        python = self.pythons[competitor.peer]
        if isinstance(python, NoEnvironment):
            return {"error": str(python)}
        row = self.start(python, "run", about["name"], competitor)
        if competitor.reads and "error" not in row:
            reading = self.start(python, "read", about["name"], competitor)
            if "error" in reading:
                row["read_error"] = reading["error"]
            else:
                row["read_s"] = reading["read_s"]
        return row

    def start(self, python, step, dataset, competitor):
        """Run measure.py in a process of its own and return its row, or its error."""
        log = self.logs / f"{dataset}-{competitor.name}.log"
        work = self.given.out / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        data = self.given.out / "data" / dataset
        command = [python, HERE / "measure.py", step, competitor.peer, data, work]
        command += [f"--threads={self.given.threads}", f"--options={json.dumps(competitor.options)}"]
        threads = {f"{name}_NUM_THREADS": str(self.given.threads) for name in THREAD_VARIABLES}
        with open(log, "a") as stream:
            process = subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env=os.environ | threads,
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=self.given.timeout)
            except subprocess.TimeoutExpired:
                return {"error": f"ended after {self.given.timeout:.0f} s"}
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                shutil.rmtree(work, ignore_errors=True)
        if output:  # written last, so a library that crashes while it is unloaded did all its work
            return json.loads(output)
        return {"error": describe_failure(process.returncode, log)}


def describe_failure(code, log):
    if code == -signal.SIGKILL:
        return "killed, as the system does where memory runs out"
    if code < 0:
        return f"ended by signal {signal.Signals(-code).name}"
    return last_line(log.read_text(errors="replace"))


def last_line(text):
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "failed without a word"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; --continue goes on from here"))
    given = parse_arguments()
    bench = Bench(given)
    competitors = choose(given.peers, given.variants)
    bench.pythons = {peer: bench.find_python(peer) for peer in dict.fromkeys(c.peer for c in competitors)}
    for dataset in given.datasets:
        about = bench.prepare(dataset)
        for number in range(1, given.rounds + 1) if about else ():
            for competitor in competitors:
                bench.turn(about, competitor, number)
    plots = ["--no-plots"] if given.no_plots else []
    sys.exit(subprocess.run([sys.executable, HERE / "report.py", given.out, *plots]).returncode)


if __name__ == "__main__":
    main()
